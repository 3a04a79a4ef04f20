package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/logtest"
)

func TestVerify_NamesASilentEdgeAtOnce(t *testing.T) {
	a := &rangesAPI{answers: map[string]string{
		"GET /api/admin/edges": `{"edges": [{"node": "eu-1", "state": "alive"}, {"node": "eu-2", "state": "silent", "since": "2031-05-06T12:08:09Z"}]}`,
	}}
	// The order itself is refused, so that nothing is waited for.
	require.Regexp(t, `^waypost: eu-2 is silent since 2031-05-0\d \d\d:\d\d:\d\d, and is waited for until it is back: 20s at most`, a.run(t, "verify", "--edge", "eu-2", "--timeout=20s").stderr)
	require.NotContains(t, a.run(t, "verify", "--edge", "eu-1", "--timeout=20s").stderr, "silent")
}

// The second edge answers once the result of the first is shown; the third never answers,
// and the others are not asked.
func TestVerify_ShowsEachResultAsItComesAndWaitsForNoEdgeThatCannotAnswer(t *testing.T) {
	var out logtest.Buffer
	const equal = `"outcome": {"records": 7, "position": {"epoch": 1, "seq": 9}, "seconds": 0.3}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"node": "eu-3", "id": 3}`
		switch {
		case r.URL.Path == "/api/admin/edges":
			answer = `{"edges": [
				{"node": "eu-1", "state": "alive", "via": "report", "credential": "own"}, {"node": "eu-2", "state": "alive", "via": "report"},
				{"node": "eu-3", "state": "alive", "via": "report"}, {"node": "stolen", "state": "alive", "via": "gossip", "credential": "revoked"},
				{"node": "off", "state": "silent", "since": "2031-05-06T12:08:09Z"}, {"node": "left", "state": "gone"}]}`
		case strings.Contains(r.URL.Path, "eu-1"):
			answer = `{"node": "eu-1", "id": 1, ` + equal + `}`
		case strings.Contains(r.URL.Path, "eu-2") && strings.Contains(out.String(), "eu-1"):
			answer = `{"node": "eu-2", "id": 2, ` + equal + `}`
		case strings.Contains(r.URL.Path, "eu-2"):
			answer = `{"node": "eu-2", "id": 2}`
		case !strings.Contains(r.URL.Path, "eu-3"):
			t.Errorf("asked for %s", r.URL.Path)
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	var errs bytes.Buffer
	p := &program{stdout: &out, stderr: &errs, environ: []string{"WAYPOST_API=" + server.URL, "WAYPOST_API_KEY=wp_x"}}
	require.Equal(t, 1, p.run(t.Context(), []string{"verify", "--all", "--timeout=2s"}))
	require.Equal(t, "waypost: 3 of 5 edges have damaged records, or could not be verified\n", errs.String())
	lines := strings.Split(out.String(), "\n")
	require.Len(t, lines, 7)
	require.Equal(t, "NODE      RECORDS  POSITION    TOOK      RESULT", lines[0])
	require.Equal(t, "stolen          -  -           -         not verified: its credential was revoked", lines[1])
	require.Regexp(t, `^off             -  -           -         not verified: it is silent since 2031-05-0\d \d\d:\d\d:\d\d$`, lines[2])
	require.Equal(t, "eu-1            7  9           0.3 s     sound", lines[3])
	require.Equal(t, "eu-2            7  9           0.3 s     sound", lines[4])
	require.Equal(t, "eu-3            -  -           -         not verified: it has not answered within 2s", lines[5])
}
