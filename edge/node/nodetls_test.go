package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// certificate makes a certificate for 127.0.0.1 that vouches for itself, in files.
func certificate(t *testing.T, ends time.Time) (files TLS) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(ends.UnixNano()), NotAfter: ends, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	files = TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	require.NoError(t, os.WriteFile(files.CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(files.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return files
}

func TestNodeTLS_ShowsWhenItsCertificateEnds(t *testing.T) {
	cfg := certificate(t, time.Unix(2_000_000_000, 0))

	nodes, err := openNodeTLS(cfg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	nodes.watch(registry)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Equal(t, "waypost_tls_node_certificate_not_after_seconds", families[0].GetName())
	require.InDelta(t, 2_000_000_000, families[0].GetMetric()[0].GetGauge().GetValue(), 0)

	none, err := openNodeTLS(TLS{}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	none.watch(registry)
}

func TestNodeTLS_VerifiesBothSidesByTheirRoots(t *testing.T) {
	ends := time.Now().Add(time.Hour)
	relay, edge, stranger := certificate(t, ends), certificate(t, ends), certificate(t, ends)
	relay.CAFile, edge.CAFile, stranger.CAFile = edge.CertFile, relay.CertFile, relay.CertFile
	log := slog.New(slog.DiscardHandler)
	serving, err := openNodeTLS(relay, log)
	require.NoError(t, err)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := serving.listen(plain)
	server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Close() })
	get := func(files TLS) error {
		t.Helper()
		nodes, err := openNodeTLS(files, log)
		require.NoError(t, err)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: nodes.client()}}
		t.Cleanup(client.CloseIdleConnections)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+plain.Addr().String(), http.NoBody)
		require.NoError(t, err)
		res, err := client.Do(req)
		if err == nil {
			require.NoError(t, res.Body.Close())
		}
		return err
	}
	require.NoError(t, get(edge))
	require.ErrorContains(t, get(stranger), "certificate")
	require.ErrorContains(t, get(TLS{CAFile: edge.CAFile}), "certificate")
	edge.CAFile = stranger.CertFile
	require.ErrorAs(t, get(edge), new(x509.UnknownAuthorityError))
	require.ErrorAs(t, get(TLS{}), new(x509.UnknownAuthorityError))
}
