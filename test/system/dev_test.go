package system_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

func TestDev_KeepsLinksAcrossAStopAndAKill(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{})
	state := s.State()
	require.Len(t, state.Edges, 2)
	require.Equal(t, "us-east-1", state.Edges[0].Region)
	require.True(t, strings.HasPrefix(state.APIKey, "wp_live_"))
	info, err := os.Stat(filepath.Join(s.DataDir(), "dev.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	eventually(t, time.Minute, "it prints what to try next", func() bool { return strings.Contains(s.Output(), state.API+"/api/v1/urls") })
	require.NotContains(t, s.Output(), state.APIKey)
	require.Contains(t, s.Output(), "Console: "+state.Console)
	_, token, ok := strings.Cut(state.Console, state.API+"/console/sign-in#")
	require.True(t, ok, state.Console)
	res, err := http.Post(state.API+"/api/v1/session", "application/json", strings.NewReader(`{"sign_in_token": "`+token+`"}`))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusCreated, res.StatusCode)

	r := devtest.Run(t, []string{"WAYPOST_DATA_DIR=" + s.DataDir()}, "links", "create", "https://example.com/a?b=c", "--code", "a-code")
	require.Zero(t, r.Code, r.Stderr)
	require.Equal(t, state.Edges[0].URL+"/a-code\n", r.Stdout, "short URLs are formed with the first edge")
	awaitEverywhere(t, state, "a-code", "https://example.com/a?b=c")

	s.Stop()
	s.Again()
	again := s.State()
	awaitEverywhere(t, again, "a-code", "https://example.com/a?b=c")
	require.Equal(t, state.APIKey, again.APIKey)
	for i := range state.Edges {
		require.Equal(t, state.Edges[i].Node, again.Edges[i].Node, "an edge keeps its name")
	}

	s.Kill()
	s.Again()
	awaitEverywhere(t, s.State(), "a-code", "https://example.com/a?b=c")
	s.Stop()
}

func TestDev_RunsASystem(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{Anew: true, Edges: "us-east-1=127.0.0.1:0"})
	t.Run("without links of its own, in a directory of its own", func(t *testing.T) {
		r := devtest.Run(t, nil, "links", "list", "--output=json", "--data-dir", s.DataDir())
		require.Zero(t, r.Code, r.Stderr)
		var page struct{ URLs []any }
		require.NoError(t, json.Unmarshal([]byte(r.Stdout), &page))
		require.Empty(t, page.URLs)

		// The directory is taken, and says by whom.
		second := devtest.Run(t, nil, "dev", "--data-dir", s.DataDir(), "--control-addr=127.0.0.1:0", "--edges=a=127.0.0.1:0")
		require.Equal(t, 1, second.Code)
		require.Contains(t, second.Stderr, fmt.Sprintf("is in use by process %d: stop that", s.State().PID))

		// A client without a key is not locked out, but a wrong key is no key.
		wrong := devtest.Run(t, []string{"WAYPOST_API=" + s.State().API, "WAYPOST_API_KEY=wrong"}, "links", "list")
		require.Equal(t, 1, wrong.Code)
		require.Contains(t, wrong.Stderr, "(401)")
		require.Zero(t, devtest.Run(t, []string{"WAYPOST_API=" + s.State().API}, "links", "list").Code)
	})
	t.Run("and starts again what dies", func(t *testing.T) {
		before := s.State()
		for name, pid := range map[string]func(devtest.State) int{
			"edge":       func(st devtest.State) int { return int(st.Edges[0].PID) },
			"control":    func(st devtest.State) int { return int(st.Control.PID) },
			"PostgreSQL": func(st devtest.State) int { return int(st.Postgres.PID) },
		} {
			old := pid(s.State())
			devtest.KillProcess(t, old)
			s.Await("back with another "+name, func(st devtest.State) bool { return pid(st) > 0 && pid(st) != old })
		}
		after := s.State()
		require.Equal(t, before.Edges[0].Node, after.Edges[0].Node)
		require.Equal(t, before.Edges[0].URL, after.Edges[0].URL)
		require.Equal(t, before.DatabaseURL, after.DatabaseURL)
		for name, admin := range map[string]func(devtest.State) string{
			"control": func(st devtest.State) string { return st.Control.AdminURL },
			"edge":    func(st devtest.State) string { return st.Edges[0].AdminURL },
		} {
			for _, path := range []string{"/readyz", "/livez", "/metrics"} {
				eventually(t, time.Minute, "well: "+name+path, func() bool { return status(t, admin(s.State())+path) == http.StatusOK })
			}
		}
	})
	t.Run("which stops though clients hold connections open", func(t *testing.T) {
		state := s.State()
		for _, base := range []string{state.API, state.Edges[0].URL, state.Control.AdminURL, state.Edges[0].AdminURL} {
			for range 2 {
				conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
				require.NoError(t, err)
				defer conn.Close()
				// Half a request, which stays under way.
				_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n"))
				require.NoError(t, err)
			}
			silent, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			require.NoError(t, err)
			defer silent.Close()
		}
		s.Stop()
	})
}

func TestEdge_EndsWhenItIsRefused(t *testing.T) {
	t.Parallel()
	s := oneEdge.For(t)
	dir := filepath.Join(t.TempDir(), "edge")
	env := []string{
		"WAYPOST_EDGE_ADDR=127.0.0.1:0", "WAYPOST_EDGE_ADMIN_ADDR=127.0.0.1:0", "WAYPOST_EDGE_REGION=eu-west-1",
		"WAYPOST_EDGE_CONTROL_URLS=" + s.State().Fleet, "WAYPOST_EDGE_DATA_DIR=" + dir,
	}
	r := devtest.Run(t, append(env, "WAYPOST_EDGE_TOKEN=wrong"), "edge")
	require.Equal(t, 1, r.Code, r.Stderr)
	require.Contains(t, r.Stderr, "refused the token: set WAYPOST_EDGE_TOKEN or --token-file to its edge token")

	// A directory with a replica of another cluster.
	other := devtest.Start(t, devtest.Config{Edges: "eu-west-1=127.0.0.1:0"})
	other.Stop()
	require.NoError(t, os.RemoveAll(filepath.Join(other.DataDir(), "postgres")))
	r = devtest.Run(t, nil, "dev", "--data-dir", other.DataDir(), "--control-addr=127.0.0.1:0", "--edges=eu-west-1=127.0.0.1:0")
	require.Equal(t, 1, r.Code, "a database that was set up anew would issue every key again")
	require.Contains(t, r.Stderr, "remembers the keys of another cluster")
	require.NoError(t, os.RemoveAll(filepath.Join(other.DataDir(), "control")))
	r = devtest.Run(t, nil, "dev", "--data-dir", other.DataDir(), "--control-addr=127.0.0.1:0", "--edges=eu-west-1=127.0.0.1:0")
	require.Equal(t, 1, r.Code, "a replica that is older than the database is not served")
	lines := strings.Split(strings.TrimSpace(r.Stderr), "\n")
	// How it ended is told, too, when that is seen before its addresses are.
	require.Regexp(t, `waypost: edge eu-west-1 ended while starting( \(exit status 1\))?: the data directory`, lines[len(lines)-1])
	foreign := filepath.Join(other.DataDir(), "edges", "eu-west-1")
	token := filepath.Join(s.DataDir(), "secrets", "edge-token")
	r = devtest.Run(t, append(env, "WAYPOST_EDGE_TOKEN_FILE="+token, "WAYPOST_EDGE_DATA_DIR="+foreign), "edge")
	require.Equal(t, 1, r.Code, r.Stderr)
	require.Contains(t, r.Stderr, "belongs to another cluster than "+s.State().Fleet+": choose another --data-dir")
}

// awaitEverywhere waits until every edge redirects a code to a location.
func awaitEverywhere(t *testing.T, state devtest.State, code, location string) {
	t.Helper()
	for _, e := range state.Edges {
		require.Eventually(t, func() bool {
			resp, err := get(t.Context(), e.URL+"/"+code)
			return err == nil && resp.StatusCode == http.StatusFound && resp.Header.Get("Location") == location
		}, 60*time.Second, 10*time.Millisecond, "edge %s", e.Region)
	}
}

func status(t *testing.T, url string) int {
	t.Helper()
	resp, err := get(t.Context(), url)
	if err != nil {
		return 0
	}
	return resp.StatusCode
}

// get asks once, without following a redirect; the body is read and gone.
func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err2 := resp.Body.Close(); err == nil {
		err = err2
	}
	return resp, err
}
