package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"waypost/api"
)

// Statistics reads the clicks of a link or of the workspace.
type Statistics struct{ c *Client }

// Stats are the statistics of a link or of a workspace.
type Stats struct {
	ShortCode   string `json:"short_code"`   // of a link
	OriginalURL string `json:"original_url"` // of a link
	Links       *int64 `json:"links"`        // of a group: the number of its links
	api.ClickStats
	Rules    []api.Named         `json:"rules"`    // of a link
	Variants []api.VariantClicks `json:"variants"` // of a link
	Codes    []api.Named         `json:"codes"`    // of a link
	Top      []api.TopLink       `json:"top"`      // of a workspace

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

// Get returns the statistics at the path of a link, or of the workspace: [api.PathStats].
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
