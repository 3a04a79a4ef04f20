// Package certs provides the certificates of an edge. One comes from files, which are
// read again when they change. A certificate authority that speaks ACME issues one for
// each domain that the edge knows, ordered when the first client comes.
//
// It knows neither the redirect server nor the replica: it makes a tls.Config, and its
// caller decides which names are domains.
package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"waypost/internal/semaphore"
)

// Config says where certificates come from: files, an authority, or both, and then
// the files' go first. Zero fields mean the default.
type Config struct {
	// CertFile and KeyFile are a chain and its key in PEM. The certificate is for its
	// own names, and for all clients for which there is no other.
	CertFile, KeyFile string

	// Directory is the URL at which the authority's ACME service begins. Default: no
	// authority. A URL means agreeing to the authority's terms.
	Directory string
	CAFile    string // roots, in PEM, that the service's own certificate may have; default: the system's

	// Storage is the directory in which the account, keys and certificates are kept;
	// required with Directory. Edges that answer for the same names must share it,
	// since the authority may ask any of them for the proof.
	Storage string

	// Listen is an address at which the TLS listener is reached: the proof is given
	// there (tls-alpn-01, RFC 8737). Required with Directory.
	Listen net.Addr

	// Owner returns the owner of a name in lower case, and false if the name is no
	// domain; such a name is never ordered. Required with Directory; called by many
	// goroutines at once.
	Owner func(name string) (Owner, bool)

	// Addresses lists addresses, besides the machine's own, at which visitors reach this
	// edge or others with the same Storage. A name that leads to no address of either
	// kind is not ordered.
	Addresses []netip.Addr

	OrdersPerHour int      // at the authority, in shares of owners; default 60
	Resolver      Resolver // says where names lead; default net.DefaultResolver

	Logger  *slog.Logger          // default: discarded
	Metrics prometheus.Registerer // default: none
	Clock   func() time.Time      // default: time.Now; only of this package, not of certificates' validity
}

// Bounds on the work that visitors can cause.
const (
	maxOrders       = 8                // at the authority at once
	maxOwnersOrders = 2                // of one owner
	maxWaiting      = 64               // visitors that wait for one certificate
	maxLoading      = 64               // visitors at a time who wait for a certificate from the storage
	orderTime       = 50 * time.Second // for one certificate, before it counts as failed
	waitTime        = 30 * time.Second // of a visitor for it
	restTime        = 5 * time.Second  // for the rest of a handshake that has waited
	maxCached       = 10_000           // certificates in memory
)

// Certificates holds the certificates of one edge.
type Certificates struct {
	cfg     Config
	files   *files
	magic   *certmagic.Config // nil: no authority
	cache   *certmagic.Cache
	metrics *meters

	ctx     context.Context // of all orders
	cancel  context.CancelFunc
	running sync.WaitGroup
	loading chan struct{} // has a place for each visitor who looks into the storage

	mu        sync.Mutex
	closed    bool
	orders    map[string]*order // by name: those under way
	failed    map[string]failure
	unrenewed map[string]failure      // of certificates that still serve
	stored    map[string]time.Time    // by name: end of validity of the certificate in the storage
	places    *semaphore.Keyed[Owner] // of orders under way
	budget    budget

	warned rate.Sometimes
}

var (
	errNoName = errors.New("the client names no domain, and there is no certificate for such")
	errName   = errors.New("no domain of ours, and no certificate for others")
	errBusy   = errors.New("too many certificates are being asked for")
	errLater  = errors.New("the authority has refused a certificate, and is not asked again so soon")
	errBudget = errors.New("too many certificates were ordered in the last hour")
	errSlow   = errors.New("the authority takes too long")
)

// New reads the files, and orders nothing yet.
func New(cfg Config) (*Certificates, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	cfg.OrdersPerHour = cmp.Or(cfg.OrdersPerHour, 60)
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	c := &Certificates{
		loading: make(chan struct{}, maxLoading),
		places:  semaphore.NewKeyed[Owner](maxOrders, maxOwnersOrders),
		budget:  newBudget(cfg.OrdersPerHour), warned: rate.Sometimes{First: 1, Interval: time.Minute},
		cfg: cfg, metrics: newMeters(), orders: map[string]*order{}, failed: map[string]failure{}, unrenewed: map[string]failure{},
		stored: map[string]time.Time{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if cfg.CertFile != "" || cfg.KeyFile != "" {
		f, err := openFiles(cfg)
		if err != nil {
			return nil, err
		}
		c.files = f
	}
	if cfg.Directory != "" {
		if err := c.openAuthority(); err != nil {
			return nil, err
		}
	}
	if c.files == nil && c.magic == nil {
		return nil, errors.New("neither a certificate nor an authority is given")
	}
	if cfg.Metrics != nil {
		if err := c.metrics.register(cfg.Metrics, c.files); err != nil {
			return nil, fmt.Errorf("metrics of certificates: %w", errors.Join(err, c.Close()))
		}
	}
	return c, nil
}

// suites are the cipher suites of TLS 1.2: AEAD with forward secrecy. Those of TLS 1.3
// are all of this kind.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// TLS is the configuration of a listener: TLS 1.2 with AEAD and 1.3, and HTTP/1.1 inside.
func (c *Certificates) TLS() *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: suites, NextProtos: []string{"http/1.1"}, GetCertificate: c.get}
	if c.magic != nil {
		cfg.NextProtos = append(cfg.NextProtos, protocolOfProof)
	}
	return cfg
}

// protocolOfProof is spoken by an authority that wants to see that a domain is ours.
const protocolOfProof = "acme-tls/1"

// get finds the certificate for a client, and makes it wait while it is asked for.
func (c *Certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(hello.ServerName)
	proof := len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == protocolOfProof
	var own *tls.Certificate
	if c.files != nil {
		own = c.files.current()
		if name != "" && !proof && own.Leaf.VerifyHostname(name) == nil {
			return own, nil
		}
	}
	if c.magic != nil {
		switch owner, may := c.mayOrder(name); {
		case may && proof:
			return c.magic.GetCertificateWithContext(hello.Context(), hello)
		case may:
			return c.ordered(hello, name, owner)
		}
	}
	if own != nil && !proof {
		return own, nil
	}
	c.metrics.unknown.Inc()
	if name == "" {
		return nil, errNoName
	}
	return nil, errName
}

// mayOrder returns the owner of a name, and false if no authority may be asked for it.
func (c *Certificates) mayOrder(name string) (Owner, bool) {
	if name == "" || !certmagic.SubjectQualifiesForCert(name) || certmagic.SubjectIsIP(name) || strings.Contains(name, "*") {
		return 0, false
	}
	return c.cfg.Owner(name)
}

// Close ends the orders under way, and waits for them. Certificates in memory still
// serve.
func (c *Certificates) Close() error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return nil
	}
	c.cancel()
	c.running.Wait()
	if c.cache != nil {
		c.cache.Stop()
	}
	return nil
}
