package system_test

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/client"
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
	limited := func() int { // visits a link with an exact click budget
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addrs[0]+"/limited", http.NoBody)
		require.NoError(t, err)
		req.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0")
		res, err := visitor.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	e.persist(func() error {
		_, err := e.api.Links.Create(t.Context(), client.NewLink{
			OriginalURL: "https://example.com/", CustomCode: "limited", MaxClicks: 1000, MaxClicksMode: "exact",
		})
		return err
	})
	eventually(t, time.Minute, "redirected", func() bool { return limited() == http.StatusFound })
	require.NoError(t, unix.Kill(e.now.PID(), unix.SIGTERM)) // all of the replica is on the disk then
	e.now.ExitCode()
	e.persist(func() error { // a change that the edge lacks at its next start
		_, err := e.api.Links.Create(t.Context(), client.NewLink{OriginalURL: "https://example.com/"})
		return err
	})
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
	require.Regexp(t, `cannot catch up with the control plane; serving the links on disk.*read-only`, readOnly.Output(),
		"it does not wait for changes that it cannot take")
	for _, code := range codes {
		require.Equal(t, http.StatusFound, e.head(code))
	}
	require.Equal(t, http.StatusServiceUnavailable, limited())
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
