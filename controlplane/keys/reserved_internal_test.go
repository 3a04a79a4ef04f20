package keys

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

// shelf keeps reserved keys in memory. A step fails after some that went well.
type shelf struct {
	Store
	free  []waypost.Code
	taken map[waypost.Code]bool
	held  int64 // beyond those
	steps []int // keys of each change
	left  int   // steps that go well; negative: all
}

func (s *shelf) step(ctx context.Context, n int) error {
	if s.left == 0 || ctx.Err() != nil {
		return waypost.WrapError(waypost.EUnavailable, "away", ctx.Err())
	}
	s.left--
	s.steps = append(s.steps, n)
	return nil
}

func (s *shelf) ReuseKeys(ctx context.Context, _ waypost.WorkspaceID, _ string, n int) ([]waypost.Code, error) {
	if len(s.free) == 0 {
		return nil, nil
	}
	n = min(n, len(s.free))
	if err := s.step(ctx, n); err != nil {
		return nil, err
	}
	codes := s.free[:n]
	s.free = s.free[n:]
	for _, c := range codes {
		s.taken[c] = true
	}
	return codes, nil
}

func (s *shelf) ReserveKeys(
	ctx context.Context, _ waypost.WorkspaceID, _ string, _ uint32, keys []controlplane.Key,
) ([]waypost.Code, error) {
	if err := s.step(ctx, len(keys)); err != nil {
		return nil, err
	}
	var codes []waypost.Code
	for _, k := range keys {
		codes = append(codes, k.Code)
		s.taken[k.Code] = true
	}
	return codes, nil
}

func (s *shelf) ReturnKeys(ctx context.Context, _ waypost.WorkspaceID, _ string, codes []waypost.Code) ([]Returned, error) {
	if err := s.step(ctx, len(codes)); err != nil {
		return nil, err
	}
	var all []Returned
	for _, c := range codes {
		r := Returned{Code: c}
		if !s.taken[c] {
			r.Err = waypost.Errorf(waypost.ENotFound, "not held")
		} else {
			s.free = append(s.free, c)
		}
		delete(s.taken, c)
		all = append(all, r)
	}
	return all, nil
}

func (s *shelf) CountHeld(context.Context, waypost.WorkspaceID) (int64, error) {
	return s.held + int64(len(s.free)+len(s.taken)), nil
}

// shelved returns the key ranges of a shelf with n free keys.
func shelved(t *testing.T, n int) (*Ranges, *shelf) {
	t.Helper()
	s := &shelf{taken: make(map[waypost.Code]bool), left: -1}
	for i := range n {
		s.free = append(s.free, coderOf(t).Encode(7, int64(i)))
	}
	m := NewMinter(MinterConfig{Store: &leasing{}, Coder: coderOf(t), Region: "eu", Node: "n/1", Size: 10})
	t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
	return NewRanges(Config{Store: s, Minter: m, Patience: time.Minute}), s
}

func textsOf(codes []waypost.Code) (texts []string) {
	for _, c := range codes {
		texts = append(texts, string(c))
	}
	return texts
}

func TestRanges_ChangeAThousandKeysInOneTransaction(t *testing.T) {
	k, s := shelved(t, 1500)
	codes, err := k.ReserveKeys(t.Context(), controlplane.Actor{Workspace: 1}, "mailer", 3700)
	require.NoError(t, err)
	require.Len(t, codes, 3700)
	require.Len(t, s.taken, 3700)
	require.Equal(t, []int{1000, 500, 1000, 1000, 200}, s.steps)

	s.steps = nil
	back, err := k.ReturnKeys(t.Context(), controlplane.Actor{Workspace: 1}, "mailer", append(textsOf(codes[:2100]), string(codes[0])))
	require.NoError(t, err)
	require.Equal(t, []int{1000, 1000, 101}, s.steps)
	require.Len(t, back, 2101)
	for _, r := range back[:2100] {
		require.NoError(t, r.Err)
	}
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(back[2100].Err), "a key comes back once")
}

func TestRanges_GiveBackWhatWasReservedBeforeAnError(t *testing.T) {
	k, s := shelved(t, 1500)
	s.left = 3 // two steps of free keys, and one of minted ones
	ctx, leave := context.WithCancel(t.Context())
	failing := &leaving{s, leave}
	k.cfg.Store = failing
	_, err := k.ReserveKeys(ctx, controlplane.Actor{Workspace: 1}, "mailer", 5000)
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
	require.Empty(t, s.taken, "also when the caller has left")
	require.Len(t, s.free, 2500)
}

// leaving is a shelf whose caller leaves when a reservation fails, and which works again
// then.
type leaving struct {
	*shelf
	leave context.CancelFunc
}

func (l *leaving) ReserveKeys(
	ctx context.Context, ws waypost.WorkspaceID, service string, epoch uint32, keys []controlplane.Key,
) ([]waypost.Code, error) {
	codes, err := l.shelf.ReserveKeys(ctx, ws, service, epoch, keys)
	if err != nil {
		l.leave()
		l.left = -1
	}
	return codes, err
}

func TestRanges_ReturnedKeysHaveOutcomesAlsoWhenALaterStepFails(t *testing.T) {
	k, s := shelved(t, 0)
	codes, err := k.ReserveKeys(t.Context(), controlplane.Actor{Workspace: 1}, "mailer", 3000)
	require.NoError(t, err)
	s.left = 1
	back, err := k.ReturnKeys(t.Context(), controlplane.Actor{Workspace: 1}, "mailer", textsOf(codes))
	require.NoError(t, err)
	require.Len(t, back, 3000)
	for i, r := range back {
		require.Equal(t, codes[i], r.Code)
		require.Equal(t, map[bool]waypost.ErrorCode{true: "", false: waypost.EUnavailable}[i < 1000], waypost.CodeOf(r.Err))
	}
	_, err = k.ReturnKeys(t.Context(), controlplane.Actor{Workspace: 1}, "mailer", textsOf(codes[1000:]))
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err), "no key came back")
}

func TestRanges_HoldNoMoreKeysThanAWorkspaceMayHave(t *testing.T) {
	k, s := shelved(t, 4)
	s.held = MaxHeld - 14
	codes, err := k.ReserveKeys(t.Context(), controlplane.Actor{Workspace: 1}, "mailer", 14)
	require.NoError(t, err, "ten beyond those that were given back")
	require.Len(t, codes, 14)
	k.held.Clear()
	_, err = k.ReserveKeys(t.Context(), controlplane.Actor{Workspace: 1}, "mailer", 1)
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
	s.free = []waypost.Code{"0000001"}
	_, err = k.ReserveKeys(t.Context(), controlplane.Actor{Workspace: 1}, "mailer", 2)
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
	require.Len(t, s.free, 1, "it was given back")
	codes, err = k.ReserveKeys(t.Context(), controlplane.Actor{Workspace: 1}, "mailer", 1)
	require.NoError(t, err)
	require.Equal(t, []waypost.Code{"0000001"}, codes, "keys that were given back are not more keys")
}
