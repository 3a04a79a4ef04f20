package certs_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mholt/acmez/v3/acme"
	"github.com/stretchr/testify/require"

	"waypost/edge/certs"
)

func TestCertificates_HostsOfFiles(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	chain, key := pair(t, 1, "GO.example.com", "*.example.net")
	require.NoError(t, os.WriteFile(certFile, chain, 0o600))
	require.NoError(t, os.WriteFile(keyFile, key, 0o600))
	now := &clock{at: time.Unix(1_900_000_000, 0)}
	c, err := certs.New(certs.Config{CertFile: certFile, KeyFile: keyFile, Clock: now.read})
	require.NoError(t, err)
	until := time.Unix(2_000_000_000, 0).UTC()
	hosts, complete := c.Hosts(2)
	require.True(t, complete)
	require.Equal(t, []certs.Host{
		{Name: "*.example.net", State: certs.Valid, Until: until},
		{Name: "go.example.com", State: certs.Valid, Until: until},
	}, hosts)
	now.advance(200_000_000 * time.Second)
	hosts, complete = c.Hosts(1)
	require.False(t, complete)
	require.Equal(t, []certs.Host{{Name: "*.example.net", State: certs.Failed, Until: until, Error: "the certificate from files has expired"}}, hosts)
}

// anyone owns all names but one that is no domain any more.
func anyone(name string) (certs.Owner, bool) { return 1, name != "gone.example.com" }

// storeCertificate puts a certificate where an authority's are kept.
func storeCertificate(t *testing.T, storage, name string) {
	t.Helper()
	chain, _ := pair(t, 1, name)
	dir := filepath.Join(storage, "certificates", "ca", name)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".crt"), chain, 0o600))
}

func TestCertificates_HostsOfAnAuthority(t *testing.T) {
	storage := t.TempDir()
	for _, name := range []string{"a.example.com", "b.example.com", "gone.example.com"} {
		storeCertificate(t, storage, name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(storage, "certificates", "ca", "a.example.com", "torn.crt"), []byte("x"), 0o600))
	now := &clock{at: time.Unix(1_900_000_000, 0)}
	c, err := certs.New(certs.Config{
		Directory: "https://ca.example/dir", Storage: storage, Listen: &net.TCPAddr{Port: 443}, Owner: anyone, Clock: now.read,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	until := time.Unix(2_000_000_000, 0).UTC()
	require.Eventually(t, func() bool {
		hosts, _ := c.Hosts(256)
		return len(hosts) == 2
	}, time.Minute, time.Millisecond, "those on disk, of domains")

	refused := acme.Problem{Type: "urn:ietf:params:acme:error:caa", Detail: "CAA forbids it"}
	require.NoError(t, c.Note("cert_failed", map[string]any{
		"renewal": true, "identifier": "b.example.com", "error": fmt.Errorf("order: %w", refused),
	}))
	hosts, complete := c.Hosts(256)
	require.True(t, complete)
	require.Equal(t, []certs.Host{
		{Name: "b.example.com", State: certs.Failed, Until: until, Error: "the authority refused it: CAA forbids it"},
		{Name: "a.example.com", State: certs.Valid, Until: until},
	}, hosts)
	now.advance(12 * time.Hour)
	hosts, _ = c.Hosts(256)
	require.Equal(t, certs.Valid, hosts[1].State, "that is long ago")
	require.NoError(t, c.Note("cert_obtained", map[string]any{
		"renewal": true, "identifier": "c.example.com", "certificate_path": "certificates/ca/a.example.com/a.example.com.crt",
	}))
	hosts, complete = c.Hosts(2)
	require.False(t, complete)
	require.Len(t, hosts, 2)
	hosts, _ = c.Hosts(3)
	require.Equal(t, certs.Host{Name: "c.example.com", State: certs.Valid, Until: until}, hosts[2])
	now.advance(200_000_000 * time.Second)
	hosts, _ = c.Hosts(256)
	require.Empty(t, hosts, "an expired one is asked for like a new one")
}

func TestCertificates_HostsWaitAndFailWithAReason(t *testing.T) {
	ln := listen(t)
	a, cfg := ask(t, ln)
	cfg.Owner = anyone
	a.Names.SetAddresses("elsewhere.example.com", netip.MustParseAddr("192.0.2.1"))
	a.Hold(t)
	c := serve(t, ln, cfg)
	_, err := visit(t, ln, "elsewhere.example.com", a.Roots())
	require.Error(t, err)
	waits := make(chan error, 1)
	go func() {
		_, err := visit(t, ln, known, a.Roots())
		waits <- err
	}()
	require.Eventually(t, func() bool { return a.Orders.Load() == 1 }, time.Minute, time.Millisecond)
	hosts, _ := c.Hosts(256)
	require.Len(t, hosts, 2)
	require.Equal(t, certs.Failed, hosts[0].State)
	require.True(t, strings.HasPrefix(hosts[0].Error, "the name leads to [192.0.2.1]"), hosts[0].Error)
	require.Equal(t, certs.Host{Name: known, State: certs.Waiting}, hosts[1])
	require.NoError(t, c.Close())
	require.Error(t, <-waits)
}

func TestReason_HidesFaultsOfTheMachine(t *testing.T) {
	for want, err := range map[string]error{
		"the authority could not be asked; the log of the edge has the reason": errors.New("open /var/lib/waypost/tls: permission denied"),
		"DNS has no address for the name":                                      fmt.Errorf("look up: %w", &net.DNSError{IsNotFound: true, Server: "10.0.0.1"}),
		"DNS does not answer for the name":                                     &net.DNSError{IsTimeout: true, Server: "10.0.0.1"},
		"the authority refused it: rate limited":                               acme.Problem{Title: "rate limited"},
	} {
		require.Equal(t, want, certs.ReasonOf(err))
	}
}

func TestCertificates_NamesTheHostsWithAWrongOne(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	chain, key := pair(t, 1, "go.example.com", "*.example.net")
	require.NoError(t, os.WriteFile(certFile, chain, 0o600))
	require.NoError(t, os.WriteFile(keyFile, key, 0o600))
	now := &clock{at: time.Unix(1_900_000_000, 0)}
	c, err := certs.New(certs.Config{CertFile: certFile, KeyFile: keyFile, Clock: now.read})
	require.NoError(t, err)
	hosts := []string{"go.example.com", "a.example.net", "go.acme.test"}
	require.Equal(t, []string{"the certificate shown for go.acme.test is for go.example.com, *.example.net"}, c.Wrong(hosts))
	now.advance(200_000_000 * time.Second)
	require.Equal(t, []string{
		"the certificate shown for a.example.net has expired",
		"the certificate shown for go.acme.test is for go.example.com, *.example.net",
		"the certificate shown for go.example.com has expired",
	}, c.Wrong(hosts))
}
