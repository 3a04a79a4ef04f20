package node

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"waypost/edge/certs"
)

// relayTLS is the mutual TLS of a relay: those who follow it show a certificate too. A
// nil relayTLS means plain HTTP.
type relayTLS struct {
	own   *certs.Certificates
	roots *certs.Roots
}

// openRelayTLS reads the files, if there are any.
func openRelayTLS(cfg Relay, log *slog.Logger) (*relayTLS, error) {
	if cfg.CAFile == "" {
		return nil, nil //nolint:nilnil // plain HTTP
	}
	t := &relayTLS{}
	var err error
	if t.roots, err = certs.OpenRoots(certs.RootsConfig{File: cfg.CAFile, Logger: log}); err != nil {
		return nil, fmt.Errorf("edge.relay_ca_file: %w", err)
	}
	t.own, err = certs.New(certs.Config{CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("edge.relay_cert_file: %w", err)
	}
	return t, nil
}

// listen returns a listener for connections of followers.
func (t *relayTLS) listen(ln net.Listener) net.Listener {
	if t == nil {
		return ln
	}
	cfg := t.own.TLS()
	t.roots.Judge(cfg, tls.RequireAndVerifyClientCert)
	return tls.NewListener(ln, cfg)
}

// Close ends the certificates' orders. Open connections keep their certificates.
func (t *relayTLS) Close() error {
	if t == nil {
		return nil
	}
	return t.own.Close()
}
