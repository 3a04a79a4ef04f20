package replica_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication/replicationtest"
)

func TestHandle_AnswersFromThePresentReplica(t *testing.T) {
	var h replica.Handle
	requireDefault := func() {
		t.Helper()
		id, known := h.Domain([]byte("seven.example"))
		require.True(t, known)
		require.Equal(t, waypost.DefaultDomain, id)
	}
	require.Nil(t, h.Load())
	_, _, _, err := h.Link(waypost.DefaultDomain, []byte("code0001"), nil)
	require.ErrorIs(t, err, replica.ErrNone)
	requireDefault()
	require.Empty(t, h.Targets(7))
	require.Nil(t, h.Salt(1))

	empty := open(t, config(vfs.NewMem()))
	require.Nil(t, h.Swap(empty))
	_, _, _, err = h.Link(waypost.DefaultDomain, []byte("code0001"), nil)
	require.ErrorContains(t, err, "first snapshot")
	requireDefault()

	db, s := filled(t, config(vfs.NewMem()), 2)
	s.Commit(domain("7", "seven.example"), saltRecord(1, strings.Repeat("ab", 32)))
	apply(t, s, db)
	require.Same(t, empty, h.Swap(db))
	require.Same(t, db, h.Load())
	rec, _, found, err := h.Link(waypost.DefaultDomain, []byte("code0001"), nil)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "https://example.com/1", string(rec.Payload))
	id, known := h.Domain([]byte("seven.example"))
	require.True(t, known)
	require.Equal(t, waypost.DomainID(7), id)
	_, known = h.Domain([]byte("eight.example"))
	require.False(t, known)
	require.NotNil(t, h.Salt(1))
}

func TestHandle_ReadersSeeNoClosedReplica(t *testing.T) {
	var h replica.Handle
	fs := vfs.NewMem()
	cfg := config(fs)
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	s := replicationtest.NewSource()
	s.Commit(replicationtest.Link("code0001", "https://example.com/1"))
	replicationtest.Take(t, s, db)
	h.Swap(db)
	stop, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(failed)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, _, found, err := h.Link(waypost.DefaultDomain, []byte("code0001"), nil); err != nil || !found {
				failed <- err
				return
			}
		}
	}()
	for range 5 {
		frozen, err := h.Load().Freeze("/frozen")
		require.NoError(t, err)
		old := h.Swap(frozen)
		require.NoError(t, old.Close())
		next, err := replica.Open(cfg)
		require.NoError(t, err)
		require.NoError(t, h.Swap(next).Close())
		require.NoError(t, fs.RemoveAll("/frozen"))
	}
	close(stop)
	require.NoError(t, <-failed)
	require.NoError(t, h.Load().Close())
}
