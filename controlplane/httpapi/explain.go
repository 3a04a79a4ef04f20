package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
	"waypost/internal/codes"
	"waypost/rules"
)

// explainInput describes a visitor.
type explainInput struct {
	URL string `query:"url" required:"true" minLength:"1" maxLength:"8192" example:"https://go.example.com/spring-sale" doc:"A short URL as the visitor asks for it, encoded once more as a value, or its path alone: the code of a link, or more."`
	inDomain
	At       time.Time `query:"at" doc:"When the visitor comes. Default: now."`
	Country  string    `query:"country" pattern:"^[A-Z]{2}$" patternDescription:"the code of a country in two capital letters, such as DE" example:"DE" doc:"The visitor's country (ISO 3166-1 alpha-2). Default: unknown."`
	City     string    `query:"city" maxLength:"128" example:"Berlin" doc:"The visitor's city, in English. Default: unknown."`
	Agent    string    `query:"agent" maxLength:"512" example:"iphone" doc:"A User-Agent, or one of iphone, ipad, android, windows, mac, linux, chromeos, bot and preview, which stand for a usual one."`
	Language string    `query:"language" maxLength:"512" example:"de-AT,de;q=0.9" doc:"The visitor's Accept-Language."`
	Address  string    `query:"address" maxLength:"45" example:"192.0.2.7" doc:"The visitor's address. It is not looked up: give country and city besides."`
	Query    string    `query:"query" maxLength:"4096" example:"utm_source=mail" doc:"The visitor's query, without the question mark, encoded once more as a value."`
	Cookie   string    `query:"cookie" maxLength:"4096" example:"waypost_variant=2" doc:"The visitor's Cookie header."`
	Code     string    `query:"code" maxLength:"512" example:"jira/{ticket}" doc:"With target: a custom code, also a pattern."`
	Target   string    `query:"target" maxLength:"8192" example:"https://jira.example.com/browse/{ticket}" doc:"Explain as if the link of the code had this target, or as if there were such a link."`
	Edge     string    `query:"edge" maxLength:"64" example:"eu-1" doc:"Name of an edge that is to answer, within 5 seconds, in place of the control plane. It looks up the country of the address unless a country is given. For operators alone; it is in the audit log."`
}

func registerExplain(rt *router, a *linksAPI) {
	handle(rt, operation{
		id: "explain", method: http.MethodGet, path: api.PathExplain, summary: "Explain where a short URL leads a visitor, and why",
		description: "Answers the visitor who is described as a redirect would, by the same look-up and evaluation, and shows the link that was found and for each rule the first " +
			"condition that did not hold. It counts nothing. Disabled and expired links, and links without rules, are explained too.",
		scopes: []controlplane.Scope{controlplane.ScopeLinksRead}, problems: []int{http.StatusNotFound},
	}, a.explain)
}

func (a *linksAPI) explain(ctx context.Context, in *explainInput) (*body[api.Explanation], error) {
	path, query, _ := strings.Cut(in.URL, "?")
	if scheme, address, ok := strings.Cut(path, "://"); ok && !strings.Contains(scheme, "/") {
		var host string
		host, path, _ = strings.Cut(address, "/")
		in.Domain = cmp.Or(in.Domain, waypost.HostName(host))
	}
	path = string(waypost.AppendEncoded(nil, strings.TrimPrefix(path, "/")))
	in.Query = cmp.Or(in.Query, query)
	v, err := in.visitor(a.now())
	if err != nil {
		return nil, err
	}
	if in.Code != "" || in.Target != "" {
		return a.explainDraft(ctx, in, path, &v)
	}
	e, err := a.links.Explain(ctx, actorFrom(ctx), in.Domain, path, &v)
	if err != nil {
		return nil, err
	}
	if in.Edge == "" {
		return bodyOf(a.explanation(&e)), nil
	}
	edge, err := a.askEdge(ctx, in, path, &v, &e)
	if err != nil {
		return nil, err
	}
	shown := a.explanation(&e)
	shown.Edge = edge
	if !edge.Found {
		shown.Result.Reason = "the edge does not have the link"
	}
	return bodyOf(shown), nil
}

func (a *linksAPI) explainDraft(ctx context.Context, in *explainInput, path string, v *controlplane.Visitor,
) (*body[api.Explanation], error) {
	switch {
	case in.Code == "":
		return nil, faultIn("query.target", "needs a code")
	case in.Target == "":
		return nil, faultIn("query.code", "needs a target")
	case in.Edge != "":
		return nil, faultIn("query.edge", "an edge has no link that is not saved")
	}
	n := controlplane.NewLink{CustomCode: in.Code, OriginalURL: in.Target, Domain: in.Domain}
	e, err := a.links.ExplainDraft(ctx, actorFrom(ctx), &n, path, v)
	if err != nil {
		return nil, err
	}
	return bodyOf(a.explanation(&e)), nil
}

// askEdge replaces an explanation by an edge's.
func (a *linksAPI) askEdge(ctx context.Context, in *explainInput, path string, v *controlplane.Visitor,
	e *controlplane.Explanation,
) (*api.ExplainedEdge, error) {
	q := &api.EdgeQuestion{
		Host: e.Link.Host, Path: path, At: time.UnixMilli(v.Request.At).UTC(),
		Address: in.Address, Country: in.Country, City: v.City,
		UserAgent: string(v.Request.UserAgent), Language: in.Language, Query: string(v.Request.Query), Cookie: in.Cookie,
	}
	for name, text := range map[string]string{
		"city": q.City, "agent": q.UserAgent, "language": q.Language, "query": q.Query, "cookie": q.Cookie,
	} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return nil, faultIn("query."+name, "expected UTF-8 without NUL")
		}
	}
	outcome, err := a.orders.Ask(ctx, actorFrom(ctx), api.EdgeOrder{Node: in.Edge, What: fleet.OrderExplain, Question: q})
	x := outcome.Explained
	switch {
	case err != nil:
		return nil, err
	case x == nil:
		return nil, waypost.Errorf(waypost.EUnavailable, "the edge could not answer: %s", outcome.Error)
	}
	copy(e.Facts.Country[:], x.Country)
	e.Facts.City = x.City
	e.Resolution = waypost.Resolution{Status: x.Status, Location: []byte(x.Location), Variant: x.Variant, Keep: x.Keep}
	if x.Budget {
		e.Resolution.Budget = rules.BudgetEventual
	}
	e.Trace = rules.Trace{Gate: x.Gate}
	for _, s := range x.Steps {
		e.Trace.Steps = append(e.Trace.Steps, rules.Step(s))
	}
	e.NotFound, e.Maintenance, e.Match = x.NotFound, x.Maintenance, codes.Match(x.Match)
	edge := &api.ExplainedEdge{Node: in.Edge, Found: x.Code == string(e.Link.Code), PlacesBuilt: x.PlacesBuilt}
	if at, link := outcome.Position, e.Link.Revision; at != nil {
		edge.Current = at.Epoch > link.Epoch || at.Epoch == link.Epoch && at.Seq >= link.Seq
		edge.Position = at
	}
	return edge, nil
}

// visitor returns the visitor whom a request describes.
func (in *explainInput) visitor(now time.Time) (v controlplane.Visitor, err error) {
	at := in.At
	if at.IsZero() {
		at = now
	}
	if year := at.UTC().Year(); year < 1970 || year > 9999 {
		return v, faultIn("query.at", "must be between the years 1970 and 9999")
	}
	v.Request = rules.Request{
		At: at.UnixMilli(), UserAgent: []byte(rules.SampleAgent(in.Agent)), AcceptLanguage: []byte(in.Language),
		Cookie: []byte(in.Cookie), Query: []byte(strings.TrimPrefix(in.Query, "?")),
		Chance: uint16(rand.Uint32()), //nolint:gosec // chance, no secret
	}
	if in.Address != "" {
		if v.Request.Address, err = netip.ParseAddr(in.Address); err != nil || v.Request.Address.Zone() != "" {
			return v, faultIn("query.address", "expected an IP address")
		}
	}
	if in.Country != "" {
		if fault := rules.CountryFault(in.Country); fault != "" {
			return v, faultIn("query.country", fault)
		}
	}
	copy(v.Country[:], in.Country)
	v.City = norm.NFC.String(in.City)
	return v, nil
}

func faultIn(where, message string) error {
	return fieldErrors{{Location: where, Message: message}}
}

// explanation returns an explanation as a client sees it.
func (a *linksAPI) explanation(e *controlplane.Explanation) api.Explanation {
	f := &e.Facts
	shown := api.Explanation{
		ShortCode: string(e.Link.Code), Match: string(e.Match),
		Domain: cmp.Or(e.Link.Host, a.urls.host), OriginalURL: e.Link.OriginalURL, Active: e.Link.Active,
		ValidFrom: moment(e.Source.ValidFrom), ExpiresAt: moment(e.Link.ExpiresAt),
		Facts: api.ExplainedFacts{
			At: time.UnixMilli(f.At).UTC(), Country: strings.TrimRight(string(f.Country[:]), "\x00"), City: f.City,
			UserAgent: valid(f.UserAgent), Agent: f.Agent.Names(), Languages: []string{}, Query: valid(f.Query),
			Variant: int(f.Variant), Read: e.Required.Names(),
		},
		Rules: make([]api.ExplainedRule, len(e.Source.Rules)), Held: make([]api.ExplainedHeld, len(e.Held)),
	}
	for i, h := range e.Held {
		shown.Held[i] = api.ExplainedHeld{Name: string(h.Name), Value: valid(h.Value)}
	}
	if f.Address.IsValid() {
		shown.Facts.Address = f.Address.String()
	}
	for _, l := range f.Languages.All() {
		shown.Facts.Languages = append(shown.Facts.Languages, l.String())
	}
	for i := range e.Source.Rules {
		shown.Rules[i] = explainedRule(e, i)
	}
	shown.Result = explainedResult(e)
	return shown
}

// valid returns text that JSON can hold.
func valid(text []byte) string { return strings.ToValidUTF8(string(text), "\uFFFD") }

func explainedRule(e *controlplane.Explanation, i int) api.ExplainedRule {
	r := &e.Source.Rules[i]
	shown := api.ExplainedRule{ID: r.ID, Name: r.Name, Outcome: "not_reached"}
	if i >= len(e.Trace.Steps) {
		return shown
	}
	failed := e.Trace.Steps[i].Failed
	if failed < 0 {
		shown.Outcome = "matched"
		return shown
	}
	shown.Outcome, shown.Failed = "failed", &failed
	if failed < len(r.When) {
		shown.Condition = r.When[failed].String()
	}
	return shown
}

// matchedRule returns the rule that decided, nil when none did.
func matchedRule(e *controlplane.Explanation) *rules.Rule {
	for i, step := range e.Trace.Steps {
		if step.Failed < 0 && i < len(e.Source.Rules) {
			return &e.Source.Rules[i]
		}
	}
	return nil
}

func explainedResult(e *controlplane.Explanation) api.ExplainedResult {
	res := &e.Resolution
	shown := api.ExplainedResult{
		Status: res.Status, Location: valid(res.Location), Gate: e.Trace.Gate, NotFound: e.NotFound,
		Maintenance: e.Maintenance, Variant: int(res.Variant),
		Variants: []api.ExplainedVariant{},
	}
	matched := matchedRule(e)
	if matched != nil {
		shown.Rule = matched.ID
		if s := matched.Split; s != nil {
			shown.ByChance = s.By == rules.ByNone || s.By == rules.ByCookie && res.Keep
			shown.Variants = splitVariants(s)
		}
	}
	shown.Reason = reasonOf(e, matched, &shown)
	return shown
}

// splitVariants returns the variants of a split with their shares.
func splitVariants(s *rules.Split) []api.ExplainedVariant {
	total := 0
	for i := range s.Variants {
		total += s.Variants[i].Weight
	}
	shown := make([]api.ExplainedVariant, len(s.Variants))
	for i, v := range s.Variants {
		shown[i] = api.ExplainedVariant{ID: v.ID, Name: v.Name, To: v.To, Share: float64(v.Weight) / float64(max(total, 1))}
	}
	return shown
}

// reasons are the reasons of gates.
var reasons = map[string]string{
	"state":      "the link is disabled",
	"valid_from": "the link does not work yet",
	"expired":    "the link has expired",
	"exhausted":  "the link's click budget is used up",
	"password":   "the link asks for a password, and shows a form",
	"broken":     "the link's rules cannot be read",
	"blocked":    "an operator of the installation has blocked the link",
}

// reasonOf states the reason in words.
func reasonOf(e *controlplane.Explanation, matched *rules.Rule, shown *api.ExplainedResult) string {
	reason := "no rule matches, so the link's target decides"
	switch {
	case e.Trace.Gate != "":
		reason = reasons[e.Trace.Gate]
	case matched != nil:
		reason = "rule " + named(matched.ID, matched.Name) + " matches"
	case len(e.Source.Rules) == 0:
		reason = "the link has no rules, so its target decides"
	}
	if shown.Variant != 0 && matched != nil && matched.Split != nil {
		how := "by the visitor's network and browser"
		switch {
		case shown.ByChance && matched.Split.By == rules.ByCookie:
			how = "by chance, and a cookie keeps it"
		case shown.ByChance:
			how = "by chance"
		case matched.Split.By == rules.ByCookie:
			how = "by the visitor's cookie"
		case !e.Facts.Address.IsValid():
			how += ", and the address is not known"
		}
		reason += fmt.Sprintf("; variant %s %s", variantNamed(matched.Split, shown.Variant), how)
	}
	if e.Source.Confirm && e.Resolution.Link {
		reason += "; the visitor presses a button first"
	}
	switch {
	case shown.Maintenance:
		reason += "; the domain is in maintenance"
	case e.Resolution.Budget != 0:
		reason += "; a visit spends a click of the budget, while there is one"
	case shown.NotFound:
		reason += "; the domain leads visitors who follow no link of it there"
	case shown.Status == http.StatusForbidden:
		reason += "; a visit would spend a click of the budget, and software is no visitor"
	case shown.Status == http.StatusBadRequest:
		reason += "; the rest of the path or the query cannot be forwarded"
	case shown.Status == http.StatusRequestURITooLong:
		reason += "; the location is too long with the rest of the path or the query"
	}
	return reason
}

func named(id int, name string) string {
	if name == "" {
		return strconv.Itoa(id)
	}
	return fmt.Sprintf("%d (%s)", id, name)
}

func variantNamed(s *rules.Split, id int) string {
	for i := range s.Variants {
		if s.Variants[i].ID == id {
			return named(id, s.Variants[i].Name)
		}
	}
	return strconv.Itoa(id)
}
