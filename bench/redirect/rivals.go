//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

// rival is one of the servers that people build themselves, or Waypost's edge.
type rival struct {
	paced
	dir string // with all that it keeps on disk

	start              func(ctx context.Context) (*target, error)        // from the links in dir
	change             func(ctx context.Context, code, url string) error // sets another target of a link
	addrs              func() []string                                   // that must have a change
	lose               func() error                                      // kills the store that it asks; nil when it asks none
	starts, changes    []float64                                         // s, ms
	memory, disk, lost float64                                           // MB, MB, % of requests without the store
}

const nameWaypost = "Waypost"

// rivals prepares all rivals. The notes name the rivals that are missing on this machine.
func (l *lab) rivals(ctx context.Context, links int) (all []*rival, notes []string, err error) {
	for _, one := range []struct {
		name, what string
		prepare    func(ctx context.Context, r *rival) error
	}{
		{nameWaypost, "an edge with its replica; every click is journaled, batched and shipped.", l.prepareEdge},
		{"nginx, map", "the links in nginx's configuration. Keys ignore case, and a change is a new file and a reload.", l.prepareNginx},
		{"nginx, Lua, Redis", "lua-nginx-redis asks a Redis on the same machine, over a Unix socket.", l.prepareRedis},
	} {
		r := &rival{paced: paced{contender: &contender{
			name: one.name, what: one.what, base: nameWaypost, links: links, url: l.found,
		}}}
		r.addrs = func() []string { return []string{r.target.addr} }
		if r.dir, err = bench.TempDir(l.dir); err != nil {
			return nil, nil, err
		}
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

func (l *lab) prepareEdge(ctx context.Context, r *rival) (err error) {
	r.dir, err = l.replica(ctx, l.self, r.links)
	r.start = func(context.Context) (*target, error) { return l.startEdge(l.self, r.dir) }
	return err
}

const nginxConf = `daemon off;
%sworker_processes 1;
pid nginx.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  keepalive_requests 1000000000;
%s
  server {
    listen %s;
    location / {
%s
    }
  }
}
`

// startNginx starts nginx in a directory with parts of its configuration.
func (l *lab) startNginx(dir, modules, http, location string) (*target, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		modules += "user root;\n" // the directory is root's
	}
	if err := writeFile(dir, "nginx.conf", fmt.Sprintf(nginxConf, modules, http, addr, location)); err != nil {
		return nil, err
	}
	t, err := l.startOther(dir, "nginx", "-p", dir, "-c", "nginx.conf", "-e", "stderr")
	if err != nil {
		return nil, err
	}
	t.addr = addr
	// nginx reads a million links in seconds, and then starts a worker.
	for end := time.Now().Add(2 * time.Minute); len(t.pids) == 1; time.Sleep(time.Millisecond) {
		workers, err := bench.Children(t.pids[0])
		if err == nil && time.Now().After(end) {
			err = errors.New("nginx has no worker")
		}
		if err != nil {
			return nil, errors.Join(err, t.stop())
		}
		t.pids = append(t.pids, workers...)
	}
	return t, nil
}

// prepareNginx puts the links into nginx itself. Its map ignores case, so a code that
// differs from an earlier one only in case is left out, and leads where the earlier one
// leads.
func (l *lab) prepareNginx(_ context.Context, r *rival) error {
	first := make(map[[corpus.CodeLength]byte]uint64, r.links)
	lower := func(n uint64) [corpus.CodeLength]byte {
		return [corpus.CodeLength]byte(bytes.ToLower(corpus.AppendCode(nil, n)))
	}
	err := l.writeLinks(r, func(n uint64, code, url string) string {
		if _, taken := first[lower(n)]; taken {
			return ""
		}
		first[lower(n)] = n
		return fmt.Sprintf("\"/%s\" \"%s\";\n", code, url)
	})
	r.url = func(n uint64) string { return l.found(first[lower(n)]) }
	r.start = func(context.Context) (*target, error) {
		return l.startNginx(r.dir, "", `  map_hash_max_size 4194304;
  map_hash_bucket_size 256;
  map $uri $target { default ""; include links; }`, `      if ($target) { return 302 $target; }
      return 404;`)
	}
	r.change = func(_ context.Context, code, url string) error {
		err := replaceLine(r.dir, `"/`+code+`" `, fmt.Sprintf(`"/%s" "%s";`, code, url))
		return errors.Join(err, syscall.Kill(r.target.pids[0], syscall.SIGHUP))
	}
	return err
}

// prepareRedis puts the links into a Redis, which nginx asks. The paths come from
// Debian's packages.
func (l *lab) prepareRedis(_ context.Context, r *rival) error {
	if _, err := os.Stat("/usr/share/lua/5.1/nginx/redis.lua"); err != nil {
		return fmt.Errorf("nginx without Lua: %w", exec.ErrNotFound)
	}
	socket := filepath.Join(r.dir, "s")
	startStore := func() (*target, net.Conn, error) {
		store, err := l.startOther(r.dir, "redis-server", "--port", "0", "--unixsocket", socket,
			"--save", "", "--appendonly", "no", "--dir", r.dir)
		if err != nil {
			return nil, nil, err
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			conn, err := net.Dial("unix", socket)
			if err == nil {
				err = askRedis(conn, "EXISTS a") // Redis answers once it has read its file
			}
			if err == nil {
				return store, conn, nil
			}
			if time.Now().After(end) {
				return nil, nil, errors.Join(fmt.Errorf("start Redis: %w", err), store.stop())
			}
		}
	}
	store, conn, err := startStore()
	if err != nil {
		return err
	}
	const atOnce = 1000
	for n := 0; n < r.links && err == nil; n += atOnce {
		var commands []string
		for i := n; i < min(n+atOnce, r.links); i++ {
			commands = append(commands, fmt.Sprintf("SET %s %s", corpus.AppendCode(nil, uint64(i)), l.found(uint64(i))))
		}
		err = askRedis(conn, commands...)
	}
	if err == nil {
		err = askRedis(conn, "SAVE")
	}
	if err := errors.Join(err, conn.Close(), store.stop()); err != nil {
		return err
	}
	r.start = func(context.Context) (*target, error) {
		store, conn, err := startStore()
		if err != nil {
			return nil, err
		}
		r.change = func(_ context.Context, code, url string) error { return askRedis(conn, "SET "+code+" "+url) }
		r.lose = func() error { return syscall.Kill(store.pids[0], syscall.SIGKILL) }
		t, err := l.startNginx(r.dir, "load_module /usr/lib/nginx/modules/ndk_http_module.so;\nload_module /usr/lib/nginx/modules/ngx_http_lua_module.so;\n",
			`  lua_package_path "/usr/share/lua/5.1/?.lua;;";`, `      content_by_lua_block {
        local store = require("nginx.redis"):new()
        store:set_timeout(1000)
        if not store:connect("unix:`+socket+`") then return ngx.exit(503) end
        local target, failure = store:get(ngx.var.uri:sub(2))
        if failure then return ngx.exit(503) end
        store:set_keepalive(60000, 1000)
        if target == ngx.null then return ngx.exit(404) end
        return ngx.redirect(target, 302)
      }`)
		if err != nil {
			return nil, errors.Join(err, store.stop())
		}
		ended := t.stop
		t.pids = append(t.pids, store.pids...) // the time of both counts
		t.stop = func() error { return errors.Join(ended(), conn.Close(), store.stop()) }
		return t, nil
	}
	return nil
}

// askRedis sends commands at once, and fails when Redis does.
func askRedis(conn net.Conn, commands ...string) error {
	if _, err := io.WriteString(conn, strings.Join(commands, "\r\n")+"\r\n"); err != nil {
		return fmt.Errorf("ask Redis: %w", err)
	}
	r := bufio.NewReader(conn)
	for range commands {
		line, err := r.ReadString('\n')
		if err != nil || line[0] == '-' {
			return fmt.Errorf("redis answers %q: %w", line, err)
		}
	}
	return nil
}

func writeFile(dir, name, text string) error {
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write a file of a server: %w", err)
	}
	return nil
}

// writeLinks writes the links of a rival into its directory, one in a line.
func (l *lab) writeLinks(r *rival, line func(n uint64, code, url string) string) error {
	var all strings.Builder
	for n := range uint64(r.links) {
		all.WriteString(line(n, string(corpus.AppendCode(nil, n)), l.found(n)))
	}
	return writeFile(r.dir, "links", all.String())
}

// replaceLine replaces the line of a rival's links that starts with begin. A reader sees
// the old file or the new one.
func replaceLine(dir, begin, line string) error {
	path := filepath.Join(dir, "links")
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("change a link: %w", err)
	}
	before, rest, found := strings.Cut("\n"+string(text), "\n"+begin)
	if !found {
		return fmt.Errorf("change a link: no line begins with %s", begin)
	}
	_, after, _ := strings.Cut(rest, "\n")
	if err := writeFile(dir, "links.new", strings.TrimPrefix(before+"\n"+line+"\n"+after, "\n")); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
