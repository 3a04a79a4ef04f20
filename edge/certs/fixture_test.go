package certs_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/certs"
	"waypost/edge/server"
	"waypost/internal/patterns"
)

const (
	known  = "go.example.com"
	target = "https://example.org/"
)

// oneLink is a replica that has one link and knows one domain.
type oneLink struct{}

func (oneLink) Link(_ waypost.DomainID, code, buf []byte, rec *waypost.Record) ([]byte, bool, error) {
	*rec = waypost.Record{Kind: waypost.KindLink, Status: 302, Payload: []byte(target)}
	return buf, string(code) == "found302", nil
}

func (oneLink) Patterns(waypost.DomainID) *patterns.Index { return nil }

func (oneLink) Targets(waypost.DomainID) waypost.DomainTargets { return waypost.DomainTargets{} }

func (oneLink) Domain(host []byte) (waypost.DomainID, waypost.DomainTraits, bool) {
	return waypost.DefaultDomain, 0, string(host) == known
}

// listen opens the edge's TLS listener, before anything is known about certificates.
func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}

// serve answers on ln with certificates.
func serve(t *testing.T, ln net.Listener, cfg certs.Config) *certs.Certificates {
	t.Helper()
	c, err := certs.New(cfg)
	require.NoError(t, err)
	s := server.New(server.Config{
		Links: oneLink{}, DrainTime: time.Millisecond, ReadTimeout: time.Hour, WriteTimeout: time.Hour, IdleTimeout: time.Hour,
	})
	done := make(chan error, 1)
	go func() { done <- s.ServeTLS(ln, c.TLS()) }()
	t.Cleanup(func() {
		require.NoError(t, s.Shutdown(context.Background()))
		require.NoError(t, <-done)
		require.NoError(t, c.Close())
	})
	return c
}

// visit makes a handshake, follows a link, and returns the server's certificate.
func visit(t *testing.T, ln net.Listener, name string, roots *x509.CertPool, protocols ...string) (*x509.Certificate, error) {
	t.Helper()
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Minute}, Config: &tls.Config{ServerName: name, RootCAs: roots, NextProtos: protocols}}
	raw, err := d.DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = raw.Close() }()
	_, err = io.WriteString(raw, "GET /found302 HTTP/1.1\r\nHost: "+name+"\r\n\r\n")
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(raw), nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusFound, res.StatusCode)
	require.Equal(t, target, res.Header.Get("Location"))
	state := raw.(*tls.Conn).ConnectionState()
	require.Contains(t, []string{"", "http/1.1"}, state.NegotiatedProtocol)
	return state.PeerCertificates[0], nil
}

// total returns the sum over all labels of a metric.
func total(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}
