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
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
)

const nginxConf = `daemon off;
%[1]sworker_processes 1;
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
  map_hash_max_size 4194304;
  map_hash_bucket_size 256;
  map $uri $target { default ""; include links.map; }
  server {
    listen %[2]s;
    location / {
      if ($target) { return 302 $target; }
      return 404;
    }
  }
}
`

// startNginx starts nginx with a map of the links. A code that differs from another one
// only in case cannot be in the map.
func (l *lab) startNginx(ctx context.Context, links int) (*target, expectation, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		return nil, expectation{}, err
	}
	dir, err := os.MkdirTemp(l.dir, "nginx-")
	if err != nil {
		return nil, expectation{}, fmt.Errorf("make a directory for nginx: %w", err)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, expectation{}, err
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n" // the directory is root's
	}
	err = os.WriteFile(filepath.Join(dir, "nginx.conf"), fmt.Appendf(nil, nginxConf, user, addr), 0o600)
	if err != nil {
		return nil, expectation{}, err
	}
	expect, err := l.writeMap(filepath.Join(dir, "links.map"), links)
	if err != nil {
		return nil, expectation{}, err
	}
	t, err := l.startExternal(ctx, dir, external{
		name: path, args: []string{"-p", dir, "-c", "nginx.conf", "-e", "stderr"}, grace: 2 * time.Minute,
		ready: func(ctx context.Context) error { return dialOnce(ctx, addr) },
	})
	if err != nil {
		return nil, expectation{}, err
	}
	t.addr = addr
	for end := time.Now().Add(10 * time.Second); len(t.pids) == 1; { // it listens before it has a worker
		workers, err := bench.Children(t.pids[0])
		if err == nil && time.Now().After(end) {
			err = errors.New("nginx has no worker")
		}
		if err != nil {
			return nil, expectation{}, errors.Join(err, t.stop())
		}
		t.pids = append(t.pids, workers...)
	}
	return t, expect, nil
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
