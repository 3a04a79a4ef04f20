package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane/target"
	"waypost/internal/codes"
	"waypost/rules"
)

// NewLink is a request for a link. Zero fields mean the default.
type NewLink struct {
	OriginalURL    string // required; the rules for targets judge it
	CustomCode     string
	Domain         string // host of the domain; "": the default one
	Dedupe         *bool  // return the existing link of the target; nil: as the workspace says
	ExpiresAt      time.Time
	RedirectStatus int  // 301, 302, 307, 308; 0 means 302
	ForwardQuery   bool // add the visitor's query to the target's query
	ForwardPath    bool // add the path after the code to the target's path
	waypost.Details
	CreatedBy string
	Disabled  bool // the link answers 410 until it is enabled
	Rules     rules.Source
	Password  string     // that visitors must give; "": none
	Aliases   []NewAlias // all of which the link gets, or it is refused
	Import    *Imported
}

func (n *NewLink) flags() (f waypost.LinkFlags) {
	if n.ForwardQuery {
		f |= waypost.ForwardQuery
	}
	if n.ForwardPath {
		f |= waypost.ForwardPath
	}
	return f
}

// Outcome is the result of one request for a link.
type Outcome struct {
	Link     waypost.Link
	Found    bool          // the link existed before
	Warnings []api.Warning // about a link that was created
	Err      error
}

// DedupeKey identifies a target within a workspace that deduplicates links.
type DedupeKey struct {
	Workspace waypost.WorkspaceID
	Domain    waypost.DomainID
	Target    [32]byte // hash of the normal form
}

// Create creates one link. Errors: EMalformed, EInvalid and ETooLarge for the
// target and the fields, EConflict for a custom code that is taken, EExhausted
// and EUnavailable.
func (s *Links) Create(ctx context.Context, actor Actor, n NewLink) (waypost.Link, waypost.Position, error) {
	outcomes, at, err := s.CreateBulk(ctx, actor, []NewLink{n})
	if err != nil {
		return waypost.Link{}, at, err
	}
	return outcomes[0].Link, at, outcomes[0].Err
}

// CreateBulk creates up to waypost.MaxBulk links in one transaction, each with its own
// outcome, in the order of ns. The position is zero when no link was created. An error
// means that the outcome of all is unknown, or that nothing happened.
func (s *Links) CreateBulk(ctx context.Context, actor Actor, ns []NewLink) ([]Outcome, waypost.Position, error) {
	made, _, err := s.create(ctx, actor, ns, nil)
	return made.Outcomes, made.At, err
}

// DryRun returns the outcomes that CreateBulk would have at this moment. It writes
// nothing, uses no key, and sets no codes.
func (s *Links) DryRun(ctx context.Context, actor Actor, ns []NewLink) ([]Outcome, error) {
	if len(ns) > waypost.MaxBulk {
		return nil, waypost.Errorf(waypost.EInvalid, "at most %d links at once", waypost.MaxBulk)
	}
	prepared, err := s.prepare(ctx, actor)
	if err != nil {
		return nil, err
	}
	prepared.dry = true
	outcomes := make([]Outcome, len(ns))
	var all, custom []*pendingLink
	first := map[DedupeKey]bool{}
	for i := range ns {
		l, dedupe, err := prepared.link(ctx, &ns[i])
		if ns[i].Import != nil && errors.Is(err, ErrSwitching) {
			return nil, err
		}
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		outcomes[i].Link, outcomes[i].Warnings = l, append(warningsOf(&l), s.warningsOfRules(&ns[i].Rules, l.Programme)...)
		x := prepared.pending(&ns[i], &outcomes[i].Link, dedupe, i)
		if dedupe != nil {
			key := DedupeKey{l.Workspace, l.Domain, *dedupe}
			x.found = first[key]
			first[key] = true
		}
		if l.Custom {
			x.claim = s.claim(l.Domain, l.Code)
			custom = append(custom, x)
		}
		all = append(all, x)
	}
	if _, _, err := s.findDuplicates(ctx, actor.Workspace, all); err != nil {
		return nil, err
	}
	if _, _, err = s.findExisting(ctx, actor.Workspace, custom); err != nil {
		return nil, err
	}
	if err := prepared.tryAll(ctx, all); err != nil {
		return nil, err
	}
	for _, x := range all {
		outcomes[x.index].Err, outcomes[x.index].Found = x.err, x.found
	}
	return outcomes, nil
}

// tryAll sets the errors that links would have, in their order.
func (p *prepared) tryAll(ctx context.Context, all []*pendingLink) error {
	placed := make(map[LinkName]InsertResult)
	var tries []*pendingLink
	addTry := func(x *pendingLink) {
		if _, there := placed[nameOf(x)]; !there {
			placed[nameOf(x)] = Taken
			tries = append(tries, x)
		}
	}
	for _, x := range all {
		if x.found {
			continue
		}
		if x.link.Custom {
			addTry(x)
		}
		for j, a := range x.link.Aliases { // each is tried as a link, because it needs a code like a link
			as := *x.link
			as.SetCode(a.Code, a.Key())
			as.Domain, as.Custom, as.Aliases = a.Domain, true, nil
			addTry(&pendingLink{link: &as, claim: x.aliasClaims[j], ignoresCase: p.ignoresCase(a.Domain), imported: x.imported})
		}
	}
	if len(tries) == 0 {
		return nil
	}
	results, err := p.s.store.TryLinks(ctx, insertionsOf(tries))
	if err != nil {
		return err
	}
	for i, x := range tries {
		placed[nameOf(x)] = results[i]
	}
	firsts := make(map[LinkName]*pendingLink)
	used := make(map[LinkName]InsertResult) // why the codes and aliases of earlier links are refused
	for _, x := range all {
		own := nameOf(x)
		if x.found {
			continue
		}
		if first := firsts[own]; x.link.Custom && first != nil {
			switch {
			case placed[own] != Placed:
				x.err = placementError(x, placed[own])
			case x.acceptExisting && first.link.OriginalURL == x.link.OriginalURL:
				*x.link, x.found = *first.link, true
			default:
				x.err = placementError(x, Taken)
			}
			continue
		}
		n := slices.IndexFunc(x.link.Aliases, func(a waypost.Alias) bool {
			key := LinkName{a.Domain, a.Key()}
			return used[key] != 0 || placed[key] != Placed || x.link.Custom && key == own
		})
		switch {
		case x.link.Custom && used[own] == Aliased:
			x.err = placementError(x, Aliased)
			continue
		case n >= 0:
			x.takenBy = x.link.Aliases[n].Code
			x.err = placementError(x, AliasTaken)
			continue
		case x.link.Custom:
			x.err = placementError(x, placed[own])
			firsts[own], used[own] = x, Placed
		}
		for _, a := range x.link.Aliases {
			used[LinkName{a.Domain, a.Key()}] = Aliased
		}
	}
	return nil
}

// create creates links. With an idempotency key their response is stored as well, unless
// another control plane has answered the request since: then create creates nothing.
func (s *Links) create(ctx context.Context, actor Actor, ns []NewLink, key *Idempotency) (made Made, answered bool, err error) {
	c, err := s.Check(ctx, actor, ns)
	if err != nil {
		return made, false, err
	}
	return s.createChecked(ctx, c, key)
}

// Checked is the links of a request that were checked, and are not created yet.
type Checked struct {
	by       Actor
	outcomes []Outcome
	pending  []*pendingLink // that were not refused
}

// Check checks links, without the codes that others have, for one call of CreateImported.
func (s *Links) Check(ctx context.Context, by Actor, ns []NewLink) (*Checked, error) {
	if len(ns) > waypost.MaxBulk {
		return nil, waypost.Errorf(waypost.EInvalid, "at most %d links at once", waypost.MaxBulk)
	}
	prepared, err := s.prepare(ctx, by)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(ns))
	var pending []*pendingLink
	for i := range ns {
		l, dedupe, err := prepared.link(ctx, &ns[i])
		if ns[i].Import != nil && errors.Is(err, ErrSwitching) {
			return nil, err
		}
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		outcomes[i].Link, outcomes[i].Warnings = l, append(warningsOf(&l), s.warningsOfRules(&ns[i].Rules, l.Programme)...)
		pending = append(pending, prepared.pending(&ns[i], &outcomes[i].Link, dedupe, i))
	}
	return &Checked{by, outcomes, pending}, nil
}

func (s *Links) createChecked(ctx context.Context, c *Checked, key *Idempotency) (made Made, answered bool, err error) {
	actor, outcomes, all := c.by, c.outcomes, c.pending
	pending, seen, err := s.findExisting(ctx, actor.Workspace, all)
	if err != nil {
		return Made{}, false, err
	}
	if key == nil {
		if pending, made.At, err = s.findDuplicates(ctx, actor.Workspace, pending); err != nil {
			return Made{}, false, err
		}
	}
	minted := s.mintAll(ctx, pending)
	for _, x := range pending {
		if x.err != nil && key != nil && key.Import != nil {
			return Made{}, false, x.err
		}
	}
	if pending = minted; len(pending) > 0 {
		if key != nil {
			r := newPendingResponse(actor, key, outcomes, all)
			for _, x := range pending {
				x.response = r
			}
		}
		if key != nil && key.Import != nil {
			made.At, err = s.insertImported(ctx, pending, key.Import)
		} else {
			made.At, err = s.writer.insert(ctx, pending)
		}
		if err != nil {
			return Made{At: made.At}, false, err
		}
	}
	if key == nil {
		later, err := s.findTaken(ctx, actor.Workspace, all)
		if err != nil {
			return Made{}, false, err
		}
		if !later.IsZero() {
			made.At = later
		}
	}
	for _, x := range all {
		outcomes[x.index].Err, outcomes[x.index].Found = x.err, x.found
		answered = answered || x.replayed
	}
	if made.At.IsZero() {
		made.At = seen
	}
	made.Outcomes = outcomes
	return made, answered, nil
}

// mintAll sets the code of each pending link, or the error, and returns the links with a
// code.
func (s *Links) mintAll(ctx context.Context, pending []*pendingLink) (left []*pendingLink) {
	for _, x := range pending {
		if x.link.Custom {
			x.claim = s.claim(x.link.Domain, x.link.Code)
		} else if x.err = x.mint(ctx, s.minter); x.err != nil {
			continue
		}
		left = append(left, x)
	}
	return left
}

// claim returns the counter that a custom code encodes: nil when the code encodes none,
// or the domain is one for which no codes are generated.
func (s *Links) claim(domain waypost.DomainID, code waypost.Code) *Counter {
	if domain != waypost.DefaultDomain {
		return nil // codes are generated from the same counters there; a clash means another try
	}
	counter, ok := s.minter.Counter(code)
	if !ok {
		return nil
	}
	return &counter
}

// findDuplicates settles each pending link for which a link with the same target exists,
// and returns the others. It takes no turn at the head of the changelog. If another
// request creates a link with the target at this moment, the transaction finds it later.
func (s *Links) findDuplicates(ctx context.Context, ws waypost.WorkspaceID, pending []*pendingLink) ([]*pendingLink,
	waypost.Position, error,
) {
	var keys []DedupeKey
	for _, x := range pending {
		if x.dedupe != nil {
			keys = append(keys, DedupeKey{ws, x.link.Domain, *x.dedupe})
		}
	}
	if len(keys) == 0 {
		return pending, waypost.Position{}, nil
	}
	links, at, err := s.store.Duplicates(ctx, ws, keys)
	if err != nil {
		return nil, at, err
	}
	var left []*pendingLink
	for _, x := range pending {
		if x.dedupe != nil {
			if l, ok := links[DedupeKey{ws, x.link.Domain, *x.dedupe}]; ok {
				*x.link, x.found, x.added = l, true, true
				continue
			}
		}
		left = append(left, x)
	}
	if len(links) == 0 {
		at = waypost.Position{}
	}
	return left, at, nil
}

// findExisting settles each pending link for which a link with the requested custom code
// and target exists. It returns the other pending links, and a position at which the
// settled links exist.
func (s *Links) findExisting(
	ctx context.Context, ws waypost.WorkspaceID, pending []*pendingLink,
) (left []*pendingLink, at waypost.Position, err error) {
	var names []LinkName
	for _, x := range pending {
		if x.acceptExisting {
			names = append(names, LinkName{x.link.Domain, x.link.Key()})
		}
	}
	if len(names) == 0 {
		return pending, at, nil
	}
	links, seen, err := s.store.Named(ctx, ws, names)
	if err != nil {
		return nil, at, err
	}
	for _, x := range pending {
		if l, ok := links[LinkName{x.link.Domain, x.link.Key()}]; ok && x.acceptExisting && l.OriginalURL == x.link.OriginalURL {
			*x.link, x.found, x.added, at = l, true, true, seen
			continue
		}
		left = append(left, x)
	}
	return left, at, nil
}

// findTaken calls findExisting for the links that were refused because another request
// has just taken their custom code.
func (s *Links) findTaken(ctx context.Context, ws waypost.WorkspaceID, all []*pendingLink) (at waypost.Position, err error) {
	var taken []*pendingLink
	for _, x := range all {
		if x.acceptExisting && waypost.CodeOf(x.err) == waypost.EConflict {
			taken = append(taken, x)
		}
	}
	if len(taken) == 0 {
		return at, nil
	}
	if _, at, err = s.findExisting(ctx, ws, taken); err != nil {
		return at, err
	}
	for _, x := range taken {
		if x.found {
			x.err = nil
		}
	}
	return at, nil
}

// prepared checks the links of one request.
type prepared struct {
	s       *Links
	actor   Actor
	dedupe  bool                      // unless a link says otherwise
	domains map[string]waypost.Domain // looked up before

	patterns map[waypost.DomainID]*domainPatterns // read before

	dry       bool // no password is hashed
	passwords int  // so far
	aliases   int  // so far
}

// prepare reads the settings that all links of a request share.
func (s *Links) prepare(ctx context.Context, actor Actor) (*prepared, error) {
	dedupe, _, err := s.dedupe.Get(actor.Workspace, time.Now(), func() (bool, bool, error) {
		dedupe, err := s.store.DedupeByDefault(ctx, actor.Workspace)
		return dedupe, true, err
	})
	if err != nil {
		return nil, err
	}
	return &prepared{s: s, actor: actor, dedupe: dedupe}, s.domains.refresh(ctx)
}

// link makes the link of a request, without its minted code, and the hash of its target
// when the link is to be deduplicated.
func (p *prepared) link(ctx context.Context, n *NewLink) (l waypost.Link, sum *[32]byte, err error) {
	d, err := p.domain(ctx, n.Domain)
	if err != nil {
		return l, nil, err
	}
	l = waypost.Link{
		Workspace: p.actor.Workspace, Domain: d.ID,
		RedirectStatus: n.RedirectStatus, Flags: n.flags(), Details: n.Details,
		CreatedBy: n.CreatedBy, Active: !n.Disabled,
	}
	if l.CreatedBy == "" && p.actor.SessionID != 0 {
		l.CreatedBy = cut(p.actor.Title(), waypost.MaxTitle) // a key stands for a program, which says for whom it works
	}
	if d.Traits&waypost.CaseSwitching != 0 {
		return l, nil, ErrSwitching
	}
	if d.ID != waypost.DefaultDomain {
		l.Host = d.Host
	}
	if n.CustomCode != "" {
		code, err := codes.Parse(n.CustomCode, p.s.isShared(d.ID))
		if err != nil {
			return l, nil, err
		}
		l.SetCode(code, keyOf(code, d.Traits&waypost.IgnoresCase != 0))
		l.Custom = true
	}
	t, err := checkTarget(p.s.domains.targetRules(p.actor.Workspace), l.Code, n.OriginalURL)
	if err != nil {
		return l, nil, err
	}
	l.OriginalURL, l.Location = t.Original, t.Location
	if l.ExpiresAt, err = checkExpiry(n.ExpiresAt, p.s.now()); err != nil {
		return l, nil, err
	}
	if err := cmp.Or(checkStatus(&l), checkPattern(&l), checkTexts(&l)); err != nil {
		return l, nil, err
	}
	dedupe, err := n.deduplicates(p.dedupe)
	if err != nil {
		return l, nil, err
	}
	password, err := p.password(ctx, n)
	if err != nil {
		return l, nil, err
	}
	if err := p.s.compile(&l, &n.Rules, password); err != nil {
		return l, nil, err
	}
	if n.Import != nil {
		if at := n.Import.CreatedAt.UTC(); at.Before(p.s.now()) && at.Year() > 1 {
			l.CreatedAt = at
		}
	}
	if from := n.Rules.ValidFrom; !l.ExpiresAt.IsZero() && !from.IsZero() && !from.Before(l.ExpiresAt) {
		return l, nil, waypost.Errorf(waypost.EInvalid, "valid_from must be before the expiry: the link would lead nowhere")
	}
	if n.Import == nil { // an import writes in its own time
		p.aliases += len(n.Aliases)
	}
	if err := p.setAliases(ctx, &l, n.Aliases); err != nil {
		return l, nil, err
	}
	if waypost.IsPattern(string(l.Code)) {
		if err := p.placePattern(ctx, &l); err != nil {
			return l, nil, err
		}
	}
	if !dedupe {
		return l, nil, nil
	}
	return l, new(dedupeSum(t.Sum(), n, &l)), nil
}

// pending returns a link of the request on its way into the database.
func (p *prepared) pending(n *NewLink, l *waypost.Link, dedupe *[32]byte, index int) *pendingLink {
	x := &pendingLink{
		link: l, dedupe: dedupe, acceptExisting: n.acceptsExisting(), index: index, imported: n.Import != nil,
		ignoresCase: p.ignoresCase(l.Domain),
	}
	for i := range l.Aliases {
		x.aliasClaims = append(x.aliasClaims, p.s.claim(l.Aliases[i].Domain, l.Aliases[i].Code))
	}
	return x
}

// ignoresCase reports whether a domain that the request names ignores case.
func (p *prepared) ignoresCase(id waypost.DomainID) bool {
	for _, d := range p.domains {
		if d.ID == id {
			return d.Traits&waypost.IgnoresCase != 0
		}
	}
	return false
}

// domain finds the domain of a host once per request.
func (p *prepared) domain(ctx context.Context, host string) (waypost.Domain, error) {
	if d, ok := p.domains[host]; ok {
		return d, nil
	}
	d, err := p.s.domains.named(ctx, p.actor, host)
	if waypost.CodeOf(err) == waypost.ENotFound {
		err = waypost.Errorf(waypost.EInvalid, "domain: there is no domain %.64q for this workspace", host)
	}
	if err != nil {
		return d, err
	}
	if p.domains == nil {
		p.domains = make(map[string]waypost.Domain)
	}
	p.domains[host] = d
	return d, nil
}

// deduplicates reports whether a request accepts the existing link of its target. A
// request for a custom code does not.
func (n *NewLink) deduplicates(byDefault bool) (bool, error) {
	switch {
	case n.Dedupe == nil:
		return byDefault && n.CustomCode == "" && n.Rules.IsZero() && n.Password == "" && n.Aliases == nil, nil
	case *n.Dedupe && n.Import != nil:
		return n.CustomCode == "" && len(n.Aliases) == 0, nil
	case *n.Dedupe && (!n.Rules.IsZero() || n.Password != "" || n.Aliases != nil && n.CustomCode == ""):
		return false, waypost.Errorf(waypost.EInvalid,
			"dedupe finds the link of a target, and not one with rules, a password or aliases of its own: give one of them")
	}
	return *n.Dedupe && n.CustomCode == "", nil
}

// acceptsExisting reports whether a request for a custom code accepts the link that has
// the code already, if that link has the same target.
func (n *NewLink) acceptsExisting() bool { return n.CustomCode != "" && n.Dedupe != nil && *n.Dedupe }

// The codes of warnings.
const (
	WarnLookalike    = "host-looks-like-another"
	WarnMixedScripts = "host-mixes-scripts"
	WarnNoPlaces     = "country-unknown"
	WarnNoLanguage   = "language-unknown"
	WarnUnconfirmed  = "click-unconfirmed"
)

// warningsOf returns the warnings about a link's target.
func warningsOf(l *waypost.Link) []api.Warning {
	like, ok := target.LooksLikeAnother(l.Location)
	if !ok {
		return nil
	}
	w := api.Warning{Code: WarnMixedScripts, Message: fmt.Sprintf("the part %q of the host %q ", like.Label, like.Host)}
	if like.Looks != "" {
		w.Code = WarnLookalike
		w.Message += fmt.Sprintf("looks like %q, and is another name", like.Looks)
	} else {
		w.Message += "mixes letters of scripts that no language writes together"
	}
	return []api.Warning{w}
}
