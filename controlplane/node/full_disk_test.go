package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/api"
	"waypost/controlplane/node"
)

// startOn runs a control plane with a data directory, at two addresses, and stops it.
func startOn(t *testing.T, database, dir, addr, adminAddr string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	run := runConfig(database)
	run.DataDir, run.Addr, run.AdminAddr, run.LeaseSize = dir, addr, adminAddr, 10
	go func() { done <- node.Run(ctx, run, slog.New(slog.DiscardHandler)) }()
	require.Eventually(t, func() bool {
		select {
		case err := <-done:
			require.NoError(t, err, "it must not end")
		default:
		}
		status, _ := get(t, "http://"+adminAddr+"/readyz")
		return status == http.StatusOK
	}, waitLimit, 10*time.Millisecond)
	return func() { cancel(); require.NoError(t, <-done) }
}

func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	body, err := io.ReadAll(res.Body)
	require.NoError(t, errors.Join(err, res.Body.Close()))
	return res.StatusCode, string(body)
}

// fill leaves no byte on a disk.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestNode_AFullDiskIsSaidAndEndsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.Mkdir(dir, 0o700))
	if err := unix.Mount("waypost-test", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("only root may mount a small disk: ", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	url, addr, adminAddr := cluster.Database(t), freeAddr(t), freeAddr(t)
	seen := make(map[string]bool)
	create := func() {
		r := &running{Client: http.DefaultClient, url: "http://" + addr}
		for range 30 { // more than a lease
			status, answer := r.post(t, "/api/v1/urls", api.NewLink{OriginalURL: "https://example.com/"})
			require.Equal(t, http.StatusCreated, status, "%s", answer)
			var l api.Link
			require.NoError(t, json.Unmarshal(answer, &l))
			require.False(t, seen[l.ShortCode], "%s was issued twice", l.ShortCode)
			seen[l.ShortCode] = true
		}
	}
	says := func(degraded bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, ready := get(t, "http://"+adminAddr+"/readyz")
			_, metrics := get(t, "http://"+adminAddr+"/metrics")
			return strings.Contains(ready, "no space left") == degraded &&
				strings.Contains(metrics, "\nwaypost_keys_unremembered 1\n") == degraded
		}, waitLimit, 10*time.Millisecond)
	}
	stop := startOn(t, url, dir, addr, adminAddr)
	create()
	says(false)
	fill(t, filepath.Join(dir, "filler"))
	create()
	says(true)
	stop()

	fill(t, filepath.Join(dir, "filler"))
	stop = startOn(t, url, dir, addr, adminAddr)
	says(true)
	create()
	require.NoError(t, os.Remove(filepath.Join(dir, "filler")))
	says(false)
	create()
	stop()
}
