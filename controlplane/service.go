package controlplane

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"time"
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
	keys     *authenticator
	minter   *Minter
	writer   *writer
	rules    target.Rules
	cfg      Config
}

// Config is what a Service is made of. The stores may be one and the same.
type Config struct {
	Links    LinkStore
	Leases   LeaseStore
	Ranges   RangeStore
	Reserved ReservedStore
	Audit    AuditStore
	Keys     KeyStore
	Minter   *Minter
	Region   waypost.Region

	AllowPrivateTargets bool
	StrictHosts         bool              // GET /{code} answers only for hosts that are known
	OwnHosts            func(string) bool // hosts that links must not point at

	Now    func() time.Time // nil means time.Now
	Logger *slog.Logger     // nil: nothing is logged
}

// New starts the service. Close ends it.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{
		links: cfg.Links, leases: cfg.Leases, ranges: cfg.Ranges, reserved: cfg.Reserved, audit: cfg.Audit, minter: cfg.Minter, cfg: cfg,
		keys:   &authenticator{store: cfg.Keys, now: cfg.Now},
		writer: newWriter(cfg.Links, cfg.Minter, cfg.Logger),
		rules:  target.Rules{AllowPrivate: cfg.AllowPrivateTargets, OwnHosts: cfg.OwnHosts},
	}
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
	if len(ns) > waypost.MaxBulk {
		return nil, waypost.Position{}, waypost.Errorf(waypost.EInvalid, "at most %d links at once", waypost.MaxBulk)
	}
	outcomes := make([]Outcome, len(ns))
	var wishes []*wish
	for i := range ns {
		l, err := s.prepare(actor, &ns[i])
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		outcomes[i].Link = l
		w := &wish{link: &outcomes[i].Link}
		if l.Custom {
			w.claim = s.claim(&l)
		} else if err := w.mint(ctx, s.minter); err != nil {
			outcomes[i].Err = err
			continue
		}
		wishes = append(wishes, w)
	}
	if len(wishes) == 0 {
		return outcomes, waypost.Position{}, nil
	}
	at, err := s.writer.insert(ctx, wishes)
	if err != nil {
		return nil, at, err
	}
	w := 0
	for i := range outcomes {
		if outcomes[i].Err == nil {
			outcomes[i].Err = wishes[w].err
			w++
		}
	}
	return outcomes, at, nil
}

// claim tells which counter a custom code is the code of: nil when that is none,
// or the link is of a domain for which no codes are generated.
func (s *Service) claim(l *waypost.Link) *Counter {
	if l.Domain != waypost.DefaultDomain {
		return nil
	}
	prefix, n, ok := s.minter.coder.Decode(l.Code)
	if !ok {
		return nil
	}
	return &Counter{Prefix: prefix, N: n}
}

// prepare judges a wish and makes the link of it, all but its minted code.
func (s *Service) prepare(actor Actor, n *NewLink) (waypost.Link, error) {
	t, err := s.rules.Check(n.OriginalURL)
	if err != nil {
		return waypost.Link{}, err
	}
	l := waypost.Link{
		Workspace: actor.Workspace, Domain: waypost.DefaultDomain, OriginalURL: t.Original, Location: t.Location,
		RedirectStatus: n.RedirectStatus, Title: n.Title, Description: n.Description, Tags: n.Tags,
		Metadata: n.Metadata, CreatedBy: n.CreatedBy, Active: true,
	}
	if l.RedirectStatus == 0 {
		l.RedirectStatus = 302
	}
	switch l.RedirectStatus {
	case 301, 302, 307, 308:
	default:
		return waypost.Link{}, waypost.Errorf(waypost.EInvalid, "redirect_status must be 301, 302, 307 or 308")
	}
	if n.CustomCode != "" {
		if l.Code, err = waypost.ParseCustomCode(n.CustomCode); err != nil {
			return waypost.Link{}, err
		}
		l.Custom = true
	}
	if !n.ExpiresAt.IsZero() {
		// whole milliseconds, because that is what every edge judges by
		l.ExpiresAt = n.ExpiresAt.UTC().Truncate(time.Millisecond)
		if !l.ExpiresAt.After(s.cfg.Now()) {
			return waypost.Link{}, waypost.Errorf(waypost.EInvalid, "expires_at must be in the future")
		}
		if l.ExpiresAt.Year() > 9999 {
			return waypost.Link{}, waypost.Errorf(waypost.EInvalid, "expires_at must be before the year 10000")
		}
	}
	return l, checkTexts(&l)
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
	}
	if len(l.Metadata) > 0 {
		if len(l.Metadata) > waypost.MaxMetadata {
			return waypost.Errorf(waypost.EInvalid, "metadata must be at most %d bytes", waypost.MaxMetadata)
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(l.Metadata, &object); err != nil || object == nil {
			return waypost.Errorf(waypost.EInvalid, "metadata must be a JSON object")
		}
		if strings.Contains(string(l.Metadata), `\u0000`) {
			return waypost.Errorf(waypost.EInvalid, "metadata must not hold NUL")
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

// Get finds a link of the actor's workspace: ENotFound when there is none or it
// was deleted, EGone when it has expired.
func (s *Service) Get(ctx context.Context, actor Actor, code string) (waypost.Link, error) {
	l, err := s.Stats(ctx, actor, code)
	if err != nil {
		return waypost.Link{}, err
	}
	if l.Expired(s.cfg.Now()) {
		return waypost.Link{}, waypost.Errorf(waypost.EGone, "the link has expired")
	}
	return l, nil
}

// Stats finds a link like Get, but an expired one too: its clicks stay of interest.
func (s *Service) Stats(ctx context.Context, actor Actor, code string) (waypost.Link, error) {
	if !waypost.ValidCode(code) {
		return waypost.Link{}, notFound()
	}
	return s.links.Link(ctx, actor.Workspace, waypost.DefaultDomain, waypost.Code(code))
}

// Delete turns a link into a tombstone, on every edge once the position has
// reached it.
func (s *Service) Delete(ctx context.Context, actor Actor, code string) (waypost.Position, error) {
	if !waypost.ValidCode(code) {
		return waypost.Position{}, notFound()
	}
	return s.links.DeleteLink(ctx, actor.Workspace, waypost.DefaultDomain, waypost.Code(code))
}

// List gives a page of the workspace's links, newest first, beginning after the
// cursor of an earlier page ("" for the first). EMalformed for a bad cursor.
func (s *Service) List(ctx context.Context, actor Actor, limit int, cursor string) (Page, error) {
	before, err := readCursor(cursor)
	if err != nil {
		return Page{}, err
	}
	links, err := s.links.Links(ctx, actor.Workspace, before, limit+1)
	if err != nil {
		return Page{}, err
	}
	page := Page{Links: links}
	if len(links) > limit {
		page.Links = links[:limit]
		page.Next = writeCursor(links[limit-1].ID)
	}
	return page, nil
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

// Resolve answers GET /{code} as an edge would, from the database, so that it is
// always fresh. Host is as the client sent it.
func (s *Service) Resolve(ctx context.Context, host, code string) (waypost.Resolution, error) {
	if !waypost.ValidCode(code) {
		return waypost.NotFound, nil
	}
	rec, found, err := s.links.Record(ctx, waypost.HostName(host), s.cfg.StrictHosts, waypost.Code(code))
	if err != nil || !found {
		return waypost.NotFound, err
	}
	return waypost.Resolve(&rec, s.cfg.Now().UnixMilli()), nil
}

// Authenticate finds the actor of an API key; EUnauthorized when there is none.
func (s *Service) Authenticate(ctx context.Context, key string) (Actor, error) {
	return s.keys.authenticate(ctx, key)
}

// Health asks the database, within ctx.
func (s *Service) Health(ctx context.Context) Health {
	pool, err := s.leases.Unleased(ctx, s.cfg.Region)
	return Health{Database: err == nil, KeyPoolSize: pool + s.minter.Remaining()}
}

func notFound() error { return waypost.Errorf(waypost.ENotFound, "there is no such link") }
