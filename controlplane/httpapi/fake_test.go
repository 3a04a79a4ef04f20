package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/keys"
	"waypost/internal/codes"
	"waypost/internal/patterns"
	"waypost/rules"
)

// Keys that the fake knows.
const (
	fullKey     = "wp_live_full"
	readKey     = "wp_live_read"
	writeKey    = "wp_live_write"
	statsKey    = "wp_live_stats"
	strangerKey = "wp_live_stranger" // of another workspace
	thirdKey    = "wp_live_third"    // of one more
	operatorKey = "wp_live_operator"
)

// links is a Links in memory. Any of the funcs, when set, is asked first, which
// lets a test bring about what memory never does.
type links struct {
	onCreate       func(context.Context) error
	onBulk         func(context.Context) error
	onResolve      func(context.Context, string) (waypost.Resolution, error)
	onAuthenticate func(context.Context) error
	onActor        func(controlplane.Actor) controlplane.Actor
	onList         func(context.Context, controlplane.ListRequest) error
	health         keys.Health
	ignoresCase    bool // all domains do
	now            func() time.Time

	mu      sync.Mutex
	drafts  []controlplane.NewLink
	all     []waypost.Link // oldest first
	deleted map[waypost.Code]bool
	asked   int // calls about a code
	listed  []controlplane.ListRequest
	changed []controlplane.LinkChange
	kept    map[string]keptAnswer
	seq     uint64
}

func newLinks() *links {
	return &links{
		deleted: map[waypost.Code]bool{},
		health:  keys.Health{Database: true, KeyPoolSize: 916},
		now:     time.Now,
	}
}

func (f *links) create(actor controlplane.Actor, n controlplane.NewLink) (waypost.Link, waypost.Position, error) {
	none := waypost.Position{}
	switch {
	case !strings.Contains(n.OriginalURL, ":"):
		return waypost.Link{}, none, waypost.Errorf(waypost.EMalformed, "original_url is not a URL")
	case !strings.HasPrefix(strings.ToLower(n.OriginalURL), "http"):
		return waypost.Link{}, none, waypost.Errorf(waypost.EInvalid, "original_url must be http or https")
	case !n.ExpiresAt.IsZero() && (!n.ExpiresAt.After(f.now()) || n.ExpiresAt.UTC().Year() > 9999):
		return waypost.Link{}, none, waypost.Errorf(waypost.EInvalid, "expires_at must be in the future, before the year 10000")
	}
	if n.Dedupe != nil && *n.Dedupe {
		for i := range f.all {
			if f.all[i].OriginalURL == n.OriginalURL {
				return f.all[i], f.position(), errFound
			}
		}
	}
	code := waypost.Code(fmt.Sprintf("code%03d", len(f.all)))
	if n.CustomCode != "" {
		var err error
		if code, err = codes.Parse(n.CustomCode, n.Domain == ""); err != nil {
			return waypost.Link{}, none, err
		}
	}
	for i := range f.all {
		if f.all[i].Code == code {
			return waypost.Link{}, none, waypost.Errorf(waypost.EConflict, "the code %q is taken", n.CustomCode)
		}
	}
	l := waypost.Link{
		ID: int64(len(f.all) + 1), Workspace: actor.Workspace, Code: code, Custom: n.CustomCode != "",
		OriginalURL: n.OriginalURL, Location: n.OriginalURL, RedirectStatus: n.RedirectStatus,
		Details: n.Details, CreatedBy: n.CreatedBy,
		Domain: waypost.DefaultDomain, Host: n.Domain, Stamp: uint64(len(f.all) + 1),
		Flags: flags(n), Active: true, CreatedAt: f.now(), UpdatedAt: f.now(), ExpiresAt: n.ExpiresAt,
	}
	if l.RedirectStatus == 0 {
		l.RedirectStatus = 302
	}
	f.all = append(f.all, l)
	return l, f.position(), nil
}

// errFound is not shown: the link was there.
var errFound = errors.New("found")

func flags(n controlplane.NewLink) (f waypost.LinkFlags) {
	if n.ForwardQuery {
		f |= waypost.ForwardQuery
	}
	if n.ForwardPath {
		f |= waypost.ForwardPath
	}
	return f
}

// workspaceKey is the key of the workspace in the context of onBulk and onCreate.
type workspaceKey struct{}

func (f *links) CreateBulk(ctx context.Context, actor controlplane.Actor,
	ns []controlplane.NewLink,
) ([]controlplane.Outcome, waypost.Position, error) {
	hook := f.onBulk
	if len(ns) == 1 && f.onCreate != nil {
		hook = f.onCreate
	}
	if hook != nil {
		if err := hook(context.WithValue(ctx, workspaceKey{}, actor.Workspace)); err != nil {
			return nil, waypost.Position{}, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	outcomes := make([]controlplane.Outcome, len(ns))
	var last waypost.Position
	for i := range ns {
		l, p, err := f.create(actor, ns[i])
		outcomes[i] = controlplane.Outcome{Link: l, Err: err}
		if errors.Is(err, errFound) {
			outcomes[i] = controlplane.Outcome{Link: l, Found: true}
			err = nil
		}
		if strings.Contains(l.Location, "xn--") {
			outcomes[i].Warnings = []api.Warning{{Code: controlplane.WarnLookalike, Message: "it looks like another"}}
		}
		if err == nil {
			last = p
		}
	}
	return outcomes, last, nil
}

func (f *links) find(actor controlplane.Actor, code string) (*waypost.Link, error) {
	f.asked++
	for i := range f.all {
		l := &f.all[i]
		named := slices.ContainsFunc(l.Addresses(), func(a waypost.Alias) bool { return string(a.Code) == code })
		if named && l.Workspace == actor.Workspace && !f.deleted[l.Code] {
			return l, nil
		}
	}
	return nil, waypost.ErrNoLink
}

func (f *links) Get(_ context.Context, actor controlplane.Actor, code string) (waypost.Link, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, err := f.find(actor, code)
	if err != nil {
		return waypost.Link{}, err
	}
	if l.Expired(f.now()) {
		return waypost.Link{}, waypost.Errorf(waypost.EGone, "the link has expired")
	}
	return *l, nil
}

func (f *links) Stats(_ context.Context, actor controlplane.Actor, code string) (waypost.Link, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, err := f.find(actor, code)
	if err != nil {
		return waypost.Link{}, err
	}
	return *l, nil
}

func (f *links) Delete(_ context.Context, actor controlplane.Actor, code string) (waypost.Position, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, err := f.find(actor, code)
	if err != nil {
		return waypost.Position{}, err
	}
	f.deleted[l.Code] = true
	return f.position(), nil
}

func (f *links) List(ctx context.Context, actor controlplane.Actor, r controlplane.ListRequest) (controlplane.Page, error) {
	if f.onList != nil {
		if err := f.onList(ctx, r); err != nil {
			return controlplane.Page{}, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = append(f.listed, r)
	from := len(f.all)
	if r.Cursor != "" {
		if _, err := fmt.Sscanf(r.Cursor, "before-%d", &from); err != nil {
			return controlplane.Page{}, waypost.Errorf(waypost.EMalformed, "the cursor is not one of ours")
		}
	}
	var page controlplane.Page
	for i := from - 1; i >= 0; i-- {
		if f.all[i].Workspace != actor.Workspace || f.deleted[f.all[i].Code] {
			continue
		}
		if len(page.Links) == r.Limit {
			page.Next = fmt.Sprintf("before-%d", i+1)
			break
		}
		page.Links = append(page.Links, f.all[i])
	}
	return page, nil
}

func (f *links) Tags(_ context.Context, actor controlplane.Actor, prefix, after string,
	limit int,
) (tags []api.TagCount, next string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := map[string]int64{}
	for i := range f.all {
		for _, tag := range f.all[i].Tags {
			if f.all[i].Workspace == actor.Workspace && tag > after && strings.HasPrefix(tag, prefix) {
				counts[tag]++
			}
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(counts)) {
		if len(tags) == limit {
			return tags, tags[limit-1].Tag, nil
		}
		tags = append(tags, api.TagCount{Tag: tag, Links: counts[tag]})
	}
	return tags, "", nil
}

func (f *links) Resolve(ctx context.Context, host string, v *waypost.Visit, _ *rules.Request) (waypost.Resolution, error) {
	if f.onResolve != nil {
		return f.onResolve(ctx, host)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var walk codes.Walk
	found, err := walk.Find(v, 0, f)
	if found.Record == nil {
		return waypost.NotFound, err
	}
	res, _ := waypost.Resolve(found.Record, f.now().UnixMilli()).Follow(nil, v)
	return res, nil
}

func (f *links) Patterns() (*patterns.Index, error) { return nil, nil } //nolint:nilnil // there are no patterns

func (f *links) Policy([]byte, bool) (waypost.BlockPolicy, error) { return 0, nil }

func (f *links) Record(code []byte) (*waypost.Record, error) {
	f.asked++
	i := slices.IndexFunc(f.all, func(l waypost.Link) bool { return string(l.Code) == string(code) })
	if i < 0 {
		return nil, nil //nolint:nilnil // there is no link
	}
	l := &f.all[i]
	record := waypost.Record{Kind: waypost.KindLink, Status: uint16(l.RedirectStatus), Flags: l.Flags, Payload: []byte(l.Location)}
	if f.deleted[l.Code] {
		record.State = waypost.Deleted
	}
	if !l.ExpiresAt.IsZero() {
		record.ExpiresAt = l.ExpiresAt.UnixMilli()
	}
	return &record, nil
}

func (f *links) Explain(_ context.Context, actor controlplane.Actor, domain, path string,
	v *controlplane.Visitor,
) (controlplane.Explanation, error) {
	if domain == "wp.example" {
		domain = "" // the host of the base URL
	}
	var walk codes.Walk
	visit := waypost.ParseVisit([]byte("/" + path))
	found, err := walk.Find(&visit, 0, f)
	if err != nil || found.Record == nil {
		return controlplane.Explanation{}, waypost.ErrNoLink
	}
	l, err := f.Find(context.Background(), actor, domain, string(visit.Code))
	if err != nil {
		return controlplane.Explanation{}, err
	}
	e := controlplane.Explanation{Link: l, Match: found.Match}
	if e.Source, err = rules.ParseSource(l.Rules); err != nil {
		return e, err
	}
	record := waypost.Record{
		Kind: waypost.KindLink, Status: uint16(l.RedirectStatus), Flags: l.Flags, Payload: []byte(l.Location), Programme: l.Programme,
	}
	e.Required = rules.RequiredFacts(l.Programme)
	e.Facts.Read(rules.AllFacts, &v.Request)
	e.Facts.Country, e.Facts.City = v.Country, v.City
	e.Resolution, e.Trace = rules.Explain(&record, &e.Facts)
	return e, nil
}

func (f *links) ExplainDraft(_ context.Context, _ controlplane.Actor, n *controlplane.NewLink, path string,
	_ *controlplane.Visitor,
) (controlplane.Explanation, error) {
	f.drafts = append(f.drafts, *n)
	return controlplane.Explanation{Held: []waypost.Held{{Name: []byte("path"), Value: []byte(path)}}}, nil
}

func (f *links) Authenticate(ctx context.Context, key string) (controlplane.Actor, error) {
	if f.onAuthenticate != nil {
		if err := f.onAuthenticate(ctx); err != nil {
			return controlplane.Actor{}, err
		}
	}
	actors := map[string]controlplane.Actor{
		fullKey:     {Workspace: 1, KeyID: 1, Scopes: []controlplane.Scope{controlplane.ScopeLinksRead, controlplane.ScopeLinksWrite}},
		readKey:     {Workspace: 1, KeyID: 2, Scopes: []controlplane.Scope{controlplane.ScopeLinksRead}},
		writeKey:    {Workspace: 1, KeyID: 3, Scopes: []controlplane.Scope{controlplane.ScopeLinksWrite}},
		statsKey:    {Workspace: 1, KeyID: 5, Scopes: []controlplane.Scope{controlplane.ScopeAnalytics}},
		operatorKey: {Workspace: 1, KeyID: 6, Name: "ops", Scopes: []controlplane.Scope{controlplane.ScopeAdmin}},
		strangerKey: {Workspace: 2, KeyID: 4, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}},
		thirdKey:    {Workspace: 3, KeyID: 7, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}},
	}
	actor, ok := actors[key]
	if !ok {
		return controlplane.Actor{}, waypost.Errorf(waypost.EUnauthorized, "the API key is not valid")
	}
	if f.onActor != nil {
		actor = f.onActor(actor)
	}
	return actor, nil
}

func (f *links) Health(context.Context) keys.Health { return f.health }

func (f *links) position() waypost.Position {
	f.seq++
	return waypost.Position{Epoch: waypost.Epoch{Ordinal: 1, ID: waypost.EpochID{7}}, Seq: f.seq, Stamp: 42}
}

// askedAbout counts the calls about single codes.
func (f *links) askedAbout() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}
