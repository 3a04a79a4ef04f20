package rulefile_test

import (
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/internal/rulefile"
	"waypost/rules"
	"waypost/rules/agents"
)

const ownTarget = "https://example.com/"

var (
	exampleTitle = regexp.MustCompile(`(?m)^### Example \d+: .*$`)
	exampleFile  = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	exampleRow   = regexp.MustCompile("(?m)^\\| (?:`([^`]*)`|a visitor of whom nothing is known) \\| (.*) \\|$")
	expiresFlag  = regexp.MustCompile(`--expires-at (\S+?)` + "`")
	quotedText   = regexp.MustCompile("`([^`]*)`")
)

// TestDocument_ExamplesAreAnsweredAsTheirTablesSay reads docs/rules.md.
func TestDocument_ExamplesAreAnsweredAsTheirTablesSay(t *testing.T) {
	document, err := os.ReadFile("../../docs/rules.md")
	require.NoError(t, err)
	judge := validator(t)
	starts := exampleTitle.FindAllIndex(document, -1)
	require.Len(t, starts, 10)
	for i, start := range starts {
		end := len(document)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		text := string(document[start[0]:end])
		title, _, _ := strings.Cut(text, "\n")
		t.Run(title, func(t *testing.T) {
			file := []byte(exampleFile.FindStringSubmatch(text)[1])
			require.NoError(t, judge(file))
			f, err := rulefile.Parse("example", file, noDay)
			require.NoError(t, err)
			record := compiled(t, &f)
			if m := expiresFlag.FindStringSubmatch(text); m != nil {
				record.ExpiresAt = moment(t, m[1]).UnixMilli()
			}
			rows := exampleRow.FindAllStringSubmatch(text, -1)
			require.GreaterOrEqual(t, len(rows), 2)
			for _, row := range rows {
				requireAnswer(t, record, row[1], row[2])
			}
		})
	}
}

// compiled returns the record of a link with rules.
func compiled(t *testing.T, f *rulefile.File) *waypost.Record {
	t.Helper()
	source := rules.Source{Rules: f.Rules, ValidFrom: f.ValidFrom, ExpiredURL: f.ExpiredURL}
	programme, err := rules.Compile(&source, &rules.Compiling{
		Status: 302, Now: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC), Key: [16]byte{1},
		Target: func(url string) (string, string, error) { return url, url, nil },
	})
	require.NoError(t, err)
	return &waypost.Record{
		Kind: waypost.KindLink, Status: 302, Domain: 1, Name: []byte("code"), Payload: []byte(ownTarget), Programme: programme,
	}
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at
}

// requireAnswer compares the answer to a visitor with the second column of a row.
func requireAnswer(t *testing.T, record *waypost.Record, flags, column string) {
	t.Helper()
	f := factsOf(t, flags)
	var want []string
	for _, m := range quotedText.FindAllStringSubmatch(column, -1) {
		want = append(want, m[1])
	}
	require.NotEmpty(t, want)
	answers := map[string]int{}
	for chance := range 2000 {
		f.Chance = uint16(chance * 32)
		res, trace := rules.Explain(record, &f)
		require.Equal(t, rules.Resolve(record, &f), res)
		require.NotEqual(t, "broken", trace.Gate)
		answer := string(res.Location)
		if !res.Redirects() {
			answer = strconv.Itoa(res.Status)
		}
		require.Contains(t, want, answer, flags)
		answers[answer]++
	}
	if strings.Contains(column, "always the same") {
		require.Len(t, answers, 1)
		answers = othersOf(t, record, f)
	}
	require.Len(t, answers, len(want), "%s: each answer occurs", flags)
}

// othersOf returns the answers to visitors of other networks.
func othersOf(t *testing.T, record *waypost.Record, f rules.Facts) map[string]int {
	t.Helper()
	answers := map[string]int{}
	const visitors = 20_000
	for i := range visitors {
		f.Address = netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})
		res := rules.Resolve(record, &f)
		answers[string(res.Location)]++
	}
	require.InDelta(t, 0.7, float64(answers["https://example.com/old"])/visitors, 0.02)
	return answers
}

// factsOf reads flags of waypost links explain.
func factsOf(t *testing.T, flags string) rules.Facts {
	t.Helper()
	r := rules.Request{At: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC).UnixMilli()}
	country, city := "", ""
	for words := strings.Fields(flags); len(words) > 0; words = words[2:] {
		require.GreaterOrEqual(t, len(words), 2, flags)
		value := words[1]
		set := map[string]func(){
			"--at":       func() { r.At = moment(t, value).UnixMilli() },
			"--agent":    func() { r.UserAgent = []byte(rules.SampleAgent(value)) },
			"--language": func() { r.AcceptLanguage = []byte(value) },
			"--address":  func() { r.Address = netip.MustParseAddr(value) },
			"--query":    func() { r.Query = []byte(value) },
			"--cookie":   func() { r.Cookie = []byte(value) },
			"--country":  func() { country = value },
			"--city":     func() { city = value },
		}[words[0]]
		require.NotNil(t, set, words[0])
		set()
	}
	var f rules.Facts
	f.Read(rules.AllFacts, &r)
	copy(f.Country[:], country)
	f.City = city
	return f
}

func TestDocument_NamesEveryAgent(t *testing.T) {
	document, err := os.ReadFile("../../docs/rules.md")
	require.NoError(t, err)
	var named []string
	for _, m := range quotedText.FindAllStringSubmatch(string(document), -1) {
		named = append(named, m[1])
	}
	for _, name := range agents.Set(1<<32 - 1).Names() {
		require.True(t, slices.Contains(named, name), name)
	}
}
