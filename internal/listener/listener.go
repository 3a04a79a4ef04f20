// Package listener opens TCP listeners, and serves HTTP on them until a context ends.
package listener

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Open opens a TCP listener. The error names the address and a remedy; flag is the
// command-line flag that chooses another address.
func Open(ctx context.Context, addr, flag string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("address %s is in use by another program: stop that, or choose another address with %s", addr, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("address %s is not allowed to this user: choose a port above 1023 with %s", addr, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("address %s is not one of this machine: choose another with %s", addr, flag)
	}
	return nil, fmt.Errorf("listen on %s (%s): %w", addr, flag, err)
}

// Claim picks ports below the range that systems use for outgoing connections, because
// such a connection could take the port before it is opened again. The range begins at
// 32768 on Linux, and higher on other systems.
const lowestPicked, highestPicked = 10_000, 32_767

// Claim opens a TCP listener as Open does. For port 0 it picks a port that can be closed,
// and opened again later.
func Claim(ctx context.Context, addr, flag string) (net.Listener, error) {
	if host, port, err := net.SplitHostPort(addr); err == nil && port == "0" {
		for range 100 {
			pick := net.JoinHostPort(host, fmt.Sprint(lowestPicked+rand.IntN(highestPicked-lowestPicked+1)))
			if ln, err := Open(ctx, pick, flag); err == nil {
				return ln, nil
			}
		}
	}
	return Open(ctx, addr, flag)
}

// Close closes a listener that its server may have closed already.
func Close(ln net.Listener) error {
	if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Serve answers on ln until ctx ends, and then waits for requests under way, for grace at
// most.
func Serve(ctx context.Context, server *http.Server, ln net.Listener, grace time.Duration, log *slog.Logger) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		err := server.Shutdown(limit)
		if err != nil && limit.Err() != nil {
			log.Warn("stopping with requests still under way", "after", grace)
			err = server.Close()
		}
		stopped <- err
	})
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) || stop() {
		stop()
		return fmt.Errorf("serve on %s: %w", ln.Addr(), err)
	}
	return <-stopped
}

// Endless lifts the read deadline for requests that are answered for as long as the
// client listens. Failed writes end such an answer.
func Endless(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
			http.Error(w, "the connection cannot carry a stream", http.StatusInternalServerError)
			return
		}
		next(w, r)
	}
}
