package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
)

// importAPI is an API with at most one import, whose work is done at each look.
type importAPI struct {
	mu      sync.Mutex
	im      *api.Import
	read    api.Import // of the file, once it is read
	checked api.ImportCounts
	counts  api.ImportCounts
	refused string
	hold    func() // while the import runs

	asked []string // of the requests that change something
	file  map[int]string
}

func (a *importAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, _ := io.ReadAll(r.Body) // an empty one fails the test
	place := strings.TrimPrefix(r.URL.Path, api.PathImports)
	if r.Method != http.MethodGet {
		sent := strings.TrimSpace(string(body))
		if strings.HasPrefix(place, "/i1/parts/") {
			sent = strconv.Itoa(len(body))
		}
		a.asked = append(a.asked, r.Method+" "+place+" "+sent)
	}
	switch {
	case r.URL.Path == "/api/v1/me":
		_, _ = io.WriteString(w, `{"workspace":{"time_zone":"Europe/Berlin"}}`)
		return
	case place == "" && r.Method == http.MethodGet:
		all := api.ImportList{}
		if a.im != nil {
			all.Imports = append(all.Imports, *a.im)
		}
		_ = json.NewEncoder(w).Encode(all) // the test fails without it
		return
	case place == "":
		var n api.NewImport
		_ = json.Unmarshal(body, &n) // an empty one fails the test
		a.im, a.file = &api.Import{
			ID: "i1", State: api.ImportUploading, Name: n.Name, SHA256: n.SHA256, Format: n.Format, Domain: n.Domain, Dedupe: n.Dedupe,
			KeepCodes: n.KeepCodes == nil || *n.KeepCodes, TimeZone: n.TimeZone,
		}, make(map[int]string)
	case strings.HasPrefix(place, "/i1/parts/"):
		n, _ := strconv.Atoi(strings.TrimPrefix(place, "/i1/parts/"))
		a.file[n] = string(body)
		a.im.Parts = len(a.file)
		w.WriteHeader(http.StatusNoContent)
		return
	case place == "/i1/read":
		a.im.State = api.ImportReading
	case place == "/i1/run":
		if a.im.State = api.ImportRunning; strings.Contains(string(body), "true") {
			a.im.State = api.ImportChecking
		}
	case place == "/i1/stop":
		a.im.State = api.ImportStopped
	case place == "/i1/undo":
		a.im.State = api.ImportUndoing
	case place == "/i1/refused":
		_, _ = io.WriteString(w, a.refused)
		return
	case place == "/i1" && r.Method == http.MethodPatch:
		var c api.ImportChange
		_ = json.Unmarshal(body, &c) // an empty one fails the test
		if c.Mapping != nil {
			a.im.Mapping, a.im.Open = *c.Mapping, nil
		}
	case place == "/i1" && r.Method == http.MethodDelete:
		a.im = nil
		w.WriteHeader(http.StatusNoContent)
		return
	case place == "/i1":
		a.work()
	default:
		refuse(w, http.StatusNotFound, "no such import")
		return
	}
	_ = json.NewEncoder(w).Encode(a.im) // the test fails without it
}

func (a *importAPI) work() {
	switch a.im.State {
	case api.ImportReading:
		was := *a.im
		*a.im = a.read
		a.im.ID, a.im.Name, a.im.SHA256, a.im.KeepCodes, a.im.TimeZone = was.ID, was.Name, was.SHA256, was.KeepCodes, was.TimeZone
		if a.im.State == "" {
			a.im.State = api.ImportReady
		}
	case api.ImportChecking:
		a.im.State, a.im.Checked = api.ImportReady, &a.checked
	case api.ImportRunning:
		if a.hold != nil {
			a.hold()
		} else {
			a.im.State, a.im.Counts = api.ImportDone, a.counts
		}
	case api.ImportUndoing:
		a.im.State, a.im.Counts.Removed, a.im.Counts.Kept = api.ImportUndone, 2, 1
	}
}

// aFile makes a file of three rows, and the API that reads it.
func aFile(t *testing.T) (file string, a *importAPI) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "bitly.csv")
	require.NoError(t, os.WriteFile(file, []byte("Long URL,bitlink,hits\nhttps://a.example,bit.ly/a,1\n"), 0o600))
	return file, &importAPI{
		read: api.Import{
			Format: "bitly", Encoding: "utf-8", Columns: []string{"Long URL", "bitlink", "hits"}, Rows: 3,
			Mapping: api.ImportMapping{Columns: map[string]string{"Long URL": "original_url", "bitlink": "short_url", "hits": ""}},
			LeftOut: []string{"hits", "ip"}, Notes: []string{"no link has QR codes"},
			Sample: []api.ImportRow{{Line: 2, Cells: []string{"https://a.example", "bit.ly/a", "1"}}},
		},
		checked: api.ImportCounts{Created: 2, Refused: 1},
		counts:  api.ImportCounts{Created: 2, Refused: 1},
		refused: "refused,Long URL,bitlink\nline 3: no web address,ftp://b.example,bit.ly/b\n",
	}
}

const shown = `bitly.csv: bitly, utf-8, 3 rows
no link has QR codes
COLUMN    FIELD         FIRST ROW
Long URL  original_url  https://a.example
bitlink   short_url     bit.ly/a
hits      left out      1
left out, because they are about visitors: ip
`

func TestImport_SaysHowTheFileIsUnderstoodAndWhatBecameOfIt(t *testing.T) {
	file, a := aFile(t)
	code, stdout, stderr := ask(t, a.ServeHTTP, "import", file, "--domain", "go.example.com")
	require.Equal(t, exitFailure, code)
	require.Equal(t, "2 of 3 rows created, 1 refused\n", stdout)
	require.Equal(t, shown+`2 of 3 rows would be created, 1 refused
refused,Long URL,bitlink
line 3: no web address,ftp://b.example,bit.ly/b
`+"`waypost import get i1 --report refused.csv` writes all refused rows to a file, to be mended and imported\n"+
		"waypost: 1 row was not created\n", stderr)
	require.Contains(t, a.asked[0], `"domain":"go.example.com","time_zone":"Europe/Berlin"`)
	require.Equal(t, []string{"POST /i1/run {\"dry_run\":true}", "POST /i1/run {}"}, a.asked[len(a.asked)-2:])

	file, a = aFile(t)
	a.counts = api.ImportCounts{Created: 1, Found: 2}
	code, stdout, stderr = ask(t, a.ServeHTTP, "import", file, "--unchecked", "--output", "json")
	require.Zero(t, code, stderr)
	require.Equal(t, "POST /i1/run {}", a.asked[len(a.asked)-1])
	require.NotContains(t, strings.Join(a.asked, "\n"), "dry_run")
	require.Contains(t, stdout, `"state": "done"`)
}

func TestImport_DryRunCreatesNothing(t *testing.T) {
	file, a := aFile(t)
	code, stdout, stderr := ask(t, a.ServeHTTP, "import", file, "--dry-run")
	require.Equal(t, exitFailure, code)
	require.Equal(t, "2 of 3 rows would be created, 1 refused\n", stdout)
	require.Contains(t, stderr, "waypost: 1 row would be refused\n")
	require.NotContains(t, a.asked, "POST /i1/run {}")

	// The import with the file is there, so that nothing is sent again.
	sent := len(a.asked)
	code, stdout, stderr = ask(t, a.ServeHTTP, "import", file)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "going on with the import i1, which has this file\n")
	require.Equal(t, "2 of 3 rows created, 1 refused\n", stdout)
	require.Equal(t, []string{"POST /i1/run {}"}, a.asked[sent:])
}

func TestImport_AsksForChoicesByNamingTheirFlags(t *testing.T) {
	file, a := aFile(t)
	a.read.Open = []string{"the dates of expires fit more than one notation"}
	a.read.Notations = map[string][]string{"expires": {"dmy", "mdy"}}
	a.checked, a.counts = api.ImportCounts{Created: 3}, api.ImportCounts{Created: 3}
	code, _, stderr := ask(t, a.ServeHTTP, "import", file)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "nothing was created: the dates of expires fit more than one notation: choose with --dates, one of dmy, mdy, or with --map")

	sent := len(a.asked)
	code, _, stderr = ask(t, a.ServeHTTP, "import", file, "--dates", "dmy", "--tags", ";", "--map", "HITS=notes", "--map", "bitlink=")
	require.Zero(t, code, stderr)
	require.Equal(t, `PATCH /i1 {"mapping":{"columns":{"Long URL":"original_url","bitlink":"","hits":"notes"},"tags":";","dates":"dmy"}}`, a.asked[sent])
	require.Contains(t, stderr, "hits      notes ")

	for flag, says := range map[string]string{
		"--map=hits": `"hits" is not COLUMN=FIELD`, "--site=x": `"x" is no address`, "--site=https://a.example": "give --format as well",
	} {
		code, _, stderr = ask(t, a.ServeHTTP, "import", file, flag)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, says)
	}
}

func TestImport_NewCodesAreNotOverlooked(t *testing.T) {
	file, a := aFile(t)
	a.checked = api.ImportCounts{Created: 3, NewCodes: 3}
	code, _, stderr := ask(t, a.ServeHTTP, "import", file)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "3 links get NEW codes: printed links with the codes of the file lead nowhere\n")
	require.NotContains(t, a.asked, "POST /i1/run {}")

	a.counts = api.ImportCounts{Created: 3, NewCodes: 3}
	code, _, stderr = ask(t, a.ServeHTTP, "import", file, "--keep-codes=false")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "3 links get NEW codes")
	require.Contains(t, a.asked, "POST /i1/run {}")
}

func TestImport_SendsNoPartAgainThatIsThere(t *testing.T) {
	file, a := aFile(t)
	text := append([]byte("url\nhttps://a.example/"), bytes.Repeat([]byte("a"), api.MaxImportPart)...)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	first := true
	code, stderr := askWith(ctx, t, io.Discard, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/parts/2") && first {
			cancel()
			return
		}
		a.ServeHTTP(w, r)
	}, "import", file)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "the file was not sent whole, and nothing was created")
	require.Contains(t, stderr, "the same command goes on")

	first, a.counts = false, api.ImportCounts{Created: 3}
	code, _, stderr = ask(t, a.ServeHTTP, "import", file, "--unchecked")
	require.Zero(t, code, stderr)
	require.Equal(t, string(text), a.file[1]+a.file[2])
	sent := strings.Join(a.asked, "\n")
	require.Equal(t, 1, strings.Count(sent, "/parts/1 "), sent)
	require.Equal(t, 1, strings.Count(sent, "POST  "), sent)
}

func TestImport_GoesOnWithoutTheCommand(t *testing.T) {
	file, a := aFile(t)
	ctx, cancel := context.WithCancel(t.Context())
	a.hold = cancel
	code, stderr := askWith(ctx, t, io.Discard, a.ServeHTTP, "import", file)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "the import goes on: `waypost import resume i1` shows it again, and `waypost import stop i1` stops it\n")

	code, stdout, _ := ask(t, a.ServeHTTP, "import", "stop", "i1")
	require.Zero(t, code)
	require.Contains(t, stdout, "`waypost import resume i1` goes on")
	a.hold, a.counts = nil, api.ImportCounts{Created: 3}
	code, stdout, stderr = ask(t, a.ServeHTTP, "import", "resume", "i1")
	require.Zero(t, code, stderr)
	require.Equal(t, "3 of 3 rows created, 0 refused\n", stdout)

	_, stdout, _ = ask(t, a.ServeHTTP, "import", "list")
	require.Regexp(t, `(?m)^i1  done   .* 3     3      0        bitly.csv$`, stdout)
	code, stdout, _ = ask(t, a.ServeHTTP, "import", "undo", "i1")
	require.Zero(t, code)
	require.Equal(t, "2 links deleted, 1 left because they were changed since\n", stdout)
	_, stdout, _ = ask(t, a.ServeHTTP, "import", "get", "i1")
	require.Contains(t, stdout, "state: undone")
	code, _, stderr = ask(t, a.ServeHTTP, "import", "resume", "i1")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "the import i1 is undone")
	code, stdout, _ = ask(t, a.ServeHTTP, "import", "delete", "i1")
	require.Zero(t, code)
	require.Equal(t, "deleted the import i1; its links stay\n", stdout)
	_, stdout, _ = ask(t, a.ServeHTTP, "import", "list")
	require.Equal(t, "no imports\n", stdout)
}

func TestImport_SaysWhyAFileCannotBeRead(t *testing.T) {
	file, a := aFile(t)
	a.read = api.Import{State: api.ImportFailed, Problem: "the text is not in UTF-8"}
	code, _, stderr := ask(t, a.ServeHTTP, "import", file)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "the text is not in UTF-8: with --encoding, such as --encoding windows-1252\n")

	code, _, stderr = ask(t, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, "this needs the scope links:write")
	}, "import", file)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "the key lacks that scope: use one that has links:read and links:write\n")

	code, _, stderr = ask(t, a.ServeHTTP, "import", filepath.Join(filepath.Dir(file), "_redirects"))
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "say --format netlify or cloudflare-pages")
}

func TestImport_ReportReplacesNoFileThatIsRead(t *testing.T) {
	file, a := aFile(t)
	report := filepath.Join(filepath.Dir(file), "refused.csv")
	symbolic := filepath.Join(filepath.Dir(file), "latest.csv")
	require.NoError(t, os.Symlink(file, symbolic))
	for _, path := range []string{file, symbolic} {
		code, _, stderr := ask(t, a.ServeHTTP, "import", file, "--report", path)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, "--report: the import reads "+path)
	}
	code, _, stderr := ask(t, a.ServeHTTP, "import", file, "--report", report)
	require.Equal(t, exitFailure, code)
	require.NotContains(t, stderr, "no web address")
	text, err := os.ReadFile(report)
	require.NoError(t, err)
	require.Equal(t, a.refused, string(text))
}

func TestImport_ReadsStandardInput(t *testing.T) {
	_, a := aFile(t)
	a.counts = api.ImportCounts{Created: 3}
	server := httptest.NewServer(a)
	defer server.Close()
	var out, errs bytes.Buffer
	p := &program{
		stdin: strings.NewReader("url\nhttps://a.example\n"), stdout: &out, stderr: &errs,
		environ: []string{"WAYPOST_API=" + server.URL, "WAYPOST_API_KEY=wp_x", "XDG_CONFIG_HOME=" + t.TempDir()},
	}
	require.Zero(t, p.run(t.Context(), []string{"import", "-", "--unchecked"}), errs.String())
	require.Equal(t, "url\nhttps://a.example\n", a.file[1])
	require.Contains(t, a.asked[0], `"name":"standard input"`)
}

func TestImport_ReadsAnotherService(t *testing.T) {
	file, a := aFile(t)
	a.counts, a.checked = api.ImportCounts{Created: 3}, api.ImportCounts{Created: 3}
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, `{"shortUrls":{"data":[{"shortCode":"a","longUrl":"https://a.example"}],"pagination":{"pagesCount":1,"totalItems":1}}}`)
	}))
	defer source.Close()
	key := filepath.Join(filepath.Dir(file), "key")
	require.NoError(t, os.WriteFile(key, []byte("secret\n"), 0o600))
	args := []string{"import", "shlink", "--from", source.URL}
	code, stdout, stderr := ask(t, a.ServeHTTP, append(args, "--key-file", key)...)
	require.Zero(t, code, stderr)
	require.Equal(t, "3 of 3 rows created, 0 refused\n", stdout)
	require.Contains(t, a.file[1], `"https://a.example"`)

	require.NoError(t, os.WriteFile(key, []byte("wrong"), 0o600))
	code, _, stderr = ask(t, a.ServeHTTP, append(args, "--key-file", key)...)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "the API refuses the key (401)")
	require.Nil(t, a.im, "no import without links")
	code, _, stderr = ask(t, a.ServeHTTP, args...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "give --key-file, or set SOURCE_API_KEY")
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
