package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"waypost/api"
)

// Ranges manages key ranges, and reads the audit log.
type Ranges struct{ c *Client }

// List lists all key ranges, by id.
func (r Ranges) List(ctx context.Context) (KeySpace, error) {
	return ask[KeySpace](ctx, r.c, http.MethodGet, api.PathRanges, nil)
}

// Get finds a key range.
func (r Ranges) Get(ctx context.Context, id int64) (Range, error) {
	return ask[Range](ctx, r.c, http.MethodGet, api.PathRanges+"/"+decimal(id), nil)
}

// Change carries out all steps of a change, or none.
func (r Ranges) Change(ctx context.Context, change RangeChange) (answer RangesChanged, err error) {
	if err := r.c.do(ctx, http.MethodPost, api.PathRanges+"/changes", change, &answer); err != nil {
		return RangesChanged{}, err
	}
	if len(answer.Done) != len(change.Steps) {
		return RangesChanged{}, fmt.Errorf("the API returned %d outcomes for %d steps", len(answer.Done), len(change.Steps))
	}
	return answer, nil
}

// Plan plans a change that equalises the regions.
func (r Ranges) Plan(ctx context.Context) (RangePlan, error) {
	return ask[RangePlan](ctx, r.c, http.MethodGet, api.PathRanges+"/plan", nil)
}

// Decode takes a generated code apart.
func (r Ranges) Decode(ctx context.Context, code string) (Decoded, error) {
	return ask[Decoded](ctx, r.c, http.MethodGet, api.PathRanges+"/decode/"+url.PathEscape(code), nil)
}

// Audit returns one page of at most limit entries of the audit log. An empty cursor
// begins at the newest.
func (r Ranges) Audit(ctx context.Context, all bool, limit int, cursor string) (AuditPage, error) {
	query := page(limit, cursor)
	if all {
		query = "all=true&" + query
	}
	return ask[AuditPage](ctx, r.c, http.MethodGet, api.PathAudit+"?"+query, nil)
}
