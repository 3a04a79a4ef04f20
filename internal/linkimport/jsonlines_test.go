package linkimport_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/internal/linkimport"
)

func runLines(t *testing.T, a *api, text string) (linkimport.Report, error) {
	t.Helper()
	im := linkimport.Import{API: a, Wait: a.wait, Format: linkimport.JSONLines}
	return im.Run(t.Context(), strings.NewReader(text))
}

func TestJSONLinesBecomeLinksAndBadOnesAreReported(t *testing.T) {
	a := &api{}
	report, err := runLines(t, a, "\uFEFF"+`{"original_url": "https://example.com/1", "title": "Ü", "tags": ["a", "b,c"], "metadata": {"k": [1]}, "redirect_status": 308, "expires_at": "2091-05-06T07:08:09Z",
`+"\n"+`{"id": "1", "short_code": "abcd", "short_url": "x", "original_url": "https://example.com/2", "active": true, "click_count": 7, "created_at": "2031-05-06T07:08:09Z", "updated_at": "2031-05-06T07:08:09Z", "last_accessed_at": null, "expires_at": null, "metadata": null}
{"original_url": "https://example.com/3", "tags": ["a", "b,c"], "metadata": {"k": [1]}, "redirect_status": 308, "expires_at": "2091-05-06T07:08:09Z"}
{"original_url": "https://example.com/4", "unknown": 1}
{"original_url": 5}
["original_url"]
{"original_url": "https://example.com/6"} {}
{"original_url": "ftp://example.com"}`)
	require.NoError(t, err)
	require.Equal(t, 8, report.Rows)
	require.Equal(t, 2, report.Created)
	var lines []int
	for _, r := range report.Refused {
		lines = append(lines, r.Line)
		require.NotEmpty(t, r.Reason)
	}
	require.Equal(t, []int{1, 5, 6, 7, 8, 9}, lines)
	got := a.batches[0][:2]
	for i := range got {
		got[i].CreatedBy = ""
	}
	require.Equal(t, client.NewLink{OriginalURL: "https://example.com/2"}, got[0])
	require.Equal(t, client.NewLink{
		OriginalURL: "https://example.com/3", Tags: []string{"a", "b,c"}, Metadata: []byte(`{"k": [1]}`), RedirectStatus: 308,
		ExpiresAt: time.Date(2091, 5, 6, 7, 8, 9, 0, time.UTC),
	}, got[1])
}

func TestJSONLines_RefuseALineThatIsTooLongAndGoOn(t *testing.T) {
	const line, long = `{"original_url": "https://example.com/"}` + "\n", "the line is longer than 262144 bytes"
	report, err := runLines(t, &api{}, line+strings.Repeat("x", 1<<20)+"\n"+line+strings.Repeat("x", 1<<20))
	require.NoError(t, err)
	require.Equal(t, 2, report.Created)
	require.Equal(t, []linkimport.Row{{Line: 2, Reason: long}, {Line: 4, Reason: long}}, report.Refused)
}

func FuzzNoLineStopsAnImport(f *testing.F) {
	f.Add(`{"original_url": "https://example.com/"}`)
	f.Add(`{"original_url": null, "metadata": 1}`)
	f.Add("{\n}\r\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		report, err := runLines(t, &api{}, text)
		require.NoError(t, err)
		require.Equal(t, report.Rows, report.Created+len(report.Refused))
	})
}

func TestImport_MakesNoLinkPublicThatHadAPassword(t *testing.T) {
	a := &api{}
	report, err := runLines(t, a, `{"original_url": "https://example.com/1", "has_password": true}
{"original_url": "https://example.com/2", "has_password": true, "password": "x"}
{"original_url": "https://example.com/3", "has_password": false}`)
	require.NoError(t, err)
	require.Equal(t, 2, report.Created)
	require.Len(t, report.Refused, 1)
	require.Contains(t, report.Refused[0].Reason, "no export holds")

	report, err = run(t, a, "original_url,has_password,password\nhttps://example.com/1,true,\nhttps://example.com/2,false,\nhttps://example.com/3,true,x\n")
	require.NoError(t, err)
	require.Equal(t, 2, report.Created)
	require.Len(t, report.Refused, 1)
}

func TestImport_SendsNoMorePasswordsThanTheAPITakesAtOnce(t *testing.T) {
	a := &api{}
	im := linkimport.Import{API: a, Wait: a.wait, Dedupe: true}
	report, err := im.Run(t.Context(), strings.NewReader("original_url,password\n"+strings.Repeat("https://example.com,\n", 5)+strings.Repeat("https://example.com,x\n", 25)))
	require.NoError(t, err)
	require.Equal(t, 30, report.Created)
	require.Equal(t, []int{15, 10, 5}, sizes(a))
	require.NotNil(t, a.batches[0][0].Dedupe)
	require.Nil(t, a.batches[0][5].Dedupe, "a link with a password is not the one of its target")
}

func TestJSONLines_PassOverWhoHasBlockedALink(t *testing.T) {
	report, err := runLines(t, &api{}, `{"original_url": "https://example.com/1", "blocked": {"reason": "phishing"}}`)
	require.NoError(t, err)
	require.Equal(t, 1, report.Created)
}
