package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"path/filepath"
	"time"

	"github.com/caddyserver/certmagic"
)

// openAuthority prepares to ask the authority.
func (c *Certificates) openAuthority() error {
	cfg := c.cfg
	at, ok := cfg.Listen.(*net.TCPAddr)
	if !ok || cfg.Storage == "" || cfg.Owner == nil {
		return errors.New("an authority needs a TCP listener, a storage and a judge of names")
	}
	var roots *x509.CertPool // nil: the system's
	if cfg.CAFile != "" {
		var err error
		if roots, err = ReadRoots(cfg.CAFile); err != nil {
			return err
		}
	}
	log := zapLogger(cfg.Logger)
	c.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return c.magic, nil },
		Capacity:         maxCached, Logger: log,
	})
	c.magic = certmagic.New(c.cache, certmagic.Config{
		Storage: &certmagic.FileStorage{Path: cfg.Storage},
		OnEvent: c.allowRenewal, Logger: log,
		// A responder that hangs would hold handshakes up.
		OCSP: certmagic.OCSPConfig{DisableStapling: true},
		// Certificates are renewed when a client comes, and only for domains that are still
		// known.
		OnDemand: &certmagic.OnDemandConfig{DecisionFunc: func(_ context.Context, name string) error {
			if _, may := c.mayOrder(name); !may {
				return errName
			}
			return nil
		}},
	})
	c.magic.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(c.magic, certmagic.ACMEIssuer{
		CA: cfg.Directory, Agreed: true, TrustedRoots: roots, Logger: log,
		DisableHTTPChallenge: true,
		// Our own listener is there already, and answers with the proof.
		ListenHost: hostOf(at), AltTLSALPNPort: at.Port,
	})}
	c.running.Go(c.watchStorage)
	return nil
}

func hostOf(at *net.TCPAddr) string {
	if at.IP == nil {
		return ""
	}
	return at.IP.String()
}

// order is a certificate that is being asked for.
type order struct {
	owner   Owner
	waiting int           // visitors
	done    chan struct{} // closed when it is there, or err is
	err     error
}

// failure says how often a name was refused in a row, and until when the authority is
// left alone: authorities count refusals, and shut out clients with too many.
type failure struct {
	times int
	until time.Time
	why   string // for the owner of the name
}

// ordered returns the certificate of a known name. No limit on orders applies to one that
// is there. Otherwise the first client starts an order, and all wait a while; the order
// goes on when they have left.
func (c *Certificates) ordered(hello *tls.ClientHelloInfo, name string, owner Owner) (*tls.Certificate, error) {
	if c.cached(name) || c.load(hello.Context(), name) {
		return c.magic.GetCertificateWithContext(hello.Context(), hello)
	}
	o, err := c.join(name, owner)
	if err != nil {
		return nil, err
	}
	defer c.waited(o)
	select {
	case <-o.done:
	case <-time.After(waitTime):
		return nil, errSlow
	case <-hello.Context().Done():
		return nil, hello.Context().Err()
	}
	if o.err != nil {
		return nil, o.err
	}
	// The deadline of the handshake may be over; the rest of the handshake has its own
	// time.
	if err := hello.Conn.SetDeadline(time.Now().Add(restTime)); err != nil {
		return nil, err
	}
	return c.magic.GetCertificateWithContext(hello.Context(), hello)
}

// cached reports whether a certificate is in memory and good for a while. An expired
// certificate is ordered like a new one.
func (c *Certificates) cached(name string) bool {
	for _, cert := range c.cache.AllMatchingCertificates(name) {
		if !cert.Empty() && !cert.Expired() {
			return true
		}
	}
	return false
}

// load moves a certificate from the storage into memory, and reports whether there is one
// that is good for a while.
func (c *Certificates) load(ctx context.Context, name string) bool {
	select {
	case c.loading <- struct{}{}:
		defer func() { <-c.loading }()
	case <-time.After(waitTime):
		return false
	}
	cert, err := c.magic.CacheManagedCertificate(ctx, name)
	if err != nil || cert.Expired() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got(name, cert)
	return true
}

// got notes that a name has a certificate. The lock is held.
func (c *Certificates) got(name string, cert certmagic.Certificate) {
	delete(c.failed, name)
	c.stored[name] = cert.Leaf.NotAfter
}

// join waits along with an order, or makes one.
func (c *Certificates) join(name string, owner Owner) (*order, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	o, underWay := c.orders[name]
	if !underWay {
		now := c.cfg.Clock()
		if f, ok := c.failed[name]; ok && now.Before(f.until) {
			return nil, errLater
		}
		if !c.places.TryAcquire(owner, 1) {
			c.metrics.busy.Inc()
			return nil, errBusy
		}
		o = &order{owner: owner, done: make(chan struct{})}
		c.orders[name] = o
		c.running.Go(func() { c.fill(o, name) })
	}
	if o.waiting >= maxWaiting {
		c.metrics.busy.Inc()
		return nil, errBusy
	}
	o.waiting++
	return o, nil
}

func (c *Certificates) waited(o *order) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.waiting--
}

// attempt ends an order when the authority has refused it once: certmagic would try
// again after a minute, and later.
type attempt struct {
	giveUp func()
	err    error
}

type attemptKey struct{}

// allowRenewal receives the events of certmagic, on the goroutine that causes them. An
// event outside our own orders belongs to a renewal. Visitors start a renewal while the
// certificate still serves, and each visitor starts it again after a failure, so
// allowRenewal refuses one before its pause is over.
func (c *Certificates) allowRenewal(ctx context.Context, event string, data map[string]any) error {
	a, ours := ctx.Value(attemptKey{}).(*attempt)
	name, _ := data["identifier"].(string)
	path, _ := data["certificate_path"].(string)
	var renewed time.Time
	if event == "cert_obtained" && path != "" {
		if leaf, err := leafOf(filepath.Join(c.cfg.Storage, filepath.FromSlash(path))); err == nil {
			renewed = leaf.NotAfter
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch event {
	case "cert_obtaining":
		if !ours && c.cfg.Clock().Before(c.unrenewed[name].until) {
			return errLater
		}
	case "cert_obtained":
		c.metrics.orders.WithLabelValues("obtained").Inc()
		delete(c.unrenewed, name)
		if !renewed.IsZero() {
			c.stored[name] = renewed
		}
	case "cert_failed":
		c.metrics.orders.WithLabelValues("failed").Inc()
		err, _ := data["error"].(error)
		if ours {
			a.err = err
			a.giveUp()
		} else if !errors.Is(err, errLater) {
			c.fail(c.unrenewed, name, err)
		}
	}
	return nil
}

// fill gets the certificate from the storage, or from the authority.
func (c *Certificates) fill(o *order, name string) {
	ctx, cancel := context.WithTimeout(c.ctx, orderTime)
	defer cancel()
	a := &attempt{giveUp: cancel}
	ctx = context.WithValue(ctx, attemptKey{}, a)
	cert, err := c.magic.CacheManagedCertificate(ctx, name)
	ask := func() error { return c.magic.ObtainCertAsync(ctx, name) }
	if err == nil {
		ask = func() error { return c.magic.RenewCertAsync(ctx, name, false) }
	}
	if err != nil || cert.Expired() {
		if err = c.mayAsk(ctx, name, o); err == nil {
			err = ask()
		}
		if err == nil {
			cert, err = c.magic.CacheManagedCertificate(ctx, name)
		}
	}
	if err != nil && a.err != nil {
		err = a.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.orders, name)
	c.places.Release(o.owner, 1)
	switch {
	case err == nil:
		c.got(name, cert)
	case !errors.Is(err, errBudget): // which is no fault of the name
		c.fail(c.failed, name, err)
	}
	o.err = err
	close(o.done)
}

// fail notes a refusal. It forgets refusals with a pause that ended more than the longest
// pause ago, so that failed never holds more names than were tried within a day. The lock
// is held.
func (c *Certificates) fail(failed map[string]failure, name string, err error) {
	const first, longest = time.Minute, 6 * time.Hour
	if c.ctx.Err() != nil {
		return
	}
	now := c.cfg.Clock()
	for other, f := range failed {
		if now.Sub(f.until) > longest {
			delete(failed, other)
		}
	}
	f := failed[name]
	pause := min(first<<min(f.times, 12), longest)
	failed[name] = failure{f.times + 1, now.Add(pause), reasonOf(err)}
	c.cfg.Logger.Error("cannot get a certificate", "domain", name, "error", err, "again_in", pause)
}
