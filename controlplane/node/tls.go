package node

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"waypost/edge/certs"
)

// apiTLS is the TLS of the API. A nil apiTLS means plain HTTP.
type apiTLS struct {
	certs   *certs.Certificates
	clients *x509.CertPool // nil: no client certificates
}

// openTLS reads the files, if there are any.
func openTLS(cfg TLS, log *slog.Logger, meters prometheus.Registerer) (*apiTLS, error) {
	if cfg.CertFile == "" {
		return nil, nil //nolint:nilnil // plain HTTP
	}
	t := &apiTLS{}
	var err error
	if cfg.ClientCAFile != "" {
		if t.clients, err = certs.ReadRoots(cfg.ClientCAFile); err != nil {
			return nil, fmt.Errorf("control.client_ca_file: %w", err)
		}
	}
	t.certs, err = certs.New(certs.Config{CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, Logger: log, Metrics: meters})
	if err != nil {
		return nil, fmt.Errorf("control.tls_cert_file: %w", err)
	}
	return t, nil
}

// listen returns a listener for TLS connections. Clients may show a certificate; the
// routes decide whether they must.
func (t *apiTLS) listen(ln net.Listener) net.Listener {
	if t == nil {
		return ln
	}
	cfg := t.certs.TLS()
	if t.clients != nil {
		cfg.ClientAuth, cfg.ClientCAs = tls.VerifyClientCertIfGiven, t.clients
		cfg.SessionTicketsDisabled = true // a resumed session is not verified again
	}
	return tls.NewListener(ln, cfg)
}

// shows reports whether the certificate that clients are shown now is for a name. A
// wildcard is for no name in particular: all names of a company may be below it.
func (t *apiTLS) shows(name string) bool {
	if t == nil {
		return false
	}
	hosts, _ := t.certs.Hosts(maxNames)
	return slices.ContainsFunc(hosts, func(h certs.Host) bool { return h.Name == name })
}

// maxNames bounds the names of a certificate that are looked at.
const maxNames = 1000

// Close stops the upkeep of the certificates. Open connections continue.
func (t *apiTLS) Close() error {
	if t == nil {
		return nil
	}
	return t.certs.Close()
}
