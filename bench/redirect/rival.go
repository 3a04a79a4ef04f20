//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

// rival is one of the servers that people build themselves, or Waypost's edge.
type rival struct {
	*contender // at saturation
	half       paced
	dirs       []string // with all that it keeps on disk

	// start starts a server from the links on disk, and returns it. It stops none that runs.
	start func(ctx context.Context) (*target, error)
	// change sets another target of a link, and returns the addresses that must have it;
	// that of Waypost is set when its fleet is there.
	change func(ctx context.Context, code, target string) ([]string, error)
	// lose kills the store that the server asks; nil when it asks none.
	lose func() error

	starts, changes []float64 // s, ms
	memory, disk    float64   // MB
	lost            float64   // % of the requests after the store is gone
}

// rivals prepares all rivals. What is missing on this machine is named in the notes.
func (l *comparison) rivals(ctx context.Context) (all []*rival, notes []string, err error) {
	f, err := newFeed(l.o.Targets, l.links)
	if err != nil {
		return nil, nil, err
	}
	found := expectation{status: http.StatusFound, location: func(dst []byte, n uint64) []byte { return f.location(dst, n, 0) }}
	for _, one := range []struct {
		name, what string
		prepare    func(ctx context.Context, r *rival) error
	}{
		{nameWaypost, "an edge with its replica; every click is journaled, batched and shipped.", l.edgeRival},
		{"nginx, map", "the links in nginx's configuration. Keys ignore case, and a change is a new file and a reload.", l.nginxRival},
		{"nginx, Lua, Redis", "lua-nginx-redis asks a Redis on the same machine, over a Unix socket.", l.luaRival},
		{"fasthttp, Redis", "the same by a program in Go.", l.fasthttpRival},
		{"net/http, map", "a program with the standard library, which reads a file when it starts. A change is a new file and a new process.", l.mapRival},
		{
			fmt.Sprintf("Caddy, %s links", bench.Grouped(caddyLinks(l.links))),
			"a map in Caddy's configuration; it compares its links one after the other, so that a redirect of a million takes 18 ms.", l.caddyRival,
		},
	} {
		r := &rival{contender: &contender{
			name: one.name, what: one.what, base: nameWaypost, access: corpus.Uniform, links: l.links, headers: corpus.Browser, expect: found,
		}}
		err := one.prepare(ctx, r)
		if errors.Is(err, exec.ErrNotFound) {
			notes = append(notes, fmt.Sprintf("%s was not measured: %v", one.name, err))
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", one.name, err)
		}
		all = append(all, r)
	}
	return all, notes, nil
}

const nameWaypost = "Waypost"

// caddyLinks bounds the links of Caddy: with a million a redirect takes 18 ms on average.
func caddyLinks(links int) int { return min(links, 1000) }

func (l *comparison) edgeRival(ctx context.Context, r *rival) error {
	dir, err := l.replica(ctx, l.self, r.links, "")
	r.dirs = []string{dir}
	r.start = func(ctx context.Context) (*target, error) {
		return l.startEdgeIn(ctx, dir, edgeOptions{build: l.self, links: r.links, ship: l.sink.url})
	}
	return err
}

func (l *comparison) nginxRival(_ context.Context, r *rival) error {
	if _, err := exec.LookPath("nginx"); err != nil {
		return err
	}
	dir, err := l.subdir("nginx-")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "links.map")
	r.expect, err = l.writeMap(file, r.links)
	r.dirs = []string{dir}
	r.start = func(ctx context.Context) (*target, error) { return l.startNginxIn(ctx, dir, nginxMap) }
	r.change = func(_ context.Context, code, target string) ([]string, error) {
		if err := replaceLine(file, `"/`+code+`" `, fmt.Sprintf(`"/%s" "%s";`, code, target)); err != nil {
			return nil, err
		}
		return []string{r.target.addr}, syscall.Kill(r.target.pids[0], syscall.SIGHUP)
	}
	return err
}

// storeRival prepares a rival that asks Redis. serve starts the server in front of it.
func (l *comparison) storeRival(ctx context.Context, r *rival, serve func(ctx context.Context, socket string) (*target, error)) error {
	dir, err := l.subdir("redis-")
	if err != nil {
		return err
	}
	store, conn, err := l.startStore(ctx, dir)
	if err != nil {
		return err
	}
	if err := errors.Join(l.fillRedis(ctx, conn, r.links), conn.save(), conn.conn.Close(), store.stop()); err != nil {
		return err
	}
	r.dirs = []string{dir}
	r.start = func(ctx context.Context) (*target, error) {
		store, conn, err := l.startStore(ctx, dir)
		if err != nil {
			return nil, err
		}
		r.change = func(ctx context.Context, code, target string) ([]string, error) {
			return []string{r.target.addr}, conn.set(ctx, 1, func(uint64, []byte, []byte) (key, value []byte) {
				return []byte(code), []byte(target)
			})
		}
		r.lose = func() error { return syscall.Kill(store.pids[0], syscall.SIGKILL) }
		t, err := serve(ctx, socketIn(dir))
		return behind(t, store, err)
	}
	return nil
}

func (l *comparison) luaRival(ctx context.Context, r *rival) error {
	if _, err := exec.LookPath("nginx"); err != nil {
		return err
	}
	if _, err := os.Stat("/usr/share/lua/5.1/nginx/redis.lua"); err != nil {
		return fmt.Errorf("nginx without Lua: %w", exec.ErrNotFound)
	}
	dir, err := l.subdir("lua-")
	if err != nil {
		return err
	}
	return l.storeRival(ctx, r, func(ctx context.Context, socket string) (*target, error) {
		return l.startNginxIn(ctx, dir, nginxLua(socket))
	})
}

func (l *comparison) fasthttpRival(ctx context.Context, r *rival) error {
	return l.storeRival(ctx, r, func(ctx context.Context, socket string) (*target, error) {
		return l.startServer(ctx, l.self, kindRedis, "-redis", socket)
	})
}

func (l *comparison) mapRival(_ context.Context, r *rival) error {
	file, err := l.writeLines(r, "%s %s\n")
	r.start = func(ctx context.Context) (*target, error) { return l.startServer(ctx, l.self, kindMap, "-file", file) }
	r.change = func(ctx context.Context, code, target string) ([]string, error) {
		if err := replaceLine(file, code+" ", code+" "+target); err != nil {
			return nil, err
		}
		old := r.target
		t, err := r.start(ctx)
		if err != nil {
			return nil, err
		}
		r.target = t
		return []string{t.addr}, old.stop()
	}
	return err
}

func (l *comparison) caddyRival(_ context.Context, r *rival) error {
	if _, err := exec.LookPath("caddy"); err != nil {
		return err
	}
	r.links = caddyLinks(r.links)
	file, err := l.writeLines(r, "/%s %s\n")
	var c *caddy
	r.start = func(ctx context.Context) (_ *target, err error) {
		if c, err = l.startCaddy(ctx, r.dirs[0]); err != nil {
			return nil, err
		}
		return c.target, nil
	}
	r.change = func(ctx context.Context, code, target string) ([]string, error) {
		if err := replaceLine(file, "/"+code+" ", "/"+code+" "+target); err != nil {
			return nil, err
		}
		return []string{c.addr}, c.reload(ctx, r.dirs[0])
	}
	return err
}

// writeLines writes the links of a rival, one in a line, into a directory of its own.
func (l *comparison) writeLines(r *rival, format string) (path string, err error) {
	dir, err := l.subdir("lines-")
	if err != nil {
		return "", err
	}
	path, r.dirs = filepath.Join(dir, "links.map"), []string{dir}
	file, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("write links: %w", err)
	}
	w := bufio.NewWriter(file)
	for n := range uint64(r.links) {
		fmt.Fprintf(w, format, corpus.AppendCode(nil, n), r.expect.location(nil, n))
	}
	return path, errors.Join(w.Flush(), file.Close())
}

// replaceLine replaces the first line of a file that starts with begin. A reader sees the
// old file or the new one.
func replaceLine(path, begin, line string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("change a link: %w", err)
	}
	at := bytes.Index(text, []byte("\n"+begin)) + 1
	if at == 0 && !bytes.HasPrefix(text, []byte(begin)) {
		return fmt.Errorf("change a link: no line begins with %s", begin)
	}
	end := at + bytes.IndexByte(text[at:], '\n')
	changed := append(append(append(make([]byte, 0, len(text)+len(line)), text[:at]...), line...), text[end:]...)
	if err := os.WriteFile(path+".new", changed, 0o600); err != nil {
		return fmt.Errorf("change a link: %w", err)
	}
	return os.Rename(path+".new", path)
}

// begin starts a rival and notes how long it took until its first redirect.
func (l *comparison) begin(ctx context.Context, r *rival) error {
	began := time.Now()
	r.target = nil // it was stopped
	t, err := r.start(ctx)
	if err != nil {
		return err
	}
	code := string(corpus.AppendCode(nil, uint64(r.links/2)))
	if _, err := awaitTarget(ctx, t.addr, code, string(r.expect.location(nil, uint64(r.links/2)))); err != nil {
		return errors.Join(err, t.stop())
	}
	r.target, r.starts = t, append(r.starts, time.Since(began).Seconds())
	return nil
}

// awaitTarget asks until a code leads to a target, for a minute, and returns when it did.
func awaitTarget(ctx context.Context, addr, code, target string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/"+code, http.NoBody)
		if err != nil {
			return time.Time{}, err
		}
		if res, err := client.Do(req); err == nil {
			if err := res.Body.Close(); err == nil && res.Header.Get("Location") == target {
				return time.Now(), nil
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%s does not lead to %s: %w", code, target, ctx.Err())
		}
	}
}

// alter measures how long it takes until a link leads elsewhere on all servers.
func (r *rival) alter(ctx context.Context, code, target string) error {
	began := time.Now()
	addrs, err := r.change(ctx, code, target)
	if err != nil {
		return err
	}
	var at time.Time
	for _, addr := range addrs {
		if at, err = awaitTarget(ctx, addr, code, target); err != nil {
			return err
		}
	}
	r.changes = append(r.changes, at.Sub(began).Seconds()*1e3)
	return nil
}

// weigh notes what a rival holds in memory and on disk.
func (r *rival) weigh() error {
	memory, err := bench.Memory(r.target.pids...)
	if err != nil {
		return err
	}
	r.memory, r.disk = float64(memory)/1e6, 0
	for _, dir := range r.dirs {
		bytes, err := diskBytes(dir)
		if err != nil {
			return err
		}
		r.disk += float64(bytes) / 1e6
	}
	return nil
}
