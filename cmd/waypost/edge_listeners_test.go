package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/edge/certs/acmetest"
	"waypost/edge/node"
	"waypost/internal/admin"
	"waypost/internal/config"
)

// runningEdge is a whole edge in this process.
type runningEdge struct {
	admin.Status
	stop context.CancelFunc
	done chan error
}

// startEdge runs an edge that follows in, and waits until it is ready.
func startEdge(t *testing.T, in *installation, change func(*config.Config), patient ...func(*node.Config)) *runningEdge {
	t.Helper()
	cfg, err := config.Load(config.Sources{})
	require.NoError(t, err)
	e := &cfg.Edge
	e.Addr, e.AdminAddr, e.Region, e.Node = []string{"127.0.0.1:0"}, "127.0.0.1:0", "eu-west-1", "edge-under-test"
	e.ControlURLs, e.Token = []string{in.api.URL}, "of-no-importance"
	e.DataDir = t.TempDir()
	change(&cfg)
	require.NoError(t, e.Check())
	require.NoError(t, cfg.TLS.Check())
	settings, err := edgeSettings(cfg)
	require.NoError(t, err)
	for _, change := range patient {
		change(&settings)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &runningEdge{stop: stop, done: make(chan error, 1)}
	go func() {
		r.done <- node.Run(ctx, settings, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		stop()
		if r.done != nil {
			require.NoError(t, <-r.done)
		}
	})
	require.Eventually(t, func() bool {
		r.Status, err = admin.ReadStatus(e.DataDir)
		return err == nil && r.readiness(t) == "ready"
	}, 60*time.Second, 10*time.Millisecond)
	return r
}

func (r *runningEdge) readiness(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.AdminAddr+"/readyz", http.NoBody)
	require.NoError(t, err)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	var detail struct{ Status string }
	if err := json.NewDecoder(res.Body).Decode(&detail); err != nil { // it ends
		return err.Error()
	}
	require.Equal(t, detail.Status == "ready", res.StatusCode == http.StatusOK)
	return detail.Status
}

// requireRoot asks for GET / on a connection and leaves it open.
func requireRoot(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, askRoot(c))
}

func askRoot(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: go.example.com\r\n\r\n"); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	if _, err = io.Copy(io.Discard, res.Body); err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return err
}

func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// certificateFiles makes a certificate for a name that vouches for itself.
func certificateFiles(t *testing.T, name string) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	roots = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots.AddCert(parsed)
	return certFile, keyFile, roots
}

func TestAnEdgeServesOnAllItsListenersAndStopsWithoutAFailedRequest(t *testing.T) {
	t.Parallel()
	in := install(t, nil)
	// A machine that stands still for as long as the edge drains sees nothing of that.
	// Then another one drains longer.
	for delay := 2 * time.Second; !drainsFor(t, in, delay); delay *= 5 {
		require.Less(t, delay, time.Minute, "it was never in time")
	}
}

// drainsFor stops an edge that drains for so long, and reports whether it was seen to
// do so.
func drainsFor(t *testing.T, in *installation, delay time.Duration) (seen bool) {
	t.Helper()
	const patience = 60 * time.Second
	certFile, keyFile, roots := certificateFiles(t, "go.example.com")
	e := startEdge(t, in, func(c *config.Config) {
		c.Edge.Addr = append(c.Edge.Addr, "[::1]:0", "127.0.0.1:0")
		c.Edge.DrainDelay = delay
		c.TLS = config.TLS{Addr: []string{"127.0.0.1:0", "[::1]:0"}, CertFile: certFile, KeyFile: keyFile}
	}, func(c *node.Config) {
		c.ShutdownTimeout, c.Server.ReadTimeout, c.Server.IdleTimeout = patience, 2*patience, 2*patience
	})
	require.Len(t, e.Listen, 2)
	require.Len(t, e.TLS, 2)
	var silent []net.Conn // with and without a request behind them, and those without are accepted first
	for _, addr := range append([]string{e.Addr}, e.Listen...) {
		silent = append(silent, connect(t, addr))
		c := connect(t, addr)
		requireRoot(t, c)
		silent = append(silent, c)
	}
	for _, addr := range e.TLS {
		silent = append(silent, connect(t, addr))
		c := tls.Client(connect(t, addr), &tls.Config{ServerName: "go.example.com", RootCAs: roots})
		requireRoot(t, c)
		silent = append(silent, c)
	}

	begin := time.Now()
	e.stop()
	// Load balancers see it first, and who comes all the same is answered.
	said := ""
	for said != "stopping" && time.Since(begin) < delay {
		said = e.readiness(t)
	}
	fresh, err := net.Dial("tcp", e.Addr)
	if err == nil {
		defer func() { _ = fresh.Close() }()
		err = askRoot(fresh)
	}
	seen = time.Since(begin) < delay
	if seen {
		require.Equal(t, "stopping", said)
		require.NoError(t, err)
		silent = append(silent, fresh)
	}
	require.NoError(t, <-e.done)
	e.done = nil
	took := time.Since(begin)
	require.GreaterOrEqual(t, took, delay)
	require.Less(t, took, delay+patience/2, "nobody who is silent holds it up")
	for _, c := range silent {
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "closed in order")
	}
	return seen
}

// TestAnEdgeGetsCertificatesForTheDomainsOfItsReplicaOnly is with a real authority,
// which comes to the edge's own listener for the proof.
func TestACertificateIsJudgedWithItsKey(t *testing.T) {
	cert, key, _ := certificateFiles(t, "go.example.com")
	settings := node.Config{Control: node.Control{Token: "of no importance"}, DataDir: t.TempDir()}
	settings.Certificates.CertFile, settings.Certificates.KeyFile = cert, key
	require.NoError(t, node.Check(settings))
	settings.Certificates.KeyFile = cert
	require.ErrorContains(t, node.Check(settings), "with key "+cert)
}

func TestAnEdgeGetsCertificatesForTheDomainsOfItsReplicaOnly(t *testing.T) {
	in := install(t, nil)
	authority := acmetest.Start(t)
	e := startEdge(t, in, func(c *config.Config) {
		c.TLS = config.TLS{
			Addr: []string{"127.0.0.1:0"}, ACMEDirectory: authority.Directory, CAFile: authority.CAFile,
			DNSResolvers: []string{authority.Names.Addr},
		}
	})
	at, err := net.ResolveTCPAddr("tcp", e.TLS[0])
	require.NoError(t, err)
	authority.AskAt(t, at)
	in.call(t, http.MethodPost, "/api/v1/urls", map[string]any{"original_url": "https://example.org/over-tls", "custom_code": "a-link"}, http.StatusCreated)

	_, err = tls.Dial("tcp", e.TLS[0], &tls.Config{ServerName: "other.example.com", InsecureSkipVerify: true})
	require.ErrorContains(t, err, "tls: ")
	require.Zero(t, authority.Orders.Load())

	visitor := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authority.Roots()}, TLSHandshakeTimeout: 30 * time.Second, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, e.TLS[0])
		},
	}
	defer visitor.CloseIdleConnections()
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://go.example.com/a-link", http.NoBody)
		require.NoError(t, err)
		res, err := visitor.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, "HTTP/1.1", res.Proto)
		return res.StatusCode == http.StatusFound && res.Header.Get("Location") == "https://example.org/over-tls"
	}, 60*time.Second, 10*time.Millisecond, "as soon as the link is replicated")
	require.EqualValues(t, 1, authority.Orders.Load())
	require.Eventually(t, func() bool {
		text, err := json.Marshal(in.call(t, http.MethodGet, "/api/v1/domains", nil, http.StatusOK))
		require.NoError(t, err)
		var list api.DomainList
		require.NoError(t, json.Unmarshal(text, &list))
		c := list.Domains[0].Certificate
		return c.State == "valid" && c.Until.After(time.Now().Add(80*24*time.Hour)) && c.Error == ""
	}, time.Minute, 10*time.Millisecond, "the certificate is shown with its domain")
}

func TestAVisitorWhoWaitsForACertificateDoesNotHoldUpAStop(t *testing.T) {
	in := install(t, nil)
	authority := acmetest.Start(t)
	authority.Hold(t)
	e := startEdge(t, in, func(c *config.Config) {
		c.TLS = config.TLS{
			Addr: []string{"127.0.0.1:0"}, ACMEDirectory: authority.Directory, CAFile: authority.CAFile,
			DNSResolvers: []string{authority.Names.Addr},
		}
	}, func(c *node.Config) { c.ShutdownTimeout = time.Minute })
	at, err := net.ResolveTCPAddr("tcp", e.TLS[0])
	require.NoError(t, err)
	authority.AskAt(t, at)
	failed := make(chan error, 1)
	go func() {
		_, err := tls.Dial("tcp", e.TLS[0], &tls.Config{ServerName: "go.example.com", InsecureSkipVerify: true})
		failed <- err
	}()
	require.Eventually(t, func() bool { return authority.Orders.Load() == 1 }, 60*time.Second, time.Millisecond)
	begin := time.Now()
	e.stop()
	require.NoError(t, <-e.done)
	e.done = nil
	require.Less(t, time.Since(begin), 40*time.Second)
	require.Error(t, <-failed)
}
