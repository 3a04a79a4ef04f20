//go:build linux

package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/bench"
	"waypost/bench/corpus"
)

func serveApp(t *testing.T, a app) string {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- a.Serve(ln) }()
	t.Cleanup(func() {
		require.NoError(t, a.Shutdown(context.WithoutCancel(t.Context())))
		require.NoError(t, <-served)
		require.NoError(t, a.close())
	})
	return ln.Addr().String()
}

// TestMain plays the parts of the child processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == partServe || os.Args[1] == partFill) {
		main()
		return
	}
	os.Exit(m.Run())
}

func testLab(t *testing.T) *lab {
	processors, restore, err := bench.Split()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, restore()) })
	return &lab{o: options{Options: bench.Options{Targets: realLinks}}, dir: t.TempDir(), processors: processors}
}

// hit expects the target of each link.
func hit(t *testing.T, addr string, links int, h corpus.Headers) *contender {
	f, err := newFeed(realLinks, links)
	require.NoError(t, err)
	return &contender{
		target: &target{addr: addr}, access: corpus.Uniform, links: links, headers: h,
		expect: expectation{status: 302, location: func(dst []byte, n uint64) []byte { return f.location(dst, n, 0) }},
	}
}

// miss expects that no link is found.
func miss(addr string, links int) *contender {
	return &contender{
		target: &target{addr: addr}, access: corpus.Missing, links: links, headers: corpus.Bare,
		expect: expectation{status: 404},
	}
}

// TestProgram_Try runs sections at saturation with another build, and one at half load.
func TestProgram_Try(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	before := filepath.Join(t.TempDir(), "before")
	require.NoError(t, os.Symlink(self, before))
	out := t.TempDir()
	require.NoError(t, measure(t.Context(), []string{"-try", "-targets", realLinks, "-out", out, "-before", before, "-only", "zipf-1m"}))
	require.NoError(t, measure(t.Context(), []string{"-try", "-targets", realLinks, "-out", out, "-only", "work-1m"}))
	require.NoError(t, measure(t.Context(), []string{"-try", "-targets", realLinks, "-out", out, "-before", before, "-only", "rules-1m"}))
	require.NoFileExists(t, filepath.Join(out, "RESULTS.md"))
	require.Error(t, measure(t.Context(), []string{"-round", "1500ms"}))
	require.Error(t, measure(t.Context(), []string{"-only", "unknown"}))
}

func TestEdge_ServesACopyOfAReplicaWhileItChanges(t *testing.T) {
	const links = 300
	master, copied, given := filepath.Join(t.TempDir(), "master"), t.TempDir(), t.TempDir()
	require.NoError(t, fill(t.Context(), []string{"-dir", master, "-targets", realLinks, "-links", "300"}))
	before, err := diskBytes(master)
	require.NoError(t, err)
	require.NoError(t, clone(master, copied))
	require.NoError(t, clone(master, given))
	snapshots, err := serveOptions{Kind: kindSource, Dir: given}.app()
	require.NoError(t, err)
	sourceAddr := serveApp(t, snapshots)

	clicks, err := newSink()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, clicks.close()) })
	a, err := serveOptions{
		Kind: kindEdge, Dir: copied, Journal: t.TempDir(), Ship: clicks.url, Links: links, Targets: realLinks,
		Source: "http://" + sourceAddr,
	}.app()
	require.NoError(t, err)
	addr := serveApp(t, a)
	for _, h := range []corpus.Headers{corpus.Bare, corpus.Browser} {
		require.NoError(t, hit(t, addr, links, h).check(t.Context()))
	}
	require.NoError(t, miss(addr, links).check(t.Context()))
	for _, command := range []string{"changes 4000 9ms", "snapshots 1ms"} {
		words := strings.Fields(command)
		got, err := a.commands[words[0]](t.Context(), words[1:])
		require.NoError(t, err, command)
		require.NotEqual(t, "0", got, command)
	}
	require.NoError(t, hit(t, addr, links, corpus.Bare).check(t.Context()), "after a snapshot all links have their first targets")
	dropped, err := a.commands["metric"](t.Context(), []string{"waypost_clicks_dropped_total"})
	require.NoError(t, err)
	require.Equal(t, "0", dropped)
	require.Eventually(t, func() bool {
		shipped, err := a.commands["metric"](t.Context(), []string{"waypost_clicks_shipped_total"})
		return err == nil && shipped != "0"
	}, 60*time.Second, 10*time.Millisecond, "clicks are shipped and acknowledged")
	after, err := diskBytes(master)
	require.NoError(t, err)
	require.Equal(t, before, after, "the original stays")
}

func TestCheck_NoticesAWrongAnswer(t *testing.T) {
	addr := serveApp(t, app{answering: newBareServer(), close: func() error { return nil }})
	for name, e := range map[string]expectation{
		"another target": {status: 302, constant: "https://example.org/"},
		"another status": {status: 404},
		"the right one":  {status: 302, constant: constantTarget},
	} {
		c := &contender{target: &target{addr: addr}, access: corpus.Uniform, links: 10, headers: corpus.Browser, expect: e}
		err := c.check(t.Context())
		require.Equal(t, name == "the right one", err == nil, "%s: %v", name, err)
	}
	_, err := serveOptions{Kind: "other"}.app()
	require.Error(t, err)
}

func TestObey_AnswersInTurn(t *testing.T) {
	var out strings.Builder
	commands := map[string]command{
		"add": func(_ context.Context, args []string) (string, error) { return strings.Join(args, "+"), nil },
		"fail": func(context.Context, []string) (string, error) {
			return "", io.ErrUnexpectedEOF
		},
	}
	require.NoError(t, obey(t.Context(), strings.NewReader("add 1 2\nfail\n\nother\nadd\n"), &out, commands))
	require.Equal(t, "ok 1+2\nerror unexpected EOF\nerror no such command\nerror no such command\nok \n", out.String())
}

func TestObey_TheEndOfTheInputEndsACommand(t *testing.T) {
	in, feed := io.Pipe()
	began := make(chan struct{})
	go func() {
		_, _ = io.WriteString(feed, "wait\n")
		<-began
		_ = feed.Close()
	}()
	require.NoError(t, obey(t.Context(), in, io.Discard, map[string]command{
		"wait": func(ctx context.Context, _ []string) (string, error) {
			close(began)
			<-ctx.Done()
			return "", ctx.Err()
		},
	}))
}
