package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waypost"
	"waypost/api"
	"waypost/api/linkfields"
	"waypost/controlplane"
	"waypost/internal/semaphore"
	"waypost/rules"
)

// Links finds, creates, changes and lists links. A domain is named by its host; "" is the
// default one.
type Links interface {
	CreateBulk(ctx context.Context, actor controlplane.Actor, ns []controlplane.NewLink) ([]controlplane.Outcome, waypost.Position, error)
	DryRun(ctx context.Context, actor controlplane.Actor, ns []controlplane.NewLink) ([]controlplane.Outcome, error)
	CreateOnce(ctx context.Context, actor controlplane.Actor, ns []controlplane.NewLink, o controlplane.Idempotency) (controlplane.Made, error)
	Find(ctx context.Context, actor controlplane.Actor, domain, code string) (waypost.Link, error)
	Read(ctx context.Context, actor controlplane.Actor, domain, code string) (waypost.Link, error)
	Change(ctx context.Context, actor controlplane.Actor, domain, code string,
		c controlplane.LinkChange) (controlplane.Outcome, waypost.Position, error)
	Remove(ctx context.Context, actor controlplane.Actor, domain, code string) (waypost.Position, error)
	History(ctx context.Context, actor controlplane.Actor, domain, code string, limit int,
		cursor string) (changes []controlplane.Change, next string, err error)
	Restore(ctx context.Context, actor controlplane.Actor, domain, code string) (waypost.Link, waypost.Position, error)
	List(ctx context.Context, actor controlplane.Actor, r controlplane.ListRequest) (controlplane.Page, error)
	Tags(ctx context.Context, actor controlplane.Actor, prefix, after string, limit int) (tags []api.TagCount, next string, err error)
	AddAlias(ctx context.Context, actor controlplane.Actor, domain, code string,
		n controlplane.NewAlias) (waypost.Link, waypost.Position, error)
	RemoveAlias(ctx context.Context, actor controlplane.Actor, domain, code, host, alias string) (waypost.Link, waypost.Position, error)
	Resolve(ctx context.Context, host string, v *waypost.Visit, r *rules.Request) (waypost.Resolution, error)
	IgnoresCase(ctx context.Context, actor controlplane.Actor, domain string) (bool, error)
	Explain(ctx context.Context, actor controlplane.Actor, domain, path string, v *controlplane.Visitor) (controlplane.Explanation, error)
	ExplainDraft(ctx context.Context, actor controlplane.Actor, n *controlplane.NewLink, path string, v *controlplane.Visitor,
	) (controlplane.Explanation, error)
}

// linksAPI serves links.
type linksAPI struct {
	links   Links
	budgets Budgets
	blocks  Blocks
	orders  Orders
	urls    shortURLs
	waiter  Waiter
	auth    *authenticator
	timeout time.Duration
	contact string
	now     func() time.Time
	exports *semaphore.Keyed[waypost.WorkspaceID]
	pages   *semaphore.Keyed[waypost.WorkspaceID] // of exports that are read at the same moment
}

// repeatable is for requests that may be sent again without a second effect.
type repeatable struct {
	IdempotencyKey string `header:"Idempotency-Key" minLength:"1" maxLength:"255" pattern:"^[!-~]([ -~]*[!-~])?$" patternDescription:"printable ASCII characters without a space at the ends" doc:"A name for this request, of 1 to 255 printable ASCII characters, such as a UUID. The same request with the same body, sent again within 24 hours, has no further effect and gets the same answer, with Idempotency-Replayed: true. A request that created nothing is not remembered."`
}

// inDomain is for requests about one code.
type inDomain struct {
	Domain string `query:"domain" maxLength:"253" example:"go.example.com" doc:"Host of the link's domain. Default: the shared default domain."`
}

type createInput struct {
	repeatable
	waiting
	Body api.NewLink
	Raw  []byte
}

type createOutput struct {
	Instead  responder
	Status   int
	Location string `header:"Location" doc:"Path of the link in this API."`
	Position string `header:"Waypost-Position" doc:"Position of the change: a replica that has reached it has the link."`
	ETag     string `header:"ETag" doc:"Names this state of the link, for If-Match and If-None-Match."`
	Applied  string `header:"Waypost-Applied" doc:"Outcome of waiting; see wait."`
	Body     api.Link
}

type shortenInput struct {
	repeatable
	waiting
	Body api.ShortenRequest
	Raw  []byte
}

type shortenOutput struct {
	Instead  responder
	Location string `header:"Location" doc:"Path of the link in this API."`
	Position string `header:"Waypost-Position" doc:"Position of the change: a replica that has reached it has the link."`
	Applied  string `header:"Waypost-Applied" doc:"Outcome of waiting; see wait."`
	Body     api.Shortened
}

type getInput struct {
	Code string `path:"code" doc:"The link's short code."`
	inDomain
	Expired   bool   `query:"expired" doc:"Show the link also once it has expired. Default: 410."`
	NoneMatch string `header:"If-None-Match" list:"true" maxLength:"4096" doc:"ETags of states that the client has: 304 when the link is in one of them."`
}

type linkOutput struct {
	Instead responder
	ETag    string `header:"ETag" doc:"Names this state of the link, for If-Match and If-None-Match."`
	Body    api.Link
}

type changeLinkInput struct {
	Code string `path:"code" doc:"The link's short code."`
	inDomain
	waiting
	Match string `header:"If-Match" list:"true" maxLength:"4096" doc:"ETags of the states that may be changed: 412 when the link is in none of them. Clicks do not count. Default: any."`
	Body  api.LinkChange
}

type changeLinkOutput struct {
	Position string `header:"Waypost-Position" doc:"Position of the change: a replica that has reached it redirects accordingly."`
	ETag     string `header:"ETag" doc:"Names this state of the link, for If-Match and If-None-Match."`
	Applied  string `header:"Waypost-Applied" doc:"Outcome of waiting; see wait."`
	Body     api.Link
}

type deleteInput struct {
	Code string `path:"code" doc:"The link's short code."`
	inDomain
	waiting
}

type changedOutput struct {
	Position string `header:"Waypost-Position" doc:"Position of the change in the changelog: a replica that has reached it has the change."`
	Applied  string `header:"Waypost-Applied" doc:"Outcome of waiting; see wait."`
}

func registerLinks(rt *router, l *linksAPI) {
	write := []controlplane.Scope{controlplane.ScopeLinksWrite}
	read := []controlplane.Scope{controlplane.ScopeLinksRead}

	found := rt.document.success(&binding{out: outputOf(typeOf[createOutput]())}, http.StatusOK)
	found.Description = "The existing link of the target"
	made := rt.document.success(&binding{out: outputOf(typeOf[createOutput]())}, http.StatusCreated)
	handle(rt, operation{
		id: "create-link", method: http.MethodPost, path: api.PathLinks, summary: "Create a link",
		description: "Every request creates a new link, unless dedupe asks for the one link of a target: then 200 returns an existing one.",
		status:      http.StatusCreated, scopes: write, problems: []int{http.StatusConflict},
		answers: map[int]answer{http.StatusOK: withReplay(found), http.StatusCreated: withReplay(made)},
	}, l.create)
	shortened := rt.document.success(&binding{out: outputOf(typeOf[shortenOutput]())}, http.StatusCreated)
	handle(rt, operation{
		id: "shorten", method: http.MethodPost, path: "/shorten", summary: "Create a link, in a short form",
		description: "Every request creates a new code, also for a URL that has one.",
		status:      http.StatusCreated, scopes: write, problems: []int{http.StatusConflict},
		answers: map[int]answer{http.StatusCreated: withReplay(shortened)},
	}, l.shorten)
	handle(rt, operation{
		id: "get-link", method: http.MethodGet, path: api.PathLinks + "/{code}", summary: "Get a link",
		scopes: read, problems: []int{http.StatusNotFound, http.StatusGone},
		answers: map[int]answer{http.StatusNotModified: {
			Description: "The link is in a state that the client has", Headers: map[string]header{"ETag": textHeader(etagDoc)},
		}},
	}, l.get)
	handle(rt, operation{
		id: "change-link", method: http.MethodPatch, path: api.PathLinks + "/{code}", summary: "Change a link",
		description: "Changes the fields in the body, and keeps the others. Codes and domains of links do not change. " +
			"An expired link can be changed until it is cleaned up, some time later.",
		scopes: write, problems: []int{http.StatusNotFound, http.StatusPreconditionFailed},
	}, l.change)
	handle(rt, operation{
		id: "delete-link", method: http.MethodDelete, path: api.PathLinks + "/{code}", summary: "Delete a link",
		description: "The link can be restored for 30 days. Its code stays that of this link, and names no other.",
		scopes:      write, problems: []int{http.StatusNotFound},
	}, l.delete)
	handle(rt, operation{
		id: "restore-link", method: http.MethodPost, path: api.PathLinks + "/{code}/restore", summary: "Restore a deleted link",
		description: "The link has the fields and clicks that it had. It can be restored for 30 days after it was deleted, unless it has " +
			"expired, and must pass the present rules for targets.",
		scopes: write, problems: []int{http.StatusNotFound, http.StatusConflict, http.StatusGone},
	}, l.restore)
	handle(rt, operation{
		id: "link-history", method: http.MethodGet, path: api.PathLinks + "/{code}/history", summary: "List the changes of a link, newest first",
		description: "Who changed what, and when. The newest 200 changes of a link are kept with it, until some time after it was deleted. " +
			"A change with the same values leaves no entry.",
		scopes: read, problems: []int{http.StatusNotFound},
	}, l.history)
	registerAliases(rt, l)
	registerBulk(rt, l)
	registerListing(rt, l)
	registerQR(rt, l)
	registerExplain(rt, l)
	registerExport(rt, l)
	registerRedirect(rt, l.links, l.contact)
}

// withReplay documents that an answer may be a repeated one.
func withReplay(a answer) answer {
	a.Headers[api.HeaderReplayed] = textHeader(replayedDoc)
	return a
}

func (a *linksAPI) create(ctx context.Context, in *createInput) (*createOutput, error) {
	ns := make([]controlplane.NewLink, 1)
	if err := setNewLink(&ns[0], &in.Body, a.now(), "body"); err != nil {
		return nil, err
	}
	made, err := a.createOne(ctx, "create-link", in.IdempotencyKey, in.Raw, ns, func(o *controlplane.Outcome,
		at waypost.Position,
	) (controlplane.Response, error) {
		out := a.created(o, at)
		return answerOf(out.Status, map[string]string{"Location": out.Location, api.HeaderPosition: out.Position, "ETag": out.ETag}, &out.Body)
	})
	if err != nil {
		return nil, err
	}
	if made.Replayed != nil {
		return &createOutput{Instead: a.replay(ctx, &in.waiting, made.Replayed)}, nil
	}
	out := a.created(&made.Outcomes[0], made.At)
	out.Body.Applied = await(ctx, a.waiter, &in.waiting, made.At)
	out.Applied = appliedText(out.Body.Applied)
	return out, nil
}

func (a *linksAPI) created(o *controlplane.Outcome, at waypost.Position) *createOutput {
	out := &createOutput{Status: statusOf(o), Location: pathOf(&o.Link), Position: at.String(), ETag: etag(&o.Link)}
	a.showOutcome(&out.Body, o)
	return out
}

func (a *linksAPI) shorten(ctx context.Context, in *shortenInput) (*shortenOutput, error) {
	if len(in.Body.URL) > waypost.MaxShortURLLength {
		return nil, waypost.Errorf(waypost.ETooLarge, "url must be at most %d bytes", waypost.MaxShortURLLength)
	}
	// This form always creates a new code, whatever the setting of the workspace.
	dedupe := false
	ns := []controlplane.NewLink{{OriginalURL: in.Body.URL, Dedupe: &dedupe}}
	made, err := a.createOne(ctx, "shorten", in.IdempotencyKey, in.Raw, ns, func(o *controlplane.Outcome,
		at waypost.Position,
	) (controlplane.Response, error) {
		out := a.shortened(o, at)
		return answerOf(http.StatusCreated, map[string]string{"Location": out.Location, api.HeaderPosition: out.Position}, &out.Body)
	})
	if err != nil {
		return nil, err
	}
	if made.Replayed != nil {
		return &shortenOutput{Instead: a.replay(ctx, &in.waiting, made.Replayed)}, nil
	}
	out := a.shortened(&made.Outcomes[0], made.At)
	out.Body.Applied = await(ctx, a.waiter, &in.waiting, made.At)
	out.Applied = appliedText(out.Body.Applied)
	return out, nil
}

func (a *linksAPI) shortened(o *controlplane.Outcome, at waypost.Position) *shortenOutput {
	l := &o.Link
	return &shortenOutput{Location: pathOf(l), Position: at.String(), Body: api.Shortened{
		ShortCode: string(l.Code), ShortURL: a.urls.of(l), OriginalURL: l.OriginalURL, CreatedAt: l.CreatedAt.UTC(),
	}}
}

// createOne creates the one link of ns. Answer makes the answer to keep for a repeated
// request.
func (a *linksAPI) createOne(ctx context.Context, operation, key string, body []byte, ns []controlplane.NewLink,
	answer func(*controlplane.Outcome, waypost.Position) (controlplane.Response, error),
) (controlplane.Made, error) {
	made, err := a.createAll(ctx, operation, key, body, ns,
		func(all []controlplane.Outcome, at waypost.Position) (controlplane.Response, error) {
			return answer(&all[0], at)
		})
	if err == nil && made.Replayed == nil {
		err = made.Outcomes[0].Err
	}
	return made, err
}

// createAll creates links, once if the request has a key. Answer makes the answer to keep
// for a repeated request.
func (a *linksAPI) createAll(ctx context.Context, operation, key string, body []byte, ns []controlplane.NewLink,
	answer func([]controlplane.Outcome, waypost.Position) (controlplane.Response, error),
) (made controlplane.Made, err error) {
	if key == "" {
		made.Outcomes, made.At, err = a.links.CreateBulk(ctx, actorFrom(ctx), ns)
		return made, err
	}
	return a.links.CreateOnce(ctx, actorFrom(ctx), ns, controlplane.Idempotency{
		Route: operation, Key: key, Request: sha256.Sum256(body), Respond: answer,
	})
}

func (a *linksAPI) get(ctx context.Context, in *getInput) (*linkOutput, error) {
	find := a.links.Find
	if in.Expired {
		find = a.links.Read
	}
	l, err := find(ctx, actorFrom(ctx), in.Domain, in.Code)
	if err != nil {
		return nil, err
	}
	tag := etag(&l)
	same, err := noneMatch(in.NoneMatch, tag)
	if err != nil {
		return nil, err
	}
	if same {
		return &linkOutput{Instead: notModified(tag)}, nil
	}
	out := &linkOutput{ETag: tag}
	a.show(&out.Body, &l)
	if out.Body.MaxClicks != 0 {
		b, err := a.budgets.Of(ctx, actorFrom(ctx), &l)
		if err != nil {
			return nil, err
		}
		out.Body.Budget = b
	}
	return out, nil
}

func (a *linksAPI) change(ctx context.Context, in *changeLinkInput) (*changeLinkOutput, error) {
	match, err := versionsOf(in.Match)
	if err != nil {
		return nil, err
	}
	c, err := linkChangeOf(&in.Body, a.now())
	if err != nil {
		return nil, err
	}
	c.Match = match
	o, position, err := a.links.Change(ctx, actorFrom(ctx), in.Domain, in.Code, c)
	if err != nil {
		return nil, err
	}
	out := &changeLinkOutput{Position: position.String(), ETag: etag(&o.Link)}
	a.showOutcome(&out.Body, &o)
	out.Body.Applied = await(ctx, a.waiter, &in.waiting, position)
	out.Applied = appliedText(out.Body.Applied)
	return out, nil
}

func (a *linksAPI) delete(ctx context.Context, in *deleteInput) (*changedOutput, error) {
	position, err := a.links.Remove(ctx, actorFrom(ctx), in.Domain, in.Code)
	if err != nil {
		return nil, err
	}
	return &changedOutput{Position: position.String(), Applied: appliedText(await(ctx, a.waiter, &in.waiting, position))}, nil
}

func (a *linksAPI) restore(ctx context.Context, in *deleteInput) (*changeLinkOutput, error) {
	l, position, err := a.links.Restore(ctx, actorFrom(ctx), in.Domain, in.Code)
	return a.changed(ctx, &l, position, &in.waiting, err)
}

type historyInput struct {
	Code string `path:"code" doc:"The link's short code."`
	inDomain
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"How many entries at most."`
	Cursor string `query:"cursor" maxLength:"64" doc:"The next_cursor of the previous page. Default: the newest entries."`
}

func (a *linksAPI) history(ctx context.Context, in *historyInput) (*body[api.LinkHistory], error) {
	changes, next, err := a.links.History(ctx, actorFrom(ctx), in.Domain, in.Code, in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	shown := make([]api.LinkEvent, len(changes))
	for i, c := range changes {
		shown[i] = api.LinkEvent{ID: c.ID(), At: c.At.UTC(), What: c.What, Fields: make([]api.FieldChange, len(c.Fields))}
		if c.By.Kind != "" {
			shown[i].By = &c.By
		}
		for j, f := range c.Fields {
			shown[i].Fields[j] = api.FieldChange{Name: f.Name, Before: f.Before, After: f.After}
		}
	}
	return bodyOf(api.LinkHistory{Changes: shown, Next: next}), nil
}

// setNewLink converts a request for a link. At is its location in the body.
func setNewLink(link *controlplane.NewLink, n *api.NewLink, now time.Time, at string) error {
	expires, given := n.ExpiresAt, 0
	if !n.ExpiresAt.IsZero() {
		given++
	}
	if n.ExpiresInSeconds != 0 {
		given++
		expires = now.Add(time.Duration(n.ExpiresInSeconds) * time.Second).UTC()
	}
	if n.ExpiresInHours != 0 {
		given++
		expires = now.Add(time.Duration(n.ExpiresInHours) * time.Hour).UTC()
	}
	if given > 1 {
		return severalExpiries(at)
	}
	*link = controlplane.NewLink{
		OriginalURL: n.OriginalURL, CustomCode: n.CustomCode, Domain: n.Domain, Dedupe: n.Dedupe, ExpiresAt: expires,
		RedirectStatus: n.RedirectStatus, ForwardQuery: n.ForwardQuery, ForwardPath: n.ForwardPath,
		CreatedBy: n.CreatedBy, Disabled: n.Active != nil && !*n.Active,
		Rules: rules.Source{
			Rules: n.Rules, ValidFrom: n.ValidFrom, ExpiredURL: n.ExpiredURL,
			MaxClicks: n.MaxClicks, MaxClicksMode: n.MaxClicksMode, ExhaustedURL: n.ExhaustedURL,
			Confirm: n.Confirm,
		},
		Password: n.Password,
	}
	for _, x := range n.Aliases {
		link.Aliases = append(link.Aliases, newAliasOf(&x))
	}
	linkfields.SetDetails(&link.Details, n)
	return nil
}

func severalExpiries(at string) error {
	return waypost.Errorf(waypost.EInvalid, "%s: give at most one of expires_in_seconds, expires_in_hours and expires_at", at)
}

// linkChangeOf converts a change.
func linkChangeOf(c *api.LinkChange, now time.Time) (controlplane.LinkChange, error) {
	expires, given := c.ExpiresAt.Change(), 0
	if c.ExpiresAt.Given {
		given++
		if c.ExpiresAt.Value != nil && expires.IsZero() {
			return controlplane.LinkChange{}, waypost.Errorf(waypost.EInvalid, "expires_at must be in the future")
		}
	}
	for _, in := range []struct {
		api.Field[int64]
		unit time.Duration
	}{{c.ExpiresInSeconds, time.Second}, {c.ExpiresInHours, time.Hour}} {
		if !in.Given {
			continue
		}
		given++
		expires = &time.Time{}
		if in.Value != nil {
			*expires = now.Add(time.Duration(*in.Value) * in.unit).UTC()
		}
	}
	if given > 1 {
		return controlplane.LinkChange{}, severalExpiries("body")
	}
	return controlplane.LinkChange{
		OriginalURL: c.OriginalURL.Change(), Active: c.Active.Change(), ExpiresAt: expires, RedirectStatus: c.RedirectStatus.Change(),
		ForwardQuery: c.ForwardQuery.Change(), ForwardPath: c.ForwardPath.Change(),
		Details: func(d *waypost.Details) { linkfields.ChangeDetails(d, c) },
		Rules: controlplane.RulesChange{
			Rules: c.Rules.Change(), ValidFrom: c.ValidFrom.Change(), ExpiredURL: c.ExpiredURL.Change(),
			MaxClicks: c.MaxClicks.Change(), MaxClicksMode: c.MaxClicksMode.Change(), ExhaustedURL: c.ExhaustedURL.Change(),
			Confirm:  c.Confirm.Change(),
			Password: c.Password.Change(),
		},
	}, nil
}

// show sets a link as a client sees it.
func (a *linksAPI) show(shown *api.Link, l *waypost.Link) {
	*shown = api.Link{
		ID: strconv.FormatInt(l.ID, 10), ShortCode: string(l.Code), ShortURL: a.urls.of(l), Domain: cmp.Or(l.Host, a.urls.host),
		OriginalURL: l.OriginalURL, RedirectStatus: l.RedirectStatus,
		ForwardQuery: l.Flags&waypost.ForwardQuery != 0, ForwardPath: l.Flags&waypost.ForwardPath != 0,
		CreatedBy: l.CreatedBy, Active: l.Active, ClickCount: l.Clicks, LastAccessedAt: moment(l.LastAccessedAt),
		CreatedAt: l.CreatedAt.UTC(), UpdatedAt: l.UpdatedAt.UTC(), ExpiresAt: moment(l.ExpiresAt), DeletedAt: moment(l.DeletedAt),
	}
	linkfields.ShowDetails(shown, &l.Details)
	shown.Aliases = a.aliasesOf(l)
	if shown.Tags == nil {
		shown.Tags = []string{}
	}
	if len(l.Rules) > 0 {
		// Whatever cannot be read was written by hand, and is left out.
		if source, err := rules.ParseSource(l.Rules); err == nil {
			shown.Rules, shown.ValidFrom, shown.ExpiredURL = source.Rules, moment(source.ValidFrom), source.ExpiredURL
			shown.MaxClicks, shown.MaxClicksMode, shown.ExhaustedURL = source.MaxClicks, source.MaxClicksMode, source.ExhaustedURL
			shown.Confirm = source.Confirm
		}
	}
	shown.Blocked = a.blockOf(l)
	shown.HasPassword = rules.HasPassword(l.Programme)
	if !l.DeletedAt.IsZero() {
		until := l.DeletedAt.Add(controlplane.RestorableFor)
		if !l.ExpiresAt.IsZero() && l.ExpiresAt.Before(until) {
			until = l.ExpiresAt
		}
		shown.Restorable = moment(until)
	}
}

// showOutcome sets the link of an outcome, with its warnings.
func (a *linksAPI) showOutcome(shown *api.Link, o *controlplane.Outcome) {
	a.show(shown, &o.Link)
	shown.Warnings = o.Warnings
}

// statusOf distinguishes a new link from an existing one.
func statusOf(o *controlplane.Outcome) int {
	if o.Found {
		return http.StatusOK
	}
	return http.StatusCreated
}

// pathOf returns the path of a link in the API.
func pathOf(l *waypost.Link) string {
	path := api.PathLinks + "/" + string(l.Code)
	if l.Host != "" {
		path += "?" + url.Values{"domain": {l.Host}}.Encode()
	}
	return path
}
