package node

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"sync"

	"waypost/edge/certs"
	"waypost/replication"
)

// streamClient returns the client for a stream of changes. Secure is for https, nil for
// the defaults; roots are those of the servers' certificates, nil for the system's.
func streamClient(secure *tls.Config, roots *certs.Roots) *http.Client {
	c := replication.NewClient(secure)
	c.Transport = judgedBy(roots, c.Transport.(*http.Transport)) //nolint:forcetypeassert // NewClient makes no other
	return c
}

// judgedBy returns a transport by t that judges servers by roots; nil: by the system's.
func judgedBy(roots *certs.Roots, t *http.Transport) http.RoundTripper {
	if roots == nil {
		return t
	}
	return &judged{roots: roots, now: t}
}

// judged is a transport that judges the server of a new connection by the roots as they
// are then. Open connections stay open until their requests end.
type judged struct {
	roots *certs.Roots

	mu   sync.Mutex
	pool *x509.CertPool // of now; nil: none yet
	now  *http.Transport
}

// present returns the transport with the present roots.
func (j *judged) present() *http.Transport {
	pool := j.roots.Pool()
	j.mu.Lock()
	defer j.mu.Unlock()
	if pool != j.pool {
		before := j.now
		j.pool, j.now = pool, before.Clone()
		if j.now.TLSClientConfig == nil {
			j.now.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		j.now.TLSClientConfig.RootCAs = pool
		before.CloseIdleConnections()
	}
	return j.now
}

// RoundTrip implements [http.RoundTripper].
func (j *judged) RoundTrip(r *http.Request) (*http.Response, error) { return j.present().RoundTrip(r) }

// CloseIdleConnections is called by [http.Client].
func (j *judged) CloseIdleConnections() { j.present().CloseIdleConnections() }
