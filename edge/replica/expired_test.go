package replica_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost/replication"
	"waypost/replication/replicationtest"
)

// certificate makes a certificate of this machine that ends at a time.
func certificate(t *testing.T, end time.Time) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		NotBefore: end.Add(-24 * time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// A certificate has expired, or a clock says so.
func TestFollower_ServesWhileItsSourcesCertificateHasExpired(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 10)
	plain, err := url.Parse(serve(t, s, func(*http.Request) int { return 0 }))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(plain)
	proxy.FlushInterval = -1
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	expired, valid := certificate(t, time.Now().Add(-time.Hour)), certificate(t, time.Now().Add(time.Hour))
	var shown atomic.Pointer[tls.Certificate]
	shown.Store(expired)
	server := httptest.NewUnstartedServer(proxy)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*shown.Load()}}, nil
	}}
	server.Config.ErrorLog = proxy.ErrorLog
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })

	roots := x509.NewCertPool()
	roots.AddCert(expired.Leaf)
	roots.AddCert(valid.Leaf)
	s.Commit(replicationtest.Link("fresh", "https://fresh.example/"))
	follower, err := replication.NewFollower(replication.FollowConfig{
		URL: server.URL, Sink: db, Logger: slog.New(slog.DiscardHandler), BackoffMin: time.Millisecond,
		Client: replication.NewClient(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}),
	})
	require.NoError(t, err)
	stop := run(t, func(ctx context.Context) error { return follower.Run(ctx) })
	defer stop()
	until(t, "it has tried", func() bool { return follower.Status().Failures > 3 })
	require.ErrorContains(t, follower.Status().Err, "expired")
	location, found := find(t, db, "code0001")
	require.True(t, found)
	require.Equal(t, "https://example.com/1", location)
	_, found = find(t, db, "fresh")
	require.False(t, found)

	shown.Store(valid)
	until(t, "it follows", func() bool { _, found := find(t, db, "fresh"); return found })
}
