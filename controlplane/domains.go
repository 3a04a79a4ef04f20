package controlplane

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane/target"
	"waypost/internal/codes"
	"waypost/internal/semaphore"
)

// DomainStore keeps domains. A code is unique under the host of its domain. Every change
// is in the audit log.
type DomainStore interface {
	// Domains returns a workspace's own domains and the shared ones, by id.
	Domains(ctx context.Context, ws waypost.WorkspaceID) ([]OwnedDomain, error)

	// EveryDomain returns the domains of all workspaces, by id.
	EveryDomain(ctx context.Context) ([]OwnedDomain, error)

	// Hosts returns the domains that are served, without their targets.
	Hosts(ctx context.Context) ([]waypost.Domain, error)

	// DomainOf finds the domain of a host, as [waypost.HostName] writes it. Unless it is
	// strict, a host of no domain has the default domain.
	DomainOf(ctx context.Context, host string, strict bool) (d waypost.Domain, found bool, err error)

	// HeldKey returns the first of some keys that a link or an alias of a domain has,
	// deleted or not, and its code; "" if no link and no alias has any.
	HeldKey(ctx context.Context, id waypost.DomainID, keys ...waypost.Code) (key, code waypost.Code, err error)

	CodeSwitcher

	// SetDomain changes a domain of the workspace or, for the default
	// workspace, of a shared one, whose targets are Locations. It returns ENotFound for
	// any other domain.
	SetDomain(ctx context.Context, by Actor, id waypost.DomainID, c api.DomainChange) (OwnedDomain, waypost.Position, error)

	// CreateDomain adds a domain, pending or approved. It returns EConflict when the
	// workspace has the host already, or has as many domains as it may have, or when the
	// host of an approved domain belongs to any other domain.
	CreateDomain(ctx context.Context, by Actor, d waypost.Domain, pending bool) (OwnedDomain, waypost.Position, error)

	// RetireDomain removes a domain of a workspace; workspace 0 means a shared domain. It
	// returns ENotFound for an unknown domain, and EConflict when the domain has links
	// and force is not set. With force its links become tombstones first, in as many
	// transactions as needed; if ctx ends before the last transaction, the committed ones
	// stay.
	RetireDomain(ctx context.Context, by Actor, of waypost.WorkspaceID, id waypost.DomainID, force bool) (waypost.Position, error)

	// NoteProof notes the TXT records that DNS has for a domain. If the domain's proof is
	// among them, the domain is served from now on, and another proved domain of the host
	// is suspended if its proof is missing. NoteProof returns EConflict when the other
	// domain is approved, or its proof is among the records as well. A domain without its
	// proof is suspended after ProofGrace.
	NoteProof(ctx context.Context, by Actor, id waypost.DomainID, found []string) (OwnedDomain, waypost.Position, error)

	// DueProofs returns domains that were last checked longer ago than age, and marks
	// them as checked now, so that no other caller gets them.
	DueProofs(ctx context.Context, age time.Duration, limit int) ([]OwnedDomain, error)

	// ApproveDomain makes a domain served without a proof. It returns EConflict when any
	// other domain has the host.
	ApproveDomain(ctx context.Context, by Actor, id waypost.DomainID) (OwnedDomain, waypost.Position, error)
}

// MaxDomains bounds the domains of one workspace.
const MaxDomains = 1000

// maxHost bounds a name in DNS, in bytes.
const maxHost = 253

// CaseInsensitive is the case of a domain that has waypost.IgnoresCase, in the API.
const CaseInsensitive = "insensitive"

// CaseOf returns the case of a domain, in the API.
func CaseOf(ignores bool) string {
	if ignores {
		return CaseInsensitive
	}
	return "sensitive"
}

// hostsMaxAge bounds the age of the table of hosts. For that long, a domain that another
// control plane adds is accepted as a target here. That cannot cause a redirect loop,
// because links of the new domain cannot lead to the old ones.
const hostsMaxAge = 2 * time.Second

// Domains keeps the hosts under which links are served.
type Domains struct {
	store        DomainStore
	owns         func(host string) bool // hosts of the cluster that are no domains
	ofAPI        func(host string) bool // names of the API
	allowPrivate bool                   // targets may be local names and private addresses
	resolver     Resolver
	lookups      *semaphore.Keyed[waypost.WorkspaceID] // that clients ask for
	log          *slog.Logger

	table atomic.Pointer[hostTable]
	mu    sync.Mutex // held while the table is read
}

// hostTable holds the domains of all workspaces by host, for the checks of targets.
type hostTable struct {
	domains map[string]waypost.Domain
	shared  waypost.Domain // the default domain
	read    time.Time
}

func newDomains(cfg *Config) *Domains {
	return &Domains{
		store: cfg.Store, owns: cfg.OwnHosts, ofAPI: cfg.APIHosts, allowPrivate: cfg.AllowPrivateTargets,
		resolver: cfg.Resolver, lookups: semaphore.NewKeyed[waypost.WorkspaceID](proofLookups, proofLookupsOfOne), log: cfg.Logger,
	}
}

// check checks a URL as a target of a workspace. It refuses the hosts of the cluster, of
// shared domains and of the workspace's own, because visitors could be sent in a circle.
// Domains of other workspaces are hosts like any other, so that no workspace can forbid
// a host to others by adding it.
func (s *Domains) check(ws waypost.WorkspaceID, url string) (target.Target, error) {
	return s.targetRules(ws).Check(url)
}

func (s *Domains) targetRules(ws waypost.WorkspaceID) target.Rules {
	return target.Rules{AllowPrivate: s.allowPrivate, OwnHosts: func(host string) bool { return s.serves(ws, host) }}
}

// serves reports whether links of a workspace can be under a host.
func (s *Domains) serves(ws waypost.WorkspaceID, host string) bool {
	if s.owns(host) {
		return true
	}
	t := s.table.Load()
	if t == nil {
		return false
	}
	d, ok := t.domains[host]
	return ok && (d.Workspace == 0 || d.Workspace == ws)
}

// isBelowOwn reports whether a host is a name below one of the cluster's own.
func (s *Domains) isBelowOwn(host string) bool {
	for {
		_, parent, found := strings.Cut(host, ".")
		if !found {
			return false
		}
		if s.owns(parent) {
			return true
		}
		host = parent
	}
}

// refresh reads the table of hosts when it is old. One caller reads at a time; the others
// use the old table, as all do while the store does not answer.
func (s *Domains) refresh(ctx context.Context) error {
	t := s.table.Load()
	switch {
	case t == nil:
		s.mu.Lock()
	case time.Since(t.read) < hostsMaxAge || !s.mu.TryLock():
		return nil
	}
	defer s.mu.Unlock()
	if again := s.table.Load(); again != t && again != nil {
		return nil // another caller was faster
	}
	err := s.readTable(ctx)
	if t != nil {
		return nil //nolint:nilerr // the old table will do
	}
	return err
}

// readTable reads the table of hosts. The caller holds s.mu.
func (s *Domains) readTable(ctx context.Context) error {
	now := time.Now()
	all, err := s.store.Hosts(ctx)
	if err != nil {
		return err
	}
	t := &hostTable{domains: make(map[string]waypost.Domain, len(all)), read: now}
	for _, d := range all {
		if t.domains[d.Host] = d; d.ID == waypost.DefaultDomain {
			t.shared = d
		}
	}
	s.table.Store(t)
	return nil
}

// changed reads the table of hosts after a domain was added or removed here. The next
// refresh tries again after a failure.
func (s *Domains) changed(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readTable(ctx) != nil {
		s.table.Store(nil)
	}
}

// named finds the domain that a client names by a host, "" for the default one. It
// returns ENotFound for an unknown host, and for a domain of another workspace.
func (s *Domains) named(ctx context.Context, actor Actor, host string) (waypost.Domain, error) {
	if host == "" {
		return s.defaultDomain(ctx)
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
	d, found, err := s.find(ctx, name)
	switch {
	case err != nil:
		return waypost.Domain{}, err
	case !found || d.Workspace != 0 && d.Workspace != actor.Workspace:
		return waypost.Domain{}, none
	}
	return d, nil
}

// defaultDomain returns the default domain, without its targets.
func (s *Domains) defaultDomain(ctx context.Context) (waypost.Domain, error) {
	err := s.refresh(ctx)
	if t := s.table.Load(); t != nil {
		return t.shared, nil
	}
	return waypost.Domain{}, err
}

// find returns the domain of a host in its canonical form.
func (s *Domains) find(ctx context.Context, host string) (waypost.Domain, bool, error) {
	if t := s.table.Load(); t != nil && time.Since(t.read) < hostsMaxAge {
		if d, ok := t.domains[host]; ok {
			return d, true, nil
		}
	}
	return s.store.DomainOf(ctx, host, true) // it may have been added a moment ago
}

// AddressOf returns the host of a domain of any workspace as the names of its links have
// it, "" for the default domain, and the code as the owner of its link typed it, if there
// is a link. Folded says that the domain ignores case.
func (s *Domains) AddressOf(ctx context.Context, domain, code string) (host string, typed waypost.Code, folded bool, err error) {
	host, typed = waypost.HostName(domain), waypost.Code(code)
	d, found, err := s.find(ctx, host)
	if domain == "" {
		d, err = s.defaultDomain(ctx)
	}
	if found && d.ID == waypost.DefaultDomain {
		host = ""
	}
	if folded = d.Traits&(waypost.IgnoresCase|waypost.CaseSwitching) != 0; folded && err == nil {
		var held waypost.Code
		if _, held, err = s.store.HeldKey(ctx, d.ID, typed, codes.Fold(typed)); held != "" {
			typed = held
		}
	}
	return host, typed, folded, err // also for a removed domain
}

// Root resolves the root of the domain of a host, as the client sent it. It returns false
// when the host is no domain or its root has no target.
func (s *Domains) Root(ctx context.Context, host string) (waypost.Resolution, bool, error) {
	d, found, err := s.store.DomainOf(ctx, waypost.HostName(host), true)
	if err != nil || !found {
		return waypost.Resolution{}, false, err
	}
	res, ok := d.AtRoot()
	return res, ok, nil
}

// Domains returns the domains of the actor's workspace and the shared ones, by id.
func (s *Domains) Domains(ctx context.Context, actor Actor) ([]OwnedDomain, error) {
	return s.store.Domains(ctx, actor.Workspace)
}

// EveryDomain returns the domains of all workspaces, by id. That needs
// [Actor.CheckOperator].
func (s *Domains) EveryDomain(ctx context.Context, actor Actor) ([]OwnedDomain, error) {
	if err := actor.CheckOperator(); err != nil {
		return nil, err
	}
	return s.store.EveryDomain(ctx)
}

// AddDomain adds a domain of the actor's workspace or, for operators, a shared one. A
// domain that an operator adds is served at once. Any other domain is pending until
// Verify finds its proof, even if another workspace has the host; the actor does not
// learn of the other workspace. AddDomain returns EInvalid when the host cannot be a
// domain, and EConflict when it is a domain already.
func (s *Domains) AddDomain(ctx context.Context, actor Actor, n api.NewDomain) (o OwnedDomain, at waypost.Position, err error) {
	approved := actor.CheckOperator() == nil
	d := waypost.Domain{Workspace: actor.Workspace}
	d.Traits = d.Traits.With(waypost.ExactPaths, n.ExactPaths).With(waypost.IgnoresCase, n.Case == CaseInsensitive)
	if n.Shared {
		if err := actor.CheckOperator(); err != nil {
			return o, at, err
		}
		d.Workspace = 0
	}
	host, err := target.DomainName(n.Host)
	if err != nil {
		return o, at, err
	}
	d.Host = host
	for _, field := range []struct {
		name, url string
		to        *[]byte
	}{{"root_url", n.RootURL, &d.Root}, {"not_found_url", n.NotFoundURL, &d.NotFound}} {
		location, err := s.checkTarget(ctx, actor, field.name, &field.url, host)
		if err != nil {
			return o, at, err
		}
		*field.to = []byte(*location)
	}
	switch {
	case s.owns(host), s.ofAPI(host) && !approved:
		return o, at, waypost.Errorf(waypost.EConflict, "the host %s is in use", host)
	case s.isBelowOwn(host) && !approved:
		return o, at, waypost.Errorf(waypost.EForbidden, "%s is below a host of this installation, whose operators alone add such names", host)
	case len(ProofName(host)) > maxHost && !approved:
		return o, at, waypost.Errorf(waypost.EInvalid, "the host is too long: there can be no name %s", ProofName(host))
	}
	o, at, err = s.store.CreateDomain(ctx, actor, d, !approved)
	if err == nil {
		s.changed(ctx)
	}
	return o, at, err
}

// ChangeDomain changes a domain. It returns ENotFound for a domain that
// the actor does not see, EForbidden for a shared domain unless the actor is in the
// default workspace, and the errors of the rules for targets.
func (s *Domains) ChangeDomain(ctx context.Context, actor Actor, id waypost.DomainID, c api.DomainChange) (d OwnedDomain,
	at waypost.Position, err error,
) {
	present, err := s.changeable(ctx, actor, id)
	switch {
	case err != nil:
		return d, at, err
	case c == api.DomainChange{}:
		return d, at, waypost.Errorf(waypost.EInvalid, "say what to change: root_url, not_found_url, maintenance_url, exact_paths, case")
	}
	for _, field := range []struct {
		name string
		url  **string
	}{{"root_url", &c.RootURL}, {"not_found_url", &c.NotFoundURL}, {"maintenance_url", &c.MaintenanceURL}} {
		if *field.url, err = s.checkTarget(ctx, actor, field.name, *field.url, present.Host); err != nil {
			return d, at, err
		}
	}
	if c.Case != nil && *c.Case == CaseInsensitive && present.Traits&waypost.IgnoresCase == 0 {
		found, count, err := s.store.Collisions(ctx, id, maxCollisions)
		if err != nil {
			return d, at, err
		}
		if count > 0 {
			return d, at, collisionError(found, count)
		}
	}
	d, at, err = s.store.SetDomain(ctx, actor, id, c)
	if err == nil && c.Case != nil {
		s.changed(ctx)
	}
	return d, at, err
}

// RemoveDomain removes a domain, so that its host is free for another domain. It returns
// ENotFound for a domain that the actor does not see, EForbidden for a domain that the
// actor may not change, and EConflict when the domain has links and force is not set.
// With force it deletes the links.
func (s *Domains) RemoveDomain(ctx context.Context, actor Actor, id waypost.DomainID, force bool) (waypost.Position, error) {
	d, err := s.changeable(ctx, actor, id)
	if err != nil {
		return waypost.Position{}, err
	}
	return s.remove(ctx, actor, d, force)
}

// RemoveAnyDomain removes a domain of any workspace, with the errors of RemoveDomain.
// That needs [Actor.CheckOperator].
func (s *Domains) RemoveAnyDomain(ctx context.Context, actor Actor, id waypost.DomainID, force bool) (waypost.Position, error) {
	all, err := s.EveryDomain(ctx, actor)
	if err != nil {
		return waypost.Position{}, err
	}
	for i := range all {
		if all[i].ID == id {
			return s.remove(ctx, actor, &all[i], force)
		}
	}
	return waypost.Position{}, waypost.Errorf(waypost.ENotFound, "there is no such domain")
}

func (s *Domains) remove(ctx context.Context, actor Actor, d *OwnedDomain, force bool) (waypost.Position, error) {
	if d.ID == waypost.DefaultDomain {
		return waypost.Position{}, waypost.Errorf(waypost.EForbidden, "the domain of the base URL cannot be removed")
	}
	at, err := s.store.RetireDomain(ctx, actor, d.Workspace, d.ID, force)
	if err != nil {
		return waypost.Position{}, err
	}
	s.changed(ctx)
	return at, nil
}

// checkTarget checks a URL of a domain with a host, as if it were the target of a link of
// the actor, and returns its Location.
func (s *Domains) checkTarget(ctx context.Context, actor Actor, field string, url *string, host string) (*string, error) {
	if url == nil || *url == "" {
		return url, nil
	}
	t, err := s.check(actor.Workspace, *url)
	if err != nil {
		return nil, waypost.WrapError(waypost.CodeOf(err), field+": "+waypost.MessageOf(err), err)
	}
	if len(t.Location) > waypost.MaxDomainURL {
		return nil, waypost.Errorf(waypost.ETooLarge, "%s is %d bytes long once it is percent-encoded, but at most %d are allowed",
			field, len(t.Location), waypost.MaxDomainURL)
	}
	d, found, err := s.store.DomainOf(ctx, t.Host, true) // it may have been added a moment ago
	if err != nil {
		return nil, err
	}
	if t.Host == host || found && (d.Workspace == 0 || d.Workspace == actor.Workspace) {
		return nil, waypost.Errorf(waypost.EInvalid, "%s: the host is a domain of this service, so visitors could be sent in a circle", field)
	}
	return &t.Location, nil
}

// changeable finds a domain that the actor may change.
func (s *Domains) changeable(ctx context.Context, actor Actor, id waypost.DomainID) (*OwnedDomain, error) {
	seen, err := s.store.Domains(ctx, actor.Workspace)
	if err != nil {
		return nil, err
	}
	for i := range seen {
		switch d := &seen[i]; {
		case d.ID != id:
		case d.Workspace == 0 && actor.Workspace != waypost.DefaultWorkspace:
			return nil, waypost.Errorf(waypost.EForbidden, "a shared domain is changed with a key of the default workspace only")
		default:
			return d, nil
		}
	}
	return nil, waypost.Errorf(waypost.ENotFound, "there is no such domain")
}
