package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCerts_OfNodesAreGoodForTheirHostsAndNoOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "authority")
	run := func(code int, args ...string) string {
		t.Helper()
		var said bytes.Buffer
		p := &program{stdout: io.Discard, stderr: &said}
		require.Equal(t, code, p.run(t.Context(), append([]string{"certs"}, args...)), said.String())
		return said.String()
	}
	require.Contains(t, run(1, "node", dir, "control-1"), "make the authority with `waypost certs authority "+dir+"`")
	run(0, "authority", dir)
	run(0, "node", dir, "control-1", "10.0.0.1", "control.example.com")
	run(0, "node", dir, "edge-1")

	read := func(name string) []byte {
		t.Helper()
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return text
	}
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(read("authority.pem")))
	leaf := func(name string) *x509.Certificate {
		t.Helper()
		pair, err := tls.X509KeyPair(read(name+".pem"), read(name+"-key.pem"))
		require.NoError(t, err)
		return pair.Leaf
	}
	control, edge := leaf("control-1"), leaf("edge-1")
	for _, host := range []string{"10.0.0.1", "control.example.com"} {
		_, err := control.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
		require.NoError(t, err, host)
	}
	_, err := control.Verify(x509.VerifyOptions{Roots: roots, DNSName: "edge.example.com"})
	require.Error(t, err)
	asClient := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	_, err = edge.Verify(asClient)
	require.NoError(t, err)
	require.Equal(t, "waypost://node/edge-1", edge.URIs[0].String())
	_, err = edge.Verify(x509.VerifyOptions{Roots: roots})
	require.Error(t, err, "without hosts it is no server's")
	asClient.CurrentTime = time.Now().Add(nodeLife + time.Minute)
	_, err = edge.Verify(asClient)
	require.Error(t, err, "it expires")

	before := read("authority-key.pem")
	require.Contains(t, run(1, "authority", dir), "is not overwritten")
	require.Contains(t, run(1, "node", dir, "edge-1"), "is not overwritten")
	require.Equal(t, before, read("authority-key.pem"))
	for _, name := range []string{"", ".hidden", "a/b", "authority"} {
		require.Contains(t, run(64, "node", dir, name), "is no name of a node")
	}
	require.Contains(t, run(64, "node", dir, "edge-2", "host:80"), "neither a name nor an address")
}
