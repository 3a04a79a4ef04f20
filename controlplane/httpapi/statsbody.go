package httpapi

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost/controlplane"
)

// linkStats are the statistics of a link.
type linkStats struct {
	ShortCode      string     `json:"short_code"`
	OriginalURL    string     `json:"original_url"`
	CreatedAt      time.Time  `json:"created_at"`
	LastAccessedAt *time.Time `json:"last_accessed_at" doc:"Time of the newest click ever, null when there was none."`
	ClickStats
}

// workspaceStats are those of all links of a workspace.
type workspaceStats struct {
	ClickStats
	Top      []topLink `json:"top" nullable:"false" doc:"The links with the most clicks from breakdown_from to breakdown_to, most first. Their numbers are exact."`
	TopExact bool      `json:"top_exact" doc:"Whether no other link has more clicks than the last of top. For each day the 1,000 links with the most clicks are known; it is false only where clicks are spread so evenly over more links than that, that others may have as many."`
}

// ClickStats is what both have. It is exported for huma, which passes over what is
// embedded otherwise.
type ClickStats struct {
	From     time.Time `json:"from" doc:"Beginning of the time, in its time zone."`
	To       time.Time `json:"to" doc:"End of the time, which is not in it."`
	Interval string    `json:"interval" enum:"hour,day"`
	TZ       string    `json:"tz" example:"Europe/Berlin"`

	Clicks         int64 `json:"clicks" minimum:"0" doc:"In the time from from to to: every GET that was counted."`
	BotClicks      int64 `json:"bot_clicks" minimum:"0" doc:"Of these, by software that says it is no person, such as fetchers of previews and search engines."`
	UniqueVisitors int64 `json:"unique_visitors" minimum:"0" doc:"How many different visitors there were, bots included, estimated within about 2 %, from breakdown_from to breakdown_to. Visitors are told apart within a day in UTC only: who comes back on another day counts again."`
	UniqueBots     int64 `json:"unique_bots" minimum:"0" doc:"Of these, bots."`
	TotalClicks    int64 `json:"total_clicks" minimum:"0" doc:"In all time."`
	TotalBotClicks int64 `json:"total_bot_clicks" minimum:"0" doc:"Of these, by bots."`

	CompleteUntil *time.Time `json:"complete_until" doc:"All clicks before that are counted; null when unknown."`
	Behind        []string   `json:"behind" nullable:"false" doc:"Nodes whose clicks may be missing in the time asked for."`

	Series []bucket `json:"series" nullable:"false" doc:"One entry for each hour or day, in their order, also without clicks."`

	BreakdownFrom time.Time `json:"breakdown_from" doc:"Beginning of the first day, in UTC, that the breakdowns hold."`
	BreakdownTo   time.Time `json:"breakdown_to" doc:"End of the last one."`
	Countries     []named   `json:"countries" nullable:"false" doc:"By ISO 3166-1 alpha-2 code; unknown when no database of places is configured, or it does not know."`
	Cities        []named   `json:"cities" nullable:"false" doc:"By name in English and country, such as Paris, FR."`
	Devices       []named   `json:"devices" nullable:"false" doc:"desktop, mobile, tablet, bot and unknown."`
	Browsers      []named   `json:"browsers" nullable:"false"`
	Systems       []named   `json:"os" nullable:"false" doc:"Operating systems."`
	Referrers     []named   `json:"referrers" nullable:"false" doc:"By host, with www. where it has that; direct without one."`
}

// bucket is one step of a series.
type bucket struct {
	T         time.Time `json:"t" doc:"Its beginning, in the time zone."`
	Clicks    int64     `json:"clicks" minimum:"0"`
	BotClicks int64     `json:"bot_clicks" minimum:"0"`
}

// named is one entry of a breakdown.
type named struct {
	Name   string `json:"name"`
	Clicks int64  `json:"clicks" minimum:"0"`
}

// topLink is one of the links with the most clicks.
type topLink struct {
	ShortCode   string `json:"short_code"`
	Domain      string `json:"domain" doc:"Its host, where that is not the one that all share."`
	OriginalURL string `json:"original_url"`
	Title       string `json:"title"`
	Clicks      int64  `json:"clicks" minimum:"0"`
	BotClicks   int64  `json:"bot_clicks" minimum:"0"`
}

// breakdownNames are those of the parameter, in the order of the dimensions.
var breakdownNames = [controlplane.Dimensions]string{"countries", "cities", "devices", "browsers", "os", "referrers"}

// nameOthers ends a breakdown that has more names than are kept.
const nameOthers = "other"

// nameless is how a breakdown calls what has no name.
func nameless(d controlplane.Dimension) string {
	if d == controlplane.Referrers {
		return "direct"
	}
	return "unknown"
}

func showStats(s *controlplane.Stats) ClickStats {
	first, end := s.Span.Days()
	shown := ClickStats{
		From: s.Span.From(), To: s.Span.To(), Interval: string(s.Span.Interval), TZ: s.Span.Zone.String(),
		Clicks: s.Clicks, BotClicks: s.Bots, UniqueVisitors: s.Visitors, UniqueBots: s.VisitorBots,
		TotalClicks: s.TotalClicks, TotalBotClicks: s.TotalBots,
		CompleteUntil: momentOf(s.Complete.Until), Behind: append([]string{}, s.Complete.Behind...),
		Series: make([]bucket, len(s.Series)), BreakdownFrom: dayOf(first), BreakdownTo: dayOf(end),
	}
	for i, q := range s.Series {
		shown.Series[i] = bucket{T: s.Span.Bounds[i], Clicks: q.Clicks, BotClicks: q.Bots}
	}
	for d, to := range [controlplane.Dimensions]*[]named{
		&shown.Countries, &shown.Cities, &shown.Devices, &shown.Browsers, &shown.Systems, &shown.Referrers,
	} {
		*to = showBreakdown(controlplane.Dimension(d), &s.Breakdowns[d])
	}
	return shown
}

// showBreakdown keeps the names unique: a referrer may call itself what we call those
// that have no name.
func showBreakdown(d controlplane.Dimension, b *controlplane.Breakdown) []named {
	shown := make([]named, 0, len(b.Named)+1)
	place := map[string]int{}
	add := func(name string, clicks int64) {
		if i, known := place[name]; known {
			shown[i].Clicks += clicks
			return
		}
		place[name] = len(shown)
		shown = append(shown, named{Name: name, Clicks: clicks})
	}
	for _, n := range b.Named {
		if n.Name == "" {
			n.Name = nameless(d)
		}
		add(n.Name, n.Clicks)
	}
	if b.Other > 0 {
		add(nameOthers, b.Other)
	}
	return shown
}

func showTop(l *controlplane.TopLink) topLink {
	return topLink{ShortCode: string(l.Code), Domain: l.Host, OriginalURL: l.OriginalURL, Title: l.Title, Clicks: l.Clicks, BotClicks: l.Bots}
}

// dayOf gives the beginning of a day that is counted from 1970.
func dayOf(n int32) time.Time { return time.Unix(int64(n)*24*60*60, 0).UTC() }

// query reads the time that is asked of.
func (in *TimeInput) query() (q controlplane.StatsQuery, err error) {
	q.Interval = controlplane.Interval(in.Interval)
	if q.Zone, err = zoneOf(in.TZ); err != nil {
		return q, err
	}
	if q.From, err = momentIn(q.Zone, "from", in.From, 0); err != nil {
		return q, err
	}
	q.To, err = momentIn(q.Zone, "to", in.To, 1)
	return q, err
}

// zoneOf finds a time zone of the IANA database. Their names begin with a capital;
// what does not is some file of the system.
func zoneOf(name string) (*time.Location, error) {
	bad := fieldErrors{{Location: "query.tz", Message: "must be the name of a time zone in the IANA database, such as Europe/Berlin"}}
	if name == "" || name == "Local" || name[0] < 'A' || name[0] > 'Z' {
		return nil, bad
	}
	for i := range len(name) {
		c := name[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("/_+-", rune(c)) {
			return nil, bad
		}
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, bad
	}
	return zone, nil
}

// momentIn reads a date or a moment, zero when there is none. A date is that many days later.
func momentIn(zone *time.Location, field, text string, later int) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, text, time.UTC); err == nil {
		return beginOf(day.AddDate(0, 0, later), zone), nil
	}
	// A plus sign that was not escaped in the URL arrives as a space.
	at, err := time.Parse(time.RFC3339, strings.Replace(text, " ", "+", 1))
	if err != nil {
		return time.Time{}, fieldErrors{{Location: "query." + field, Message: "must be a date such as 2026-03-31, or a moment such as 2026-03-31T12:00:00Z"}}
	}
	return at, nil
}

// beginOf gives the beginning of a date in a zone, where midnight may be left out or come twice.
func beginOf(day time.Time, zone *time.Location) time.Time {
	y, m, d := day.Date()
	return controlplane.BeginOfDay(time.Date(y, m, d, 12, 0, 0, 0, zone))
}

// tables documents an operation that answers in JSON as a T, or in CSV.
func tables[T any](s *server, statuses ...int) map[string]*huma.Response {
	responses := problems(statuses...)
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	responses[strconv.Itoa(http.StatusOK)] = &huma.Response{
		Description: http.StatusText(http.StatusOK),
		Headers:     map[string]*huma.Param{},
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: schema},
			"text/csv":         {Schema: &huma.Schema{Type: huma.TypeString}},
		},
	}
	return responses
}
