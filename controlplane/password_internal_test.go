package controlplane

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"waypost"
)

func TestPasswords_PasswordIsKnownByItsHash(t *testing.T) {
	p := newPasswords("busy", places)
	hash, err := p.hash(t.Context(), "correct horse battery")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$"), hash)
	for word, want := range map[string]bool{"correct horse battery": true, "correct horse batterY": false, "": false} {
		same, err := p.match(t.Context(), word, hash)
		require.NoError(t, err)
		require.Equal(t, want, same, word)
	}
}

// An unknown account costs as much as a known one, and no hash costs more.
func TestPasswords_EveryComparisonIsOneRunOfTheSameCost(t *testing.T) {
	p := newPasswords("busy", places)
	hash, err := p.hash(t.Context(), "correct horse battery")
	require.NoError(t, err)
	require.True(t, affordable(dummyHash))
	cost := func(hash string) string { before, _, _ := strings.Cut(hash, "p=1$"); return before }
	require.Equal(t, cost(hash), cost(dummyHash))
	require.Equal(t, len(hash), len(dummyHash))
	key := "$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for _, stored := range []string{
		"", "x", "$argon2id$", dummyHash + "$",
		"$argon2id$v=19$m=4294967295,t=2,p=1" + key,
		"$argon2id$v=19$m=19456,t=0,p=1" + key,
		"$argon2id$v=19$m=19456,t=2,p=0" + key,
		"$argon2id$v=19$m=19456,t=4294967295,p=1" + key,
		"$argon2id$v=19$m=19456,t=2,p=1$AA$AA",
		"$argon2i$v=19$m=19456,t=2,p=1" + key,
	} {
		require.False(t, affordable(stored), stored)
		before := p.runs.Load()
		same, err := p.match(t.Context(), "", stored)
		require.NoError(t, err)
		require.False(t, same, stored)
		require.Equal(t, before+1, p.runs.Load())
	}
}

func TestPasswords_TooManySignInsAtOnceAreTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords("busy", places)
		ctx, cancel := context.WithCancel(t.Context())
		running := make([]func(), passwordsAtOnce)
		for i := range running {
			done, err := p.turn(ctx, 0)
			require.NoError(t, err)
			running[i] = done
		}
		var wg sync.WaitGroup
		for range passwordsWaiting {
			wg.Go(func() {
				_, err := p.turn(ctx, 0)
				require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
			})
		}
		synctest.Wait()
		_, err := p.turn(ctx, 0)
		require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err), "the queue is full")
		cancel()
		wg.Wait()
		for _, done := range running {
			done()
		}
		done, err := p.turn(t.Context(), 0)
		require.NoError(t, err)
		done()
		require.Zero(t, p.places.Held())
	})
}

func TestLinkPasswords_OneWorkspaceLeavesPlacesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords("busy", places/2)
		leave := make(chan struct{})
		end := sync.OnceFunc(func() { close(leave) })
		defer end()
		var wg sync.WaitGroup
		take := func(ws waypost.WorkspaceID) {
			wg.Go(func() {
				if done, err := p.turn(t.Context(), ws); err == nil {
					<-leave
					done()
				}
			})
		}
		for range 17 {
			take(7)
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := p.turn(ctx, 7)
		require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
		require.NotErrorIs(t, err, context.Canceled, "its half is full: it does not wait")
		take(8)
		synctest.Wait()
		_, err = p.turn(ctx, 8)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 18, p.places.Held())
		end()
		wg.Wait()
		for range 17 {
			require.True(t, p.places.TryAcquire(8, 1), "all places were returned")
		}
	})
}

func FuzzStoredHashesNeverPanic(f *testing.F) {
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("$argon2id$v=19$m=-1,t=0,p=300$$")
	f.Fuzz(func(_ *testing.T, stored string) { affordable(stored) })
}

func FuzzEmailsAreASCIIWithOneForm(f *testing.F) {
	for _, s := range []string{"Ann@Example.com", "a@b@c", "@", "ä@b.c", " a@b ", "a\r\n@b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parsed, err := ParseEmail(s)
		if err != nil {
			return
		}
		require.Equal(t, strings.ToLower(parsed), parsed)
		require.LessOrEqual(t, len(parsed), MaxEmail)
		again, err := ParseEmail(parsed)
		require.NoError(t, err)
		require.Equal(t, parsed, again)
	})
}
