package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"waypost/edge/certs"
	"waypost/internal/config"
)

// controlTLS is how a control plane speaks TLS. Its methods may be called on nil, which
// does not.
type controlTLS struct {
	certs   *certs.Certificates
	clients *certs.Roots // nil: no client certificates
}

// openControlTLS reads the files of a control plane, if it has any.
func openControlTLS(cfg config.Control, log *slog.Logger, meters prometheus.Registerer) (*controlTLS, error) {
	if cfg.TLSCertFile == "" {
		return nil, nil //nolint:nilnil // it need not speak TLS
	}
	t := &controlTLS{}
	var err error
	if cfg.ClientCAFile != "" {
		if t.clients, err = certs.OpenRoots(certs.RootsConfig{File: cfg.ClientCAFile, Logger: log}); err != nil {
			return nil, fmt.Errorf("control.client_ca_file: %w", err)
		}
	}
	t.certs, err = certs.New(certs.Config{CertFile: cfg.TLSCertFile, KeyFile: cfg.TLSKeyFile, Logger: log, Metrics: meters})
	if err != nil {
		return nil, fmt.Errorf("control.tls_cert_file: %w", err)
	}
	return t, nil
}

// listen gives a listener of TLS connections. A client may show a certificate; who has to
// is for the routes to say.
func (t *controlTLS) listen(ln net.Listener) net.Listener {
	if t == nil {
		return ln
	}
	cfg := t.certs.TLS()
	if t.clients != nil {
		t.clients.Judge(cfg, tls.VerifyClientCertIfGiven)
	}
	return tls.NewListener(ln, cfg)
}

// Close closes nothing that connections need.
func (t *controlTLS) Close() error {
	if t == nil {
		return nil
	}
	return t.certs.Close()
}

// readRoots reads certificates that others' may go back to.
func readRoots(setting, file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: %s holds no certificate in PEM", setting, file)
	}
	return pool, nil
}

// checkControlTLS sees that the files of a control plane's TLS can be used.
func checkControlTLS(cfg config.Config) error {
	t, err := openControlTLS(cfg.Control, slog.New(slog.DiscardHandler), nil)
	return errors.Join(err, t.Close())
}
