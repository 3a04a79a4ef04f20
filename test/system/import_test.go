package system_test

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/test/devtest"
)

// begin starts a command, and leaves it running.
func begin(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), devtest.Binary(t), args...)
	cmd.Env = env
	require.NoError(t, cmd.Start())
	return cmd
}

// kill ends a command with SIGKILL, unless it has ended already.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		require.ErrorIs(t, err, os.ErrProcessDone)
	}
	_ = cmd.Wait() // killed, which is an error
}

// someTime waits for up to that time.
func someTime(most time.Duration) {
	timer := time.NewTimer(rand.N(most))
	<-timer.C
}

func TestImport_GoesOnWhereTheControlPlaneWasKilledIsUndoneAndMended(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{Edges: "us-east-1=127.0.0.1:0"})
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	api, err := client.New(s.State().API, s.State().APIKey)
	require.NoError(t, err)
	defer api.Close()
	run := func(code int, says string, args ...string) {
		t.Helper()
		r := devtest.Run(t, env, args...)
		require.Equal(t, code, r.Code, r.Stderr)
		require.Contains(t, r.Stdout+r.Stderr, says)
	}

	// Both are killed at any moment of the run.
	targets := everyFifth(realLinks(t))
	rows := len(targets)
	file := codedFile(t, targets)
	first := begin(t, env, "import", file, "--unchecked")
	var id string
	eventually(t, time.Minute, "the import runs", func() bool {
		all, err := api.Imports.List(t.Context())
		if err != nil || len(all) == 0 || all[0].State != "running" && all[0].State != "done" {
			return false
		}
		id = all[0].ID
		return true
	})
	someTime(400 * time.Millisecond)
	devtest.KillProcess(t, int(s.State().Control.PID))
	someTime(500 * time.Millisecond)
	kill(t, first)
	report := filepath.Join(t.TempDir(), "refused.csv")
	run(1, fmt.Sprintf("%d of %d rows created, 1 refused", rows, rows+1), "import", "resume", id, "--report", report)
	requireExport(t, env, targets)

	// The same codes come back behind the undo, and the refused row is mended.
	run(0, fmt.Sprintf("%d links deleted, 0 left", rows), "import", "undo", id)
	requireExport(t, env, nil)
	run(1, fmt.Sprintf("%d of %d rows created, 1 refused", rows, rows+1), "import", file, "--dedupe", "--report", report)
	text, err := os.ReadFile(report)
	require.NoError(t, err)
	require.Regexp(t, "^refused,original_url,custom_code\n\"?.+,ftp://example.com/bad,import-bad\n$", string(text))
	require.NoError(t, os.WriteFile(report, bytes.Replace(text, []byte("ftp://"), []byte("https://"), 1), 0o600))
	run(0, "1 of 1 row created, 0 refused", "import", report, "--dedupe")
	run(1, fmt.Sprintf("0 of %d rows created, %d found, 1 refused", rows+1, rows), "import", file, "--dedupe")
	targets = append(targets, "https://example.com/bad")
	requireExport(t, env, targets)
	requireExportedCSV(t, env, targets)
	requireImportedPassword(t, s)
	requireSwitch(t, s)
	s.Stop()
}

// requireImportedPassword imports a link with the hash of a password as another service
// keeps it. An edge must take that password, and no output have the hash.
func requireImportedPassword(t *testing.T, s *devtest.System) {
	t.Helper()
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	file := filepath.Join(t.TempDir(), "kutt.csv")
	require.NoError(t, os.WriteFile(file, []byte("address,target,password,banned,visit_count\n"+
		"kutt-secret,https://example.com/kutt,$2a$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW,f,5\n"), 0o600))
	r := devtest.Run(t, env, "import", file, "--dedupe")
	require.Zero(t, r.Code, r.Stderr)
	shown := r.Stdout + r.Stderr
	require.Contains(t, shown, "1 of 1 row created")
	r = devtest.Run(t, env, "import", file, "--dedupe")
	require.Contains(t, r.Stdout+r.Stderr, "0 of 1 row created, 1 found")

	visitor := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	address := s.State().Edges[0].URL + "/kutt-secret"
	give := func(password string) *http.Response {
		res, err := visitor.PostForm(address, url.Values{"password": {password}})
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res
	}
	eventually(t, time.Minute, "the edge asks for the password", func() bool { return give("wrong").StatusCode == http.StatusForbidden })
	let := give("abc123xyz")
	require.Equal(t, http.StatusSeeOther, let.StatusCode)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	req.AddCookie(let.Cookies()[0])
	res, err := visitor.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, "https://example.com/kutt", res.Header.Get("Location"))

	for _, args := range [][]string{
		{"links", "export", "--format", "jsonl"}, {"links", "get", "kutt-secret", "--output", "json"}, {"links", "history", "kutt-secret"},
	} {
		r = devtest.Run(t, env, args...)
		require.Zero(t, r.Code, r.Stderr)
		shown += r.Stdout
	}
	require.NotContains(t, shown, "R9h/cIPz0gi")
}

// codedFile returns a file of targets, each with a code, and of a row that is refused.
func codedFile(t *testing.T, targets []string) string {
	t.Helper()
	var text bytes.Buffer
	rows := csv.NewWriter(&text)
	require.NoError(t, rows.Write([]string{"original_url", "custom_code"}))
	for i, target := range targets {
		require.NoError(t, rows.Write([]string{target, fmt.Sprintf("import-%d", i)}))
	}
	require.NoError(t, rows.Write([]string{"ftp://example.com/bad", "import-bad"}))
	rows.Flush()
	file := filepath.Join(t.TempDir(), "links.csv")
	require.NoError(t, os.WriteFile(file, text.Bytes(), 0o600))
	return file
}

// requireExport demands that JSON lines hold the targets, each once.
func requireExport(t *testing.T, env, targets []string) {
	t.Helper()
	r := devtest.Run(t, env, "links", "export", "--format", "jsonl")
	require.Zero(t, r.Code, r.Stderr)
	var got []string
	lines := bufio.NewScanner(strings.NewReader(r.Stdout))
	for lines.Scan() {
		var l struct {
			OriginalURL string `json:"original_url"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &l))
		got = append(got, l.OriginalURL)
	}
	require.Equal(t, sorted(targets), sorted(got))
}

// requireExportedCSV demands that CSV holds the targets and can be imported, of which a
// part is.
func requireExportedCSV(t *testing.T, env, targets []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "export.csv")
	r := devtest.Run(t, env, "links", "export", file)
	require.Zero(t, r.Code, r.Stderr)
	require.Equal(t, fmt.Sprintf("%d links written to %s\n", len(targets), file), r.Stdout)
	require.Equal(t, sorted(targets), sorted(column(t, file, "original_url")))

	part, before := keepTenth(t, file), time.Now().UTC().Truncate(time.Millisecond)
	r = devtest.Run(t, env, "import", file, "--keep-codes=false", "--map", "created_at=")
	require.Zero(t, r.Code, r.Stderr)
	r = devtest.Run(t, env, "links", "export", file, "--created-after", before.Format(time.RFC3339Nano))
	require.Zero(t, r.Code, r.Stderr)
	require.Equal(t, part, sorted(column(t, file, "original_url")))
	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing but the export is left")
}

// keepTenth leaves every tenth line of an exported file, and returns the targets that are
// left, sorted.
func keepTenth(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	require.NoError(t, err)
	lines := bytes.SplitAfter(text, []byte("\n"))
	require.Len(t, lines, len(rows)+1, "no cell goes over lines")
	var kept bytes.Buffer
	kept.Write(lines[0])
	for i := 1; i < len(rows); i += 10 {
		kept.Write(lines[i])
	}
	require.NoError(t, os.WriteFile(file, kept.Bytes(), 0o600))
	return sorted(column(t, file, "original_url"))
}

func sorted(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	return all
}

// column reads one column of a CSV file.
func column(t *testing.T, file, name string) []string {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	at := slices.Index(rows[0], name)
	require.GreaterOrEqual(t, at, 0, "a column %s", name)
	var cells []string
	for _, row := range rows[1:] {
		cells = append(cells, row[at])
	}
	return cells
}
