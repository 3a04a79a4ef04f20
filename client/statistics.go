package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"waypost/api"
)

// Statistics reads and deletes counted clicks.
type Statistics struct{ c *Client }

// Stats are the statistics of a link or of a workspace.
type Stats struct {
	ShortCode   string `json:"short_code"`   // of a link
	OriginalURL string `json:"original_url"` // of a link
	Links       *int64 `json:"links"`        // of a group: the number of its links
	api.ClickStats
	Rules    []Named         `json:"rules"`    // of a link
	Variants []VariantClicks `json:"variants"` // of a link
	Codes    []Named         `json:"codes"`    // of a link
	Top      []TopLink       `json:"top"`      // of a workspace

	Annotations     []api.Annotation `json:"annotations"` // of a link
	AnnotationsMore bool             `json:"annotations_more"`
	TopExact        *bool            `json:"top_exact"` // nil for a link

	// Raw is the answer as it was sent.
	Raw json.RawMessage `json:"-"`
}

// LinkStatsPath returns the path of a link's statistics, with the parameters of the
// query.
func LinkStatsPath(code string, query url.Values) string {
	return linkPath(code) + "/stats?" + query.Encode()
}

// WorkspaceStatsPath returns the path of the workspace's statistics.
func WorkspaceStatsPath(query url.Values) string { return api.PathStats + "?" + query.Encode() }

// Get returns the statistics at one of the paths above.
func (s Statistics) Get(ctx context.Context, path string) (stats Stats, err error) {
	got, err := s.c.fetch(ctx, http.MethodGet, path, nil, nil, &stats)
	stats.Raw = got.body
	return stats, err
}

// CSV returns the same as CSV.
func (s Statistics) CSV(ctx context.Context, path string) ([]byte, error) {
	got, err := s.c.exchange(ctx, http.MethodGet, path, http.Header{"Accept": {"text/csv"}}, nil)
	return got.body, err
}

// Groups returns the table of groups of links by tags, domains or creators. The query may
// have from, to, search and limit.
func (s Statistics) Groups(ctx context.Context, by string, query url.Values) (GroupTable, error) {
	return ask[GroupTable](ctx, s.c, http.MethodGet, GroupsPath(by, query), nil)
}

// GroupsPath returns the path of a table of groups.
func GroupsPath(by string, query url.Values) string {
	return api.PathStats + "/" + by + "?" + query.Encode()
}

// Unknown returns the addresses of a domain that visitors asked for and that name no
// link. The query may have domain, from, to and limit.
func (s Statistics) Unknown(ctx context.Context, query url.Values) (UnknownAddresses, error) {
	return ask[UnknownAddresses](ctx, s.c, http.MethodGet, api.PathUnknown+"?"+query.Encode(), nil)
}

// ForgetClicks deletes the clicks of a link, by the host of its domain, "" for the
// default one, and its code.
func (s Statistics) ForgetClicks(ctx context.Context, domain, code string) (Forgotten, error) {
	return ask[Forgotten](ctx, s.c, http.MethodDelete, linkPath(code)+"/clicks"+Write{Domain: domain}.query(), nil)
}

// ForgetVisitors destroys the salt that distinguishes the visitors of a UTC day
// (YYYY-MM-DD).
func (s Statistics) ForgetVisitors(ctx context.Context, day string) error {
	return s.c.do(ctx, http.MethodDelete, api.PathVisitorSalts+"/"+url.PathEscape(day), nil, nil)
}

// Views returns the saved views of the workspace.
func (s Statistics) Views(ctx context.Context) (api.Views, error) {
	return ask[api.Views](ctx, s.c, http.MethodGet, api.PathViews, nil)
}

// SaveView saves filters, or publishes the clicks of a link.
func (s Statistics) SaveView(ctx context.Context, n api.NewView) (api.View, error) {
	return ask[api.View](ctx, s.c, http.MethodPost, api.PathViews, n)
}

// RenameView renames a saved view.
func (s Statistics) RenameView(ctx context.Context, id int64, name string) error {
	return s.c.do(ctx, http.MethodPatch, api.PathViews+"/"+strconv.FormatInt(id, 10), api.ViewChange{Name: name}, nil)
}

// DeleteView deletes a saved view, or withdraws a public one.
func (s Statistics) DeleteView(ctx context.Context, id int64) error {
	return s.c.do(ctx, http.MethodDelete, api.PathViews+"/"+strconv.FormatInt(id, 10), nil, nil)
}
