package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/api"
)

// rangesAPI is an API with canned answers, by "METHOD /path". It remembers the changes
// that it was asked for.
type rangesAPI struct {
	answers map[string]string
	refuse  func(change string) (status int, problem string) // asked before a change
	changes []string
}

func (a *rangesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, ok := a.answers[r.Method+" "+r.URL.RequestURI()]
	status := http.StatusOK
	if r.URL.Path == "/api/admin/ranges/changes" {
		body, _ := io.ReadAll(r.Body)
		a.changes = append(a.changes, string(body))
		if a.refuse != nil {
			if s, problem := a.refuse(string(body)); s != 0 {
				status, answer, ok = s, problem, true
			}
		}
		if !ok {
			answer, ok = answerTo(body), true
		}
	}
	if !ok {
		status, answer = http.StatusNotFound, `{"detail": "there is no range 9"}`
	}
	if status != http.StatusOK {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
}

// answerTo says that all steps of a change were done.
func answerTo(body []byte) string {
	var change struct {
		Steps  []map[string]any `json:"steps"`
		DryRun bool             `json:"dry_run"`
	}
	if err := json.Unmarshal(body, &change); err != nil {
		return err.Error()
	}
	var done []map[string]any
	for _, step := range change.Steps {
		done = append(done, map[string]any{"step": step, "what": "did it", "fenced": 0, "ranges": []any{}})
	}
	answer, _ := json.Marshal(map[string]any{"done": done, "dry_run": change.DryRun})
	return string(answer)
}

// ran holds the outcome of a command.
type ran struct {
	code           int
	stdout, stderr string
}

func (a *rangesAPI) run(t *testing.T, args ...string) ran {
	t.Helper()
	return a.runWith(t, "", args...)
}

func (a *rangesAPI) runWith(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	server := httptest.NewServer(a)
	defer server.Close()
	var stdout, stderr bytes.Buffer
	p := &program{stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr, environ: []string{"WAYPOST_API=" + server.URL}}
	code := p.run(t.Context(), args)
	return ran{code, stdout.String(), stderr.String()}
}

const (
	listedRange1 = `{"id": 1, "prefix": "4g", "lo": 0, "hi": 916132832, "next": 653200000, "region": "eu-west-1", "state": "live",
		"generation": 2, "returned": 20,
		"leases": [{"node": "control-1/boot1", "lo": 653180000, "hi": 653190000, "generation": 2},
			{"node": "control-1/boot1", "lo": 653190000, "hi": 653200000, "generation": 2},
			{"node": "control-2/boot2", "lo": 653170000, "hi": 653180000, "generation": 2}],
		"rate_per_minute": 1200.4, "minutes_left": 219027.4, "created_at": "2031-05-06T06:08:09Z"}`
	listedRange2 = `{"id": 2, "prefix": "A0", "lo": 0, "hi": 916132832, "next": 0, "region": "us-east-1", "state": "draining",
		"generation": 1, "returned": 0,
		"leases": [], "rate_per_minute": 0, "minutes_left": null, "created_at": "2031-05-06T06:08:09Z"}`
	listedRange3 = `{"id": 3, "prefix": "zz", "lo": 0, "hi": 916132832, "next": 916132832, "region": "us-east-1", "state": "retired",
		"generation": 1, "returned": 0,
		"leases": [], "rate_per_minute": 0, "minutes_left": null, "created_at": "2031-05-06T06:08:09Z"}`
	listedRegions = `[{"region": "eu-west-1", "unissued": 262932852, "rate_per_minute": 1200.4, "minutes_left": 219027.4},
		{"region": "us-east-1", "unissued": 0, "rate_per_minute": 0, "minutes_left": null}]`
	listed = `{"ranges": [` + listedRange1 + `,` + listedRange2 + `,` + listedRange3 + `], "regions": ` + listedRegions + `,
		"prefixes": 3844, "free_prefixes": 3841, "prefix_size": 916132832, "held": null, "held_since": null, "resume_gap": 0}`
)

func TestRangesAreListedForOneLook(t *testing.T) {
	a := &rangesAPI{answers: map[string]string{"GET /api/admin/ranges": listed}}
	want := strings.Join([]string{
		"ID  REGION     PREFIX  USED    RATE       LEFT        STATE     HELD BY",
		"1   eu-west-1  4g      71.3 %  1,200/min  152 days    live      control-1, control-2",
		"2   us-east-1  A0      0 %     0/min      not in use  draining  none",
		"and 1 retired, see --all",
		"",
		"REGION     LIVE RANGES  UNISSUED     RATE       LEFT",
		"eu-west-1  1            262,932,852  1,200/min  152 days",
		"us-east-1  0            0            0/min      none",
		"",
		"3,841 of 3,844 prefixes are free, 916,132,832 keys each",
		"",
	}, "\n")
	require.Equal(t, ran{stdout: want}, a.run(t, "ranges", "list"))
	all := a.run(t, "ranges", "list", "--all")
	require.Regexp(t, `(?m)^3 +us-east-1 +zz +100 % +0/min +none +retired`, all.stdout)

	got := a.run(t, "ranges", "list", "--output", "json")
	require.Zero(t, got.code, got.stderr)
	require.Empty(t, got.stderr)
	require.JSONEq(t, `[`+listedRange1+`,`+listedRange2+`,`+listedRange3+`]`, got.stdout, "a list, retired ranges too")

	a.answers["GET /api/admin/ranges"] = `{"ranges": null, "regions": []}`
	require.Equal(t, "[]\n", a.run(t, "ranges", "list", "--output", "json").stdout)
	require.Contains(t, a.run(t, "ranges", "list").stdout, "no region has a range yet")
}

func TestAListSaysLoudlyThatNoKeyIsIssued(t *testing.T) {
	held := strings.Replace(listed, `"held": null, "held_since": null, "resume_gap": 0`, `"held": "nobody remembers", "held_since": "2031-05-06T07:08:09Z", "resume_gap": 40000000`, 1)
	a := &rangesAPI{answers: map[string]string{"GET /api/admin/ranges": held}}
	text := a.run(t, "ranges", "list")
	require.True(t, strings.HasPrefix(text.stdout, "!! NO KEY IS ISSUED"), text.stdout)
	require.Contains(t, text.stdout, "!! nobody remembers.\n!! `waypost ranges resume` continues 40,000,000 counters further")
	inJSON := a.run(t, "ranges", "list", "--output", "json")
	require.Contains(t, inJSON.stderr, "!! NO KEY IS ISSUED")
	require.True(t, json.Valid([]byte(inJSON.stdout)))

	a.answers["GET /api/admin/ranges"] = strings.Replace(held, "40000000", "0", 1)
	require.Contains(t, a.run(t, "ranges", "list").stdout, "waypost ranges resume --gap N")
}

func TestAListTellsWhatRunsOutWithoutAFreePrefix(t *testing.T) {
	space := `{"ranges": [], "prefixes": 3844, "free_prefixes": FREE, "prefix_size": 1000, "regions": [
		{"region": "empty", "unissued": 0, "rate_per_minute": 0, "minutes_left": null},
		{"region": "soon", "unissued": 99, "rate_per_minute": 1, "minutes_left": 99},
		{"region": "later", "unissued": 99, "rate_per_minute": 0.002, "minutes_left": 49500},
		{"region": "idle", "unissued": 99, "rate_per_minute": 0, "minutes_left": null},
		{"region": "much", "unissued": 100, "rate_per_minute": 1, "minutes_left": 100}]}`
	a := &rangesAPI{answers: map[string]string{"GET /api/admin/ranges": strings.Replace(space, "FREE", "0", 1)}}
	out := a.run(t, "ranges", "list").stdout
	require.Equal(t, 2, strings.Count(out, "!!"), out)
	require.Contains(t, out, "!! empty runs low with no key left, and no prefix is free")
	require.Contains(t, out, "!! soon runs low with keys for 99 minutes, and no prefix is free")
	a.answers["GET /api/admin/ranges"] = strings.Replace(space, "FREE", "1", 1)
	require.NotContains(t, a.run(t, "ranges", "list").stdout, "!!")
}

func TestARangeIsShownWithItsLeases(t *testing.T) {
	a := &rangesAPI{answers: map[string]string{"GET /api/admin/ranges/1": listedRange1, "GET /api/admin/ranges/2": listedRange2}}
	got := a.run(t, "ranges", "show", "1")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "counters    0 to 916,132,831\n")
	require.Contains(t, got.stdout, "unissued    262,932,852, of which 20 were given back\n")
	require.Contains(t, got.stdout, "leases      control-1/boot1: counters 653,180,000 to 653,189,999, generation 2\n")
	require.JSONEq(t, listedRange1, a.run(t, "ranges", "show", "1", "--output=json").stdout)
	require.Contains(t, a.run(t, "ranges", "show", "2").stdout, "none are held")

	missing := a.run(t, "ranges", "show", "9")
	require.Equal(t, ran{code: 1, stderr: "waypost: there is no range 9 (404): `waypost ranges list` shows all ranges\n"}, missing)
}

func TestACodeIsDecodedForPeople(t *testing.T) {
	bounds := `{"id": 1, "prefix": "4g", "lo": 0, "hi": 1000, "next": 300, "region": "eu-west-1", "state": "live", "generation": 2, "returned": 0, "created_at": "2031-05-06T06:08:09Z"}`
	issued := `{"code": "4gAbCdE", "prefix": "4g", "counter": 295, "state": "issued", "issued": true, "region": "eu-west-1", "range": ` + bounds + `,
		"lease": {"node": "control-1/boot1", "lo": 290, "hi": 300, "generation": 2}}`
	a := &rangesAPI{answers: map[string]string{
		"GET /api/admin/ranges/decode/4gAbCdE": issued,
		"GET /api/admin/ranges/decode/zzAbCdE": `{"code": "zzAbCdE", "prefix": "zz", "counter": 1234567, "state": "unassigned", "issued": false, "region": null, "range": null, "lease": null}`,
	}}
	require.Equal(t, "code     4gAbCdE\nprefix   4g\ncounter  295\nstate    issued: a link or a reserved key has it\nregion   eu-west-1\n"+
		"range    1, counters 0 to 999\nlease    control-1/boot1, counters 290 to 299, generation 2\n", a.run(t, "ranges", "decode", "4gAbCdE").stdout)
	require.JSONEq(t, issued, a.run(t, "ranges", "decode", "4gAbCdE", "--output=json").stdout)
	require.Equal(t, "code     zzAbCdE\nprefix   zz\ncounter  1,234,567\nstate    unassigned: no range holds it\nregion   none\nrange    none\nlease    none\n",
		a.run(t, "ranges", "decode", "zzAbCdE").stdout)
}

func TestTheAuditLogIsListed(t *testing.T) {
	page := `{"entries": [{"id": 8, "at": "2031-05-06T07:08:09Z", "actor": "ops (6)", "action": "ranges.move",
		"subject": "range 7\u001b[2J", "detail": {"region": "eu-west-1"}, "workspace": "default"},
		{"id": 9, "at": "2031-05-06T07:08:09Z", "actor": "ops (6)", "action": "ranges.drain", "subject": "range 8",
			"detail": {"fenced": 0, "what": "nothing more is leased"}, "workspace": "default"},
		{"id": 7, "at": "2031-05-06T07:08:09Z", "actor": "ops (6)", "action": "ranges.resume", "subject": "key ranges", "detail": null,
			"workspace": "blue"}], "next_cursor": "c7"}`
	a := &rangesAPI{answers: map[string]string{"GET /api/admin/audit?limit=2": page, "GET /api/admin/audit?all=true&limit=50": page, "GET /api/admin/audit?cursor=c7&limit=50": `{"entries": [], "next_cursor": ""}`}}
	got := a.run(t, "audit", "--limit", "2")
	require.Zero(t, got.code, got.stderr)
	require.Regexp(t, `ops \(6\) +ranges\.move +range 7\x{FFFD}\[2J +{"region":"eu-west-1"}`, got.stdout)
	require.Regexp(t, `(?m)ranges\.drain +range 8 +nothing more is leased$`, got.stdout)
	require.Contains(t, got.stdout, "more with --cursor c7\n")
	require.JSONEq(t, page, a.run(t, "audit", "--limit=2", "--output=json").stdout)
	require.Regexp(t, `(?m)^blue +2031-05-0\d \d\d:\d\d:\d\d +ops \(6\) +ranges\.resume`, a.run(t, "audit", "--all").stdout)
	require.Equal(t, "nothing is noted here\n", a.run(t, "audit", "--cursor", "c7").stdout)
	require.Equal(t, exitUsage, a.run(t, "audit", "--limit", "1001").code)
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for minutes, want := range map[float64]string{
		0.2: "< 1 minute", 1.5: "1 minute", 95.4: "95 minutes", 150: "2 hours", 47 * 60: "47 hours", 49 * 60: "2 days", 300 * 1440: "300 days",
		3.5 * 525960: "3.5 years", 25 * 525960: "25 years", 5000 * 525960: "> 1,000 years",
	} {
		require.Equal(t, want, lasts(&minutes, 1))
		require.Equal(t, "none", lasts(&minutes, 0))
	}
	require.Equal(t, "not in use", lasts(nil, 1))
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 916132832: "916,132,832", -1000: "-1,000"} {
		require.Equal(t, want, grouped(n))
	}
	for next, want := range map[int64]string{0: "0 %", 1: "< 0.1 %", 9999: "1.0 %", 999_999: "99.9 %", 1_000_000: "100 %"} {
		require.Equal(t, want, usedText(&api.Range{RangeBounds: api.RangeBounds{Hi: 1_000_000, Next: next}}))
	}
	require.Equal(t, "0.1/min", rateText(0.01))
	require.Equal(t, "0/min", rateText(0))
	require.Equal(t, "7.3/min", rateText(7.28))
}

func TestHelpOnRangesTeachesByExamples(t *testing.T) {
	a := &rangesAPI{}
	for _, verb := range []string{
		"", "list", "show", "assign", "split", "move", "drain", "revive", "retire", "plan", "apply",
		"resume", "decode",
	} {
		got := a.run(t, append([]string{"ranges"}, append(strings.Fields(verb), "--help")...)...)
		require.Zero(t, got.code, got.stderr)
		require.Contains(t, got.stdout, "Examples:\n  waypost ranges", verb)
	}
	require.Contains(t, a.run(t, "audit", "--help").stdout, "Examples:\n  waypost audit")
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}
