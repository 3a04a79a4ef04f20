package system_test

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

// exported is a link as `links export --format jsonl` writes it.
type exported struct {
	OriginalURL string `json:"original_url"`
	CreatedBy   string `json:"created_by"`
}

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

// awaitLines waits until a file has that many lines.
func awaitLines(t *testing.T, file string, lines int) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(2 * time.Minute); ; <-poll.C {
		if text, err := os.ReadFile(file); err == nil && bytes.Count(text, []byte("\n")) >= lines {
			return
		}
		require.True(t, time.Now().Before(end), "%s has not %d lines", file, lines)
	}
}

// gate is a way to the API that lets that many batches of an import pass, and holds all
// others: an import behind it never ends before it is killed, however late
// that is.
type gate struct {
	api    *httptest.Server
	passes chan struct{}
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	target, err := url.Parse(to)
	require.NoError(t, err)
	g := &gate{passes: make(chan struct{}, 100)}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{DisableKeepAlives: true} // the control plane is killed
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) } // as when it is asked itself
	g.api = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body) // or its end would not be seen
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			select {
			case <-g.passes:
			case <-r.Context().Done():
				panic(http.ErrAbortHandler)
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	g.api.Config.ErrorLog = proxy.ErrorLog
	t.Cleanup(g.api.Close)
	return g
}

func (g *gate) pass(batches int) {
	for range batches {
		g.passes <- struct{}{}
	}
}

func TestAnImportThatIsKilledAtAnyMomentGoesOnAndCreatesNothingTwice(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{Edges: "us-east-1=127.0.0.1:0"})
	way := newGate(t, s.State().API)
	env := []string{"WAYPOST_API=" + way.api.URL, "WAYPOST_API_KEY=" + s.State().APIKey}
	text, err := os.ReadFile("../../testdata/links.csv")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "links.csv")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	progress := file + ".progress"
	random := func(most time.Duration) {
		timer := time.NewTimer(rand.N(most))
		<-timer.C
	}

	// The first is killed some batches on, the next while it settles what was in doubt, and
	// the third at any moment after that, with the control plane. They are ten batches, of
	// which four are under way at once.
	way.pass(rand.IntN(5))
	first := begin(t, env, "links", "import", file)
	awaitLines(t, progress, 4)
	random(100 * time.Millisecond)
	kill(t, first)
	refused := devtest.Run(t, env, "links", "import", file)
	require.Equal(t, 1, refused.Code, refused.Stderr)
	require.Contains(t, refused.Stderr, "continue it with --resume")

	second := begin(t, env, "links", "import", file, "--resume")
	random(2 * time.Second)
	kill(t, second)

	before, err := os.ReadFile(progress)
	require.NoError(t, err)
	way.pass(4 + rand.IntN(2))
	third := begin(t, env, "links", "import", file, "--resume")
	awaitLines(t, progress, bytes.Count(before, []byte("\n"))+2)
	devtest.KillProcess(t, int(s.State().Control.PID))
	random(500 * time.Millisecond)
	kill(t, third)

	way.pass(50)
	last := devtest.Run(t, env, "links", "import", file, "--resume")
	require.Zero(t, last.Code, last.Stderr)
	require.Contains(t, last.Stdout, "9147 of 9147 rows created, 0 refused, in ")
	require.NoFileExists(t, progress)

	requireExports(t, []string{"WAYPOST_DATA_DIR=" + s.DataDir()}, realLinks(t))
	requireSwitch(t, s)
	s.Stop()
}

// requireExports demands that both formats hold the targets, each from a line of
// its own of one import, and that the CSV can be imported, of which a part is.
func requireExports(t *testing.T, env, targets []string) {
	t.Helper()
	r := devtest.Run(t, env, "links", "export", "--format", "jsonl")
	require.Zero(t, r.Code, r.Stderr)
	var got []string
	imports, origins := make(map[string]bool), make(map[string]bool)
	lines := bufio.NewScanner(strings.NewReader(r.Stdout))
	for lines.Scan() {
		var l exported
		require.NoError(t, json.Unmarshal(lines.Bytes(), &l))
		got = append(got, l.OriginalURL)
		origins[l.CreatedBy] = true
		imports[l.CreatedBy[:strings.LastIndexByte(l.CreatedBy, ':')]] = true
	}
	require.Equal(t, sorted(targets), sorted(got))
	require.Len(t, origins, len(targets))
	require.Len(t, imports, 1)

	file := filepath.Join(t.TempDir(), "export.csv")
	r = devtest.Run(t, env, "links", "export", file)
	require.Zero(t, r.Code, r.Stderr)
	require.Equal(t, "9147 links written to "+file+"\n", r.Stdout)
	require.Equal(t, sorted(targets), sorted(column(t, file, "original_url")))

	part, before := keepTenth(t, file), time.Now().UTC().Truncate(time.Millisecond)
	r = devtest.Run(t, env, "links", "import", file)
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
