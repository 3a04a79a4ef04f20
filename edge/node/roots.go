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
// the defaults; roots verify the servers' certificates, nil for the system's roots.
func streamClient(secure *tls.Config, roots *certs.Roots) *http.Client {
	c := replication.NewClient(secure)
	c.Transport = withRoots(roots, c.Transport.(*http.Transport)) //nolint:forcetypeassert // NewClient makes no other
	return c
}

// withRoots returns a transport by t that verifies servers by roots, nil for the roots of
// the system.
func withRoots(roots *certs.Roots, t *http.Transport) http.RoundTripper {
	if roots == nil {
		return t
	}
	return &rootsTransport{roots: roots, now: t}
}

// rootsTransport is a transport that verifies the server of a new connection by the roots
// as they are then. Open connections stay open until their requests end.
type rootsTransport struct {
	roots *certs.Roots

	mu   sync.Mutex
	pool *x509.CertPool // roots of now; nil: there was no request yet
	now  *http.Transport
}

// current returns the transport with the present roots.
func (t *rootsTransport) current() *http.Transport {
	pool := t.roots.Pool()
	t.mu.Lock()
	defer t.mu.Unlock()
	if pool != t.pool {
		before := t.now
		t.pool, t.now = pool, before.Clone()
		if t.now.TLSClientConfig == nil {
			t.now.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		t.now.TLSClientConfig.RootCAs = pool
		before.CloseIdleConnections()
	}
	return t.now
}

// RoundTrip implements [http.RoundTripper].
func (t *rootsTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.current().RoundTrip(r)
}

// CloseIdleConnections is called by [http.Client].
func (t *rootsTransport) CloseIdleConnections() { t.current().CloseIdleConnections() }
