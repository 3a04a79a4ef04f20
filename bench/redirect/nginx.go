//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"waypost/bench/corpus"
)

const nginxWorkers = 2

const nginxConf = `daemon off;
%[1]sworker_processes %[3]d;
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

// startNginx starts nginx with a map of the links.
func (l *lab) startNginx(ctx context.Context, r *rivalry) (*target, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		return nil, err
	}
	empty, err := l.runNginx(ctx, path, 0, r)
	if err != nil {
		return nil, err
	}
	without, err := empty.memory()
	if err := errors.Join(err, empty.stop()); err != nil {
		return nil, err
	}
	t, err := l.runNginx(ctx, path, r.links, r)
	if err != nil {
		return nil, err
	}
	with, err := t.memory()
	if err != nil {
		return nil, errors.Join(err, t.stop())
	}
	r.notes = append(r.notes, fmt.Sprintf("nginx takes %d bytes of memory for a link.", (with-without)/int64(r.links)))
	return t, nil
}

func (l *lab) runNginx(ctx context.Context, path string, links int, r *rivalry) (*target, error) {
	dir, err := os.MkdirTemp(l.dir, "nginx-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for nginx: %w", err)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n" // the directory is root's
	}
	err = os.WriteFile(filepath.Join(dir, "nginx.conf"), fmt.Appendf(nil, nginxConf, user, addr, nginxWorkers), 0o600)
	if err == nil {
		err = l.writeMap(filepath.Join(dir, "links.map"), links, r)
	}
	if err != nil {
		return nil, err
	}
	t, err := external{
		name: path, args: []string{"-p", dir, "-c", "nginx.conf", "-e", "stderr"}, grace: 2 * time.Minute,
		ready: func(ctx context.Context) error { return dialOnce(ctx, addr) },
	}.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	t.addr = addr
	// It listens before it has workers.
	for end := time.Now().Add(10 * time.Second); len(t.pids) != 1+nginxWorkers; {
		workers, err := childrenOf(t.pids[0])
		if err == nil && time.Now().After(end) {
			err = fmt.Errorf("nginx has %d workers", len(workers))
		}
		if err != nil {
			return nil, errors.Join(err, t.stop())
		}
		if len(workers) == nginxWorkers {
			t.pids = append(t.pids, workers...)
		}
	}
	return t, nil
}

// writeMap writes the links as nginx includes them. A code that differs from
// another one only in case cannot be in it.
func (l *lab) writeMap(path string, links int, r *rivalry) error {
	f, err := newFeed(l.o.Targets, links)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(file)
	seen, lost := make(map[[corpus.CodeLength]byte]bool, links), map[string]bool{}
	var code, location []byte
	for n := range uint64(links) {
		code, location = corpus.AppendCode(code[:0], n), f.location(location[:0], n, 0)
		lower := [corpus.CodeLength]byte(bytes.ToLower(code))
		if seen[lower] {
			lost[string(code)] = true
			continue
		}
		seen[lower] = true
		fmt.Fprintf(w, "\"/%s\" \"%s\";\n", code, bytes.ReplaceAll(location, []byte("$"), []byte("%24")))
	}
	r.expect.skip = func(code []byte) bool { return lost[string(code)] }
	r.expect.location = func(dst []byte, n uint64) []byte {
		return bytes.ReplaceAll(f.location(dst, n, 0), []byte("$"), []byte("%24"))
	}
	return errors.Join(w.Flush(), file.Close())
}

// freeAddr gives a loopback address that is free at the moment.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
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
