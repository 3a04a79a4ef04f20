package certs

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

// State is the state of a name's certificate.
type State string

// The states of certificates, in the order of [Certificates.Hosts].
const (
	Failed  State = "failed"  // the last order or renewal has failed, or the certificate has expired
	Waiting State = "waiting" // the first one is being asked for
	Valid   State = "valid"
)

// Host describes the certificate that visitors of a name are shown.
type Host struct {
	Name  string // in lower case; of a certificate from files also *.example.com
	State State
	Until time.Time // end of its validity; zero: no certificate
	Error string    // why it has failed, for the owner of the name
}

const (
	storageInterval = time.Hour     // between two looks at all certificates in the storage
	refusalShown    = 6 * time.Hour // for which a refusal is shown once a name may be asked for again
)

// Hosts returns the names that have a certificate or wait for one, at most most: first
// the failed ones, then the waiting ones, then the others, beginning with the one that
// expires first. complete reports that the list has all of them.
func (c *Certificates) Hosts(most int) (hosts []Host, complete bool) {
	now := c.cfg.Clock()
	if c.files != nil {
		hosts = fromFile(c.files.current().Leaf, now)
	}
	for name, h := range c.ordering(now) {
		if _, ours := c.mayOrder(name); ours {
			hosts = append(hosts, h)
		}
	}
	rank := []State{Failed, Waiting, Valid}
	slices.SortFunc(hosts, func(a, b Host) int {
		state := cmp.Compare(slices.Index(rank, a.State), slices.Index(rank, b.State))
		return cmp.Or(state, a.Until.Compare(b.Until), cmp.Compare(a.Name, b.Name))
	})
	return hosts[:min(len(hosts), most)], len(hosts) <= most
}

// fromFile returns the names of the certificate from files.
func fromFile(leaf *x509.Certificate, now time.Time) (hosts []Host) {
	for _, name := range leaf.DNSNames {
		h := Host{Name: strings.ToLower(name), State: Valid, Until: leaf.NotAfter}
		if now.After(leaf.NotAfter) {
			h.State, h.Error = Failed, "the certificate from files has expired"
		}
		hosts = append(hosts, h)
	}
	return hosts
}

// ordering returns the names of the authority's certificates, present and to come.
func (c *Certificates) ordering(now time.Time) map[string]Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]Host, len(c.stored))
	for name, until := range c.stored {
		if now.Before(until) {
			all[name] = Host{Name: name, State: Valid, Until: until}
		}
	}
	for name := range c.orders {
		if _, valid := all[name]; !valid {
			all[name] = Host{Name: name, State: Waiting}
		}
	}
	for _, failed := range []map[string]failure{c.failed, c.unrenewed} {
		for name, f := range failed {
			if now.Sub(f.until) <= refusalShown {
				all[name] = Host{Name: name, State: Failed, Until: all[name].Until, Error: f.why}
			}
		}
	}
	return all
}

// watchStorage reads which certificates the storage has, at once and then hourly, because
// edges with the same storage renew them, too.
func (c *Certificates) watchStorage() {
	ticker := time.NewTicker(storageInterval)
	defer ticker.Stop()
	for {
		c.readStorage(c.ctx)
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// readStorage reads the expiry of each certificate in the storage again. It skips
// unreadable files: a later visitor's order replaces them.
func (c *Certificates) readStorage(ctx context.Context) {
	paths, err := filepath.Glob(filepath.Join(c.cfg.Storage, "certificates", "*", "*", "*.crt"))
	if err != nil {
		return
	}
	found := map[string]time.Time{}
	for _, path := range paths[:min(len(paths), maxCached)] {
		if ctx.Err() != nil {
			return
		}
		if leaf, err := leafOf(path); err == nil {
			for _, name := range leaf.DNSNames {
				found[name] = leaf.NotAfter
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, until := range c.stored { // obtained during the look
		if until.After(found[name]) && c.cfg.Clock().Before(until) {
			found[name] = until
		}
	}
	c.stored = found
}

// leafOf reads a chain in PEM up to its first certificate.
func leafOf(path string) (*x509.Certificate, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// reasonOf explains to the owner of a name why there is no certificate. Faults of this
// machine are for the operator, in the log.
func reasonOf(err error) string {
	var refusal acme.Problem
	var elsewhere *elsewhereError
	var dns *net.DNSError
	switch {
	case errors.As(err, &refusal):
		return "the authority refused it: " + cmp.Or(refusal.Detail, refusal.Title, refusal.Type)
	case errors.As(err, &elsewhere):
		return elsewhere.Error()
	case errors.As(err, &dns) && dns.IsNotFound:
		return "DNS has no address for the name"
	case errors.As(err, &dns):
		return "DNS does not answer for the name"
	case errors.Is(err, context.DeadlineExceeded):
		return errSlow.Error()
	}
	return "the authority could not be asked; the log of the edge has the reason"
}

// Wrong returns, of some hosts, sentences about the hosts for which visitors are shown a
// certificate that browsers refuse, sorted.
func (c *Certificates) Wrong(hosts []string) (wrong []string) {
	now := c.cfg.Clock()
	var ordering map[string]Host
	if c.magic != nil {
		ordering = c.ordering(now)
	}
	for _, host := range hosts {
		if c.files != nil {
			switch leaf := c.files.current().Leaf; {
			case leaf.VerifyHostname(host) != nil && c.magic == nil:
				wrong = append(wrong, "the certificate shown for "+host+" is for "+strings.Join(leaf.DNSNames[:min(len(leaf.DNSNames), 3)], ", "))
				continue
			case leaf.VerifyHostname(host) == nil && now.After(leaf.NotAfter):
				wrong = append(wrong, "the certificate shown for "+host+" has expired")
				continue
			}
		}
		if h := ordering[host]; h.State == Failed && !now.Before(h.Until) {
			wrong = append(wrong, "there is no certificate for "+host+": "+h.Error)
		}
	}
	slices.Sort(wrong)
	return wrong
}
