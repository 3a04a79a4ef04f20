package node

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"waypost/edge/certs"
)

// nodeTLS is TLS to other nodes: this edge shows its certificate to control planes, to
// relays, and to the edges that follow it.
type nodeTLS struct {
	own   *certs.Certificates // nil: there is no certificate
	roots *x509.CertPool      // of the other nodes' certificates; nil: the system's
}

// openNodeTLS reads the files, if there are any.
func openNodeTLS(cfg TLS, log *slog.Logger) (*nodeTLS, error) {
	t := &nodeTLS{}
	var err error
	if cfg.CAFile != "" {
		if t.roots, err = certs.ReadRoots(cfg.CAFile); err != nil {
			return nil, fmt.Errorf("edge.node_ca_file: %w", err)
		}
	}
	if cfg.CertFile != "" {
		if t.own, err = certs.New(certs.Config{CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, Logger: log}); err != nil {
			return nil, fmt.Errorf("edge.node_cert_file: %w", err)
		}
	}
	return t, nil
}

// client returns the TLS of connections to control planes and relays.
func (t *nodeTLS) client() *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: t.roots}
	if t.own != nil {
		get := t.own.TLS().GetCertificate
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return get(&tls.ClientHelloInfo{})
		}
	}
	return cfg
}

// watch shows when this edge's certificate ends.
func (t *nodeTLS) watch(metrics prometheus.Registerer) {
	if t.own == nil {
		return
	}
	get := t.own.TLS().GetCertificate
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waypost_tls_node_certificate_not_after_seconds",
		Help: "Unix time at which the certificate that this edge shows to other nodes expires.",
	}, func() float64 {
		c, err := get(&tls.ClientHelloInfo{})
		if err != nil {
			return 0
		}
		return float64(c.Leaf.NotAfter.Unix())
	}))
}

// listen returns a listener for the edges that follow this one. With a certificate it
// speaks TLS alone, and these edges show a certificate too.
func (t *nodeTLS) listen(ln net.Listener) net.Listener {
	if t.own == nil {
		return ln
	}
	cfg := t.own.TLS()
	cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, t.roots
	cfg.SessionTicketsDisabled = true // a resumed session is not verified again
	return tls.NewListener(ln, cfg)
}
