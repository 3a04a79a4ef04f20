package controlplane

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"waypost"
	"waypost/internal/cache"
	"waypost/internal/codes"
	"waypost/internal/patterns"
	"waypost/internal/semaphore"
	"waypost/replication"
	"waypost/rules"
)

// LinkStore keeps links.
type LinkStore interface {
	LinkLister
	ScheduleStore

	// InsertLinks adds links in one transaction and sets ID, CreatedAt and UpdatedAt of
	// each that is placed. A custom code that lies ahead in a range is burned there.
	// InsertLinks adds nothing and fails with ErrEpoch unless the changelog is in the given
	// epoch, with a FencedError when one of the leases is void, and with a ClashError.
	InsertLinks(ctx context.Context, epoch uint32, links []Insertion) ([]InsertResult, waypost.Position, error)

	// TryLinks returns the placements of links with custom codes as InsertLinks would, and
	// writes nothing.
	TryLinks(ctx context.Context, links []Insertion) ([]InsertResult, error)

	// UpdateLink writes a link that was read at a version, and sets its new version. It
	// changes nothing and returns false when the link has another version or is gone. A
	// dedupe hash, unless it is nil, replaces the link's hash if the link has one. The
	// history names the actor, as it does for deletions and restorations.
	UpdateLink(ctx context.Context, by Actor, at Version, l *waypost.Link, dedupe *[32]byte) (p waypost.Position, changed bool, err error)

	// DeleteLink turns a link of the actor's workspace into a tombstone. It returns
	// ENotFound for an unknown link.
	DeleteLink(ctx context.Context, by Actor, domain waypost.DomainID, code waypost.Code) (waypost.Position, error)

	// DeletedLink finds a link that was deleted, or that the reaper made a tombstone,
	// until it is purged. It returns ENotFound for an unknown link, EConflict for a link
	// that is not deleted. Late says that the link was deleted longer ago than most.
	DeletedLink(ctx context.Context, ws waypost.WorkspaceID, domain waypost.DomainID, code waypost.Code,
		most time.Duration) (l waypost.Link, late bool, err error)

	// RestoreLink makes a tombstone that was read at a version a link again, with its
	// clicks, and sets its new version. It changes nothing and returns false when the link
	// has another version or is gone.
	RestoreLink(ctx context.Context, by Actor, at Version, l *waypost.Link) (p waypost.Position, restored bool, err error)

	// History returns up to limit changes of a link that are older than before, newest
	// first, for a tombstone too. It returns ENotFound for an unknown link. The creation
	// is not among the changes.
	History(ctx context.Context, ws waypost.WorkspaceID, domain waypost.DomainID, code waypost.Code,
		before waypost.Revision, limit int) (waypost.Link, []Change, error)

	// ChangesOf returns the changes of a link in a span, newest first, that change one of
	// the fields or delete or restore the link. At most limit of them.
	ChangesOf(ctx context.Context, ws waypost.WorkspaceID, link int64, s *Span, fields []string, limit int) ([]Change, error)

	// Link finds a live or expired link, with its clicks. It returns ENotFound for an
	// unknown link.
	Link(ctx context.Context, ws waypost.WorkspaceID, domain waypost.DomainID, code waypost.Code) (waypost.Link, error)

	// AddAlias adds an alias to a link that lives, sets its number and time, and returns the
	// link. A code that encodes a counter of the default domain is burned there. It returns
	// EConflict for a code that is, or was, taken, and for one alias too many.
	AddAlias(ctx context.Context, by Actor, link int64, a waypost.Alias, claim *Counter) (waypost.Link, waypost.Position, error)

	// RemoveAlias removes an alias of a link, and returns the link. Its code names no link
	// again. It returns ENotFound for an unknown alias.
	RemoveAlias(ctx context.Context, by Actor, link int64, domain waypost.DomainID, code waypost.Code) (waypost.Link, waypost.Position, error)

	// Record returns the record that edges hold for the link of a code of a domain, as of
	// now, with the version that the owner knows. The code may be an alias of the link.
	Record(ctx context.Context, domain waypost.DomainID, code waypost.Code) (rec waypost.Record, found bool, err error)

	// Patterns returns the codes of a domain's links with patterns that are not deleted, as
	// of now.
	Patterns(ctx context.Context, domain waypost.DomainID) ([]string, error)

	// Duplicates finds the live links of a workspace that were created with these dedupe
	// keys, and a position at which they exist.
	Duplicates(ctx context.Context, ws waypost.WorkspaceID, keys []DedupeKey) (map[DedupeKey]waypost.Link, waypost.Position, error)

	// Named finds the live links of a workspace that have these names, and a position at
	// which they exist.
	Named(ctx context.Context, ws waypost.WorkspaceID, names []LinkName) (map[LinkName]waypost.Link, waypost.Position, error)

	// DedupeByDefault reports whether requests of a workspace that say nothing about
	// duplicates get the existing link of their target.
	DedupeByDefault(ctx context.Context, ws waypost.WorkspaceID) (bool, error)

	// Response finds the stored response to a request, and the hash of that request.
	Response(ctx context.Context, id RequestID) (r Response, request [32]byte, found bool, err error)
}

// Insertion is a link that InsertLinks adds.
type Insertion struct {
	Link     *waypost.Link
	Disabled bool     // the link is created but not active
	Lease    int64    // lease of a minted code; 0 for a custom code
	Claim    *Counter // counter that a custom code encodes; nil when no range can issue the code

	AcceptExisting bool // an earlier link of the same request with the custom code will do, if it has the target

	Imported    bool       // an import asks for the link: it may have a code that an undo of its workspace has freed
	AliasClaims []*Counter // as Claim, of the link's aliases, which are added with it

	IgnoresCase bool          // the domain does, as the caller knows
	TakenBy     *waypost.Code // is set to the code of the link of the workspace that has the key, if one has

	Dedupe      *[32]byte          // hash of the target, which may have one such link; nil: any number
	Idempotency *IdempotencyRecord // of the request that the link belongs to; nil: it is not stored
}

// InsertResult is the outcome of an insertion.
type InsertResult uint8

// The outcomes of insertions.
const (
	Taken      InsertResult = iota // another link has the code, or one of another workspace had it
	Placed                         // the link was added
	Issuable                       // a range may issue the custom code, or has issued it
	Found                          // the target has a live link, to which the insertion's link is set
	Replayed                       // the idempotent request was answered before
	Restorable                     // a deleted link of the workspace has the code, and can be restored
	Retired                        // a link that was deleted had the code, or an alias that was removed
	Aliased                        // an alias of a link of the workspace has the code
	AliasTaken                     // the link cannot have an alias, to which TakenBy is set
)

// ClashError says that nothing was added because minted codes are taken. InsertLinks
// returns it only for links that must be added together: the links of an idempotent
// request, and deduplicated links.
type ClashError struct{ Links []*waypost.Link }

func (e *ClashError) Error() string { return fmt.Sprintf("%d minted codes are taken", len(e.Links)) }

// Links creates, finds, changes and deletes links.
type Links struct {
	store   LinkStore
	domains *Domains
	minter  Minter
	writer  *writer
	blocks  *replication.BlockSet
	strict  bool        // hosts that are no domain have no links
	free    bool        // strangers do not share the default domain
	locates func() bool // an edge may know the countries of visitors
	now     func() time.Time
	log     *slog.Logger

	passwords *passwords                             // of links, of which one workspace sets at most half at once
	dedupe    cache.Cache[waypost.WorkspaceID, bool] // whether workspaces deduplicate by default
	patterns  cache.Cache[waypost.DomainID, *patterns.Index]
	running   *semaphore.Keyed[RequestID] // idempotent requests under way: the second of two equal ones waits for the first
}

func newLinks(cfg *Config, domains *Domains) *Links {
	store := cfg.Store
	return &Links{
		store: store, domains: domains, blocks: cfg.Blocks, minter: cfg.Minter, strict: cfg.StrictHosts, free: cfg.FreeSharedCodes,
		locates: cfg.Locates, now: cfg.Now, log: cfg.Logger,
		passwords: newPasswords("too many passwords are set at once", places/2), running: semaphore.NewKeyed[RequestID](math.MaxInt, 1),
		writer: newWriter(store, cfg.Minter, cfg.Patience, cfg.Logger),
	}
}

// isShared reports whether strangers share a domain, which restricts its codes.
func (s *Links) isShared(domain waypost.DomainID) bool {
	return domain == waypost.DefaultDomain && !s.free
}

// Close waits for the commit under way and returns the leased counters.
func (s *Links) Close(ctx context.Context) error {
	s.writer.close()
	return s.minter.Close(ctx)
}

// Version identifies one version of a link among all versions that ever existed.
type Version struct {
	Revision waypost.Revision
	Stamp    uint64
}

// VersionOf returns the version of a link as it was read.
func VersionOf(l *waypost.Link) Version { return Version{l.Revision, l.Stamp} }

// LinkChange is a change to a link: nil fields stay as they are.
type LinkChange struct {
	Match []Version // the versions that may be changed; nil: any

	OriginalURL    *string
	ExpiresAt      *time.Time // zero: never
	RedirectStatus *int       // 0: the default
	ForwardQuery   *bool
	ForwardPath    *bool
	Details        func(*waypost.Details) // changes the details; nil: they stay
	Active         *bool
	Rules          RulesChange
}

// maxEdits bounds how often a change is tried against concurrent changes of the link.
const maxEdits = 8

// Find returns a link of the actor's workspace under a domain's host, "" for the default
// domain. It returns ENotFound for an unknown or deleted link, EGone for an expired one.
func (s *Links) Find(ctx context.Context, actor Actor, domain, code string) (waypost.Link, error) {
	l, err := s.Read(ctx, actor, domain, code)
	if err == nil && l.Expired(s.now()) {
		return waypost.Link{}, waypost.Errorf(waypost.EGone, "the link has expired")
	}
	return l, err
}

// Read returns a link like Find, also when it has expired.
func (s *Links) Read(ctx context.Context, actor Actor, domain, code string) (waypost.Link, error) {
	d, key, err := s.domains.locate(ctx, actor, domain, code)
	if err != nil {
		return waypost.Link{}, err
	}
	return s.store.Link(ctx, actor.Workspace, d.ID, key)
}

// Remove turns a link into a tombstone. Edges answer 410 once they reach the position. It
// returns ENotFound when there is no such link.
func (s *Links) Remove(ctx context.Context, actor Actor, domain, code string) (waypost.Position, error) {
	d, key, err := s.domains.locate(ctx, actor, domain, code)
	if err != nil {
		return waypost.Position{}, err
	}
	return s.store.DeleteLink(ctx, actor, d.ID, key)
}

// RestorableFor bounds the time after which a deletion can be undone.
const RestorableFor = 30 * 24 * time.Hour

// Restore undoes the deletion of a link, which keeps its fields and clicks. The link must
// pass today's rules for codes and targets. In addition to the errors of Create, Restore
// returns ENotFound, EConflict when the link is not deleted, and EGone when the link has
// expired or was deleted longer ago than [RestorableFor].
func (s *Links) Restore(ctx context.Context, actor Actor, domain, code string) (none waypost.Link, at waypost.Position, err error) {
	if err := s.domains.refresh(ctx); err != nil {
		return none, at, err
	}
	d, key, err := s.domains.locate(ctx, actor, domain, code)
	if err == nil && d.Traits&waypost.CaseSwitching != 0 {
		err = ErrSwitching
	}
	if err != nil {
		return none, at, err
	}
	l, late, err := s.store.DeletedLink(ctx, actor.Workspace, d.ID, key, RestorableFor)
	switch {
	case err != nil:
		return none, at, err
	case l.Expired(s.now()) && !rules.OutlivesExpiry(l.Programme):
		return none, at, waypost.Errorf(waypost.EGone, "the link has expired, and cannot be restored")
	case late:
		return none, at, waypost.Errorf(waypost.EGone, "the link was deleted more than 30 days ago, and cannot be restored")
	}
	if l.Custom {
		if _, err := codes.Parse(string(l.Code), s.isShared(d.ID)); err != nil {
			return none, at, err
		}
	}
	if _, err := checkTarget(s.domains.targetRules(l.Workspace), l.Code, l.OriginalURL); err != nil {
		return none, at, err
	}
	if err := s.judgeRules(l); err != nil {
		return none, at, err
	}
	position, restored, err := s.store.RestoreLink(ctx, actor, VersionOf(&l), &l)
	if err == nil && !restored {
		err = waypost.Errorf(waypost.EConflict, "somebody else restored the link, or it was purged at this moment")
	}
	if err != nil {
		return none, at, err
	}
	return l, position, nil
}

// Change changes a link. An expired link can be changed until the reaper has made it a
// tombstone, and is live again with a later expiry. In addition to the errors of Create,
// Change returns ENotFound, and EStale when the link is at a version that the change does
// not allow.
func (s *Links) Change(ctx context.Context, actor Actor, domain, code string, c LinkChange) (o Outcome, made waypost.Position, err error) {
	if err := s.domains.refresh(ctx); err != nil {
		return o, made, err
	}
	var password *rules.Password
	if c.Rules.Password != nil && *c.Rules.Password != "" {
		// An actor that may not change the link must not cause work.
		if _, err := s.Read(ctx, actor, domain, code); err != nil {
			return o, made, err
		}
		var err error
		if password, err = s.passwords.verifier(ctx, actor.Workspace, *c.Rules.Password); err != nil {
			return o, made, err
		}
	}
	for range maxEdits {
		l, err := s.Read(ctx, actor, domain, code)
		if err != nil {
			return o, made, err
		}
		at := VersionOf(&l)
		if c.Match != nil && !slices.Contains(c.Match, at) {
			return o, made, waypost.Errorf(waypost.EStale, "the link has changed since: get it again, then decide")
		}
		dedupe, err := s.apply(&l, &c, password)
		if err != nil {
			return o, made, err
		}
		position, changed, err := s.store.UpdateLink(ctx, actor, at, &l, dedupe)
		if err != nil {
			return o, made, err
		}
		if changed {
			o.Link = l
			if c.OriginalURL != nil {
				o.Warnings = warningsOf(&l)
			}
			if source, err := rules.ParseSource(l.Rules); err == nil && !c.Rules.isZero() {
				o.Warnings = append(o.Warnings, s.warningsOfRules(&source, l.Programme)...)
			}
			return o, position, nil
		}
	}
	return o, made, waypost.Errorf(waypost.EUnavailable, "too many others change the link")
}

// apply makes a change to a link, and returns the hash of a new target. Password is the
// verifier of the change's password.
func (s *Links) apply(l *waypost.Link, c *LinkChange, password *rules.Password) (dedupe *[32]byte, err error) {
	if c.OriginalURL != nil && *c.OriginalURL != l.OriginalURL {
		t, err := checkTarget(s.domains.targetRules(l.Workspace), l.Code, *c.OriginalURL)
		if err != nil {
			return nil, err
		}
		l.OriginalURL, l.Location = t.Original, t.Location
		sum := t.Sum()
		dedupe = &sum
	}
	if c.ExpiresAt != nil {
		if l.ExpiresAt, err = checkExpiry(*c.ExpiresAt, s.now()); err != nil {
			return nil, err
		}
	}
	set(&l.RedirectStatus, c.RedirectStatus)
	if c.Details != nil {
		c.Details(&l.Details)
	}
	set(&l.Active, c.Active)
	setFlag(&l.Flags, waypost.ForwardQuery, c.ForwardQuery)
	setFlag(&l.Flags, waypost.ForwardPath, c.ForwardPath)
	if err := checkStatus(l); err != nil {
		return nil, err
	}
	if err := checkPattern(l); err != nil {
		return nil, err
	}
	if err := checkTexts(l); err != nil {
		return nil, err
	}
	return dedupe, s.changeRules(l, c, password)
}

// Resolve answers a visit to a code from PostgreSQL, as an edge would answer it. Host is
// as the client sent it, and the request is for the facts of rules. Countries and cities
// are unknown here.
func (s *Links) Resolve(ctx context.Context, host string, v *waypost.Visit, r *rules.Request) (waypost.Resolution, error) {
	host = waypost.HostName(host)
	d, served, err := s.domains.store.DomainOf(ctx, host, s.strict)
	if err != nil || !served {
		return waypost.NotFound, err
	}
	found, err := s.find(ctx, host, &d, v)
	res := waypost.NotFound
	switch {
	case err != nil:
		return res, err
	case found.Policy != 0:
		return waypost.Blocked(found.Policy), nil
	case found.Record != nil:
		var facts rules.Facts
		r.Link = rules.CookieNumber(found.Record)
		facts.Read(rules.RequiredFacts(found.Record.Programme), r)
		facts.At, facts.Query = s.now().UnixMilli(), v.Query
		res, _ = rules.Resolve(found.Record, &facts).Follow(nil, v)
	}
	return d.InsteadOf(res), nil
}

// find moves a visit to the first of its codes that is blocked or that has a link for the
// visit.
func (s *Links) find(ctx context.Context, host string, d *waypost.Domain, v *waypost.Visit) (codes.Found, error) {
	var walk codes.Walk
	return walk.Find(v, d.Traits, &address{ctx, s, host, d.ID, waypost.Record{}})
}

// address is a host, and the index of its codes.
type address struct {
	ctx    context.Context //nolint:containedctx // for one walk
	links  *Links
	host   string
	domain waypost.DomainID
	record waypost.Record
}

// Policy implements [codes.Index].
func (a *address) Policy(code []byte, folded bool) (waypost.BlockPolicy, error) {
	policy := a.links.blocks.Policy([]byte(a.host), code, folded)
	if policy == 0 && a.domain == waypost.DefaultDomain {
		policy = a.links.blocks.Policy(nil, code, folded)
	}
	return policy, nil
}

// Record implements [codes.Index].
func (a *address) Record(code []byte) (*waypost.Record, error) {
	record, found, err := a.links.store.Record(a.ctx, a.domain, waypost.Code(code))
	if a.record = record; err != nil || !found {
		return nil, err
	}
	return &a.record, nil
}

// Patterns implements [codes.Index].
func (a *address) Patterns() (*patterns.Index, error) { return a.links.patternsOf(a.ctx, a.domain) }

func set[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

func setFlag(flags *waypost.LinkFlags, flag waypost.LinkFlags, to *bool) {
	switch {
	case to == nil:
	case *to:
		*flags |= flag
	default:
		*flags &^= flag
	}
}
