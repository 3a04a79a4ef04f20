package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
	"waypost/internal/logtest"
	"waypost/rules"
	"waypost/rules/agents"
)

// wallet has clicks of budgets. It counts how often it was asked.
type wallet struct {
	ready, late int  // clicks that are there, and that come when they are asked for
	exhausted   bool // all clicks are spent
	asked       int
}

func (w *wallet) Spend(waypost.DomainID, []byte) bool {
	if w.ready == 0 {
		return false
	}
	w.ready--
	return true
}

func (w *wallet) SpendOrAsk(context.Context, waypost.DomainID, []byte) (spent, exhausted bool) {
	if w.Spend(0, nil) {
		return true, false
	}
	w.asked++
	if w.late == 0 {
		return false, w.exhausted
	}
	w.late--
	return true, false
}

// limitedLink returns the record of a link with a budget.
func limitedLink(t *testing.T, mode, exhausted string) waypost.Record {
	t.Helper()
	with := rules.Compiling{Status: 302, Target: func(url string) (string, string, error) { return url, url, nil }}
	programme, err := rules.Compile(&rules.Source{MaxClicks: 9, MaxClicksMode: mode, ExhaustedURL: exhausted}, &with)
	require.NoError(t, err)
	return waypost.Record{Kind: waypost.KindLink, Status: 302, Payload: []byte(target), Programme: programme}
}

const (
	firefoxAgent = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"
	ended        = "https://example.org/ended"
)

func TestBudgets_AreSpentByVisitorsAlone(t *testing.T) {
	links := newMemoryLinks()
	own := links.links[waypost.DefaultDomain]
	own["exact001"], own["exact002"] = limitedLink(t, rules.ModeExact, ended), limitedLink(t, rules.ModeExact, "")
	own["eventual"] = limitedLink(t, rules.ModeEventual, ended)
	w, clicks := &wallet{}, &memoryClicks{}
	more, err := agents.New([]string{"AcmeProbe"})
	require.NoError(t, err)
	_, addr := serve(t, server.Config{Links: links, Budgets: w, Clicks: clicks, Agents: more})
	// visit follows a link by both paths: the second header makes the fast path decline.
	visit := func(path string, headers ...string) (status int, location string) {
		res := get(t, addr, path, "wayp.example", headers...)
		return res.StatusCode, res.Header.Get("Location")
	}
	counted := 0
	for _, slow := range []string{"X-Other: 1", "Sec-Purpose: none"} {
		*w = wallet{ready: 1, late: 1}
		for range 2 {
			status, location := visit("/exact001", firefoxAgent, slow)
			require.Equal(t, 302, status)
			require.Equal(t, target, location)
		}
		counted += 2
		require.Equal(t, 1, w.asked, "while nothing is ready")

		for _, path := range []string{"/exact001", "/exact002"} {
			res := get(t, addr, path, "wayp.example", firefoxAgent, slow, "Accept: text/html")
			require.Equal(t, 503, res.StatusCode, "no answer says that all clicks are spent")
			require.Empty(t, res.Header.Get("Location"))
			require.Equal(t, "5", res.Header.Get("Retry-After"))
			require.Contains(t, res.body, `<meta http-equiv="refresh" content="5">`, "the page tries again")
		}
		w.exhausted = true
		status, location := visit("/exact001", firefoxAgent, slow)
		require.Equal(t, 302, status)
		require.Equal(t, ended, location)
		status, _ = visit("/exact002", firefoxAgent, slow)
		require.Equal(t, 410, status)

		status, location = visit("/eventual", firefoxAgent, slow)
		require.Equal(t, 302, status)
		require.Equal(t, target, location, "an eventual budget takes no clicks")
		counted++
	}

	*w = wallet{ready: 100}
	for _, path := range []string{"/exact001", "/exact002", "/eventual"} {
		for name, headers := range map[string][]string{
			"a prefetch": {firefoxAgent, "Sec-Purpose: prefetch"}, "an old prefetch": {firefoxAgent, "X-Moz: prefetch"},
			"a preview of a chat": {"User-Agent: WhatsApp/2.23.20.0"}, "a crawler": {"User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1)"},
			"a bot of the operator": {firefoxAgent + " acmeprobe/2"}, "a tool": {"User-Agent: curl/8.5.0"},
		} {
			status, location := visit(path, headers...)
			if path == "/eventual" && !strings.Contains(name, "prefetch") {
				counted++ // as a bot, which the budget does not count
				continue
			}
			require.Equal(t, 403, status, "%s of %s", name, path)
			require.Empty(t, location, name)
		}
		res := get(t, addr, path+"+", "wayp.example", firefoxAgent)
		require.Equal(t, 403, res.StatusCode)
		require.NotContains(t, res.body, "example.org")
		res = say(t, addr, fmt.Sprintf("HEAD %s HTTP/1.1\r\nHost: wayp.example\r\n%s\r\n\r\n", path, firefoxAgent))
		require.Equal(t, 403, res.StatusCode)
		require.Empty(t, res.Header.Get("Location"))
	}
	require.Equal(t, 100, w.ready, "no visitor came")
	require.Zero(t, w.asked)
	require.Len(t, clicks.take(), counted)
}

// brokenClicks counts clicks, and panics behind the counting.
type brokenClicks struct{ counted atomic.Int64 }

func (b *brokenClicks) Record(waypost.Click) {
	b.counted.Add(1)
	panic("a broken recorder")
}

func TestFastPath_CountsAClickOnceWhenItPanics(t *testing.T) {
	links := newMemoryLinks()
	links.links[waypost.DefaultDomain]["exact001"] = limitedLink(t, rules.ModeExact, ended)
	w, clicks := &wallet{ready: 5}, &brokenClicks{}
	var text logtest.Buffer
	_, addr := serve(t, server.Config{Links: links, Budgets: w, Clicks: clicks, Logger: slog.New(slog.NewTextHandler(&text, nil))})
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "GET /exact001 HTTP/1.1\r\nHost: wayp.example\r\n%s\r\n\r\n", firefoxAgent)
	require.NoError(t, err)
	answer, _ := io.ReadAll(conn) // until the server ends the connection
	require.NotContains(t, string(answer), target)
	require.EqualValues(t, 1, clicks.counted.Load())
	require.Equal(t, 4, w.ready)
	require.Contains(t, text.String(), "a broken recorder")
}
