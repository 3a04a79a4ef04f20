// Package acmetest runs a certificate authority on loopback for tests: Pebble, the ACME
// server that Let's Encrypt has its clients tested with. It issues real certificates,
// after real proofs, that no client trusts.
package acmetest

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"

	"waypost/internal/dnstest"
)

// Authority is a running one.
type Authority struct {
	Directory string // its URL
	CAFile    string // who has issued the certificate of that URL
	Orders    atomic.Int64
	Down      atomic.Bool // it answers 503 to everything

	// Names answers it, and the edge, where names lead: at first all to 127.0.0.1.
	Names *dnstest.Server

	front atomic.Pointer[http.Handler]
	roots *x509.CertPool
	hold  chan struct{}
}

// Start starts an authority that knows no place to ask for a proof yet.
func Start(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{hold: make(chan struct{}), roots: x509.NewCertPool(), Names: dnstest.Start(t)}
	a.Names.SetAddresses(dnstest.Any, netip.MustParseAddr("127.0.0.1"))
	close(a.hold)
	server := httptest.NewTLSServer(a)
	t.Cleanup(server.Close)
	a.Directory = server.URL + wfe.DirectoryPath
	a.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(a.CAFile, own, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// AskAt makes it ask for proofs at a port of this machine, whatever the domain. It
// sets environment variables, so that the test cannot be parallel.
func (a *Authority) AskAt(t *testing.T, proof net.Addr) {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	profiles := map[string]ca.Profile{"default": {Description: "the only one", ValidityPeriod: 3600 * 24 * 90}}
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, profiles)
	validator := va.New(quiet, 0, proof.(*net.TCPAddr).Port, true, a.Names.Addr, store)
	front := wfe.New(quiet, store, validator, issuer, []string{"pebble.example"}, true, false, 1, 1)
	a.roots.AppendCertsFromPEM(issuer.GetRootCert(0).PEM())
	handler := front.Handler()
	a.front.Store(&handler)
}

// Roots vouch for the certificates that it issues.
func (a *Authority) Roots() *x509.CertPool { return a.roots }

// Hold lets orders wait until the test ends; before the first one.
func (a *Authority) Hold(t testing.TB) {
	hold := make(chan struct{})
	a.hold = hold
	t.Cleanup(func() { close(hold) })
}

// ServeHTTP implements http.Handler.
func (a *Authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/order-plz") {
		a.Orders.Add(1)
		<-a.hold
	}
	front := a.front.Load()
	if a.Down.Load() || front == nil {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	(*front).ServeHTTP(w, r)
}
