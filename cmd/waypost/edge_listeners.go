package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"waypost/edge/certs"
	"waypost/edge/server"
	"waypost/internal/config"
)

// moreListeners are those that an edge has beside edge.addr.
type moreListeners struct {
	plain []net.Listener
	tls   []net.Listener
	peer  net.Listener        // for edges that follow this one; nil: none do
	certs *certs.Certificates // nil: no TLS
}

// listenMore opens them with listen, which is told the address and the flag that it
// comes from. Whatever is wrong, nothing stays open.
func listenMore(ctx context.Context, cfg config.Edge, tls config.TLS, listen openListener) (*moreListeners, error) {
	m := &moreListeners{}
	open := func(addrs []string, flag string, into *[]net.Listener) error {
		for _, addr := range addrs {
			ln, err := listen(ctx, addr, flag)
			if err != nil {
				return err
			}
			*into = append(*into, ln)
		}
		return nil
	}
	err := open(cfg.Listen, "--listen", &m.plain)
	if err == nil {
		err = open(tls.Addr, "--tls-addr", &m.tls)
	}
	if err == nil && cfg.PeerAddr != "" {
		m.peer, err = listen(ctx, cfg.PeerAddr, "--peer-addr")
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// openCertificates is for after the store is there, which knows the domains.
func (m *moreListeners) openCertificates(cfg config.Edge, tls config.TLS, knows func(name string) bool, log *slog.Logger, meters prometheus.Registerer) error {
	if len(m.tls) == 0 {
		return nil
	}
	storage := tls.Storage
	if storage == "" {
		storage = filepath.Join(cfg.DataDir, "tls")
	}
	c, err := certs.New(certs.Config{
		CertFile: tls.CertFile, KeyFile: tls.KeyFile,
		Directory: tls.ACMEDirectory, Email: tls.Email, CAFile: tls.CAFile, Storage: storage,
		Listen: m.tls[0].Addr(), Knows: knows, Logger: log, Metrics: meters,
	})
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	m.certs = c
	return nil
}

// checkCertificate sees that the files of a certificate can be used.
func checkCertificate(cfg config.Config) error {
	if cfg.TLS.CertFile == "" {
		return nil
	}
	if err := certs.CheckFiles(cfg.TLS.CertFile, cfg.TLS.KeyFile); err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	return nil
}

// serve answers on all of them.
func (m *moreListeners) serve(group *errgroup.Group, srv *server.Server) {
	for _, ln := range m.plain {
		group.Go(func() error { return srv.Serve(ln) })
	}
	for _, ln := range m.tls {
		group.Go(func() error { return srv.ServeTLS(ln, m.certs.TLS()) })
	}
}

// giveUpOrders lets go of visitors that wait for a certificate, who would hold up a
// stop. Certificates that are there stay in use.
func (m *moreListeners) giveUpOrders() error {
	if m.certs == nil {
		return nil
	}
	return m.certs.Close()
}

// Close closes what is open, whether it was served or not.
func (m *moreListeners) Close() error {
	var errs []error
	if m.peer != nil {
		errs = append(errs, closeListener(m.peer))
	}
	for _, list := range [][]net.Listener{m.plain, m.tls} {
		for _, ln := range list {
			errs = append(errs, closeListener(ln))
		}
	}
	return errors.Join(append(errs, m.giveUpOrders())...)
}

func addressesOf(list []net.Listener) []string {
	var texts []string
	for _, ln := range list {
		texts = append(texts, ln.Addr().String())
	}
	return texts
}
