package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/edge/certs"
	"waypost/internal/logtest"
)

func TestWhomClientsGoBackToIsReadAgainWhenItChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	var clients [2]tls.Certificate
	var roots [2][]byte
	for i := range clients { // each vouches for itself
		chain, key := pair(t, int64(i+1), "edge")
		var err error
		clients[i], err = tls.X509KeyPair(chain, key)
		require.NoError(t, err)
		roots[i] = chain
	}
	server, key := pair(t, 3, known)
	own, err := tls.X509KeyPair(server, key)
	require.NoError(t, err)

	_, err = certs.OpenRoots(certs.RootsConfig{File: file})
	require.ErrorIs(t, err, os.ErrNotExist)
	replace(t, file, []byte("no certificate"))
	_, err = certs.OpenRoots(certs.RootsConfig{File: file})
	require.ErrorContains(t, err, "no certificate in PEM")
	replace(t, file, roots[0])
	now := &clock{at: time.Now()}
	var log logtest.Buffer
	r, err := certs.OpenRoots(certs.RootsConfig{File: file, Clock: now.read, Logger: log.Logger()})
	require.NoError(t, err)
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}}
	r.Judge(cfg, tls.RequireAndVerifyClientCert)

	sessions := tls.NewLRUClientSessionCache(8) // a session does not outlive what it was judged by
	letIn := func(client tls.Certificate) bool {
		t.Helper()
		near, far := net.Pipe()
		defer near.Close()
		judged := make(chan error, 1)
		go func() {
			conn := tls.Server(far, cfg)
			err := conn.HandshakeContext(t.Context())
			if err == nil {
				_, err = conn.Write([]byte("welcome"))
			}
			judged <- err
			_ = far.Close()
		}()
		conn := tls.Client(near, &tls.Config{
			MinVersion: tls.VersionTLS12, ServerName: known, RootCAs: trust(t, server), ClientSessionCache: sessions,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &client, nil },
		})
		_, _ = conn.Read(make([]byte, 16))
		err := <-judged
		if err != nil {
			require.ErrorAs(t, err, new(x509.UnknownAuthorityError))
		}
		return err == nil
	}
	requireLetIn := func(first, second bool) {
		t.Helper()
		require.Equal(t, first, letIn(clients[0]))
		require.Equal(t, second, letIn(clients[1]))
	}
	requireLetIn(true, false)
	replace(t, file, append(append([]byte{}, roots[0]...), roots[1]...))
	requireLetIn(true, false) // the file has not been looked at yet
	now.advance(11 * time.Second)
	requireLetIn(true, true)
	replace(t, file, roots[1])
	now.advance(11 * time.Second)
	requireLetIn(false, true)

	for _, bad := range []func(){
		func() { replace(t, file, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")) },
		func() { require.NoError(t, os.Remove(file)) },
	} {
		bad()
		for range 3 {
			now.advance(11 * time.Second)
			requireLetIn(false, true)
		}
	}
	require.Equal(t, 2, strings.Count(log.String(), "level=ERROR"), "each is told once: %s", log.String())
	replace(t, file, roots[0])
	now.advance(11 * time.Second)
	requireLetIn(true, false)
}
