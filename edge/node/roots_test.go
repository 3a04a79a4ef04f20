package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/edge/certs"
)

func TestStreamClient_JudgesServersByThePresentRoots(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	require.NoError(t, err)
	other := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})

	file := filepath.Join(t.TempDir(), "ca.pem")
	var passed atomic.Int64 // since the test began
	put := func(roots []byte) {
		t.Helper()
		// Another file, because the size and the time of this one may be the same.
		require.NoError(t, os.WriteFile(file+".new", roots, 0o600))
		require.NoError(t, os.Rename(file+".new", file))
		passed.Add(int64(time.Minute))
	}
	put(other)
	roots, err := certs.OpenRoots(certs.RootsConfig{File: file, Clock: func() time.Time { return time.Unix(0, passed.Load()) }})
	require.NoError(t, err)
	client := streamClient(nil, roots)
	t.Cleanup(client.CloseIdleConnections)
	get := func(url string) error {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		res, err := client.Do(req)
		if err == nil {
			require.NoError(t, res.Body.Close())
		}
		return err
	}

	require.ErrorAs(t, get(server.URL), new(x509.UnknownAuthorityError))
	put(own)
	require.NoError(t, get(server.URL))
	require.ErrorAs(t, get(strings.Replace(server.URL, "127.0.0.1", "localhost", 1)), new(x509.HostnameError), "the name is judged too")
	put(other)
	require.ErrorAs(t, get(server.URL), new(x509.UnknownAuthorityError), "on a new connection")
	put([]byte("no certificate"))
	require.ErrorAs(t, get(server.URL), new(x509.UnknownAuthorityError), "a file that cannot be used changes nothing")
}
