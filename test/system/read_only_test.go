package system_test

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/internal/admin"
	"waypost/test/devtest"
)

// TestEdge_StartsAndServesOnAReadOnlyDisk makes a disk read-only by a bind mount.
func TestEdge_StartsAndServesOnAReadOnlyDisk(t *testing.T) {
	var addrs []string
	for range 2 { // the process on the read-only disk cannot write down its addresses
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addrs = append(addrs, l.Addr().String())
		require.NoError(t, l.Close())
	}
	e := startSolo(t, "WAYPOST_EDGE_ADDR="+addrs[0], "WAYPOST_EDGE_ADMIN_ADDR="+addrs[1])
	codes := e.create(3)
	require.NoError(t, unix.Kill(e.now.PID(), unix.SIGTERM)) // all of the replica is on the disk then
	e.now.ExitCode()
	if err := unix.Mount(e.dir, e.dir, "", unix.MS_BIND, ""); err != nil {
		t.Skip("only root may mount a disk: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(e.dir, unix.MNT_DETACH) }) // it may be done
	require.NoError(t, unix.Mount("", e.dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))

	readOnly := devtest.Spawn(t, e.env, "edge")
	serves := func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addrs[0]+"/"+codes[0], http.NoBody)
		require.NoError(t, err)
		res, err := visitor.Do(req)
		if err != nil {
			return false
		}
		require.NoError(t, res.Body.Close())
		return res.StatusCode == http.StatusFound
	}
	eventually(t, time.Minute, "serving", serves)
	for _, code := range codes {
		require.Equal(t, http.StatusFound, e.head(code))
	}
	require.Contains(t, e.state().Degraded, "read-only")
	require.Positive(t, e.metric("waypost_replica_degraded "))
	require.Positive(t, e.metric("waypost_clicks_dropped_total"), "no click is lost without a count")
	eventually(t, time.Minute, "said in the fleet", func() bool {
		edges, err := e.api.Edges.List(t.Context())
		require.NoError(t, err)
		for i := range edges {
			if edges[i].Node == e.name {
				return edges[i].Replica == "degraded" && edges[i].HeldWhy != ""
			}
		}
		return false
	})
	readOnly.Kill()

	require.NoError(t, unix.Unmount(e.dir, unix.MNT_DETACH))
	e.now = devtest.Spawn(t, e.env, "edge")
	e.await(func(s admin.Status) bool { return s.PID == e.now.PID() })
	eventually(t, time.Minute, "whole again", func() bool { return e.state().Degraded == "" && e.head(codes[2]) == http.StatusFound })
}
