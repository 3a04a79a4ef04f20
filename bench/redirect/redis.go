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
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"waypost/bench/corpus"
)

// redisServer sends one GET to Redis for every request, on a pooled connection.
type redisServer struct {
	fastServer
	socket string
	idle   chan *redisConn

	mu   sync.Mutex
	open []*redisConn
}

func newRedisServer(socket string) *redisServer {
	s := &redisServer{socket: socket, idle: make(chan *redisConn, 4096)}
	s.fastServer = newFastServer(s.handle)
	return s
}

func (s *redisServer) handle(ctx *fasthttp.RequestCtx) {
	code := bytes.TrimPrefix(ctx.Path(), []byte("/"))
	c, err := s.take()
	if err != nil {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		return
	}
	target, found, err := c.get(code)
	switch {
	case err != nil: // the connection is dropped
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		return
	case !found:
		ctx.SetStatusCode(fasthttp.StatusNotFound)
	default:
		sendFound(ctx, target)
	}
	s.idle <- c // which holds more than there are connections
}

func (s *redisServer) take() (*redisConn, error) {
	select {
	case c := <-s.idle:
		return c, nil
	default:
	}
	c, err := dialRedis(context.Background(), s.socket)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open = append(s.open, c)
	}
	return c, err
}

func (s *redisServer) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, c := range s.open {
		errs = append(errs, c.conn.Close())
	}
	return errors.Join(errs...)
}

// redisConn speaks GET and SET of Redis' protocol (RESP 2).
type redisConn struct {
	conn  net.Conn
	r     *bufio.Reader
	out   []byte
	value []byte
}

func dialRedis(ctx context.Context, socket string) (*redisConn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect to Redis: %w", err)
	}
	return &redisConn{conn: conn, r: bufio.NewReaderSize(conn, 16<<10)}, nil
}

func appendBulk(dst, s []byte) []byte {
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(s)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, s...)
	return append(dst, "\r\n"...)
}

// get returns the value of a key, which is valid until the next call.
func (c *redisConn) get(key []byte) (value []byte, found bool, err error) {
	c.out = appendBulk(append(c.out[:0], "*2\r\n$3\r\nGET\r\n"...), key)
	if _, err := c.conn.Write(c.out); err != nil {
		return nil, false, fmt.Errorf("ask Redis: %w", err)
	}
	line, err := c.line()
	if err != nil {
		return nil, false, err
	}
	if len(line) < 2 || line[0] != '$' {
		return nil, false, fmt.Errorf("redis answers %q", line)
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n < -1 || n > 64<<10 {
		return nil, false, fmt.Errorf("redis answers %q", line)
	}
	if n == -1 {
		return nil, false, nil
	}
	if cap(c.value) < n+2 {
		c.value = make([]byte, n+2)
	}
	c.value = c.value[:n+2]
	if _, err := io.ReadFull(c.r, c.value); err != nil {
		return nil, false, fmt.Errorf("read from Redis: %w", err)
	}
	return c.value[:n], true, nil
}

func (c *redisConn) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("read from Redis: %w", err)
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// save has Redis write its keys to its file.
func (c *redisConn) save() error {
	if _, err := io.WriteString(c.conn, "*1\r\n$4\r\nSAVE\r\n"); err != nil {
		return fmt.Errorf("save Redis: %w", err)
	}
	line, err := c.line()
	if err == nil && string(line) != "+OK" {
		err = fmt.Errorf("redis answers %q", line)
	}
	return err
}

// set stores many values at once; put returns those of every number below count.
func (c *redisConn) set(ctx context.Context, count uint64, put func(n uint64, key, value []byte) (k, v []byte)) error {
	const pipeline = 1000
	var key, value []byte
	for n := uint64(0); n < count; {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.out = c.out[:0]
		sent := uint64(0)
		for ; sent < pipeline && n < count; sent++ {
			key, value = put(n, key[:0], value[:0])
			c.out = appendBulk(appendBulk(append(c.out, "*3\r\n$3\r\nSET\r\n"...), key), value)
			n++
		}
		if _, err := c.conn.Write(c.out); err != nil {
			return fmt.Errorf("fill Redis: %w", err)
		}
		for range sent {
			line, err := c.line()
			if err != nil {
				return err
			}
			if string(line) != "+OK" {
				return fmt.Errorf("redis answers %q", line)
			}
		}
	}
	return nil
}

// startRedis starts Redis with the links, and a server in front of it.
func (l *lab) startRedis(ctx context.Context, links int) (_ *target, err error) {
	dir, err := l.subdir("redis-")
	if err != nil {
		return nil, err
	}
	store, conn, err := l.startStore(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(l.fillRedis(ctx, conn, links), conn.conn.Close()); err != nil {
		return nil, errors.Join(err, store.stop())
	}
	t, err := l.startServer(ctx, l.self, kindRedis, "-redis", socketIn(dir))
	return behind(t, store, err)
}

// startStore starts Redis in a directory, with the links that it has saved there.
func (l *lab) startStore(ctx context.Context, dir string) (store *target, conn *redisConn, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, nil, err
	}
	store, err = l.startExternal(ctx, dir, external{
		name: path, args: []string{"--port", "0", "--unixsocket", socketIn(dir), "--save", "", "--appendonly", "no", "--dir", dir},
		grace: 20 * time.Second,
		ready: func(ctx context.Context) (err error) {
			conn, err = dialRedis(ctx, socketIn(dir))
			return err
		},
	})
	return store, conn, err
}

func socketIn(dir string) string { return filepath.Join(dir, "s") }

// behind returns a server and the store that it asks as one: the time of both counts, and
// both are stopped. The error is that of starting the server.
func behind(server, store *target, err error) (*target, error) {
	if err != nil {
		return nil, errors.Join(err, store.stop())
	}
	server.pids = append(server.pids, store.pids...)
	ended := server.closed
	server.closed = func() error { return errors.Join(ended(), store.stop()) }
	return server, nil
}

func (l *lab) fillRedis(ctx context.Context, conn *redisConn, links int) error {
	f, err := newFeed(l.o.Targets, links)
	if err != nil {
		return err
	}
	return conn.set(ctx, uint64(links), func(n uint64, key, value []byte) (k, v []byte) {
		return corpus.AppendCode(key, n), f.location(value, n, 0)
	})
}
