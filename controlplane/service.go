package controlplane

import (
	"context"
	"encoding/base64"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"waypost"
	"waypost/controlplane/target"
)

// Service is the rules of the control plane, for whatever offers them over HTTP.
type Service struct {
	links    LinkStore
	leases   LeaseStore
	ranges   RangeStore
	reserved ReservedStore
	audit    AuditStore
	domains  DomainStore
	answers  AnswerStore
	twins    TwinStore
	edits    LinkEditStore
	stats    StatsStore
	progress ProgressStore
	eraser   ClickEraser
	salts    SaltStore
	access   AccessStore
	running  running
	dedupe   belief[waypost.WorkspaceID, bool] // what workspaces want by default
	hosts    hosts
	unseen   unseen
	silence  silence

	domainEdits DomainEditStore
	auth        *authenticator
	passwords   passwords
	tender      chan struct{} // one token: there may be something to tend
	minter      *Minter
	writer      *writer
	rules       target.Rules
	cfg         Config
}

// Config is what a Service is made of. The stores may be one and the same.
type Config struct {
	Links    LinkStore
	Leases   LeaseStore
	Ranges   RangeStore
	Reserved ReservedStore
	Audit    AuditStore
	Keys     KeyStore
	Domains  DomainStore // nil: there is the default domain alone, and it leads nowhere but by its links
	Answers  AnswerStore // nil: no request can be sent again
	Twins    TwinStore   // nil: every wish makes a link
	Edits    LinkEditStore
	Stats    StatsStore
	Progress ProgressStore
	Eraser   ClickEraser
	Salts    SaltStore   // nil: no day has a salt
	Access   AccessStore // nil: there are API keys, and nobody to manage them

	DomainEdits DomainEditStore
	Replica     Replica // nil: visits are answered from the database alone
	Minter      *Minter
	Region      waypost.Region

	AllowPrivateTargets bool
	StrictHosts         bool              // GET /{code} answers only for hosts that are known
	OwnHosts            func(string) bool // hosts that links must not point at

	Patience time.Duration    // with the database, for one commit; default 4 s
	Now      func() time.Time // nil means time.Now
	Logger   *slog.Logger     // nil: nothing is logged
}

// New starts the service. Close ends it.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Patience == 0 {
		cfg.Patience = commitTimeout
	}
	auth := &authenticator{keys: cfg.Keys, now: cfg.Now}
	if cfg.Access != nil {
		auth.keys, auth.sessions = cfg.Access, cfg.Access
	}
	s := &Service{
		links: cfg.Links, leases: cfg.Leases, ranges: cfg.Ranges, reserved: cfg.Reserved, audit: cfg.Audit, domains: cfg.Domains, minter: cfg.Minter, cfg: cfg,
		answers: cfg.Answers, twins: cfg.Twins, edits: cfg.Edits, domainEdits: cfg.DomainEdits,
		stats: cfg.Stats, progress: cfg.Progress, eraser: cfg.Eraser, salts: cfg.Salts,
		access: cfg.Access, auth: auth, tender: make(chan struct{}, 1),
		writer: newWriter(cfg.Links, cfg.Minter, cfg.Patience, cfg.Logger),
		hosts:  hosts{store: cfg.Domains},
	}
	s.rules = target.Rules{AllowPrivate: cfg.AllowPrivateTargets, OwnHosts: s.ownHost}
	return s
}

// ownHost reports whether a host is one of ours, by which links could lead in a circle.
func (s *Service) ownHost(host string) bool {
	return s.cfg.OwnHosts != nil && s.cfg.OwnHosts(host) || s.hosts.own(host)
}

// Close waits for the commit under way and gives the leased keys back.
func (s *Service) Close(ctx context.Context) error {
	s.writer.close()
	return s.minter.Close(ctx)
}

// Create makes one link. Errors: EMalformed, EInvalid and ETooLarge for the
// target and the fields, EConflict for a custom code that is taken, EExhausted
// and EUnavailable.
func (s *Service) Create(ctx context.Context, actor Actor, n NewLink) (waypost.Link, waypost.Position, error) {
	outcomes, at, err := s.CreateBulk(ctx, actor, []NewLink{n})
	if err != nil {
		return waypost.Link{}, at, err
	}
	return outcomes[0].Link, at, outcomes[0].Err
}

// CreateBulk makes up to waypost.MaxBulk links in one transaction, each with an
// outcome of its own in the order of ns. The position is zero when none was made.
// An error means that the outcome of all is unknown, or that nothing happened.
func (s *Service) CreateBulk(ctx context.Context, actor Actor, ns []NewLink) ([]Outcome, waypost.Position, error) {
	return s.create(ctx, actor, ns, nil)
}

// create makes links, with a receipt if the request may be sent again.
func (s *Service) create(ctx context.Context, actor Actor, ns []NewLink, once *Once) ([]Outcome, waypost.Position, error) {
	none := waypost.Position{}
	if len(ns) > waypost.MaxBulk {
		return nil, none, waypost.Errorf(waypost.EInvalid, "at most %d links at once", waypost.MaxBulk)
	}
	prepared, err := s.preparing(ctx, actor)
	if err != nil {
		return nil, none, err
	}
	outcomes := make([]Outcome, len(ns))
	var wishes []*wish
	for i := range ns {
		l, twin, err := prepared.link(ctx, &ns[i])
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		outcomes[i].Link, outcomes[i].Warnings = l, warningsOf(&l)
		wishes = append(wishes, &wish{link: &outcomes[i].Link, twin: twin, place: i})
	}
	all := wishes
	at := none
	if once == nil {
		if wishes, at, err = s.findTwins(ctx, actor.Workspace, wishes); err != nil {
			return nil, none, err
		}
	}
	if wishes = s.mintAll(ctx, wishes); len(wishes) > 0 {
		if once != nil {
			r := s.receiptOf(actor, once, outcomes, all)
			for _, x := range wishes {
				x.receipt = r
			}
		}
		if at, err = s.writer.insert(ctx, wishes); err != nil {
			return nil, at, err
		}
	}
	for _, x := range all {
		outcomes[x.place].Err, outcomes[x.place].Found = x.err, x.found
	}
	return outcomes, at, nil
}

// mintAll gives each wish its code, or the reason why there is none, and gives those
// that have one.
func (s *Service) mintAll(ctx context.Context, wishes []*wish) (left []*wish) {
	for _, x := range wishes {
		if x.link.Custom {
			x.claim = s.claim(x.link)
		} else if x.err = x.mint(ctx, s.minter); x.err != nil {
			continue
		}
		left = append(left, x)
	}
	return left
}

// receiptOf makes the receipt of a request. Its answer is made in the writer, before
// it is known whether the transaction commits, so that it only looks.
func (s *Service) receiptOf(actor Actor, once *Once, outcomes []Outcome, all []*wish) *receipt {
	return &receipt{
		id: RequestID{Workspace: actor.Workspace, Route: once.Route, Key: once.Key}, request: once.Request,
		answer: func(sent []*wish, placed []Placement, at waypost.Position) (Answer, error) {
			final := slices.Clone(outcomes)
			for _, x := range all {
				final[x.place].Err = x.err
			}
			for i, x := range sent {
				final[x.place].Err, final[x.place].Found = verdict(x.link, placed[i]), placed[i] == Found
			}
			return once.Answer(final, at)
		},
	}
}

// claim tells which counter a custom code is the code of: nil when that is none,
// or the link is of a domain for which no codes are generated.
func (s *Service) claim(l *waypost.Link) *Counter {
	if l.Domain != waypost.DefaultDomain {
		return nil // codes are generated from the same counters there, and never twice: a clash means another try
	}
	prefix, n, ok := s.minter.coder.Decode(l.Code)
	if !ok {
		return nil
	}
	return &Counter{Prefix: prefix, N: n}
}

// checkTexts bounds the fields that are only kept, and refuses what PostgreSQL
// cannot keep.
func checkTexts(l *waypost.Link) error {
	text := func(field, s string, most int) error {
		if len(s) > most {
			return waypost.Errorf(waypost.EInvalid, "%s must be at most %d bytes", field, most)
		}
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return waypost.Errorf(waypost.EInvalid, "%s must be UTF-8 without NUL", field)
		}
		return nil
	}
	if len(l.Tags) > waypost.MaxTags {
		return waypost.Errorf(waypost.EInvalid, "at most %d tags", waypost.MaxTags)
	}
	for _, tag := range l.Tags {
		if tag == "" {
			return waypost.Errorf(waypost.EInvalid, "a tag must not be empty")
		}
		if err := text("a tag", tag, waypost.MaxTag); err != nil {
			return err
		}
		if strings.ContainsFunc(tag, unicode.IsControl) { // by which tags are kept apart in the index
			return waypost.Errorf(waypost.EInvalid, "a tag must not hold control characters")
		}
	}
	if len(l.Metadata) > 0 {
		if err := checkMetadata(l.Metadata); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name, text string
		most       int
	}{
		{"title", l.Title, waypost.MaxTitle},
		{"description", l.Description, waypost.MaxDescription},
		{"created_by", l.CreatedBy, waypost.MaxTitle},
	} {
		if err := text(f.name, f.text, f.most); err != nil {
			return err
		}
	}
	return nil
}

// Get is Find in the default domain.
func (s *Service) Get(ctx context.Context, actor Actor, code string) (waypost.Link, error) {
	return s.Find(ctx, actor, "", code)
}

// Stats finds a link like Get, but an expired one too: its clicks stay of interest.
func (s *Service) Stats(ctx context.Context, actor Actor, code string) (waypost.Link, error) {
	if !waypost.ValidCode(code) {
		return waypost.Link{}, notFound()
	}
	return s.links.Link(ctx, actor.Workspace, waypost.DefaultDomain, waypost.Code(code))
}

// Delete is Remove in the default domain.
func (s *Service) Delete(ctx context.Context, actor Actor, code string) (waypost.Position, error) {
	return s.Remove(ctx, actor, "", code)
}

func writeCursor(id int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("id:" + strconv.FormatInt(id, 10)))
}

func readCursor(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	bad := waypost.Errorf(waypost.EMalformed, "the cursor is not one of ours")
	if len(s) > 64 {
		return 0, bad
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return 0, bad
	}
	digits, ok := strings.CutPrefix(string(b), "id:")
	id, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || id <= 0 {
		return 0, bad
	}
	return id, nil
}

// Authenticate finds the actor of an API key; EUnauthorized when there is none.
func (s *Service) Authenticate(ctx context.Context, key string) (Actor, error) {
	return s.auth.authenticate(ctx, key)
}

// Health asks the database, within ctx.
func (s *Service) Health(ctx context.Context) Health {
	pool, err := s.leases.Unleased(ctx, s.cfg.Region)
	return Health{Database: err == nil, KeyPoolSize: pool + s.minter.Remaining()}
}

func notFound() error { return waypost.Errorf(waypost.ENotFound, "there is no such link") }
