//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// mapServer answers with net/http from a map in memory, as a small program of one's own
// does. It reads its links when it starts, from lines with a code, a space and a target.
type mapServer struct{ web *http.Server }

func newMapServer(file string) (*mapServer, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	links := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		code, target, _ := strings.Cut(lines.Text(), " ")
		links[code] = target
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	return &mapServer{&http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			target, ok := links[strings.TrimPrefix(r.URL.Path, "/")]
			if !ok {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Location", target)
			w.Header().Set("Cache-Control", string(noStore))
			w.WriteHeader(http.StatusFound)
		}),
		ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}}, nil
}

func (s *mapServer) Serve(ln net.Listener) error {
	if err := s.web.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *mapServer) Shutdown(ctx context.Context) error { return s.web.Shutdown(ctx) }
