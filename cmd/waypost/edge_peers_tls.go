package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"waypost/edge/certs"
	"waypost/internal/config"
	"waypost/replication"
)

// peerTLS is how edges speak TLS to one another: each shows a certificate, to those whom it follows
// and to those who follow it, and all go back to the same authority. Its methods may be called on
// nil, which speaks none.
type peerTLS struct {
	own     *certs.Certificates
	roots   *certs.Roots
	certify func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
}

// openPeerTLS reads the files, if there are any.
func openPeerTLS(cfg config.Edge, log *slog.Logger) (*peerTLS, error) {
	if cfg.PeerCAFile == "" {
		return nil, nil //nolint:nilnil // it need not speak TLS
	}
	t := &peerTLS{certify: certificateFrom("edge.peer_cert_file", cfg.PeerCertFile, cfg.PeerKeyFile)}
	var err error
	if t.roots, err = certs.OpenRoots(certs.RootsConfig{File: cfg.PeerCAFile, Logger: log}); err != nil {
		return nil, fmt.Errorf("edge.peer_ca_file: %w", err)
	}
	t.own, err = certs.New(certs.Config{CertFile: cfg.PeerCertFile, KeyFile: cfg.PeerKeyFile, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("edge.peer_cert_file: %w", err)
	}
	return t, nil
}

// listen gives a listener of TLS connections of edges.
func (t *peerTLS) listen(ln net.Listener) net.Listener {
	if t == nil {
		return ln
	}
	cfg := t.own.TLS()
	t.roots.Judge(cfg, tls.RequireAndVerifyClientCert)
	return tls.NewListener(ln, cfg)
}

// client is for following others; nil: the usual one.
func (t *peerTLS) client() *http.Client {
	if t == nil {
		return nil
	}
	return replication.NewClient(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: t.roots.Pool(), GetClientCertificate: t.certify})
}

// scheme is that of the URLs of peers of which only the address is known.
func (t *peerTLS) scheme() string {
	if t == nil {
		return "http://"
	}
	return "https://"
}

// Close closes nothing that connections need.
func (t *peerTLS) Close() error {
	if t == nil {
		return nil
	}
	return t.own.Close()
}

// checkPeerTLS sees that the files can be used.
func checkPeerTLS(cfg config.Edge) error {
	t, err := openPeerTLS(cfg, slog.New(slog.DiscardHandler))
	return errors.Join(err, t.Close())
}

// certificateFrom gives what shows the certificate of a setting, which is read anew for each connection.
func certificateFrom(setting, certFile, keyFile string) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", setting, err)
		}
		return &pair, nil
	}
}
