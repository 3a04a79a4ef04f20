package server_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
)

// memoryBlocks is the blocked addresses.
type memoryBlocks struct{ sync.Map }

func (b *memoryBlocks) Policy(host, code []byte, folded bool) waypost.BlockPolicy {
	policy, _ := b.Load(string(waypost.AppendBlockKey(nil, host, code, folded)))
	p, _ := policy.(waypost.BlockPolicy)
	return p
}

func blocking(all map[string]waypost.BlockPolicy) *memoryBlocks {
	b := &memoryBlocks{}
	for key, policy := range all {
		b.Store(key, policy)
	}
	return b
}

func TestServer_ABlockComesBeforeEverythingElse(t *testing.T) {
	links, clicks, meters := newMemoryLinks(), &memoryClicks{}, prometheus.NewRegistry()
	own := links.links[waypost.DefaultDomain]
	own["secret01"] = protectedLink(t, 1, 8, 0)
	links.targets[closedID] = waypost.DomainTargets{Maintenance: []byte("https://example.org/closed")}
	links.targets[waypost.DefaultDomain] = waypost.DomainTargets{NotFound: []byte("https://example.org/lost")}
	blocks := blocking(map[string]waypost.BlockPolicy{
		"/found302": waypost.BlockLegal, "/found301": waypost.BlockGone, "/secret01": waypost.BlockLegal, "/forward1": waypost.BlockLegal,
		"/agents01": waypost.BlockLegal, "/deleted1": waypost.BlockLegal, "/failing1": waypost.BlockLegal, "/unknown1": waypost.BlockGone,
		hosted + "/whereami": waypost.BlockLegal, closed + "/whereami": waypost.BlockLegal,
		"removed.example/found302": waypost.BlockGone, "removed.example/whereami": waypost.BlockLegal,
	})
	_, addr := serve(t, server.Config{Links: links, Clicks: clicks, Blocks: blocks, Contact: `abuse@example.com "<desk>"`, Metrics: meters})

	for _, c := range []struct {
		path, host string
		status     int
	}{
		{"/found302", "wayp.example", 451},
		{"/found302", "elsewhere.example", 451}, // which means the default domain
		{"/found302?a=b", "WAYP.example:80", 451},
		{"/whereami", "removed.example", 451}, // a domain that was removed
		{"/whereami+", "REMOVED.example.:80", 451},
		{"/found302+", "wayp.example", 451},
		{"/found301", "wayp.example", 410},
		{"/secret01", "wayp.example", 451},
		{"/forward1/a/b", "wayp.example", 451},
		{"/agents01", "wayp.example", 451},
		{"/deleted1", "wayp.example", 451},
		{"/failing1", "wayp.example", 451},
		{"/unknown1", "wayp.example", 410},
		{"/whereami", hosted, 451},
		{"/whereami", closed, 451},
		{"/whereami", "wayp.example", 302},
		{"/found302", hosted, 404},
	} {
		got := get(t, addr, c.path, c.host)
		require.Equal(t, c.status, got.StatusCode, "%s of %s", c.path, c.host)
		if c.status == 302 || c.status == 404 {
			continue
		}
		require.Empty(t, got.Header.Get("Location"))
		require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
		head := say(t, addr, "HEAD "+c.path+" HTTP/1.1\r\nHost: "+c.host+"\r\n\r\n")
		require.Equal(t, c.status, head.StatusCode)
		require.NotContains(t, got.body, target)
	}
	require.Equal(t, 451, postForm(t, addr, "/secret01", secret).StatusCode)
	require.Len(t, clicks.take(), 1, "of the link that is not blocked")

	page := get(t, addr, "/found302", "wayp.example", "Accept: text/html")
	require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
	require.Contains(t, page.body, "Unavailable for legal reasons")
	require.Contains(t, page.body, "Questions: abuse@example.com &#34;&lt;desk&gt;&#34;")
	var problem struct{ Type, Title, Detail string }
	gone := get(t, addr, "/found301", "wayp.example")
	require.NoError(t, json.Unmarshal([]byte(gone.body), &problem))
	require.Equal(t, waypost.ProblemType(waypost.EGone), problem.Type)
	require.Contains(t, problem.Detail, `Questions: abuse@example.com "<desk>"`)
	legal := get(t, addr, "/found302", "wayp.example")
	require.NoError(t, json.Unmarshal([]byte(legal.body), &problem))
	require.Equal(t, waypost.ProblemType(waypost.EBlocked), problem.Type)
	require.Equal(t, http.StatusText(http.StatusUnavailableForLegalReasons), legal.Status[4:])
	require.Positive(t, gather(t, meters, "waypost_redirects_total")[`waypost_redirects_total 451`])

	blocks.Delete("/found302")
	require.Equal(t, 302, get(t, addr, "/found302", "wayp.example").StatusCode)
}
