package main

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"waypost/cmd/waypost/internal/node"
)

// serveHTTP answers on ln until ctx ends, and then gives requests under way some
// time.
func serveHTTP(ctx context.Context, server *http.Server, ln net.Listener, grace time.Duration, log *slog.Logger) error {
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

// unlessEnded drops the error of an actor that only says that ctx has ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// listenBoth opens the two listeners of a node, its service's and its admin's. The
// caller closes them, whether their servers have done so or not.
func listenBoth(ctx context.Context, addr, adminAddr string) (ln, admin net.Listener, closeBoth func() error, err error) {
	if ln, err = node.Listen(ctx, addr, "--addr"); err != nil {
		return nil, nil, nil, err
	}
	if admin, err = node.Listen(ctx, adminAddr, "--admin-addr"); err != nil {
		return nil, nil, nil, errors.Join(err, ln.Close())
	}
	return ln, admin, func() error { return errors.Join(closeListener(admin), closeListener(ln)) }, nil
}

// closeListener is for one that its server may have closed already.
func closeListener(ln net.Listener) error {
	if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// newRegistry has the metrics that every node shows.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "waypost_build_info", Help: "Always 1; the labels tell the build.",
		ConstLabels: prometheus.Labels{"version": productVersion()},
	})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// randomName gives six random letters and digits in lower case.
func randomName() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails, and ends the process where there is no randomness
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))[:6]
}
