package server_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
	"waypost/rules"
)

// wallet has clicks of budgets. It counts how often it was asked.
type wallet struct {
	ready, late int  // clicks that are there, and that come when they are asked for
	used        bool // nothing is left at the control plane
	asked       int
}

func (w *wallet) Spend(waypost.DomainID, []byte) bool {
	if w.ready == 0 {
		return false
	}
	w.ready--
	return true
}

func (w *wallet) Ask(_ waypost.DomainID, _ []byte) (spent, used bool) {
	if w.Spend(0, nil) {
		return true, false
	}
	w.asked++
	if w.late == 0 {
		return false, w.used
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
	_, addr := serve(t, server.Config{Links: links, Budgets: w, Clicks: clicks})
	// visit follows a link by both paths: the second header makes the fast path decline.
	visit := func(path string, headers ...string) (status int, location string) {
		res := get(t, addr, path, "wayp.example", headers...)
		return res.StatusCode, res.Header.Get("Location")
	}
	counted := 0
	for _, slow := range []string{"X-Other: 1", "Sec-Purpose: none"} {
		*w = wallet{ready: 1, late: 1}
		for _, want := range []string{target, target, ended} {
			status, location := visit("/exact001", firefoxAgent, slow)
			require.Equal(t, 302, status)
			require.Equal(t, want, location)
		}
		counted += 2
		require.Equal(t, 2, w.asked, "while nothing is ready")

		status, location := visit("/exact002", firefoxAgent, slow)
		require.Equal(t, 503, status, "no answer says that it has ended")
		require.Empty(t, location)
		w.used = true
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
		} {
			status, location := visit(path, headers...)
			if path == "/eventual" && (name == "a preview of a chat" || name == "a crawler") {
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
