//go:build linux

package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/bench/corpus"
)

const realLinks = "../../testdata/links.csv"

func TestAReplicaFollowsTheFeed(t *testing.T) {
	const links = 500
	f, err := newFeed(realLinks, links)
	require.NoError(t, err)
	db, err := openReplica(t.TempDir(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, f.snapshot(t.Context(), db, f.bySlot()))

	leadsTo := func(n, version uint64) {
		t.Helper()
		rec, _, found, err := db.Link(waypost.DefaultDomain, corpus.AppendCode(nil, n), nil)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, string(f.location(nil, n, version)), string(rec.Payload))
	}
	for n := range uint64(links) {
		leadsTo(n, 0)
	}
	for range links / 20 {
		require.NoError(t, f.change(t.Context(), db, 20))
	}
	for n := range uint64(links) {
		leadsTo(n, 1)
	}
	require.NotEqual(t, f.location(nil, 3, 0), f.location(nil, 3, 1))

	again, err := newFeed(realLinks, links)
	require.NoError(t, err)
	again.resume(db)
	require.NoError(t, again.snapshot(t.Context(), db, again.bySlot()), "while it is open")
	require.NoError(t, again.change(t.Context(), db, 20), "and goes on from there")
}

func TestLinksComeSlotBySlotAndOnce(t *testing.T) {
	f, err := newFeed(realLinks, 20_000)
	require.NoError(t, err)
	order, seen, last := f.bySlot(), map[uint32]bool{}, uint16(0)
	require.Len(t, order, 20_000)
	for _, n := range order {
		slot := waypost.Slot(waypost.KindLink, waypost.DefaultDomain, corpus.AppendCode(nil, uint64(n)))
		require.GreaterOrEqual(t, slot, last)
		require.False(t, seen[n])
		last, seen[n] = slot, true
	}
}

// serveApp serves an app in this process and gives its address.
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

	a, err := serveOptions{Kind: kindEdge, Dir: copied, Journal: t.TempDir(), Links: links, Targets: realLinks}.app()
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

	for command, want := range map[string]string{"changes 0 1ms": "20", "changes 4000 9ms": "40", "snapshots 1ms": "1", "metric waypost_clicks_dropped_total": "0"} {
		words := strings.Fields(command)
		got, err := a.commands[words[0]](t.Context(), words[1:])
		require.NoError(t, err, command)
		require.NotEqual(t, "", got, want)
	}
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

// fakeRedis answers GET from a map, and OK to everything else.
func fakeRedis(t *testing.T, values map[string]string) string {
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for r := bufio.NewReader(conn); ; {
					var words []string
					head, err := r.ReadString('\n')
					if err != nil {
						return
					}
					for range int(head[1] - '0') {
						_, _ = r.ReadString('\n')
						word, _ := r.ReadString('\n')
						words = append(words, strings.TrimSpace(word))
					}
					answer := "+OK\r\n"
					if words[0] == "SET" {
						values[words[1]] = words[2]
					} else if v, ok := values[words[1]]; ok {
						answer = string(appendBulk(nil, []byte(v)))
					} else {
						answer = "$-1\r\n"
					}
					_, _ = io.WriteString(conn, answer)
				}
			}()
		}
	}()
	return socket
}

func TestTheServerOnRedisAnswersWhatRedisHolds(t *testing.T) {
	const links = 50
	socket := fakeRedis(t, map[string]string{})
	conn, err := dialRedis(t.Context(), socket)
	require.NoError(t, err)
	l := &lab{o: options{Targets: realLinks}}
	require.NoError(t, l.fillRedis(t.Context(), conn, links))

	s := newRedisServer(socket)
	addr := serveApp(t, app{answering: s, close: s.close})
	c, err := l.edgeCase(&target{addr: addr}, load{corpus.Uniform, links, corpus.Bare})
	require.NoError(t, err)
	require.NoError(t, c.check(t.Context()))
	missing := &contender{target: &target{addr: addr}, load: load{corpus.Missing, links, corpus.Bare}, expect: expectation{status: 404}}
	require.NoError(t, missing.check(t.Context()))
}

func TestNginxHasEveryCodeButThoseThatDifferInCase(t *testing.T) {
	path, r := filepath.Join(t.TempDir(), "links.map"), &rivalry{}
	l := &lab{o: options{Targets: realLinks}}
	require.NoError(t, l.writeMap(path, 2000, r))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 2000)
	code := corpus.AppendCode(nil, 0)
	require.Equal(t, `"/`+string(code)+`" "`+string(r.expect.location(nil, 0))+`";`, lines[0])
	require.False(t, r.expect.skip(code))
}

func TestTheTimeOfAProcessIsKnown(t *testing.T) {
	self := &target{pids: []int{os.Getpid()}}
	before, err := self.cpu()
	require.NoError(t, err)
	x := uint64(1)
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
		x = x*31 + 7
	}
	after, err := self.cpu()
	require.NoError(t, err)
	require.Greater(t, after-before, 5*time.Millisecond, "%d", x)
	memory, err := self.memory()
	require.NoError(t, err)
	require.Greater(t, memory, int64(1<<20))
	sockets, err := self.sockets()
	require.NoError(t, err)
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	more, err := self.sockets()
	require.NoError(t, err)
	require.Equal(t, sockets+1, more)

	_, err = (&target{pids: []int{1 << 22}}).cpu()
	require.Error(t, err)
	_, err = kilobytes([]byte("Rss: 12 kB\n"), "Pss:")
	require.Error(t, err)
}

func TestOptions(t *testing.T) {
	o, err := parseOptions(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"uniform-1m", "zipf-1m", "misses-1m", "latency-1m"}, o.Only)
	o, err = parseOptions([]string{"-full"})
	require.NoError(t, err)
	require.Equal(t, names(all), o.Only)
	o, err = parseOptions([]string{"-only", "latency-10m,scan-10m"})
	require.NoError(t, err)
	require.Equal(t, []string{"latency-10m", "scan-10m"}, o.Only)
	for _, args := range [][]string{
		{"-only", "unknown"}, {"-rounds", "0"}, {"-round", "1500ms"}, {"-connections", "0"}, {"-threads", "65"}, {"more"},
	} {
		_, err := parseOptions(args)
		require.Error(t, err, args)
	}
}

func TestAProgramThatEndsAtOnceIsNotWaitedFor(t *testing.T) {
	_, err := external{
		name: "/bin/sh", args: []string{"-c", "echo it cannot; exit 3"}, grace: time.Minute,
		ready: func(context.Context) error { return http.ErrServerClosed },
	}.start(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "it cannot")
}
