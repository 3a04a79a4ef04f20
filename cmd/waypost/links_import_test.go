package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/linkimport"
)

func TestTheProgressOfAnImportIsBesideItsFileOrElseInTheUsersCache(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	sum := strings.Repeat("ab", 32)

	writable := filepath.Join(t.TempDir(), "links.csv")
	got, err := progressFile(writable, sum)
	require.NoError(t, err)
	require.Equal(t, writable+".progress", got)

	for range 2 { // the same at every start, so that it can be resumed
		got, err = progressFile("/proc/1/links.csv/that/nobody/can/write", sum)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(cache, "waypost", "imports", sum[:32]+".progress"), got)
	}
	require.DirExists(t, filepath.Dir(got))
}

func TestProgressLine_ComesNowAndThenInALog(t *testing.T) {
	var told strings.Builder
	began := time.Now()
	l := &progressLine{to: &told, every: progressEvery, last: began}
	l.show(began.Add(progressEvery-1), "%d rows so far%s", 10, shareOf(2000, 100))
	require.Empty(t, told.String())
	l.show(began.Add(progressEvery), "%d rows so far%s", 20, shareOf(2000, 250))
	l.show(began.Add(2*progressEvery-1), "%d rows so far%s", 30, shareOf(2000, 300))
	require.Equal(t, "20 rows so far, 12 % of the file\n", told.String())

	told.Reset()
	l.show(began.Add(2*progressEvery), "%d rows so far%s", 40, shareOf(0, 400))
	require.Equal(t, "40 rows so far\n", told.String())
}

func TestRefusedRowsAreToldInWholeSentences(t *testing.T) {
	var told strings.Builder
	tell := &telling{p: &program{}, lines: &told}
	require.NoError(t, tell.refused(linkimport.Row{Line: 2, Reason: "original_url is missing"}))
	require.NoError(t, tell.refused(linkimport.Row{Line: 3, Reason: "no", OriginalURL: "ftp://a.example/"}))
	require.Equal(t, "line 2 refused: original_url is missing\nline 3 refused: no: ftp://a.example/\n", told.String())
}

func TestLinksImport_SaysThatCodesAreNotKept(t *testing.T) {
	const note = "the links get new codes, not the short_code of the file: for that, give --keep-codes\n"
	var sent string
	api := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body) // an empty one fails the test
			sent = string(body)
			_, _ = io.WriteString(w, `{"results":[{"status":201,"short_code":"a"},{"status":201,"short_code":"b"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}
	file := filepath.Join(t.TempDir(), "links.csv")
	require.NoError(t, os.WriteFile(file, []byte("short_code,url\nspring,https://a.example\nsummer,https://b.example\n"), 0o600))
	code, _, stderr := ask(t, api, "links", "import", file)
	require.Zero(t, code, stderr)
	require.Equal(t, note, stderr)
	require.NotContains(t, sent, "spring")

	code, _, stderr = ask(t, api, "links", "import", file, "--keep-codes")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	require.Contains(t, sent, `"custom_code":"spring"`)
	require.Contains(t, sent, `"custom_code":"summer"`)
}

func TestLinksImport_CountsNoRowsOfAFileThatItCannotRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "links.csv")
	require.NoError(t, os.WriteFile(file, []byte("link,hits\nhttps://a.example,1\n"), 0o600))
	api := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) }
	code, stdout, stderr := ask(t, api, "links", "import", file)
	require.Equal(t, exitFailure, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "the import stopped: the header has columns that an import does not know")
}

func TestImportSummary_SaysWhatWordsMean(t *testing.T) {
	for want, report := range map[string]linkimport.Report{
		"1 of 1 row created, 0 refused, in 0s\n": {Rows: 1, Created: 1},
		"0 of 2 rows created, 1 refused, 1 in doubt (the API did not say whether they were created), in 0s\n": {
			Rows: 2, NotCreated: 1, InDoubt: []linkimport.Row{{Line: 3, Reason: "no answer"}},
		},
	} {
		var shown strings.Builder
		require.NoError(t, (&telling{p: &program{stdout: &shown}, lines: io.Discard}).printSummary(report, 0, nil))
		require.Equal(t, want, shown.String())
	}
}

func TestLinksImport_SaysThatTheKeyLacksAScope(t *testing.T) {
	file := filepath.Join(t.TempDir(), "links.csv")
	require.NoError(t, os.WriteFile(file, []byte("url\nhttps://a.example\n"), 0o600))
	api := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			refuse(w, http.StatusForbidden, "this needs the scope links:write")
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}
	const lacks = "this needs the scope links:write (403): the key lacks that scope: use one that has links:read and links:write"
	code, _, stderr := ask(t, api, "links", "import", file, "--dry-run")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, lacks+"\n")
	code, _, stderr = ask(t, api, "links", "import", file)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, lacks+", then continue with --resume\n")
}

func TestLinksImport_DryRunCreatesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "links.csv")
	require.NoError(t, os.WriteFile(file, []byte("url\nhttps://a.example\nftp://b.example\n"), 0o600))
	api := func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			_, _ = io.WriteString(w, `{}`)
			return
		}
		if r.URL.Query().Get("dry_run") != "true" {
			t.Error("links are created")
		}
		body, _ := io.ReadAll(r.Body) // an empty one fails the test
		if !strings.Contains(string(body), `"domain":"go.example.com"`) {
			t.Errorf("no domain in %s", body)
		}
		_, _ = io.WriteString(w, `{"results":[{"status":201},{"status":422,"error":{"status":422,"detail":"no web address"}}]}`)
	}
	args := []string{"links", "import", file, "--dry-run", "--domain", "go.example.com"}
	code, stdout, stderr := ask(t, api, args...)
	require.Equal(t, exitFailure, code)
	require.Regexp(t, `^1 of 2 rows would be created, 1 refused, in .*s; nothing was created\n$`, stdout)
	require.Equal(t, "line 3 refused: no web address: ftp://b.example\nwaypost: 1 row would be refused\n", stderr)
	require.NoFileExists(t, file+".progress")

	_, stdout, _ = ask(t, api, append(args, "--output", "json")...)
	require.Contains(t, stdout, `"dry_run":true}`)
	code, _, stderr = ask(t, api, append(args, "--resume")...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--dry-run and --resume contradict one another")
}

func TestLinksImport_TakesTheFormatFromTheFile(t *testing.T) {
	dir := t.TempDir()
	api := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `{"results":[{"status":201,"short_code":"a"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}
	for name, text := range map[string]string{
		"links.json": `{"original_url": "https://a.example"}`, "links.jsonl": "original_url\nhttps://a.example\n",
		"links.csv": "original_url;title\nhttps://a.example;A\n",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		code, stdout, stderr := ask(t, api, "links", "import", file)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "1 of 1 row created")
	}
}

func TestLinksImport_ReportReplacesNoFileThatIsRead(t *testing.T) {
	dir := t.TempDir()
	file, report, symbolic := filepath.Join(dir, "links.csv"), filepath.Join(dir, "refused.csv"), filepath.Join(dir, "latest.csv")
	const rows, before = "url\nftp://a.example\n", "line,reason\n" + "before, and so long that none of it must be left\n"
	require.NoError(t, os.WriteFile(file, []byte(rows), 0o600))
	require.NoError(t, os.WriteFile(report, []byte(before), 0o600))
	require.NoError(t, os.Symlink(file, symbolic))
	api := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `{"results":[{"status":422,"error":{"status":422,"detail":"no web address"}}]}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}
	holds := func(path, want string) {
		t.Helper()
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	for _, path := range []string{file, symbolic, file + ".progress"} {
		code, _, stderr := ask(t, api, "links", "import", file, "--report", path)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, "--report: the import reads "+path)
		holds(file, rows)
	}

	code, _, stderr := ask(t, api, "links", "import", report, "--report", file)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "the header has columns that an import does not know")
	holds(file, rows)

	code, _, stderr = ask(t, api, "links", "import", file, "--report", report)
	require.Equal(t, exitFailure, code, stderr)
	holds(report, "refused,url\n\"line 2: no web address\",ftp://a.example\n")
}

func TestLinksImport_SaysWhatOfAnExportIsLeftOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "links.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"original_url":"https://a.example","created_by":"me","max_clicks":1,"click_count":1}`), 0o600))
	api := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, `{"results":[{"status":201,"short_code":"a"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}
	code, _, stderr := ask(t, api, "links", "import", file)
	require.Zero(t, code, stderr)
	require.Equal(t, notTaken["created_by"]+"\n"+notTaken["click_count"]+"\n", stderr)
}
