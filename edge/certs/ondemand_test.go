package certs_test

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge/certs"
	"waypost/edge/certs/acmetest"
	"waypost/internal/logtest"
)

func isKnown(name string) (certs.Owner, bool) { return 1, name == known }

// ask starts an authority that asks for proofs at the port of proof, and returns the
// configuration of an edge that listens there.
func ask(t *testing.T, proof net.Listener) (*acmetest.Authority, certs.Config) {
	t.Helper()
	a := acmetest.Start(t)
	a.AskAt(t, proof.Addr())
	return a, certs.Config{
		Directory: a.Directory, CAFile: a.CAFile, Storage: t.TempDir(), Listen: proof.Addr(), Owner: isKnown,
		Resolver: a.Names.Resolver(),
	}
}

func TestAKnownDomainGetsACertificateWhenItsFirstVisitorsCome(t *testing.T) {
	ln := listen(t)
	a, cfg := ask(t, ln)
	roots := a.Roots()
	registry := prometheus.NewPedanticRegistry()
	cfg.Metrics = registry
	var log logtest.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := serve(t, ln, cfg)

	var visitors sync.WaitGroup
	for range 5 {
		visitors.Go(func() {
			cert, err := visit(t, ln, known, roots, "h2", "http/1.1")
			if err != nil || cert.VerifyHostname(known) != nil {
				t.Errorf("%v %v", cert, err)
			}
		})
	}
	visitors.Wait()
	require.EqualValues(t, 1, a.Orders.Load(), "one order for all")

	t.Run("later ones have it at once", func(t *testing.T) {
		a.Down.Store(true)
		defer a.Down.Store(false)
		_, err := visit(t, ln, known, roots)
		require.NoError(t, err)
		_, err = visit(t, ln, "GO.Example.COM", roots)
		require.NoError(t, err, "in whatever case")
	})
	t.Run("an unknown name fails in the handshake, and nothing is ordered", func(t *testing.T) {
		for _, name := range []string{"other.example.com", "x.go.example.com", "", "localhost", "*.example.com", "com"} {
			for _, protocols := range [][]string{{"http/1.1"}, {"acme-tls/1"}} {
				_, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: protocols})
				require.ErrorContains(t, err, "tls: ", name)
			}
		}
		require.EqualValues(t, 1, a.Orders.Load())
	})
	t.Run("who speaks HTTP/2 only is refused", func(t *testing.T) {
		_, err := visit(t, ln, known, roots, "h2")
		require.ErrorContains(t, err, "no application protocol")
	})
	t.Run("it is kept on disk", func(t *testing.T) {
		again := listen(t)
		cfg := cfg
		cfg.Metrics, cfg.Listen = nil, again.Addr()
		serve(t, again, cfg)
		_, err := visit(t, again, known, roots)
		require.NoError(t, err)
		require.EqualValues(t, 1, a.Orders.Load())
	})
	t.Run("it still serves when nothing more is asked for", func(t *testing.T) {
		require.NoError(t, c.Close())
		_, err := visit(t, ln, known, roots)
		require.NoError(t, err)
	})
	require.Contains(t, log.String(), "certificate obtained successfully")
	require.NotContains(t, log.String(), "remote", "no visitor's address is logged")
	require.EqualValues(t, 1, total(t, registry, "waypost_tls_certificate_orders_total"))
	require.EqualValues(t, 12, total(t, registry, "waypost_tls_unknown_names_total"))
}

func TestAnAuthorityThatRefusesIsLeftAloneForAWhile(t *testing.T) {
	ln := listen(t)
	elsewhere := listen(t) // where the authority asks in vain
	require.NoError(t, elsewhere.Close())
	a, cfg := ask(t, elsewhere)
	cfg.Listen = ln.Addr()
	roots := a.Roots()
	now := &clock{at: time.Now()}
	cfg.Clock = now.read
	serve(t, ln, cfg)

	_, err := visit(t, ln, known, roots)
	require.Error(t, err)
	asked := a.Orders.Load()
	require.NotZero(t, asked)
	for range 3 {
		_, err := visit(t, ln, known, roots)
		require.Error(t, err)
	}
	require.Equal(t, asked, a.Orders.Load(), "visitors do not ask again")
	now.advance(2 * time.Minute)
	_, err = visit(t, ln, known, roots)
	require.Error(t, err)
	require.Greater(t, a.Orders.Load(), asked, "but later it is tried again")
}

func TestARenewalThatIsRefusedIsNotTriedAgainByTheNextVisitor(t *testing.T) {
	now := &clock{at: time.Now()}
	c, err := certs.New(certs.Config{
		Directory: "https://ca.example/dir", Storage: t.TempDir(), Listen: &net.TCPAddr{Port: 443}, Owner: isKnown, Clock: now.read,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	begin := func(name string) error {
		return c.Note("cert_obtaining", map[string]any{"renewal": true, "identifier": name})
	}
	for _, pause := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		require.NoError(t, begin(known))
		require.NoError(t, c.Note("cert_failed", map[string]any{"renewal": true, "identifier": known, "error": errors.New("refused")}))
		now.advance(pause - time.Second)
		later := begin(known)
		require.ErrorContains(t, later, "not asked again so soon")
		require.NoError(t, c.Note("cert_failed", map[string]any{"renewal": true, "identifier": known, "error": later}))
		require.NoError(t, begin("other.example.com"))
		now.advance(2 * time.Second)
	}
	require.NoError(t, c.Note("cert_obtained", map[string]any{"renewal": true, "identifier": known}))
	require.NoError(t, c.Note("cert_failed", map[string]any{"renewal": true, "identifier": known, "error": errors.New("refused")}))
	now.advance(time.Minute + time.Second)
	require.NoError(t, begin(known), "a success begins anew")
}

func TestCloseGivesUpWhatIsAskedFor(t *testing.T) {
	ln := listen(t)
	a, cfg := ask(t, ln)
	roots := a.Roots()
	a.Hold(t)
	c := serve(t, ln, cfg)
	failed := make(chan error, 1)
	go func() {
		_, err := visit(t, ln, known, roots)
		failed <- err
	}()
	require.Eventually(t, func() bool { return a.Orders.Load() == 1 }, 60*time.Second, time.Millisecond)
	require.NoError(t, c.Close())
	require.Error(t, <-failed)
	require.NoError(t, c.Close(), "again does no harm")
	_, err := visit(t, ln, known, roots)
	require.Error(t, err, "nothing new is asked for")
	require.EqualValues(t, 1, a.Orders.Load())
}

func TestWhatAnAuthorityNeedsIsChecked(t *testing.T) {
	good := certs.Config{Directory: "https://ca.example/dir", Storage: "/nowhere", Listen: &net.TCPAddr{Port: 443}, Owner: isKnown}
	for name, change := range map[string]func(*certs.Config){
		"neither files nor authority": func(c *certs.Config) { *c = certs.Config{} },
		"no storage":                  func(c *certs.Config) { c.Storage = "" },
		"no listener":                 func(c *certs.Config) { c.Listen = nil },
		"no judge":                    func(c *certs.Config) { c.Owner = nil },
		"roots that are missing":      func(c *certs.Config) { c.CAFile = "/nowhere/ca.pem" },
		"roots that are none":         func(c *certs.Config) { c.CAFile = "ondemand_test.go" },
	} {
		cfg := good
		change(&cfg)
		_, err := certs.New(cfg)
		require.Error(t, err, name)
	}
}

// clock is one that a test sets.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}
