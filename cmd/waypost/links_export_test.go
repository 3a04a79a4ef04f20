package main

import (
	"bytes"
	"encoding/csv"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	fullLine = `{"short_code":"abcd","original_url":"https://example.com/?a=\"b\",c&d","title":"One,\n\"two\"","description":"<b>",` +
		`"tags":["spring","a, b","c\"d"],"redirect_status":308,"forward_query":true,"metadata":{"k":[1]},"created_by":"me","click_count":7,` +
		`"created_at":"2031-05-06T07:08:09.123456Z","expires_at":"2091-05-06T07:08:09.5Z"}` + "\n"
	bareLink = `{"short_code": "efgh", "original_url": "https://example.org", "redirect_status": 302, "created_at": "2031-05-06T07:00:00Z", "expires_at": null}`
)

const (
	csvHeader = "short_code,original_url,title,description,tags,redirect_status,forward_query,forward_path,expires_at,click_count,created_at\n"
	fullRow   = `abcd,"https://example.com/?a=""b"",c&d","One,` + "\n" + `""two""",<b>,"spring,""a, b"",""c""""d""",308,true,false,2091-05-06T07:08:09.5Z,7,2031-05-06T07:08:09.123456Z` + "\n"
	bareRow   = "efgh,https://example.org,,,,302,false,false,,0,2031-05-06T07:00:00Z\n"
)

// pages is an API with an export in two slices; the second is cut off the first time,
// or always when it is broken.
func pages(t *testing.T, broken bool) string {
	t.Helper()
	seconds := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		slice := map[string][2]string{"jsonl": {fullLine, bareLink + "\n"}, "csv": {csvHeader + fullRow, csvHeader + bareRow}}[r.URL.Query().Get("format")]
		text, next := slice[0], "two"
		if r.URL.Query().Get("after") == "two" {
			text, next = slice[1], ""
			if seconds++; broken {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			if seconds == 1 {
				w.Header().Set("Content-Length", "10000")
				_, _ = io.WriteString(w, text)
				return
			}
		}
		w.Header().Set("Trailer", "Waypost-Cursor, Waypost-Links")
		_, _ = io.WriteString(w, text)
		w.Header().Set("Waypost-Cursor", next)
		w.Header().Set("Waypost-Links", "1")
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func export(t *testing.T, api string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	p := &program{stdout: &out, stderr: io.Discard, output: "text", environ: []string{"WAYPOST_API=" + api}}
	c := linksCommands{p}.exportCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func TestJSONLinesAreTheLinksOfTheAPI(t *testing.T) {
	text, err := export(t, pages(t, false), "--format=jsonl")
	require.NoError(t, err)
	first, second, _ := strings.Cut(text, "\n")
	require.Equal(t, fullLine, first+"\n")
	require.JSONEq(t, bareLink, second)
}

func TestLinksExport_GoesByTheNameOfTheFile(t *testing.T) {
	for name, want := range map[string]string{"links.jsonl": fullLine, "LINKS.NDJSON": fullLine, "links.csv": csvHeader, "links": csvHeader} {
		file := filepath.Join(t.TempDir(), name)
		_, err := export(t, pages(t, false), file)
		require.NoError(t, err)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), want), "%s holds %s", name, text)
	}
	file := filepath.Join(t.TempDir(), "links.jsonl")
	_, err := export(t, pages(t, false), file, "--format=csv")
	require.NoError(t, err)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), csvHeader), "the flag decides")

	file = filepath.Join(t.TempDir(), "links.XLSX")
	_, err = export(t, pages(t, false), file)
	require.ErrorContains(t, err, "not as .xlsx")
	require.NoFileExists(t, file)
	_, err = export(t, pages(t, false), file, "--format=csv")
	require.NoError(t, err)
}

func TestLinksExport_WritesCSV(t *testing.T) {
	text, err := export(t, pages(t, false), "-")
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, [][]string{
		{
			"short_code", "original_url", "title", "description", "tags", "redirect_status", "forward_query", "forward_path",
			"expires_at", "click_count", "created_at",
		},
		{
			"abcd", `https://example.com/?a="b",c&d`, "One,\n\"two\"", "<b>", `spring,"a, b","c""d"`, "308", "true", "false",
			"2091-05-06T07:08:09.5Z", "7", "2031-05-06T07:08:09.123456Z",
		},
		{"efgh", "https://example.org", "", "", "", "302", "false", "false", "", "0", "2031-05-06T07:00:00Z"},
	}, rows)
}

func TestLinksExport_BeginsWithAByteOrderMarkOnRequest(t *testing.T) {
	plain, err := export(t, pages(t, false))
	require.NoError(t, err)
	marked, err := export(t, pages(t, false), "--bom")
	require.NoError(t, err)
	require.Equal(t, "\uFEFF"+plain, marked)
	continued, err := export(t, pages(t, false), "--bom", "--after", "one")
	require.NoError(t, err)
	require.NotContains(t, continued, "\uFEFF")
}

func TestAnExportThatStopsLeavesTheFileAsItWas(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "links.csv")
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o600))
	_, err := export(t, pages(t, true), file)
	require.ErrorContains(t, err, "the export stopped after 1 link, and "+file+" was not written")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "before", string(text))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	_, err = export(t, pages(t, true))
	require.ErrorContains(t, err, "the export is not complete, it ends after 1 link (go on with --after two): ")
	said, err := export(t, pages(t, false), file)
	require.NoError(t, err)
	require.Equal(t, "2 links written to "+file+"\n", said)
}

func TestAnExportDoesNotReplaceADevice(t *testing.T) {
	_, err := export(t, "http://127.0.0.1:1", "/dev/null")
	require.ErrorContains(t, err, "/dev/null is no regular file")
	_, err = export(t, "http://127.0.0.1:1", "--format=xml")
	require.ErrorContains(t, err, `"xml" is neither csv nor jsonl`)
}

func TestLinksExport_DoesNotAdviseToGoOnBehindAWriteThatFailed(t *testing.T) {
	p := &program{stdout: full{}, stderr: io.Discard, output: "text", environ: []string{"WAYPOST_API=" + pages(t, false)}}
	c := linksCommands{p}.exportCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs([]string{"--after", "two"})
	require.EqualError(t, c.ExecuteContext(t.Context()), "the export is not complete, it ends after 0 links: no space left on device")
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestLinksExport_KeepsTheModeOfAFileAndSymbolicLinksToIt(t *testing.T) {
	dir := t.TempDir()
	file, symbolic := filepath.Join(dir, "links.csv"), filepath.Join(dir, "latest.csv")
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o600))
	require.NoError(t, os.Symlink("links.csv", symbolic))
	_, err := export(t, pages(t, false), symbolic)
	require.NoError(t, err)
	info, err := os.Lstat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.NotEqual(t, int64(len("before")), info.Size())
	info, err = os.Lstat(symbolic)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type())
}
