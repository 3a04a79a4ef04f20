//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

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

// nginxUse holds the parts of nginx.conf that belong to one way of finding a link.
type nginxUse struct{ main, http, location string }

// nginxMap has the links in nginx itself.
var nginxMap = nginxUse{
	http: `  map_hash_max_size 4194304;
  map_hash_bucket_size 256;
  map $uri $target { default ""; include links.map; }`,
	location: `      if ($target) { return 302 $target; }
      return 404;`,
}

// nginxLua asks a Redis for each link. Its path is that of Debian's packages.
func nginxLua(socket string) nginxUse {
	return nginxUse{
		main: "load_module /usr/lib/nginx/modules/ndk_http_module.so;\nload_module /usr/lib/nginx/modules/ngx_http_lua_module.so;\n",
		http: `  lua_package_path "/usr/share/lua/5.1/?.lua;;";`,
		location: `      content_by_lua_block {
        local store = require("nginx.redis"):new()
        store:set_timeout(1000)
        if not store:connect("unix:` + socket + `") then return ngx.exit(503) end
        local target, failure = store:get(ngx.var.uri:sub(2))
        if failure then return ngx.exit(503) end
        store:set_keepalive(60000, 1000)
        if target == ngx.null then return ngx.exit(404) end
        return ngx.redirect(target, 302)
      }`,
	}
}

// startNginx starts nginx with a map of the links. A code that differs from another one
// only in case cannot be in the map.
func (l *lab) startNginx(ctx context.Context, links int) (*target, expectation, error) {
	dir, err := l.subdir("nginx-")
	if err != nil {
		return nil, expectation{}, err
	}
	expect, err := l.writeMap(filepath.Join(dir, "links.map"), links)
	if err != nil {
		return nil, expectation{}, err
	}
	t, err := l.startNginxIn(ctx, dir, nginxMap)
	return t, expect, err
}

// startNginxIn starts nginx in a directory that has all the files that its location of
// redirects needs.
func (l *lab) startNginxIn(ctx context.Context, dir string, use nginxUse) (*target, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n" // the directory is root's
	}
	if err := writeFile(filepath.Join(dir, "nginx.conf"), fmt.Sprintf(nginxConf, user+use.main, use.http, addr, use.location)); err != nil {
		return nil, err
	}
	t, err := l.startExternal(ctx, dir, external{
		name: path, args: []string{"-p", dir, "-c", "nginx.conf", "-e", "stderr"}, grace: 2 * time.Minute,
		ready: func(ctx context.Context) error { return dialOnce(ctx, addr) },
	})
	if err != nil {
		return nil, err
	}
	t.addr = addr
	for end := time.Now().Add(10 * time.Second); len(t.pids) == 1; { // it listens before it has a worker
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

// writeMap writes the links as nginx includes them.
func (l *lab) writeMap(path string, links int) (expectation, error) {
	f, err := newFeed(l.o.Targets, links)
	if err != nil {
		return expectation{}, err
	}
	file, err := os.Create(path)
	if err != nil {
		return expectation{}, err
	}
	w := bufio.NewWriter(file)
	seen, lost := make(map[[corpus.CodeLength]byte]bool, links), map[string]bool{}
	location := func(dst []byte, n uint64) []byte {
		return bytes.ReplaceAll(f.location(dst, n, 0), []byte("$"), []byte("%24"))
	}
	var code []byte
	for n := range uint64(links) {
		code = corpus.AppendCode(code[:0], n)
		lower := [corpus.CodeLength]byte(bytes.ToLower(code))
		if seen[lower] {
			lost[string(code)] = true
			continue
		}
		seen[lower] = true
		fmt.Fprintf(w, "\"/%s\" \"%s\";\n", code, location(nil, n))
	}
	return expectation{
		status: http.StatusFound, location: location,
		skip: func(code []byte) bool { return lost[string(code)] },
	}, errors.Join(w.Flush(), file.Close())
}

func portOf(addr string) string {
	_, port, _ := strings.Cut(addr, ":")
	return port
}

// freeAddr returns a loopback address that is free at the moment.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return ln.Addr().String(), ln.Close()
}

func dialOnce(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}
