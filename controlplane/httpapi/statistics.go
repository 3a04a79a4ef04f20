package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// Clicks reads and deletes statistics. A link is found by the host of its domain, "" for
// the default one, and its code, also when it has expired.
type Clicks interface {
	Views
	Stats(ctx context.Context, actor controlplane.Actor, code string) (waypost.Link, error)
	LinkStats(ctx context.Context, actor controlplane.Actor, host, code string, q controlplane.StatsQuery) (controlplane.LinkStats, error)
	WorkspaceStats(ctx context.Context, actor controlplane.Actor, q controlplane.StatsQuery) (controlplane.WorkspaceStats, error)
	GroupStats(ctx context.Context, actor controlplane.Actor, group controlplane.GroupQuery,
		q controlplane.StatsQuery) (controlplane.GroupStats, error)
	GroupTable(ctx context.Context, actor controlplane.Actor, q controlplane.GroupTableQuery) (controlplane.GroupTable, error)
	Crossed(ctx context.Context, actor controlplane.Actor, q controlplane.CrossedQuery) (controlplane.Crossed, error)
	News(ctx context.Context, actor controlplane.Actor) (controlplane.News, error)
	Sparklines(ctx context.Context, actor controlplane.Actor, links []controlplane.HostedCode, days int,
		zone *time.Location) (controlplane.Span, []controlplane.Sparkline, error)
	Unknown(ctx context.Context, actor controlplane.Actor, host string, from, to time.Time,
		limit int) ([]api.UnknownAddress, controlplane.UnknownQuery, error)
	ForgetClicks(ctx context.Context, actor controlplane.Actor, host, code string) (controlplane.ForgottenClicks, error)
	ForgetVisitors(ctx context.Context, actor controlplane.Actor, day time.Time) (waypost.Position, error)
	GiveUpEdge(ctx context.Context, actor controlplane.Actor, node string) error
}

// statisticsAPI serves statistics.
type statisticsAPI struct {
	clicks Clicks
	host   string // of the default domain
	auth   *authenticator
}

const (
	statsDescription = "Counts the GET requests that edges have answered with a redirect; prefetches and HEAD do not count. " +
		"Edges report theirs within seconds, and after an interruption as soon as they can; each click is counted once. " +
		"Expired links have statistics, deleted ones have none."

	rangeDescription = "\n\nThe range is widened to whole steps of the time zone, of which `series` has one entry each; " +
		"`clicks` is their sum. Breakdowns and unique visitors are kept by whole UTC days: they cover `breakdown_from` to " +
		"`breakdown_to`, and add up to the clicks of that time. Each breakdown has the 1,000 names with the most clicks, and " +
		"the rest under `other`."
)

// timeRange is the range of statistics.
type timeRange struct {
	From     string `query:"from" maxLength:"40" example:"2026-03-01" doc:"Start of the range: a date, for its start in the time zone, or a time (RFC 3339). Default: 30 days, including the last."`
	To       string `query:"to" maxLength:"40" example:"2026-03-31" doc:"End of the range: a date, which is included as a whole, or a time (RFC 3339), which is excluded. Default: now."`
	Since    string `query:"since" maxLength:"40" example:"2026-03-31T09:15:00+02:00" doc:"A moment (RFC 3339) instead of from, such as that of a mailing: hours, or days of 24 hours, are counted from it, rounded down to a quarter of an hour."`
	Interval string `query:"interval" enum:"hour,day,week,month" default:"day" doc:"Step of the series: of the calendar of the time zone, weeks from Monday on. At most 750 hours, 1,830 days, 262 weeks or 60 months."`
	TZ       string `query:"tz" maxLength:"64" default:"UTC" example:"Europe/Berlin" doc:"Time zone of the steps: a name of the IANA database."`
	csvForm
}

// comparison chooses a time to compare with.
type comparison struct {
	Compare     string `query:"compare" enum:"previous,year" doc:"Adds compared: previous is the time of the same length before the range, in whole days, weeks or months where the range is made of them, and year the same dates a year ago, or the weeks 52 weeks ago."`
	CompareFrom string `query:"compare_from" maxLength:"40" example:"2026-02-01" doc:"Adds compared: the time from this date or time on. With since: the moment from which the other time is counted."`
	CompareTo   string `query:"compare_to" maxLength:"40" example:"2026-02-28" doc:"End of that time, as to. Default: as many steps as the range has."`
}

type linkStatsInput struct {
	Code string `path:"code" doc:"The link's short code."`
	inDomain
	timeRange
	comparison
	By        string `query:"by" enum:"countries,cities,devices,browsers,os,referrers,rules,variants,codes,utm_source,utm_medium,utm_campaign,utm_term,utm_content" doc:"The breakdown that has the name."`
	Name      string `query:"name" maxLength:"264" example:"DE" doc:"A name of a breakdown, as it is shown, whose clicks are counted by UTC day as well; a variant as RULE/VARIANT, or by its id alone for all rules. Only with by."`
	Breakdown string `query:"breakdown" enum:"countries,cities,devices,browsers,os,referrers,rules,variants,codes,utm_source,utm_medium,utm_campaign,utm_term,utm_content" doc:"For CSV: this breakdown instead of the series."`
}

type workspaceStatsInput struct {
	Top int `query:"top" minimum:"0" maximum:"100" default:"10" doc:"How many of the links with the most clicks are listed."`
	inGroup
	timeRange
	comparison
	By        string `query:"by" enum:"countries,cities,devices,browsers,os,referrers,utm_source,utm_medium,utm_campaign,utm_term,utm_content" doc:"The breakdown that has the name."`
	Name      string `query:"name" maxLength:"264" example:"DE" doc:"A name of a breakdown, as it is shown, whose clicks are counted by UTC day as well. Only with by."`
	Breakdown string `query:"breakdown" enum:"countries,cities,devices,browsers,os,referrers,utm_source,utm_medium,utm_campaign,utm_term,utm_content,top" doc:"For CSV: this breakdown, or the links with the most clicks, instead of the series."`
}

type codeInput struct {
	Code string `path:"code" doc:"The link's short code."`
}

type forgetClicksInput struct {
	Code string `path:"code" doc:"The link's short code."`
	inDomain
}

type forgetVisitorsInput struct {
	Day string `path:"day" maxLength:"10" example:"2026-03-31" doc:"A UTC day."`
}

type forgetVisitorsOutput struct {
	Position string `header:"Waypost-Position" doc:"Position of the change: an edge that has reached it no longer has the salt."`
}

func registerStatistics(rt *router, a *statisticsAPI) {
	registerViews(rt, a)
	reader := []controlplane.Scope{controlplane.ScopeAnalytics, controlplane.ScopeLinksRead}
	admin := []controlplane.Scope{controlplane.ScopeAdmin}
	handle(rt, operation{
		id: "stats", method: http.MethodGet, path: "/stats/{code}", summary: "Count a link's clicks of all time, in a short form",
		description: statsDescription, scopes: reader, problems: []int{http.StatusNotFound},
	}, a.short)
	handle(rt, operation{
		id: "link-stats", method: http.MethodGet, path: api.PathLinks + "/{code}/stats", summary: "Get a link's statistics",
		description: statsDescription + rangeDescription, scopes: reader, problems: []int{http.StatusNotFound},
		answers: tables(rt.document.schemas.of(typeOf[api.LinkStats](), "")),
	}, a.link)
	handle(rt, operation{
		id: "workspace-stats", method: http.MethodGet, path: api.PathStats, summary: "Get the statistics of all links of the workspace, or of a group of them",
		description: "Of all links together, deleted ones included, because their clicks were counted. " + statsDescription + rangeDescription + groupDescription,
		scopes:      []controlplane.Scope{controlplane.ScopeAnalytics}, problems: []int{http.StatusNotFound, http.StatusAccepted},
		answers: tables(rt.document.schemas.of(typeOf[api.WorkspaceStats](), "")),
	}, a.workspace)
	registerGroups(rt, a)
	registerCrossed(rt, a)
	handle(rt, operation{
		id: "sparklines", method: http.MethodGet, path: api.PathStats + "/links", summary: "Count the clicks of up to 100 links by day",
		description: "For small charts next to links. " + statsDescription, scopes: reader,
	}, a.sparklines)
	handle(rt, operation{
		id: "unknown-addresses", method: http.MethodGet, path: api.PathUnknown, summary: "List addresses that visitors asked for and that name no link",
		description: "Of one domain; a shared domain answers keys of the default workspace only. Each address is counted by UTC day, and is shown " +
			"for days on which at least five different people asked for it. Addresses with an at sign or with a long segment that looks " +
			"random are not kept, nor is any query. Counts are kept for 30 days. An edge reports its counts every five seconds from memory.",
		scopes: []controlplane.Scope{controlplane.ScopeAnalytics}, problems: []int{http.StatusNotFound},
	}, a.unknown)
	handle(rt, operation{
		id: "forget-clicks", method: http.MethodDelete, path: api.PathLinks + "/{code}/clicks", summary: "Delete a link's clicks",
		description: "Deletes all counts of a link, whether it is live, expired or deleted, and subtracts them from the clicks and " +
			"breakdowns of the workspace. The workspace's estimates of unique visitors stay, because they hold no link and nothing can " +
			"be subtracted from them; so do the totals by edge, and an entry in the audit log. Later clicks, also those that edges had " +
			"not sent yet, count again from zero.",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, a.forgetClicks)
	handle(rt, operation{
		id: "forget-visitors", method: http.MethodDelete, path: api.PathVisitorSalts + "/{day}",
		summary: "Destroy the salt that distinguishes the visitors of a day",
		description: "Without it no stored data leads back to a visitor of that day. Later clicks of the day count without a visitor. " +
			"The salt of a day is destroyed automatically two days later; this does it earlier. It is in the audit log.",
		scopes: admin, problems: []int{http.StatusNotFound},
	}, a.forgetVisitors)
}

type sparklinesInput struct {
	Links []string `query:"link" maxItems:"100" minLength:"1" maxLength:"400" example:"go.example.com/spring" doc:"A link: its code, behind the host of its domain and a slash unless that is the shared default domain and the code has no slash. Given several times: several links."`
	Days  int      `query:"days" minimum:"1" maximum:"31" default:"14" doc:"How many days, today included."`
	TZ    string   `query:"tz" maxLength:"64" default:"UTC" example:"Europe/Berlin" doc:"Time zone of the days: a name of the IANA database."`
}

func (a *statisticsAPI) sparklines(ctx context.Context, in *sparklinesInput) (*body[api.Sparklines], error) {
	zone, err := zoneOf(in.TZ)
	if err != nil {
		return nil, err
	}
	links := make([]controlplane.HostedCode, len(in.Links))
	for i, text := range in.Links {
		host, code, found := strings.Cut(text, "/")
		if !found {
			host, code = "", text
		}
		links[i] = controlplane.HostedCode{Host: host, Code: code}
	}
	span, lines, err := a.clicks.Sparklines(ctx, actorFrom(ctx), links, in.Days, zone)
	if err != nil {
		return nil, err
	}
	shown := api.Sparklines{From: span.From(), Days: len(span.Bounds) - 1, Links: make([]api.Sparkline, len(lines))}
	for i, l := range lines {
		shown.Links[i] = api.Sparkline{Domain: l.Host, ShortCode: l.Code, Clicks: l.Clicks}
	}
	return bodyOf(shown), nil
}

func (a *statisticsAPI) short(ctx context.Context, in *codeInput) (*body[api.ShortStats], error) {
	l, err := a.clicks.Stats(ctx, actorFrom(ctx), in.Code)
	if err != nil {
		return nil, err
	}
	return bodyOf(api.ShortStats{
		ShortCode: string(l.Code), OriginalURL: l.OriginalURL, ClickCount: l.Clicks, BotClicks: l.BotClicks,
		CreatedAt: l.CreatedAt.UTC(), LastAccessedAt: moment(l.LastAccessedAt),
	}), nil
}

func (a *statisticsAPI) link(ctx context.Context, in *linkStatsInput) (*table, error) {
	q, err := in.query(&in.comparison, in.By, in.Name)
	if err != nil {
		return nil, err
	}
	if q.Named != nil && q.Named.By == controlplane.Codes {
		q.Named.Name = strings.TrimPrefix(q.Named.Name, a.host)
	}
	stats, err := a.clicks.LinkStats(ctx, actorFrom(ctx), in.Domain, in.Code, q)
	if err != nil {
		return nil, err
	}
	for i, n := range stats.Breakdowns[controlplane.Codes].Named {
		if strings.HasPrefix(n.Name, "/") {
			stats.Breakdowns[controlplane.Codes].Named[i].Name = a.host + n.Name
		}
	}
	shown := api.LinkStats{
		ShortCode: string(stats.Link.Code), OriginalURL: stats.Link.OriginalURL,
		CreatedAt: stats.Link.CreatedAt.UTC(), LastAccessedAt: moment(stats.Link.LastAccessedAt),
		ClickStats: clickStatsOf(&stats.Stats),
		Rules:      breakdownOf(controlplane.Rules, &stats.Breakdowns[controlplane.Rules]),
		Variants:   variantsOf(&stats.Breakdowns[controlplane.Variants]),
		Codes: mapped(breakdownOf(controlplane.Codes, &stats.Breakdowns[controlplane.Codes]), func(n *api.Named) api.CodeClicks {
			c := api.CodeClicks{Named: *n}
			for _, x := range stats.Link.Aliases {
				if cmp.Or(x.Host, a.host)+"/"+string(x.Code) == n.Name {
					c.Print = api.Print(x.Print)
				}
			}
			return c
		}),
	}
	shown.Annotations, shown.AnnotationsMore = filled(stats.Annotations), stats.More
	shown.Named = namedOf(in.By, in.Name, &stats.Stats)
	return &table{
		json: shown, file: "clicks-" + in.Code, name: in.Breakdown, form: in.csvForm, stats: &stats.Stats,
	}, nil
}

func (a *statisticsAPI) workspace(ctx context.Context, in *workspaceStatsInput) (*table, error) {
	q, err := in.query(&in.comparison, in.By, in.Name)
	if err != nil {
		return nil, err
	}
	q.Top = in.Top
	group, err := in.group()
	if err != nil {
		return nil, err
	}
	var stats controlplane.GroupStats
	if group.IsZero() {
		stats.WorkspaceStats, err = a.clicks.WorkspaceStats(ctx, actorFrom(ctx), q)
	} else {
		stats, err = a.clicks.GroupStats(ctx, actorFrom(ctx), group, q)
	}
	if err != nil {
		return nil, err
	}
	shown := api.WorkspaceStats{
		ClickStats: clickStatsOf(&stats.Stats), Top: make([]api.TopLink, len(stats.Top.Links)),
		TopExact: stats.Top.Exact, KeptAnswer: keptOf(stats.Kept),
	}
	if !group.IsZero() {
		shown.Links = &stats.Links
	}
	shown.Named = namedOf(in.By, in.Name, &stats.Stats)
	for i := range stats.Top.Links {
		l := &stats.Top.Links[i]
		shown.Top[i] = api.TopLink{
			ShortCode: string(l.Code), Domain: l.Host, OriginalURL: l.OriginalURL, Title: l.Title, Clicks: l.Clicks, BotClicks: l.Bots,
		}
	}
	return &table{json: shown, file: "clicks", name: in.Breakdown, form: in.csvForm, stats: &stats.Stats, top: shown.Top}, nil
}

func (a *statisticsAPI) forgetClicks(ctx context.Context, in *forgetClicksInput) (*body[api.ForgottenClicks], error) {
	f, err := a.clicks.ForgetClicks(ctx, actorFrom(ctx), in.Domain, in.Code)
	if err != nil {
		return nil, err
	}
	return bodyOf(api.ForgottenClicks{Clicks: f.Clicks, BotClicks: f.Bots, Events: f.Events}), nil
}

func (a *statisticsAPI) forgetVisitors(ctx context.Context, in *forgetVisitorsInput) (*forgetVisitorsOutput, error) {
	day, err := time.Parse(time.DateOnly, in.Day)
	if err != nil {
		return nil, invalid("path.day", "must be a date such as 2026-03-31")
	}
	position, err := a.clicks.ForgetVisitors(ctx, actorFrom(ctx), day)
	if err != nil {
		return nil, err
	}
	return &forgetVisitorsOutput{Position: position.String()}, nil
}

// breakdownNames are the values of the parameter, in the order of the dimensions.
var breakdownNames = [controlplane.Dimensions]string{
	"countries", "cities", "devices", "browsers", "os", "referrers", "rules", "variants", "codes",
	"utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content",
}

func clickStatsOf(s *controlplane.Stats) api.ClickStats {
	first, end := s.Span.Days()
	shown := api.ClickStats{
		From: s.Span.From(), To: s.Span.To(), Interval: string(s.Span.Interval), TZ: s.Span.Zone.String(), Since: s.Span.Since.In(s.Span.Zone),
		Clicks: s.Clicks, BotClicks: s.Bots, UniqueVisitors: s.Visitors, UniqueBots: s.VisitorBots,
		TotalClicks: s.TotalClicks, TotalBotClicks: s.TotalBots,
		CompleteUntil: moment(s.Complete.Until), Behind: append([]string{}, s.Complete.Behind...),
		Series: bucketsOf(&s.Span, s.Series), Compared: comparedOf(s.Compared), BreakdownFrom: dayOf(first), BreakdownTo: dayOf(end),
	}
	for d, to := range map[controlplane.Dimension]*[]api.Named{
		controlplane.Countries: &shown.Countries, controlplane.Cities: &shown.Cities, controlplane.Devices: &shown.Devices,
		controlplane.Browsers: &shown.Browsers, controlplane.Systems: &shown.Systems, controlplane.Referrers: &shown.Referrers,
		controlplane.UTM: &shown.UTMSource, controlplane.UTM + 1: &shown.UTMMedium, controlplane.UTM + 2: &shown.UTMCampaign,
		controlplane.UTM + 3: &shown.UTMTerm, controlplane.UTM + 4: &shown.UTMContent,
	} {
		*to = breakdownOf(d, &s.Breakdowns[d])
	}
	return shown
}

// othersName is the entry of a breakdown that holds the clicks of all names that are not
// shown.
const othersName = "other"

// breakdownOf names all entries of a breakdown, most clicks first and the others last. It
// keeps the names unique, because a referrer may be called like an entry that stands for
// others.
func breakdownOf(d controlplane.Dimension, b *controlplane.Breakdown) []api.Named {
	shown := make([]api.Named, 0, len(b.Named)+1)
	places := make(map[string]int, len(b.Named))
	others := b.Other
	for _, n := range b.Named {
		if n.Name == "" {
			n.Name = nameless(d)
		}
		if n.Name == othersName && b.Other > 0 {
			others += n.Clicks
			continue
		}
		if i, known := places[n.Name]; known {
			shown[i].Clicks += n.Clicks
			continue
		}
		places[n.Name] = len(shown)
		shown = append(shown, api.Named{Name: n.Name, Clicks: n.Clicks})
	}
	slices.SortStableFunc(shown, func(x, y api.Named) int { return cmp.Compare(y.Clicks, x.Clicks) })
	if others > 0 {
		shown = append(shown, api.Named{Name: othersName, Clicks: others})
	}
	return shown
}

// variantsOf returns the variants of a breakdown.
func variantsOf(b *controlplane.Breakdown) []api.VariantClicks {
	shown := []api.VariantClicks{}
	for _, v := range controlplane.VariantsOf(b) {
		shown = append(shown, api.VariantClicks{
			Rule: v.Rule, Name: v.Variant, Clicks: v.Clicks, Share: v.Share, Interval: []float64{v.Low, v.High},
		})
	}
	return shown
}

// dayOf returns the start of a day that is counted from 1970.
func dayOf(n int32) time.Time { return time.Unix(int64(n)*24*60*60, 0).UTC() }

// query reads the range, and the name of a breakdown that is counted by day.
func (in *timeRange) query(with *comparison, by, name string) (q controlplane.StatsQuery, err error) {
	q.Interval = controlplane.Interval(in.Interval)
	if q.Zone, err = zoneOf(in.TZ); err != nil {
		return q, err
	}
	if q.From, err = timeIn(q.Zone, "from", in.From, 0); err != nil {
		return q, err
	}
	if q.To, err = timeIn(q.Zone, "to", in.To, 1); err != nil {
		return q, err
	}
	if in.Since != "" {
		if q.Since, err = api.ParseTime(strings.Replace(in.Since, " ", "+", 1)); err != nil {
			return q, invalid("query.since", "must be a moment such as 2026-03-31T09:15:00+02:00")
		}
	}
	if q.Compare, err = with.read(q.Zone); err != nil {
		return q, err
	}
	q.Named, err = namedIn(by, name)
	return q, err
}

// namedIn returns the name that is counted by day. The name that stands for
// clicks without a name counts those that have this very name, too, as in breakdowns.
func namedIn(by, name string) (*controlplane.NameQuery, error) {
	switch {
	case by == "" && name == "":
		return nil, nil //nolint:nilnil // no name is asked for
	case by == "" || name == "":
		return nil, invalid("query.name", "give by and name, or neither")
	case name == othersName:
		return nil, invalid("query.name", "other stands for many names, and not the same on all days")
	}
	n := &controlplane.NameQuery{By: controlplane.Dimension(slices.Index(breakdownNames[:], by)), Name: name}
	if name == nameless(n.By) {
		n.Name, n.Nameless = "", name
	}
	return n, nil
}

func nameless(d controlplane.Dimension) string {
	switch {
	case d == controlplane.Referrers:
		return "direct"
	case d > controlplane.Referrers:
		return "none"
	default:
		return "unknown"
	}
}

// namedOf returns the clicks of the requested name, nil without one.
func namedOf(by, name string, s *controlplane.Stats) *api.NamedSeries {
	if by == "" {
		return nil
	}
	shown := &api.NamedSeries{By: by, Name: name, Series: make([]api.NamedDay, len(s.Named))}
	for i, d := range s.Named {
		shown.Series[i] = api.NamedDay{T: dayOf(d.Day), Clicks: d.Clicks, AtLeast: d.AtLeast}
		shown.Clicks += d.Clicks
		shown.AtLeast = shown.AtLeast || d.AtLeast
	}
	return shown
}

// zoneOf finds a time zone of the IANA database.
func zoneOf(name string) (*time.Location, error) {
	zone, ok := waypost.LoadZone(name)
	if !ok {
		return nil, invalid("query.tz", "must be the name of a time zone in the IANA database, such as Europe/Berlin")
	}
	return zone, nil
}

// timeIn reads a date or a time, zero for an empty text. To a date it adds days.
func timeIn(zone *time.Location, field, text string, days int) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, text, time.UTC); err == nil {
		// Midnight may be missing, or occur twice, in the zone.
		y, m, d := day.AddDate(0, 0, days).Date()
		return waypost.BeginOfDay(time.Date(y, m, d, 12, 0, 0, 0, zone)), nil
	}
	// A plus sign that was not escaped in the URL arrives as a space.
	at, err := api.ParseTime(strings.Replace(text, " ", "+", 1))
	if err != nil {
		return time.Time{}, invalid("query."+field, "must be a date such as 2026-03-31, or a time such as 2026-03-31T12:00:00Z")
	}
	return at, nil
}
