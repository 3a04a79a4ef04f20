package controlplane

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
)

// slowStore commits anything in the time that a disk takes, and counts.
type slowStore struct {
	LinkStore
	commits, links int
}

const commitTime = 8 * time.Millisecond

func (s *slowStore) InsertLinks(_ context.Context, _ uint32, links []Insertion) ([]InsertResult, waypost.Position, error) {
	time.Sleep(commitTime)
	s.commits++
	s.links += len(links)
	placed := make([]InsertResult, len(links))
	for i := range placed {
		placed[i] = Placed
	}
	return placed, waypost.Position{Seq: uint64(s.commits)}, nil
}

// create lets callers create links one after the other, each pausing in between, and
// returns the time that they took.
func create(t *testing.T, store *slowStore, callers, each int, pause func(caller int) time.Duration) time.Duration {
	w := newWriter(store, noMinter{}, commitTimeout, slog.New(slog.DiscardHandler))
	defer w.close()
	start := time.Now()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range each {
				time.Sleep(pause(c))
				x := &pendingLink{link: &waypost.Link{Code: waypost.Code(fmt.Sprintf("c%d-%d", c, i)), Custom: true}}
				if _, err := w.insert(t.Context(), []*pendingLink{x}); err != nil || !x.added {
					t.Error(err, x.err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

func TestWriter_CallersWhoComeAgainAreCommittedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store slowStore
		create(t, &store, 64, 50, func(c int) time.Duration { return time.Duration(c) * 20 * time.Microsecond })
		require.Equal(t, 64*50, store.links)
		require.Less(t, store.commits, 60, "one a round, and not two")
	})
}

func TestWriter_LoneCallerWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store slowStore
		took := create(t, &store, 1, 50, func(int) time.Duration { return 0 })
		require.Equal(t, 50*commitTime, took)
		require.Equal(t, 50, store.commits)
	})
}

func TestWriter_CallersWhoDoNotComeAgainAreSoonWaitedForNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store slowStore
		// One of them is always back at once; the others come far apart.
		took := create(t, &store, 2, 1, func(int) time.Duration { return 0 })
		require.LessOrEqual(t, took, 3*commitTime)
		store = slowStore{}
		took = create(t, &store, 9, 100, func(c int) time.Duration { return time.Duration(c) * 41 * time.Millisecond })
		require.Equal(t, 900, store.links)
		least := 100 * (8*41*time.Millisecond + commitTime)
		require.Less(t, took, least+least/50, "the slowest caller has little of the others")
	})
}

// holders places each code for the workspace that holds its key, and remembers the
// batches.
type holders struct {
	LinkStore
	of      map[waypost.Code]waypost.WorkspaceID
	placed  map[waypost.Code]bool
	batches []int
}

func (s *holders) InsertLinks(_ context.Context, _ uint32, links []Insertion) ([]InsertResult, waypost.Position, error) {
	s.batches = append(s.batches, len(links))
	placed := make([]InsertResult, len(links))
	for i, x := range links {
		switch {
		case s.of[x.Link.Code] != 0 && s.of[x.Link.Code] != x.Link.Workspace:
			placed[i] = Issuable
		case s.placed[x.Link.Code]:
			placed[i] = Taken
		default:
			placed[i], s.placed[x.Link.Code] = Placed, true
		}
	}
	return placed, waypost.Position{Seq: uint64(len(s.batches))}, nil
}

func TestWriter_ARefusedRequestForACodeDoesNotRefuseTheNext(t *testing.T) {
	want := func(ws waypost.WorkspaceID, code waypost.Code) *pendingLink {
		return &pendingLink{link: &waypost.Link{Workspace: ws, Code: code, Custom: true}}
	}
	foreign, again, rightful, late := want(1, "key-2"), want(1, "key-2"), want(2, "key-2"), want(2, "key-2")
	free, more := want(1, "free"), want(3, "free")
	store := &holders{of: map[waypost.Code]waypost.WorkspaceID{"key-2": 2}, placed: map[waypost.Code]bool{}}
	w := newWriter(store, noMinter{}, commitTimeout, slog.New(slog.DiscardHandler))
	defer w.close()
	at := w.settleLinks(t.Context(), []*pendingLink{foreign, again, rightful, free, late, more})
	require.Equal(t, []int{2, 1}, store.batches, "one transaction more")
	require.EqualValues(t, 2, at.Seq)
	for name, x := range map[string]*pendingLink{"rightful": rightful, "free": free} {
		require.True(t, x.added, name)
		require.NoError(t, x.err, name)
	}
	for name, x := range map[string]*pendingLink{"foreign": foreign, "again": again} {
		require.False(t, x.added, name)
		require.ErrorContains(t, x.err, "form of a generated one", name)
	}
	for name, x := range map[string]*pendingLink{"late": late, "more": more} {
		require.False(t, x.added, name)
		require.ErrorContains(t, x.err, "is taken", name)
	}
}

func TestWriter_LinksOfOneIdempotentRequestWaitTogether(t *testing.T) {
	want := func(ws waypost.WorkspaceID, code waypost.Code, r *pendingResponse) *pendingLink {
		return &pendingLink{link: &waypost.Link{Workspace: ws, Code: code, Custom: true}, response: r}
	}
	for holder, outcome := range map[waypost.WorkspaceID]string{1: "is taken", 2: ""} {
		var r pendingResponse
		foreign := want(1, "key", nil)
		request := []*pendingLink{want(2, "other", &r), want(2, "key", &r), want(2, "other", &r)}
		store := &holders{of: map[waypost.Code]waypost.WorkspaceID{"key": holder}, placed: map[waypost.Code]bool{}}
		w := newWriter(store, noMinter{}, commitTimeout, slog.New(slog.DiscardHandler))
		w.settleLinks(t.Context(), append([]*pendingLink{foreign}, request...))
		w.close()
		require.Equal(t, holder == 1, foreign.added)
		require.True(t, request[0].added)
		require.ErrorContains(t, request[2].err, "is taken", "a request has a code once")
		if outcome != "" {
			require.ErrorContains(t, request[1].err, outcome)
			require.Equal(t, []int{1, 2}, store.batches)
			continue
		}
		require.NoError(t, request[1].err)
		require.True(t, request[1].added)
		require.Equal(t, []int{1, 3}, store.batches, "in one transaction")
	}
}
