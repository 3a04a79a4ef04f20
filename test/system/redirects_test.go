package system_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

// The choices of owners and operators go from the command line through PostgreSQL and the
// stream to every edge, and the clicks go back. The test is not parallel, because it
// changes the default domain of a shared system.
func TestRedirects_FollowTheLinkAndTheDomain(t *testing.T) {
	s := twoEdges.For(t)
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	waypost := func(args ...string) string {
		t.Helper()
		r := devtest.Run(t, env, args...)
		require.Zero(t, r.Code, r.Stderr)
		return r.Stdout
	}
	waypost("links", "create", "https://example.com/sale", "--code", "sale") // before the other, which is awaited
	waypost("links", "create", "https://example.com/docs?v=2#top", "--code", "guide", "--forward-path", "--forward-query")
	require.Contains(t, waypost("links", "get", "guide"), "forwards     query and path")
	require.Regexp(t, `127\.0\.0\.1  shared  approved  (none|unknown) +-     -`, waypost("domains", "list"))
	changed := waypost("domains", "set", "127.0.0.1", "--root", "https://example.com/", "--not-found", "https://example.com/lost")
	require.Contains(t, changed, "https://example.com/  https://example.com/lost")
	r := devtest.Run(t, env, "domains", "set", "other.example", "--root", "")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, `there is no domain "other.example"`)
	r = devtest.Run(t, env, "domains", "set", "1", "--root", "http://127.0.0.1:1/")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, `--root: the host "127.0.0.1" is a domain of this service`)

	t.Cleanup(func() { // also after a failure, because other tests share the system
		devtest.Run(t, env, "domains", "set", "1", "--root", "", "--not-found", "", "--maintenance", "")
	})

	servers := []string{s.State().API}
	for _, e := range s.State().Edges {
		servers = append(servers, e.URL)
	}
	for _, server := range servers {
		for path, want := range map[string]string{
			"/guide?q=%2F": "https://example.com/docs?v=2&q=%2F#top",
			"/":            "https://example.com/", "/unknown99?x": "https://example.com/lost",
		} {
			eventually(t, time.Minute, server+path, func() bool {
				status, got, err := location(t.Context(), server+path)
				return err == nil && status == http.StatusFound && got == want
			})
		}
	}
	for _, edge := range servers[1:] {
		status, got, err := location(t.Context(), edge+"/guide/a//b?q=%2F")
		require.NoError(t, err)
		require.Equal(t, http.StatusFound, status)
		require.Equal(t, "https://example.com/docs/a//b?v=2&q=%2F#top", got)
		status, _, err = location(t.Context(), edge+"/guide+")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
	}

	for _, header := range [][2]string{{"Sec-Purpose", "prefetch"}, {"User-Agent", "Twitterbot/1.0"}, {"User-Agent", "Mozilla/5.0"}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, servers[1]+"/sale", http.NoBody)
		require.NoError(t, err)
		req.Header.Set(header[0], header[1])
		res, err := visitor.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusFound, res.StatusCode)
	}
	eventually(t, time.Minute, "two clicks counted, one of a bot", func() bool { return statsOf(t, s, "sale") == linkStats{2, 1} })

	waypost("domains", "set", "1", "--maintenance", "https://example.com/soon")
	for _, server := range servers {
		for _, path := range []string{"/sale", "/guide?q=1", "/"} {
			eventually(t, time.Minute, server+path+" leads to the target of the maintenance", func() bool {
				status, got, err := location(t.Context(), server+path)
				return err == nil && status == http.StatusFound && got == "https://example.com/soon"
			})
		}
	}
	require.Contains(t, waypost("audit"), "domains.set")

	waypost("domains", "set", "1", "--root", "", "--not-found", "", "--maintenance", "")
	for _, server := range servers {
		eventually(t, time.Minute, "nothing leads elsewhere on "+server, func() bool {
			lost, _, err1 := location(t.Context(), server+"/unknown99")
			root, _, err2 := location(t.Context(), server+"/")
			return err1 == nil && err2 == nil && lost == http.StatusNotFound && root == http.StatusOK
		})
	}
}

type linkStats struct {
	Clicks    int64 `json:"clicks"`
	BotClicks int64 `json:"bot_clicks"`
}

func statsOf(t *testing.T, s *devtest.System, code string) (now linkStats) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.State().API+"/api/v1/urls/"+code+"/stats", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.State().APIKey)
	res, err := visitor.Do(req)
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(res.Body).Decode(&now))
	require.NoError(t, res.Body.Close())
	return now
}
