package certs

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"waypost/internal/atomicfile"
)

const (
	maxFile  = 1 << 20          // bytes of a PEM file
	lookTime = 10 * time.Second // between two looks whether the files have changed
)

// files is the certificate from files. It looks at them again while clients come; a
// new pair that cannot be used leaves the old one in place.
type files struct {
	cfg  Config
	live atomic.Pointer[tls.Certificate]
	next atomic.Int64 // Unix nanoseconds of the next look

	mu   sync.Mutex // of the look
	seen [2][]byte
	bad  string // fault at the last look, logged once
}

// CheckFiles says whether a chain and its key can be read and belong together.
func CheckFiles(certFile, keyFile string) error {
	_, err := openFiles(Config{CertFile: certFile, KeyFile: keyFile, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
	return err
}

func openFiles(cfg Config) (*files, error) {
	f := &files{cfg: cfg}
	if _, err := f.load(); err != nil {
		return nil, err
	}
	f.next.Store(cfg.Clock().Add(lookTime).UnixNano())
	return f, nil
}

// current returns the certificate. One client in ten seconds looks at the files for all.
func (f *files) current() *tls.Certificate {
	now, due := f.cfg.Clock(), f.next.Load()
	if now.UnixNano() >= due && f.next.CompareAndSwap(due, now.Add(lookTime).UnixNano()) {
		f.renew()
	}
	return f.live.Load()
}

func (f *files) renew() {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed, err := f.load()
	switch {
	case err == nil:
		f.bad = ""
		if changed {
			f.cfg.Logger.Info("read the certificate again", "not_after", f.live.Load().Leaf.NotAfter)
		}
	case err.Error() != f.bad:
		f.bad = err.Error()
		f.cfg.Logger.Error("cannot use the certificate on disk; the previous one stays in use", "error", err)
	}
}

// load reads the pair, and reports whether it has changed. A pair that is being replaced
// does not fit together, and is read at a later look.
func (f *files) load() (changed bool, err error) {
	var now [2][]byte
	for i, name := range []string{f.cfg.CertFile, f.cfg.KeyFile} {
		if now[i], err = readFile(name); err != nil {
			return false, err
		}
	}
	if bytes.Equal(now[0], f.seen[0]) && bytes.Equal(now[1], f.seen[1]) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(now[0], now[1])
	if err != nil {
		return false, fmt.Errorf("certificate %s with key %s: %w", f.cfg.CertFile, f.cfg.KeyFile, err)
	}
	if f.cfg.Clock().After(pair.Leaf.NotAfter) {
		f.cfg.Logger.Warn("read an expired certificate", "not_after", pair.Leaf.NotAfter)
	}
	f.seen = now
	f.live.Store(&pair)
	return true, nil
}

func readFile(name string) ([]byte, error) {
	text, err := atomicfile.Read(name, maxFile)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return text, nil
}
