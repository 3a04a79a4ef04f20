package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Roots holds the root certificates, from a file, that verify the certificates of clients
// or servers. It reads the file again while connections are made; if the file cannot be
// used, the roots stay as they were.
type Roots struct {
	cfg  RootsConfig
	live atomic.Pointer[x509.CertPool]
	next atomic.Int64 // Unix nanoseconds of the next look

	mu   sync.Mutex // of the look
	seen stamp
	bad  string // fault at the last look, logged once
}

// RootsConfig says where roots come from. Zero fields mean the default.
type RootsConfig struct {
	File   string // required: certificates in PEM
	Logger *slog.Logger
	Clock  func() time.Time // default: time.Now; only of this package
}

// OpenRoots reads the file.
func OpenRoots(cfg RootsConfig) (*Roots, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	r := &Roots{cfg: cfg}
	if _, err := r.renew(); err != nil {
		return nil, err
	}
	r.next.Store(cfg.Clock().Add(lookTime).UnixNano())
	return r, nil
}

// Pool returns the roots. The first caller in ten seconds looks at the file for all.
func (r *Roots) Pool() *x509.CertPool {
	now, due := r.cfg.Clock(), r.next.Load()
	if now.UnixNano() >= due && r.next.CompareAndSwap(due, now.Add(lookTime).UnixNano()) {
		r.reloadFile()
	}
	return r.live.Load()
}

// Judge makes a listener judge certificates of clients by the roots as they are when a
// client comes. Whether a client needs one is for auth to say.
func (r *Roots) Judge(cfg *tls.Config, auth tls.ClientAuthType) {
	cfg.ClientAuth, cfg.ClientCAs = auth, r.live.Load()
	// A session that goes on is not judged again.
	cfg.SessionTicketsDisabled = true
	present := cfg.Clone()
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := present.Clone()
		c.ClientCAs = r.Pool()
		return c, nil
	}
}

func (r *Roots) reloadFile() {
	again, err := r.renew()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.bad = ""
	}
	switch {
	case err != nil && err.Error() != r.bad:
		r.bad = err.Error()
		r.cfg.Logger.Error("cannot use the root certificates on disk; the previous ones stay in use", "error", err)
	case err == nil && again:
		r.cfg.Logger.Info("read the root certificates again", "file", r.cfg.File)
	}
}

// renew reads the file if it has changed, and reports whether it has.
func (r *Roots) renew() (again bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info, err := os.Stat(r.cfg.File)
	if err != nil {
		return false, err
	}
	now := stamp{info.ModTime(), info.Size(), info}
	if now.same(r.seen) {
		return false, nil
	}
	text, err := readFile(r.cfg.File)
	if err != nil {
		return false, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return false, fmt.Errorf("%s: %w", r.cfg.File, errNoRoots)
	}
	r.seen = now
	r.live.Store(pool)
	return true, nil
}

var errNoRoots = errors.New("it holds no certificate in PEM")
