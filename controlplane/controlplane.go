// Package controlplane holds the services of the control plane: they create, find and
// delete links, answer for clicks, and check the permissions of actors.
//
// It declares the small interfaces that it needs; PostgreSQL is in controlplane/postgres,
// the HTTP API in controlplane/httpapi, keys for new links in controlplane/keys,
// takedowns in controlplane/blocks, and the check of targets in controlplane/target.
package controlplane

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"waypost/replication"
)

// Store keeps rows of every kind. Each write is durable when it returns, and part of the
// changelog at the position that it returns. An error with the code EUnavailable may
// pass; when it interrupts a commit, the outcome is unknown.
type Store interface {
	LinkStore
	DomainStore
	StatsStore
	SaltStore
	ProgressStore
	BudgetStore
	APIKeyStore
	SessionStore
	MemberStore
	WorkspaceStore
	AccountStore
	AuditStore
	FactorStore
}

// Config configures Services.
type Config struct {
	Store  Store  // required
	Minter Minter // required

	// ClusterSecret is the cluster's; the secrets of second factors are encrypted with a key
	// derived from it.
	ClusterSecret [32]byte

	// Blocks holds the codes that are blocked; default: none.
	Blocks *replication.BlockSet

	AllowPrivateTargets bool
	StrictHosts         bool              // Resolve answers for known hosts alone
	FreeSharedCodes     bool              // the default domain has the codes of any other domain
	OwnHosts            func(string) bool // hosts that links must not point at; default none
	APIHosts            func(string) bool // names of the API, which operators alone add as domains; default none

	// Locates reports whether an edge may know the countries of visitors. It must not block.
	// Default: yes.
	Locates func() bool

	Resolver Resolver // for the proofs of domains; default net.DefaultResolver

	Patience time.Duration    // with the database, for one commit; default 4 s
	Now      func() time.Time // default time.Now
	Logger   *slog.Logger     // default: logs nothing
}

// Services groups the rules of the control plane by resource. Each service owns its
// stores, caches and locks, and may be used by many goroutines at once.
type Services struct {
	Links      *Links
	Domains    *Domains
	Clicks     *Clicks
	Budgets    *Budgets
	Access     *Access
	Workspaces *Workspaces
}

// New starts the services. It panics when a required field is missing. The caller runs
// Run, and ends the services with Close.
func New(cfg Config) *Services {
	if cfg.Store == nil || cfg.Minter == nil {
		panic("controlplane: Config needs Store and Minter")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Patience == 0 {
		cfg.Patience = commitTimeout
	}
	if cfg.OwnHosts == nil {
		cfg.OwnHosts = func(string) bool { return false }
	}
	if cfg.APIHosts == nil {
		cfg.APIHosts = func(string) bool { return false }
	}
	if cfg.Locates == nil {
		cfg.Locates = func() bool { return true }
	}
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	domains := newDomains(&cfg)
	links := newLinks(&cfg, domains)
	access := newAccess(&cfg)
	return &Services{
		Links: links, Domains: domains, Clicks: newClicks(&cfg, links),
		Budgets: &Budgets{cfg.Store}, Access: access, Workspaces: newWorkspaces(&cfg, access),
	}
}

// Run does the background work of the services until ctx ends: it stores when keys and
// sessions were last used, deletes the links of deleted workspaces, looks for the
// proofs of domains, compiles schedules again, and switches domains to another case.
func (s *Services) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { s.Access.run(ctx) })
	group.Go(func() { s.Workspaces.run(ctx) })
	group.Go(func() { s.Domains.run(ctx) })
	group.Go(func() { s.Links.keepSchedules(ctx) })
	group.Go(func() { s.Domains.runSwitches(ctx) })
	group.Wait()
}

// Close waits for the commit under way and returns the leased counters.
func (s *Services) Close(ctx context.Context) error { return s.Links.Close(ctx) }
