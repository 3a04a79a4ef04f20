package controlplane

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"waypost"
	"waypost/controlplane/target"
)

// hostBelief is for how long the table of hosts is believed without asking. A domain
// that another control plane adds is unknown here as a forbidden target for that long;
// no circle can come of it, because links of the new domain cannot lead to the old ones.
const hostBelief = 2 * time.Second

// hosts knows the hosts of all domains, so that every target can be held against them.
type hosts struct {
	store DomainStore // nil: there is the default domain alone
	table atomic.Pointer[hostTable]

	mu sync.Mutex // held while the table is read
}

type hostTable struct {
	domains map[string]waypost.Domain
	read    time.Time
}

// refresh sees that there is a table that is not old. One asks at a time; the others
// make do with what there is, and so does everybody while the store does not answer.
func (h *hosts) refresh(ctx context.Context) error {
	if h.store == nil {
		return nil
	}
	t := h.table.Load()
	switch {
	case t == nil:
		h.mu.Lock()
	case time.Since(t.read) < hostBelief || !h.mu.TryLock():
		return nil
	}
	defer h.mu.Unlock()
	if again := h.table.Load(); again != t && again != nil {
		return nil // somebody was faster
	}
	err := h.readTable(ctx)
	if t != nil {
		return nil //nolint:nilerr // the old one will do
	}
	return err
}

// readTable asks the store. The caller holds h.mu.
func (h *hosts) readTable(ctx context.Context) error {
	now := time.Now()
	all, err := h.store.AllDomains(ctx)
	if err != nil {
		return err
	}
	t := &hostTable{domains: make(map[string]waypost.Domain, len(all)), read: now}
	for _, d := range all {
		t.domains[d.Host] = d
	}
	h.table.Store(t)
	return nil
}

// changed reads the table anew, because a domain has come or gone here. What fails is
// tried again by the next refresh.
func (h *hosts) changed(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readTable(ctx) != nil {
		h.table.Store(nil)
	}
}

// find gives the domain of a host in its canonical form.
func (h *hosts) find(ctx context.Context, host string) (waypost.Domain, bool, error) {
	if h.store == nil {
		return waypost.Domain{}, false, nil
	}
	if t := h.table.Load(); t != nil && time.Since(t.read) < hostBelief {
		if d, ok := t.domains[host]; ok {
			return d, true, nil
		}
	}
	return h.store.DomainOf(ctx, host) // it may have been added a moment ago
}

// own reports whether a host is one of a domain's.
func (h *hosts) own(host string) bool {
	t := h.table.Load()
	if t == nil {
		return false
	}
	_, ok := t.domains[host]
	return ok
}

// domainNamed finds the domain that a client means by a host, "" for the default one:
// ENotFound when there is none, or it is another workspace's.
func (s *Service) domainNamed(ctx context.Context, actor Actor, host string) (waypost.Domain, error) {
	if host == "" {
		return waypost.Domain{ID: waypost.DefaultDomain}, nil
	}
	none := waypost.Errorf(waypost.ENotFound, "there is no such domain")
	name, err := target.HostName(host)
	if err != nil {
		// An address is no name, but the base URL may have one.
		address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
		if err != nil || address.Zone() != "" {
			return waypost.Domain{}, none
		}
		name = strings.ToLower(host)
	}
	d, found, err := s.hosts.find(ctx, name)
	switch {
	case err != nil:
		return waypost.Domain{}, err
	case !found || d.Workspace != 0 && d.Workspace != actor.Workspace:
		return waypost.Domain{}, none
	}
	return d, nil
}
