package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"waypost/api"
)

// Ranges manages key ranges, and reads the audit log.
type Ranges struct{ c *Client }

// List lists all key ranges, by id.
func (r Ranges) List(ctx context.Context) (s KeySpace, err error) {
	err = r.c.do(ctx, http.MethodGet, api.PathRanges, nil, &s)
	return s, err
}

// Get finds a key range.
func (r Ranges) Get(ctx context.Context, id int64) (found Range, err error) {
	err = r.c.do(ctx, http.MethodGet, api.PathRanges+"/"+decimal(id), nil, &found)
	return found, err
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
func (r Ranges) Plan(ctx context.Context) (p RangePlan, err error) {
	err = r.c.do(ctx, http.MethodGet, api.PathRanges+"/plan", nil, &p)
	return p, err
}

// Decode takes a generated code apart.
func (r Ranges) Decode(ctx context.Context, code string) (d Decoded, err error) {
	err = r.c.do(ctx, http.MethodGet, api.PathRanges+"/decode/"+url.PathEscape(code), nil, &d)
	return d, err
}

// Audit returns one page of at most limit entries of the audit log. An empty cursor
// begins at the newest.
func (r Ranges) Audit(ctx context.Context, all bool, limit int, cursor string) (p AuditPage, err error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if all {
		query.Set("all", "true")
	}
	err = r.c.do(ctx, http.MethodGet, api.PathAudit+"?"+query.Encode(), nil, &p)
	return p, err
}
