package node

import (
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPITLS_KnowsTheNamesOfItsCertificate(t *testing.T) {
	s := httptest.NewTLSServer(nil) // has a certificate for example.com
	t.Cleanup(s.Close)
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	cfg := TLS{CertFile: filepath.Join(t.TempDir(), "cert.pem"), KeyFile: filepath.Join(t.TempDir(), "key.pem")}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(cfg.CertFile, chain, 0o600))
	require.NoError(t, os.WriteFile(cfg.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))

	secure, err := openTLS(cfg, slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, secure.Close()) })
	require.True(t, secure.shows("example.com"))
	for _, other := range []string{"", "www.example.com", "example.org"} {
		require.False(t, secure.shows(other), other)
	}
	var plain *apiTLS
	require.False(t, plain.shows("example.com"))
}
