package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const rangesPath = "/api/admin/ranges"

// KeySpace is all that the API tells about key ranges.
type KeySpace struct {
	Ranges       []Range    `json:"ranges"`
	Regions      []Supply   `json:"regions"`
	Prefixes     int        `json:"prefixes"`
	FreePrefixes int        `json:"free_prefixes"`
	PrefixSize   int64      `json:"prefix_size"`
	Held         *string    `json:"held"` // why no key is leased; nil when keys are
	HeldSince    *time.Time `json:"held_since"`
	ResumeGap    int64      `json:"resume_gap"` // 0: the operator has to say
}

// Range is a key range as the API shows it.
type Range struct {
	ID          int64     `json:"id"`
	Prefix      string    `json:"prefix"`
	Lo          int64     `json:"lo"`
	Hi          int64     `json:"hi"`
	Next        int64     `json:"next"`
	Region      string    `json:"region"`
	State       string    `json:"state"` // "live", "draining" or "retired"
	Generation  int64     `json:"generation"`
	Returned    int64     `json:"returned"`
	Leases      []Lease   `json:"leases"`
	Rate        float64   `json:"rate_per_minute"`
	MinutesLeft *float64  `json:"minutes_left"` // nil: no key is issued from it
	CreatedAt   time.Time `json:"created_at"`
}

// Unissued is how many counters can still be leased from the range.
func (r *Range) Unissued() int64 { return r.Hi - r.Next + r.Returned }

// Lease is a block that a control plane issues from.
type Lease struct {
	Node       string `json:"node"`
	Lo         int64  `json:"lo"`
	Hi         int64  `json:"hi"`
	Generation int64  `json:"generation"`
}

// Supply is a region's share of the keys.
type Supply struct {
	Region      string   `json:"region"`
	Unissued    int64    `json:"unissued"`
	Rate        float64  `json:"rate_per_minute"`
	MinutesLeft *float64 `json:"minutes_left"` // nil: no key is issued
}

// RangeStep is one act with its arguments; zero fields are left out.
type RangeStep struct {
	Action    string `json:"action"`
	Range     int64  `json:"range,omitempty"`
	Region    string `json:"region,omitempty"`
	Prefix    string `json:"prefix,omitempty"`
	At        int64  `json:"at,omitempty"`
	Remainder bool   `json:"remainder,omitempty"`
	Force     bool   `json:"force,omitempty"`
	Gap       *int64 `json:"gap,omitempty"`
}

// RangeChange is a list of steps, which are done all or not at all.
type RangeChange struct {
	Steps       []RangeStep `json:"steps"`
	Fingerprint string      `json:"fingerprint,omitempty"`
	DryRun      bool        `json:"dry_run,omitempty"`
}

// RangesChanged is what a change has done, or would do.
type RangesChanged struct {
	Done   []StepDone `json:"done"`
	DryRun bool       `json:"dry_run"`
}

// StepDone is what became of a step.
type StepDone struct {
	Step   RangeStep `json:"step"`
	What   string    `json:"what"`
	Fenced int       `json:"fenced"` // leases that were held and are void now
	Ranges []Range   `json:"ranges"` // that were touched, as they are after it
}

// RangePlan is a plan of moves, and what it was made for.
type RangePlan struct {
	MadeAt      time.Time   `json:"made_at"`
	Fingerprint string      `json:"fingerprint"`
	Steps       []RangeStep `json:"steps"`
	Before      []Supply    `json:"before"`
	After       []Supply    `json:"after"`
	Reason      string      `json:"reason"` // why there is nothing to do, when there is nothing
}

// Decoded is a code taken apart.
type Decoded struct {
	Code    string       `json:"code"`
	Prefix  string       `json:"prefix"`
	Counter int64        `json:"counter"`
	State   string       `json:"state"`
	Issued  bool         `json:"issued"`
	Region  *string      `json:"region"`
	Range   *RangeBounds `json:"range"`
	Lease   *Lease       `json:"lease"`
}

// RangeBounds is a range without what changes from minute to minute.
type RangeBounds struct {
	ID         int64     `json:"id"`
	Prefix     string    `json:"prefix"`
	Lo         int64     `json:"lo"`
	Hi         int64     `json:"hi"`
	Next       int64     `json:"next"`
	Region     string    `json:"region"`
	State      string    `json:"state"`
	Generation int64     `json:"generation"`
	Returned   int64     `json:"returned"`
	CreatedAt  time.Time `json:"created_at"`
}

// AuditEntry is an administrative act that was done.
type AuditEntry struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor"`
	Action  string          `json:"action"`
	Subject string          `json:"subject"`
	Detail  json.RawMessage `json:"detail"`

	Workspace string `json:"workspace"` // slug
}

// AuditPage is one page of the audit log, newest first. Next is empty on the last.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	Next    string       `json:"next_cursor"`
}

// KeySpace lists all key ranges, by id.
func (c *Client) KeySpace(ctx context.Context) (KeySpace, error) {
	var s KeySpace
	err := c.do(ctx, http.MethodGet, rangesPath, nil, &s)
	return s, err
}

// Range finds a key range.
func (c *Client) Range(ctx context.Context, id int64) (Range, error) {
	var r Range
	err := c.do(ctx, http.MethodGet, rangesPath+"/"+strconv.FormatInt(id, 10), nil, &r)
	return r, err
}

// ChangeRanges does all steps of a change, or none.
func (c *Client) ChangeRanges(ctx context.Context, change RangeChange) (RangesChanged, error) {
	var answer RangesChanged
	if err := c.do(ctx, http.MethodPost, rangesPath+"/changes", change, &answer); err != nil {
		return RangesChanged{}, err
	}
	if len(answer.Done) != len(change.Steps) {
		return RangesChanged{}, fmt.Errorf("the API answers %d steps with %d", len(change.Steps), len(answer.Done))
	}
	return answer, nil
}

// PlanRanges has a plan made that equalises the regions.
func (c *Client) PlanRanges(ctx context.Context) (RangePlan, error) {
	var p RangePlan
	err := c.do(ctx, http.MethodGet, rangesPath+"/plan", nil, &p)
	return p, err
}

// Decode takes a generated code apart.
func (c *Client) Decode(ctx context.Context, code string) (Decoded, error) {
	var d Decoded
	err := c.do(ctx, http.MethodGet, rangesPath+"/decode/"+url.PathEscape(code), nil, &d)
	return d, err
}

// Audit gives one page of at most limit entries. An empty cursor begins at the newest.
func (c *Client) Audit(ctx context.Context, all bool, limit int, cursor string) (AuditPage, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if all {
		query.Set("all", "true")
	}
	var p AuditPage
	err := c.do(ctx, http.MethodGet, "/api/admin/audit?"+query.Encode(), nil, &p)
	return p, err
}
