package httpapi

import (
	"cmp"
	"context"
	"encoding/csv"
	"net/http"
	"strings"
	"time"

	"waypost/api"
	"waypost/controlplane"
)

const groupDescription = "\n\nWith `tag`, `domain` or `created_by`, the statistics are those of a group: of all clicks of the links that have the tags, " +
	"the domain and the creator now, whenever the clicks were. A deleted link is in no group until it is restored. Unique visitors of a " +
	"group are the different visitors of all its links on each day, up to 2,048 exactly and more with a standard error of 0.8 %, added up " +
	"over the days.\n\n" + keptDescription

const keptDescription = "An answer about more than 20,000 links, or 20,000 days of links that had clicks (of a table 60,000), takes too long to count while a request waits. " +
	"The first time it is 202 with a problem of type counting: ask again after Retry-After. It is then kept, and each time that it is asked for, it is " +
	"counted again in the background, once the last count is 20 times as long ago as it took. Until then the answer is that of counted_at, with the links " +
	"and tags of that moment, complete up to complete_until; rebuilding is true while a new one is being counted. A workspace has up to 100 such answers. "

// ofGroup holds the parameters that name a group of links.
type ofGroup struct {
	Tags      []string `query:"tag" maxItems:"8" minLength:"1" maxLength:"600" example:"spring,mail" doc:"A tag of the links. Several tags, with commas between them or given several times: links that have all of them. A tag that has a comma is put in double quotes."`
	Domain    string   `query:"domain" maxLength:"253" example:"go.example.com" doc:"Host of the links' domain."`
	CreatedBy string   `query:"created_by" maxLength:"512" example:"ann@example.com" doc:"Creator of the links, as they show it."`
}

// inGroup holds these, and the parameters that name one link instead.
type inGroup struct {
	ofGroup
	Code    string `query:"code" maxLength:"256" example:"spring-sale" doc:"Short code of one link, in the domain, instead of a group. Its statistics have no top; /api/v1/urls/{code}/stats has more about it."`
	Pattern string `query:"pattern" maxLength:"256" example:"docs/*" doc:"A pattern, likewise."`
}

// group returns the group that a client names.
func (in *ofGroup) group() (controlplane.GroupQuery, error) {
	q := controlplane.GroupQuery{Host: in.Domain, Creator: in.CreatedBy}
	for _, text := range in.Tags {
		tags, err := csv.NewReader(strings.NewReader(text)).Read()
		if err != nil {
			return q, invalid("query.tag", "must be a tag, or several with commas between them")
		}
		q.Tags = append(q.Tags, tags...)
	}
	return q, nil
}

func (in *inGroup) group() (controlplane.GroupQuery, error) {
	q, err := in.ofGroup.group()
	if in.Code != "" && in.Pattern != "" {
		return q, invalid("query.pattern", "give a code or a pattern, not both")
	}
	q.Code = cmp.Or(in.Code, in.Pattern)
	return q, err
}

const tableDescription = "The groups of the live links with their clicks in whole UTC days, most clicks first, also groups without clicks. " +
	"A link with several tags is in several groups. " + keptDescription

// registerGroups adds the tables of groups.
func registerGroups(rt *router, a *statisticsAPI) {
	for _, by := range []controlplane.GroupBy{controlplane.ByTag, controlplane.ByDomain, controlplane.ByCreator} {
		handle(rt, operation{
			id: "stats-" + string(by), method: http.MethodGet, path: api.PathStats + "/" + string(by),
			summary:     "Compare the clicks of links by " + strings.TrimSuffix(string(by), "s"),
			description: tableDescription + statsDescription, scopes: []controlplane.Scope{controlplane.ScopeAnalytics},
			problems: []int{http.StatusAccepted}, answers: tables(rt.document.schemas.of(typeOf[api.GroupTable](), "")),
		}, func(ctx context.Context, in *groupTableInput) (*table, error) { return a.groups(ctx, by, in) })
	}
}

// inDays holds the parameters that choose whole days.
type inDays struct {
	From string `query:"from" maxLength:"10" example:"2026-03-01" doc:"First UTC day. Default: 30 days, including the last."`
	To   string `query:"to" maxLength:"10" example:"2026-03-31" doc:"Last UTC day. Default: today. At most 366 days, 92 of crossed breakdowns."`
}

func (in *inDays) days() (from, to time.Time, err error) {
	if from, err = timeIn(time.UTC, "from", in.From, 0); err == nil {
		to, err = timeIn(time.UTC, "to", in.To, 1)
	}
	return from, to, err
}

type groupTableInput struct {
	inDays
	Search string `query:"search" maxLength:"256" doc:"Only groups with this text in their names, whatever its case."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many groups at most."`
	csvForm
}

// groups returns a table of groups. The default domain has its host as the name.
func (a *statisticsAPI) groups(ctx context.Context, by controlplane.GroupBy, in *groupTableInput) (*table, error) {
	q := controlplane.GroupTableQuery{By: by, Search: in.Search, Limit: in.Limit}
	var err error
	if q.From, q.To, err = in.days(); err != nil {
		return nil, err
	}
	t, err := a.clicks.GroupTable(ctx, actorFrom(ctx), q)
	if err != nil {
		return nil, err
	}
	shown := api.GroupTable{
		From: t.Span.From(), To: t.Span.To(), Clicks: t.Clicks, Found: t.Found, Groups: make([]api.Group, len(t.Rows)),
		CompleteUntil: moment(t.Complete.Until), Behind: append([]string{}, t.Complete.Behind...), KeptAnswer: keptOf(t.Kept),
	}
	rows := [][]string{{"name", "links", "clicks", "bot_clicks", "people", "share", "clicks_before"}}
	for i, r := range t.Rows {
		g := &shown.Groups[i]
		*g = api.Group{
			Name: r.Name, Links: r.Links, Clicks: r.Clicks, BotClicks: r.Bots, People: r.Clicks - r.Bots, ClicksBefore: r.Before, Series: r.Days,
			Share: float64(r.Clicks) / float64(max(t.Clicks, 1)),
		}
		if by == controlplane.ByDomain && g.Name == "" {
			g.Name = a.host
		}
		if r.Before > 0 {
			g.Change = new(float64(r.Clicks-r.Before) / float64(r.Before))
		}
		rows = append(rows, []string{
			g.Name, number(r.Links), number(r.Clicks), number(r.Bots), number(g.People), in.fraction(g.Share), number(r.Before),
		})
	}
	return &table{json: shown, file: "clicks-" + string(by), form: in.csvForm, groups: rows}, nil
}

// keptOf describes the age of an answer.
func keptOf(k *controlplane.Kept) api.KeptAnswer {
	if k == nil {
		return api.KeptAnswer{}
	}
	return api.KeptAnswer{CountedAt: moment(k.At), Rebuilding: k.Rebuilding}
}
