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

	"waypost/bench/corpus"
)

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

func TestRedisServer_AnswersFromRedis(t *testing.T) {
	const links = 50
	socket := fakeRedis(t, map[string]string{})
	conn, err := dialRedis(t.Context(), socket)
	require.NoError(t, err)
	l := testLab(t)
	require.NoError(t, l.fillRedis(t.Context(), conn, links))

	s := newRedisServer(socket)
	addr := serveApp(t, app{answering: s, close: s.close})
	require.NoError(t, hit(t, addr, links, corpus.Bare).check(t.Context()))
	require.NoError(t, miss(addr, links).check(t.Context()))
}

func TestNginx_HasEveryCodeUnlessAnotherDiffersInCaseOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "links.map")
	expect, err := testLab(t).writeMap(path, 2000)
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 2000)
	code := corpus.AppendCode(nil, 0)
	require.Equal(t, `"/`+string(code)+`" "`+string(expect.location(nil, 0))+`";`, lines[0])
	require.False(t, expect.skip(code))
}

func TestMapServer_AnswersFromItsFile(t *testing.T) {
	const links = 50
	c := hit(t, "", links, corpus.Browser)
	r := &rival{contender: c}
	l := &comparison{testLab(t), links}
	file, err := l.writeLines(r, "%s %s\n")
	require.NoError(t, err)
	s, err := newMapServer(file)
	require.NoError(t, err)
	c.target.addr = serveApp(t, app{answering: s, close: func() error { return nil }})
	require.NoError(t, c.check(t.Context()))
	require.NoError(t, miss(c.target.addr, links).check(t.Context()))
	_, err = newMapServer(file + ".missing")
	require.Error(t, err)
}

// TestRival_IsTimedFromAChangeToItsAnswer changes a link of a program that has to be
// started again for it.
func TestRival_IsTimedFromAChangeToItsAnswer(t *testing.T) {
	l, c := &comparison{testLab(t), 50}, hit(t, "", 50, corpus.Browser)
	l.self = os.Args[0]
	r := &rival{contender: c}
	ctx := context.WithoutCancel(t.Context()) // servers are stopped after the test
	require.NoError(t, l.mapRival(ctx, r))
	require.NoError(t, l.begin(ctx, r))
	t.Cleanup(func() { require.NoError(t, r.target.stop()) })
	require.NoError(t, c.check(t.Context()))
	code := string(corpus.AppendCode(nil, 7))
	require.NoError(t, r.alter(ctx, code, "https://example.org/changed"))
	require.Len(t, r.changes, 1)
	_, err := awaitTarget(ctx, r.target.addr, code, "https://example.org/changed")
	require.NoError(t, err)
	require.Error(t, r.alter(ctx, "unknown", "https://example.org/"))
	require.NoError(t, r.weigh())
	require.Positive(t, r.disk)
}

func TestReplaceLine_ChangesOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "links")
	require.NoError(t, os.WriteFile(path, []byte("ab 1\nabc 2\nc 3\n"), 0o600))
	for _, change := range [][2]string{{"abc ", "abc 4"}, {"ab ", "ab 55"}, {"c ", "c 6"}} {
		require.NoError(t, replaceLine(path, change[0], change[1]))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "ab 55\nabc 4\nc 6\n", string(text))
	require.Error(t, replaceLine(path, "d ", "d 1"))
}

func TestExternal_AProgramThatEndsIsNotWaitedFor(t *testing.T) {
	_, err := testLab(t).startExternal(t.Context(), t.TempDir(), external{
		name: "/bin/sh", args: []string{"-c", "echo it cannot; exit 3"}, grace: time.Minute,
		ready: func(context.Context) error { return http.ErrServerClosed },
	})
	require.ErrorContains(t, err, "it cannot")
}
