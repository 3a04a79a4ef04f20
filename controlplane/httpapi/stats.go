package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

// Statistics answers what the API is asked about clicks. All methods may be called by
// many goroutines at once; errors are as those of [Links].
type Statistics interface {
	// LinkStats gives the statistics of a link of the actor's workspace, also when it has
	// expired, under the domain of a host ("" for the default one): ENotFound when there is
	// none, EInvalid for a time that is none, or too long.
	LinkStats(ctx context.Context, actor controlplane.Actor, host, code string, q controlplane.StatsQuery) (controlplane.LinkStats, error)

	// WorkspaceStats gives the statistics of all links of the actor's workspace.
	WorkspaceStats(ctx context.Context, actor controlplane.Actor, q controlplane.StatsQuery) (controlplane.WorkspaceStats, error)

	// ForgetClicks deletes the clicks of a link of the actor's workspace, which may be
	// deleted itself.
	ForgetClicks(ctx context.Context, actor controlplane.Actor, host, code string) (controlplane.ForgottenClicks, error)

	// ForgetVisitors destroys the salt of a UTC day: ENotFound when the day has none.
	ForgetVisitors(ctx context.Context, actor controlplane.Actor, day time.Time) (waypost.Position, error)

	// GiveUpEdge says that an edge is gone for good: ENotFound when there was none,
	// EConflict when something was heard of it just now.
	GiveUpEdge(ctx context.Context, actor controlplane.Actor, node string) error
}

const statsPath = "/api/v1/stats"

// statsDescription is for all forms of statistics.
const statsDescription = "Counts the GET requests that edges have answered with a redirect; prefetches and HEAD do not count. Edges report theirs within seconds, and as soon as they can after a time without a connection; each click is counted once. Expired links have statistics, deleted ones have none."

// rangeDescription is for those that have a time.
const rangeDescription = `

The time asked for is widened to whole hours or days of the time zone, of which ` + "`series`" + ` has one entry each; ` + "`clicks`" + ` is their sum. Breakdowns and unique visitors are kept by whole days in UTC: they are of ` + "`breakdown_from` to `breakdown_to`" + `, and add up to the clicks of that time. Each breakdown has the 1,000 names with the most clicks, and the rest under ` + "`other`" + `.

` + "`complete_until`" + ` is the oldest of the times up to which the known edges have shipped their clicks: each edge reports the time before which all its clicks are counted here, and the edge that is furthest behind decides. An edge that has left counts no longer once it has shipped everything, and one that has not been heard of for 30 days neither, since what it may still bring counts at the time of its receipt. It is null while no edge is known, or one has not told yet. ` + "`behind`" + ` names the edges whose clicks may still be missing in the time asked for.

With ` + "`Accept: text/csv`" + ` the answer is the series as CSV, or the table that ` + "`breakdown`" + ` names. Texts that a spreadsheet could take for a formula begin with an apostrophe there.`

// TimeInput is the time that statistics are asked of. It is exported for huma, which
// passes over what is embedded otherwise.
type TimeInput struct {
	From     string `query:"from" maxLength:"40" example:"2026-03-01" doc:"Where the time begins: a date, which is its beginning in the time zone, or a moment (RFC 3339). Left out: 30 days, with the last one."`
	To       string `query:"to" maxLength:"40" example:"2026-03-31" doc:"Where the time ends: a date, which is within the time as a whole, or a moment (RFC 3339), which is not. Left out: now."`
	Interval string `query:"interval" enum:"hour,day" default:"day" doc:"The step of the series. At most 750 hours or 1,830 days."`
	TZ       string `query:"tz" maxLength:"64" default:"UTC" example:"Europe/Berlin" doc:"The time zone whose hours and days these are: a name of the IANA database."`
	Accept   string `header:"Accept" hidden:"true"`
}

type linkStatsInput struct {
	Code   string `path:"code" doc:"The link's short code."`
	Domain string `query:"domain" maxLength:"253" example:"go.example.com" doc:"The host of the link's domain. Left out: the domain that all share."`
	TimeInput
	Breakdown string `query:"breakdown" enum:"countries,cities,devices,browsers,os,referrers" doc:"For CSV: this breakdown instead of the series."`
}

type workspaceStatsInput struct {
	Top int `query:"top" minimum:"0" maximum:"100" default:"10" doc:"How many of the links with the most clicks are listed."`
	TimeInput
	Breakdown string `query:"breakdown" enum:"countries,cities,devices,browsers,os,referrers,top" doc:"For CSV: this breakdown, or the links with the most clicks, instead of the series."`
}

// tableOutput is an answer in JSON, or, as bytes, in CSV.
type tableOutput struct {
	ContentType        string `header:"Content-Type" hidden:"true"`
	ContentDisposition string `header:"Content-Disposition" doc:"The name of a CSV file."`
	Vary               string `header:"Vary" doc:"The answer depends on Accept."`
	Body               any
}

func (s *server) registerStats() {
	handle(s, huma.Operation{
		OperationID: "stats",
		Method:      http.MethodGet,
		Path:        "/stats/{code}",
		Summary:     "Get a link's clicks of all time, in the short old form",
		Description: statsDescription,
		Security:    s.needs(controlplane.ScopeAnalytics, controlplane.ScopeLinksRead),
		Responses:   problems(401, 403, 404),
	}, s.shortStats)
	if s.statistics == nil {
		return
	}

	handle(s, huma.Operation{
		OperationID: "link-stats",
		Method:      http.MethodGet,
		Path:        linksPath + "/{code}/stats",
		Summary:     "Get a link's statistics",
		Description: statsDescription + rangeDescription,
		Security:    s.needs(controlplane.ScopeAnalytics, controlplane.ScopeLinksRead),
		Responses:   tables[linkStats](s, 401, 403, 404, 422),
	}, s.linkStats)

	handle(s, huma.Operation{
		OperationID: "workspace-stats",
		Method:      http.MethodGet,
		Path:        statsPath,
		Summary:     "Get the statistics of all links of the workspace",
		Description: "Of all links together, deleted ones included: their clicks were counted. " + statsDescription + rangeDescription,
		Security:    s.needs(controlplane.ScopeAnalytics),
		Responses:   tables[workspaceStats](s, 401, 403, 422),
	}, s.workspaceStats)
}

type shortStatsOutput struct{ Body shortStats }

// shortStats is the short old form of [linkStats], of all time.
type shortStats struct {
	ShortCode      string     `json:"short_code"`
	OriginalURL    string     `json:"original_url"`
	ClickCount     int64      `json:"click_count" minimum:"0"`
	BotClicks      int64      `json:"bot_clicks" minimum:"0" doc:"Of these, by software that says it is no person, such as fetchers of previews and search engines."`
	CreatedAt      time.Time  `json:"created_at"`
	LastAccessedAt *time.Time `json:"last_accessed_at" doc:"Time of the newest click, null when there was none."`
}

func (s *server) shortStats(ctx context.Context, in *codeInput) (*shortStatsOutput, error) {
	if !waypost.ValidCode(in.Code) {
		return nil, errNoLink
	}
	l, err := s.links.Stats(ctx, actorFrom(ctx), in.Code)
	if err != nil {
		return nil, err
	}
	return &shortStatsOutput{Body: shortStats{
		ShortCode: string(l.Code), OriginalURL: l.OriginalURL, ClickCount: l.Clicks, BotClicks: l.BotClicks,
		CreatedAt: l.CreatedAt.UTC(), LastAccessedAt: momentOf(l.LastAccessedAt),
	}}, nil
}

func (s *server) linkStats(ctx context.Context, in *linkStatsInput) (*tableOutput, error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	if !waypost.ValidCode(in.Code) {
		return nil, errNoLink
	}
	stats, err := s.statistics.LinkStats(ctx, actorFrom(ctx), in.Domain, in.Code, q)
	if err != nil {
		return nil, err
	}
	if acceptsCSV(in.Accept) {
		return csvOf("clicks-"+in.Code, in.Breakdown, &stats.Stats, nil), nil
	}
	return jsonOf(linkStats{
		ShortCode: string(stats.Link.Code), OriginalURL: stats.Link.OriginalURL,
		CreatedAt: stats.Link.CreatedAt.UTC(), LastAccessedAt: momentOf(stats.Link.LastAccessedAt),
		ClickStats: showStats(&stats.Stats),
	}), nil
}

func (s *server) workspaceStats(ctx context.Context, in *workspaceStatsInput) (*tableOutput, error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	q.Top = in.Top
	stats, err := s.statistics.WorkspaceStats(ctx, actorFrom(ctx), q)
	if err != nil {
		return nil, err
	}
	if acceptsCSV(in.Accept) {
		return csvOf("clicks", in.Breakdown, &stats.Stats, stats.Top.Links), nil
	}
	shown := workspaceStats{ClickStats: showStats(&stats.Stats), Top: make([]topLink, len(stats.Top.Links)), TopExact: stats.Top.Exact}
	for i := range stats.Top.Links {
		shown.Top[i] = showTop(&stats.Top.Links[i])
	}
	return jsonOf(shown), nil
}

func jsonOf(body any) *tableOutput {
	return &tableOutput{ContentType: "application/json", Vary: "Accept", Body: body}
}
