package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Stats are statistics as the API shows them, of a link or of a workspace.
type Stats struct {
	ShortCode   string `json:"short_code"`   // of a link
	OriginalURL string `json:"original_url"` // of a link

	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Interval string    `json:"interval"`
	TZ       string    `json:"tz"`

	Clicks         int64 `json:"clicks"`
	BotClicks      int64 `json:"bot_clicks"`
	UniqueVisitors int64 `json:"unique_visitors"`
	UniqueBots     int64 `json:"unique_bots"`
	TotalClicks    int64 `json:"total_clicks"`
	TotalBotClicks int64 `json:"total_bot_clicks"`

	CompleteUntil *time.Time `json:"complete_until"`
	Behind        []string   `json:"behind"`

	Series []Bucket `json:"series"`

	Countries []Named `json:"countries"`
	Cities    []Named `json:"cities"`
	Devices   []Named `json:"devices"`
	Browsers  []Named `json:"browsers"`
	Systems   []Named `json:"os"`
	Referrers []Named `json:"referrers"`

	Top      []TopLink `json:"top"`       // of a workspace
	TopExact *bool     `json:"top_exact"` // nil for a link

	// Raw is the answer as it was sent.
	Raw json.RawMessage `json:"-"`
}

// Bucket is one hour or day of a series.
type Bucket struct {
	T         time.Time `json:"t"`
	Clicks    int64     `json:"clicks"`
	BotClicks int64     `json:"bot_clicks"`
}

// Named is one entry of a breakdown.
type Named struct {
	Name   string `json:"name"`
	Clicks int64  `json:"clicks"`
}

// TopLink is one of the links with the most clicks.
type TopLink struct {
	ShortCode   string `json:"short_code"`
	Domain      string `json:"domain"`
	OriginalURL string `json:"original_url"`
	Title       string `json:"title"`
	Clicks      int64  `json:"clicks"`
	BotClicks   int64  `json:"bot_clicks"`
}

// LinkStatsPath is where the statistics of a link are asked, with the parameters of
// the query.
func LinkStatsPath(code string, query url.Values) string {
	return linksPath + "/" + url.PathEscape(code) + "/stats?" + query.Encode()
}

// WorkspaceStatsPath is where those of the workspace are.
func WorkspaceStatsPath(query url.Values) string { return "/api/v1/stats?" + query.Encode() }

// Stats gives what is at one of the paths above.
func (c *Client) Stats(ctx context.Context, path string) (Stats, error) {
	var s Stats
	if err := c.do(ctx, http.MethodGet, path, nil, &s.Raw); err != nil {
		return Stats{}, err
	}
	if err := json.Unmarshal(s.Raw, &s); err != nil {
		return Stats{}, c.foreign(err)
	}
	return s, nil
}

// StatsCSV gives the same as CSV.
func (c *Client) StatsCSV(ctx context.Context, path string) ([]byte, error) {
	got, err := c.exchange(ctx, http.MethodGet, path, http.Header{"Accept": {"text/csv"}}, nil)
	return got.body, err
}

// Forgotten is what was deleted of a link's clicks.
type Forgotten struct {
	Clicks    int64 `json:"clicks"`
	BotClicks int64 `json:"bot_clicks"`
	Events    int64 `json:"events"`
}

// ForgetClicks deletes the clicks of a link, under the host of a domain, "" for the default one.
func (c *Client) ForgetClicks(ctx context.Context, domain, code string) (Forgotten, error) {
	path := linksPath + "/" + url.PathEscape(code) + "/clicks"
	if domain != "" {
		path += "?" + url.Values{"domain": {domain}}.Encode()
	}
	var f Forgotten
	err := c.do(ctx, http.MethodDelete, path, nil, &f)
	return f, err
}

// ForgetVisitors destroys what the visitors of a day (YYYY-MM-DD, UTC) are told apart by.
func (c *Client) ForgetVisitors(ctx context.Context, day string) error {
	return c.do(ctx, http.MethodDelete, "/api/admin/visitor-salts/"+url.PathEscape(day), nil, nil)
}
