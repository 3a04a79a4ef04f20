package certs_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge/certs"
	"waypost/internal/logtest"
)

// pair makes a certificate for names that vouches for itself, and its key, in PEM.
func pair(t *testing.T, serial int64, names ...string) (chain, key []byte) {
	t.Helper()
	return until(t, time.Unix(2_000_000_000, 0), serial, names...)
}

// until is pair with another end.
func until(t *testing.T, end time.Time, serial int64, names ...string) (chain, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// replace puts a file in place as tools do that renew certificates.
func replace(t *testing.T, path string, text []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", text, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func trust(t *testing.T, chains ...[]byte) *x509.CertPool {
	t.Helper()
	roots := x509.NewCertPool()
	for _, c := range chains {
		require.True(t, roots.AppendCertsFromPEM(c))
	}
	return roots
}

func TestACertificateFromFilesIsReadAgainWhenItChanges(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first, firstKey := pair(t, 1, known, "*.example.net")
	second, secondKey := pair(t, 2, known)
	replace(t, certFile, first)
	replace(t, keyFile, firstKey)
	now := &clock{at: time.Now()}
	var log logtest.Buffer
	registry := prometheus.NewPedanticRegistry()
	ln := listen(t)
	serve(t, ln, certs.Config{
		CertFile: certFile, KeyFile: keyFile, Clock: now.read, Metrics: registry,
		Logger: log.Logger(),
	})
	roots := trust(t, first, second)
	serial := func() int64 {
		now.advance(11 * time.Second) // to the next look
		cert, err := visit(t, ln, known, roots)
		require.NoError(t, err)
		return cert.SerialNumber.Int64()
	}
	require.EqualValues(t, 1, serial())

	replace(t, certFile, second)
	require.EqualValues(t, 1, serial(), "the key does not fit yet")
	require.EqualValues(t, 1, serial())
	require.Equal(t, 1, strings.Count(log.String(), "cannot use the certificate on disk"), "it is said once")
	replace(t, keyFile, secondKey)
	require.EqualValues(t, 2, serial())
	for _, bad := range [][]byte{nil, []byte("no PEM"), make([]byte, 2<<20)} {
		replace(t, certFile, bad)
		require.EqualValues(t, 2, serial())
	}
	require.NoError(t, os.Remove(certFile))
	require.EqualValues(t, 2, serial())
	replace(t, certFile, first)
	replace(t, keyFile, firstKey)
	require.EqualValues(t, 1, serial())
	const ends = "waypost_tls_certificate_not_after_seconds"
	require.EqualValues(t, 2_000_000_000, total(t, registry, ends))
	third, thirdKey := until(t, time.Unix(2_100_000_000, 0), 3, known)
	replace(t, certFile, third)
	replace(t, keyFile, thirdKey)
	now.advance(11 * time.Second)
	require.EqualValues(t, 2_100_000_000, total(t, registry, ends), "without any client")
}

func TestTheFilesCertificateIsAlsoForWhoeverNamesAnotherDomain(t *testing.T) {
	chain, key := pair(t, 1, "other.example")
	dir := t.TempDir()
	cfg := certs.Config{CertFile: filepath.Join(dir, "c"), KeyFile: filepath.Join(dir, "k")}
	replace(t, cfg.CertFile, chain)
	replace(t, cfg.KeyFile, key)
	ln := listen(t)
	serve(t, ln, cfg)
	for _, name := range []string{"", "unknown.example", "other.example"} {
		conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{ServerName: name, InsecureSkipVerify: true})
		require.NoError(t, err, "the client decides")
		require.NoError(t, conn.Close())
	}
	_, err := visit(t, ln, known, trust(t, chain))
	require.ErrorContains(t, err, "is valid for other.example, not "+known)
	_, err = tls.Dial("tcp", ln.Addr().String(), &tls.Config{ServerName: "other.example", RootCAs: trust(t, chain), MaxVersion: tls.VersionTLS11})
	require.ErrorContains(t, err, "version", "nothing older than TLS 1.2")
}

func TestFilesGoBeforeTheAuthority(t *testing.T) {
	ln := listen(t)
	a, cfg := ask(t, ln)
	roots := a.Roots()
	chain, key := pair(t, 1, "*.example.net")
	dir := t.TempDir()
	cfg.CertFile, cfg.KeyFile = filepath.Join(dir, "c"), filepath.Join(dir, "k")
	replace(t, cfg.CertFile, chain)
	replace(t, cfg.KeyFile, key)
	cfg.Owner = func(string) (certs.Owner, bool) { return 1, true }
	serve(t, ln, cfg)
	conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{ServerName: "a.example.net", RootCAs: trust(t, chain)})
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Zero(t, a.Orders.Load())
	_, err = visit(t, ln, known, roots)
	require.NoError(t, err)
	require.EqualValues(t, 1, a.Orders.Load())
}

func TestFilesThatCannotBeUsedAreTheOperatorsToMend(t *testing.T) {
	chain, key := pair(t, 1, known)
	_, otherKey := pair(t, 2, known)
	for name, c := range map[string]struct {
		chain, key []byte
		want       string
	}{
		"no file":             {nil, nil, "no such file"},
		"a key that is not":   {chain, []byte("x"), "key"},
		"another one's key":   {chain, otherKey, "does not match"},
		"the wrong way round": {key, chain, "certificate"},
		"above the limit":     {make([]byte, 2<<20), key, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := certs.Config{CertFile: filepath.Join(dir, "c"), KeyFile: filepath.Join(dir, "k")}
			if c.chain != nil {
				replace(t, cfg.CertFile, c.chain)
				replace(t, cfg.KeyFile, c.key)
			}
			_, err := certs.New(cfg)
			require.ErrorContains(t, err, c.want)
		})
	}
}
