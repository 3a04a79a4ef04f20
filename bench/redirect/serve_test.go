//go:build linux

package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

func TestACopyOfAReplicaServesAndTheOriginalStays(t *testing.T) {
	const links = 300
	master, copied := filepath.Join(t.TempDir(), "master"), t.TempDir()
	require.NoError(t, fill(t.Context(), []string{"-dir", master, "-targets", realLinks, "-links", "300"}))
	before, err := diskBytes(master)
	require.NoError(t, err)
	require.NoError(t, clone(master, copied))
	given := t.TempDir()
	require.NoError(t, clone(master, given))
	snapshots, err := serveOptions{Kind: kindSource, Dir: given}.app()
	require.NoError(t, err)
	sourceAddr := serveApp(t, snapshots)

	clicks, err := newSink()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, clicks.close()) })
	a, err := serveOptions{Kind: kindEdge, Dir: copied, Journal: t.TempDir(), Ship: clicks.url, Links: links, Targets: realLinks, Source: "http://" + sourceAddr}.app()
	require.NoError(t, err)
	addr := serveApp(t, a)
	l := &lab{o: options{Targets: realLinks}}
	for _, h := range []corpus.Headers{corpus.Bare, corpus.Browser} {
		c, err := l.edgeCase(&target{addr: addr}, load{corpus.Uniform, links, h})
		require.NoError(t, err)
		require.NoError(t, c.check(t.Context()))
	}
	missing := &contender{target: &target{addr: addr}, load: load{corpus.Missing, links, corpus.Bare}, expect: expectation{status: 404}}
	require.NoError(t, missing.check(t.Context()))

	for range 2 {
		for _, command := range []string{"changes 0 1ms", "changes 4000 9ms", "snapshots 1ms"} {
			words := strings.Fields(command)
			got, err := a.commands[words[0]](t.Context(), words[1:])
			require.NoError(t, err, command)
			require.NotEqual(t, "0", got, command)
		}
		c, err := l.edgeCase(&target{addr: addr}, load{corpus.Uniform, links, corpus.Bare})
		require.NoError(t, err)
		require.NoError(t, c.check(t.Context()), "after a snapshot all links lead where they did at first")
	}
	dropped, err := a.commands["metric"](t.Context(), []string{"waypost_clicks_dropped_total"})
	require.NoError(t, err)
	require.Equal(t, "0", dropped)
	require.Eventually(t, func() bool {
		shipped, err := a.commands["metric"](t.Context(), []string{"waypost_clicks_shipped_total"})
		return err == nil && shipped != "0"
	}, 60*time.Second, 10*time.Millisecond, "clicks are shipped and acknowledged")
	after, err := diskBytes(master)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestAWrongAnswerIsNoticed(t *testing.T) {
	addr := serveApp(t, app{answering: newBareServer(), close: func() error { return nil }})
	for name, e := range map[string]expectation{
		"another target": {status: 302, constant: "https://example.org/"},
		"another status": {status: 404},
		"the right one":  {status: 302, constant: constantTarget},
	} {
		c := &contender{target: &target{addr: addr}, load: load{corpus.Uniform, 10, corpus.Browser}, expect: e}
		err := c.check(t.Context())
		require.Equal(t, name == "the right one", err == nil, "%s: %v", name, err)
	}
	_, err := serveOptions{Kind: "other"}.app()
	require.Error(t, err)
}

func TestConstantServersAnswerAlike(t *testing.T) {
	for name, server := range map[string]answering{"fasthttp": newBareServer(), "net/http": newNetHTTPServer()} {
		addr := serveApp(t, app{answering: server, close: func() error { return nil }})
		c := bareCase(&target{addr: addr}, load{corpus.Uniform, 10, corpus.Bare})
		require.NoError(t, c.check(t.Context()), name)
	}
}

func TestCommandsAreAnsweredInTurn(t *testing.T) {
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

func TestTheEndOfTheInputEndsACommand(t *testing.T) {
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
