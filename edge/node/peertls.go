package node

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"waypost/edge/certs"
)

// peerTLS is the mutual TLS among edges: each side shows a certificate, and all
// certificates go back to the same authority. A nil peerTLS means plain HTTP.
type peerTLS struct {
	own     *certs.Certificates
	roots   *certs.Roots
	certify func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
}

// openPeerTLS reads the files, if there are any.
func openPeerTLS(cfg Peers, log *slog.Logger) (*peerTLS, error) {
	if cfg.CAFile == "" {
		return nil, nil //nolint:nilnil // plain HTTP
	}
	t := &peerTLS{certify: certificateFrom("edge.peer_cert_file", cfg.CertFile, cfg.KeyFile)}
	var err error
	if t.roots, err = certs.OpenRoots(certs.RootsConfig{File: cfg.CAFile, Logger: log}); err != nil {
		return nil, fmt.Errorf("edge.peer_ca_file: %w", err)
	}
	t.own, err = certs.New(certs.Config{CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("edge.peer_cert_file: %w", err)
	}
	return t, nil
}

// listen returns a listener for TLS connections of edges.
func (t *peerTLS) listen(ln net.Listener) net.Listener {
	if t == nil {
		return ln
	}
	cfg := t.own.TLS()
	t.roots.Judge(cfg, tls.RequireAndVerifyClientCert)
	return tls.NewListener(ln, cfg)
}

// client returns the client for following peers; nil: the default one.
func (t *peerTLS) client() *http.Client {
	if t == nil {
		return nil
	}
	return streamClient(&tls.Config{MinVersion: tls.VersionTLS12, GetClientCertificate: t.certify}, t.roots)
}

// scheme completes the address of a peer to a URL.
func (t *peerTLS) scheme() string {
	if t == nil {
		return "http://"
	}
	return "https://"
}

// Close keeps open what connections need.
func (t *peerTLS) Close() error {
	if t == nil {
		return nil
	}
	return t.own.Close()
}
