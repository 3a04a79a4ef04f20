package linkimport_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/internal/linkimport"
)

func run(t *testing.T, a *api, text string) (linkimport.Report, error) {
	t.Helper()
	im := linkimport.Import{API: a, Wait: a.wait}
	return im.Run(t.Context(), strings.NewReader(text))
}

func TestEveryRowIsAccountedFor(t *testing.T) {
	a := &api{}
	report, err := run(t, a, "\uFEFFtitle,original_url,custom_code\r\n"+
		"One,https://example.com/1,one-code\r\n"+
		"\"Two, lines\nof title\",https://example.com/2,\r\n"+
		"Bad,ftp://example.com,\r\n"+
		"too,few\r\n"+
		"a \"bare quote,https://example.com/3,\r\n"+
		"Broken,broken,\r\n"+
		"Last,https://example.com/4,")
	require.NoError(t, err)
	require.Equal(t, 7, report.Rows)
	require.Equal(t, 3, report.Created)
	require.Equal(t, []linkimport.Row{
		{Line: 5, OriginalURL: "ftp://example.com", Status: 422, Reason: "no such scheme"},
		{Line: 6, Reason: "2 fields instead of 3"},
		{Line: 7, Reason: `no valid CSV: bare " in non-quoted-field`},
		{Line: 8, OriginalURL: "broken", Status: 500, Reason: "an internal error"},
	}, report.Refused)
	require.Empty(t, report.InDoubt)
	first := a.batches[0][0]
	require.Regexp(t, `^import:[0-9A-Z]+:2$`, first.CreatedBy)
	first.CreatedBy = ""
	require.Equal(t, client.NewLink{OriginalURL: "https://example.com/1", Title: "One", CustomCode: "one-code"}, first)
	require.Equal(t, "Two, lines\nof title", a.batches[0][1].Title)
}

func TestImport_KeepsTheLineEndsOfACell(t *testing.T) {
	a := &api{}
	notes := []string{"a\r\nb", "a\nb", "a\rb", "\r\n", "a\r\r\nb\n\r", "x\r\n\"q\"\r\n" + strings.Repeat("ü\r\n", 3000), "plain"}
	text := "original_url,notes,title\r\n"
	for i, n := range notes {
		text += fmt.Sprintf("https://example.com/%d,\"%s\",%d\r\n\r\n", i, strings.ReplaceAll(n, `"`, `""`), i)
	}
	report, err := run(t, a, text+"a,\"b\"c\r\nd\",e\r\nhttps://example.com/last,\"a\r\nb\",last\r\n")
	require.NoError(t, err)
	require.Len(t, report.Refused, 2, "the row of a bad quote, and its next line")
	var got []string
	for _, batch := range a.batches {
		for _, n := range batch {
			got = append(got, n.Notes)
		}
	}
	require.Equal(t, append(notes, "a\r\nb"), got)
}

func TestRowsAskForTheOneLinkOfTheirTargetUnlessTheySayOtherwise(t *testing.T) {
	lines := `{"original_url": "https://example.com/1"}
{"original_url": "https://example.com/2", "custom_code": "two"}
{"original_url": "https://example.com/3", "dedupe": false}
{"original_url": "https://example.com/4", "active": false}
`
	var asked []bool
	a := &api{}
	im := linkimport.Import{API: a, Wait: a.wait, Format: linkimport.JSONLines, Dedupe: true}
	_, err := im.Run(t.Context(), strings.NewReader(lines))
	require.NoError(t, err)
	for _, l := range a.batches[0] {
		asked = append(asked, l.Dedupe != nil && *l.Dedupe)
	}
	require.Equal(t, []bool{true, true, false, false}, asked)
}

func TestImport_KeepsCodesOnRequest(t *testing.T) {
	const table = "short_code,custom_code,original_url\nspring,,https://example.com/1\nsummer,sun,https://example.com/2\n,,https://example.com/3\n"
	const lines = `{"short_code": "spring", "original_url": "https://example.com/1"}
{"short_code": "summer", "custom_code": "sun", "original_url": "https://example.com/2"}
{"short_code": null, "original_url": "https://example.com/3"}
`
	for format, text := range map[linkimport.Format]string{linkimport.CSV: table, linkimport.JSONLines: lines} {
		for keep, want := range map[bool][]string{true: {"spring", "sun", ""}, false: {"", "sun", ""}} {
			var left []string
			a := &api{}
			im := linkimport.Import{API: a, Wait: a.wait, Format: format, KeepCodes: keep, Dedupe: true}
			im.Left = func(field string) { left = append(left, field) }
			_, err := im.Run(t.Context(), strings.NewReader(text))
			require.NoError(t, err)
			var codes []string
			for _, l := range a.batches[0] {
				codes = append(codes, l.CustomCode)
				require.True(t, *l.Dedupe)
			}
			require.Equal(t, want, codes, format)
			require.Equal(t, map[bool][]string{false: {"short_code"}}[keep], left, format)
		}
	}
}

func TestImport_SaysOnceWhatIsLeftOut(t *testing.T) {
	const clicks = `{"original_url": "https://example.com", "click_count": 7}`
	for want, text := range map[string]string{
		"short_code": "short_code,original_url\n" + strings.Repeat("a,https://example.com\n", 2500),
		"click_count": "original_url,max_clicks,click_count\nhttps://example.com,5,0\nhttps://example.com,,7\n" +
			strings.Repeat("https://example.com,5,1\n", 2500),
		"created_by": clicks + strings.Repeat("\n"+`{"original_url": "https://example.com", "created_by": "me"}`, 2500),
		"":           clicks,
	} {
		a, left := &api{}, ""
		im := linkimport.Import{API: a, Wait: a.wait, Left: func(field string) { left += field }}
		_, err := im.Run(t.Context(), strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, want, left)
	}
}

func TestImport_RowsWithoutADomainGoToTheOneGiven(t *testing.T) {
	a := &api{}
	im := linkimport.Import{API: a, Wait: a.wait, Domain: "go.example.com"}
	_, err := im.Run(t.Context(), strings.NewReader("original_url,domain\nhttps://example.com/1,\nhttps://example.com/2,own.example\n"))
	require.NoError(t, err)
	require.Equal(t, []string{"go.example.com", "own.example"}, []string{a.batches[0][0].Domain, a.batches[0][1].Domain})
}

func TestImport_DryRunCreatesNothing(t *testing.T) {
	a, calls := &api{}, 0
	im := linkimport.Import{API: a, Wait: a.wait, Try: func(_ context.Context, ns []client.NewLink) ([]client.Outcome, error) {
		if calls++; calls == 1 {
			return nil, &client.Problem{Status: 503} // without an effect, and so asked again
		}
		return []client.Outcome{
			{Status: 201},
			{Status: 200},
			{Status: 409, Error: &client.ProblemBody{Detail: "taken"}},
			{Status: 500, Error: &client.ProblemBody{Detail: "an internal error"}},
		}, nil
	}}
	report, err := im.Run(t.Context(), strings.NewReader("original_url\nhttps://example.com/1\nhttps://example.com/2\nhttps://example.com/3\nbroken\n"))
	require.NoError(t, err)
	require.Equal(t, 2, calls)
	require.Empty(t, a.batches)
	require.Equal(t, []int{4, 1, 1}, []int{report.Rows, report.Created, report.Found})
	require.Equal(t, []linkimport.Row{
		{Line: 4, OriginalURL: "https://example.com/3", Status: 409, Reason: "taken"},
		{Line: 5, OriginalURL: "broken", Status: 500, Reason: "an internal error"},
	}, report.Refused)
}

func TestImport_DryRunSeesACodeTwiceHoweverFarApart(t *testing.T) {
	rows := "original_url,custom_code,domain\nhttps://example.com/1,spring,\n" + strings.Repeat("https://example.com/2,,\n", 2_000) +
		"https://example.com/1,spring,\nhttps://example.com/3,Spring,\nhttps://example.com/4,spring,own.example\nhttps://example.com/5,spring,\n"
	free := func(_ context.Context, ns []client.NewLink) ([]client.Outcome, error) {
		return slices.Repeat([]client.Outcome{{Status: 201}}, len(ns)), nil
	}
	for dedupe, found := range map[bool]int{false: 0, true: 2_000} { // 1,999 of one target, and a code
		a := &api{}
		im := linkimport.Import{API: a, Wait: a.wait, Try: free, InFlight: 4, Dedupe: dedupe}
		report, err := im.Run(t.Context(), strings.NewReader(rows))
		require.NoError(t, err)
		require.Equal(t, []int{2_005, 2_003 - max(0, found-1), found}, []int{report.Rows, report.Created, report.Found})
		const reason = "an earlier row of the file has this code"
		refused := []linkimport.Row{
			{Line: 2_003, OriginalURL: "https://example.com/1", Status: 409, Reason: reason},
			{Line: 2_006, OriginalURL: "https://example.com/5", Status: 409, Reason: reason},
		}
		require.Equal(t, refused[min(found, 1):], report.Refused)
	}
}

func TestRowsAreSentAThousandAtATimeOrFewerWhenTheyAreLong(t *testing.T) {
	a := &api{}
	report, err := run(t, a, "original_url,title\n"+strings.Repeat("https://example.com,t\n", 2500))
	require.NoError(t, err)
	require.Equal(t, 2500, report.Created)
	require.Equal(t, []int{1000, 1000, 500}, sizes(a))

	a = &api{}
	long := "https://example.com/" + strings.Repeat("x", 8000)
	report, err = run(t, a, "original_url\n"+strings.Repeat(long+"\n", 1000))
	require.NoError(t, err)
	require.Equal(t, 1000, report.Created)
	require.Len(t, a.batches, 2)

	a = &api{}
	report, err = run(t, a, "original_url,expired_url\n"+strings.Repeat("https://example.com,"+long+"\n", 1000))
	require.NoError(t, err)
	require.Equal(t, 1000, report.Created)
	require.Len(t, a.batches, 2, "every field counts")
}

func TestImport_SendsFewerRowsWhereARequestIsTooLarge(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge} {
		refusal := &client.Problem{Status: status, Detail: "too much"}
		a := &api{create: func(ns []client.NewLink, _ func(int)) error {
			if len(ns) > 300 {
				return refusal
			}
			return nil
		}}
		report, err := run(t, a, file(1000))
		require.NoError(t, err)
		requireWhole(t, a, report, 1000)
		require.Equal(t, []int{249, 250, 250, 250}, sizes(a))
		require.Zero(t, a.time, "a large request is not sent twice")

		a = &api{create: func(ns []client.NewLink, _ func(int)) error {
			if slices.ContainsFunc(ns, func(n client.NewLink) bool { return n.Title == "huge" }) && a.time < time.Second {
				return refusal
			}
			return nil
		}}
		report, err = run(t, a, "original_url,title\nhttps://example.com/1,\nhttps://example.com/2,huge\nhttps://example.com/3,\n")
		require.NoError(t, err)
		if status == http.StatusRequestTimeout {
			require.Equal(t, 3, report.Created, "one row is sent again")
			continue
		}
		require.Equal(t, 2, report.Created)
		huge := linkimport.Row{Line: 3, OriginalURL: "https://example.com/2", Status: status, Reason: refusal.Error()}
		require.Equal(t, []linkimport.Row{huge}, report.Refused)
	}
}

func TestImport_GivesACodeToTheFirstRowWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &slowAPI{}
		im := linkimport.Import{API: a, InFlight: 4}
		_, err := im.Run(t.Context(), strings.NewReader("original_url,custom_code\nhttps://example.com/1,spring\n"+
			strings.Repeat("https://example.com/2,\n", 1500)+"https://example.com/3,spring\n"))
		require.NoError(t, err)
		require.Equal(t, "https://example.com/1", a.first)
	})
}

// slowAPI takes the longer for a request the more links it creates.
type slowAPI struct {
	api
	first string // target of the first link with a code
}

func (s *slowAPI) CreateBulk(ctx context.Context, ns []client.NewLink) ([]client.Outcome, error) {
	time.Sleep(time.Duration(len(ns)) * time.Millisecond)
	outcomes, err := s.api.CreateBulk(ctx, ns)
	for _, n := range ns {
		if n.CustomCode != "" {
			s.first = cmp.Or(s.first, n.OriginalURL)
		}
	}
	return outcomes, err
}

func TestARowSaysWhatItsLinkForwards(t *testing.T) {
	a := &api{}
	report, err := run(t, a, "original_url,forward_query,forward_path\n"+
		"https://example.com/1,true,false\n"+
		"https://example.com/2,,TRUE\n"+
		"https://example.com/3,yes,\n")
	require.NoError(t, err)
	got := a.batches[0]
	require.Len(t, got, 2)
	require.Equal(t, []bool{true, false, false, true},
		[]bool{got[0].ForwardQuery, got[0].ForwardPath, got[1].ForwardQuery, got[1].ForwardPath})
	require.Equal(t, `forward_query "yes" is neither true nor false`, report.Refused[0].Reason)
}

func TestAllColumnsGetIntoTheLink(t *testing.T) {
	a := &api{}
	report, err := run(t, a, "short_code,original_url,description,tags,redirect_status,expires_at,click_count,created_at\n"+
		"x,https://example.com/1,\"a\nb\",\"spring,\"\"b, c\"\"\",308,2091-02-03T04:05:06.7Z,12,2021-01-01T00:00:00Z\n"+
		"x,https://example.com/2,'+2,,,,,\n"+
		"x,https://example.com/3,,,many,,,\n"+
		"x,https://example.com/4,,,,tomorrow,,\n"+
		"x,https://example.com/5,,\"a\"\"b,\"\"\",,,,\n")
	require.NoError(t, err)
	got := a.batches[0]
	require.Len(t, got, 2)
	require.Equal(t, []string{"spring", "b, c"}, got[0].Tags)
	require.Equal(t, "a\nb", got[0].Description)
	require.Equal(t, 308, got[0].RedirectStatus)
	require.Equal(t, time.Date(2091, 2, 3, 4, 5, 6, 7e8, time.UTC), got[0].ExpiresAt)
	require.Equal(t, client.NewLink{OriginalURL: "https://example.com/2", Description: "+2", CreatedBy: got[1].CreatedBy}, got[1])
	require.Len(t, report.Refused, 3)
	require.Contains(t, report.Refused[0].Reason, "redirect_status")
	require.Contains(t, report.Refused[1].Reason, "expires_at")
	require.Contains(t, report.Refused[2].Reason, "tags")
}

func TestCSV_TagsMayHaveSpacesAroundCommas(t *testing.T) {
	a := &api{}
	report, err := run(t, a, "original_url,tags\n"+
		"https://example.com/1,\"sale, spring\"\n"+
		"https://example.com/2,\"\"\" sale\"\",spring \"\n"+ // as exported
		"https://example.com/3, \n"+
		"https://example.com/4,\"sale\nspring\"\n"+
		"https://example.com/5,\"Ä \"\"quoted\"\"\"\n")
	require.NoError(t, err)
	got := a.batches[0]
	require.Len(t, got, 3)
	require.Equal(t, [][]string{{"sale", "spring"}, {" sale", "spring "}, nil}, [][]string{got[0].Tags, got[1].Tags, got[2].Tags})
	require.Equal(t, "tags \"sale\\nspring\" are not separated by commas: they are on several lines", report.Refused[0].Reason)
	require.Equal(t, `tags "Ä \"quoted\"": write a tag with a quotation mark in quotation marks, and the mark twice`, report.Refused[1].Reason)
}

func TestImport_TakesSpacesAroundRules(t *testing.T) {
	a := &api{}
	const list = `[{""name"":""x"",""to"":""https://example.com/x""}]`
	report, err := run(t, a, "original_url,rules\n"+
		"https://example.com/1,\" "+list+" \n\"\n"+
		"https://example.com/2,\" null \"\n"+
		"https://example.com/3,\"\n\"\n"+
		"https://example.com/4,\""+list+" []\"\n")
	require.NoError(t, err)
	got := a.batches[0]
	require.Len(t, got, 3)
	require.Equal(t, "x", got[0].Rules[0].Name)
	require.Empty(t, got[1].Rules)
	require.Empty(t, got[2].Rules)
	require.Equal(t, "rules are no JSON list of rules: invalid character '[' after top-level value", report.Refused[0].Reason)
}

func TestImport_ReasonsAreShortHoweverLongARowIs(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	lines, err := runLines(t, &api{}, `{"`+long+`": 1}`)
	require.NoError(t, err)
	for _, column := range []string{"redirect_status", "max_clicks", "max_clicks_mode", "forward_query", "tags", "expires_at", "rules"} {
		report, err := run(t, &api{}, "original_url,"+column+"\nhttps://example.com/,\"a\"\""+long+"\"\n")
		require.NoError(t, err)
		lines.Refused = append(lines.Refused, report.Refused...)
	}
	require.Len(t, lines.Refused, 8)
	for _, r := range lines.Refused {
		require.Less(t, len(r.Reason), 600)
	}
}

func TestAWrongHeaderSendsNothing(t *testing.T) {
	for text, want := range map[string]string{
		"": "the file is empty",
		"link,title,hits\nhttps://a.example,A,\n": `does not know: "link", "hits"; rename`,
		"title\nA\n":                       "lacks original_url",
		"original_url,original_url\na,b\n": `two columns for original_url, the second is "original_url"`,
	} {
		a := &api{}
		_, err := run(t, a, text)
		require.ErrorContains(t, err, want)
		require.Empty(t, a.batches)
	}
}

func TestARowWithoutAnEndIsNotReadIntoMemory(t *testing.T) {
	a := &api{}
	report, err := run(t, a, "original_url\nhttps://example.com/1\n\""+strings.Repeat("https://example.com\n", 100_000))
	require.ErrorContains(t, err, "is a quote never closed?")
	require.Equal(t, 1, report.Created, "what came before is not lost")
}

func TestOnlyRequestsThatSurelyHadNoEffectAreRepeated(t *testing.T) {
	refused := fmt.Errorf("no API: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")})
	limited := &client.Problem{Status: http.StatusTooManyRequests, RetryAfter: time.Second}
	a := &api{failures: []error{refused, limited, refused}}
	report, err := run(t, a, "original_url\nhttps://example.com\n")
	require.NoError(t, err)
	require.Equal(t, 1, report.Created)
	require.Len(t, a.batches, 1)
}

func TestARequestThatIsRefusedAsAWholeStopsTheImport(t *testing.T) {
	a := &api{failures: []error{&client.Problem{Status: http.StatusUnauthorized, Detail: "a key is required"}}}
	report, err := run(t, a, "original_url\nhttps://example.com\n")
	require.ErrorContains(t, err, "nothing was created of lines 2 to 2: a key is required")
	require.Empty(t, report.InDoubt)
	require.Empty(t, report.Refused)
	require.Zero(t, report.Rows)
}

func TestAnAPIThatStaysAwayIsGivenUp(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	a := &api{failures: make([]error, 100)}
	for i := range a.failures {
		a.failures[i] = refused
	}
	var waits []time.Duration
	im := linkimport.Import{API: a, Attempts: 6, Wait: func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}}
	_, err := im.Run(t.Context(), strings.NewReader("original_url\nhttps://example.com\n"))
	require.ErrorIs(t, err, refused)
	require.Equal(t, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}, waits)
}

func sizes(a *api) []int {
	var n []int
	for _, b := range a.batches {
		n = append(n, len(b))
	}
	return n
}
