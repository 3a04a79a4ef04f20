package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

// LinkEditor finds and changes single links, under the domain of a host, "" for the
// default one. Errors are as those of [Links].
type LinkEditor interface {
	// CreateOnce is CreateBulk for a request that may be sent again: EKeyReused when
	// something else was asked under its key, EInProgress while it is being answered.
	CreateOnce(ctx context.Context, actor controlplane.Actor, ns []controlplane.NewLink, o controlplane.Idempotency) (controlplane.Made, error)

	// Find finds a link of the actor's workspace: ENotFound when it or the domain is
	// unknown or deleted, EGone when it has expired.
	Find(ctx context.Context, actor controlplane.Actor, domain, code string) (waypost.Link, error)

	// Change changes a link, also an expired one: ENotFound, EStale when it has none of
	// the versions that may be changed, and the errors of Create.
	Change(ctx context.Context, actor controlplane.Actor, domain, code string, c controlplane.LinkChange) (controlplane.Outcome, waypost.Position, error)

	// Remove removes a link: ENotFound when there is none.
	Remove(ctx context.Context, actor controlplane.Actor, domain, code string) (waypost.Position, error)
}

// InDomain is for requests about one code.
type InDomain struct {
	Domain string `query:"domain" maxLength:"253" example:"go.example.com" doc:"The host of the link's domain. Left out: the domain that all share."`
}

type getInput struct {
	Code string `path:"code" doc:"The link's short code."`
	InDomain
	NoneMatch string `header:"If-None-Match" maxLength:"4096" doc:"ETags of states that the client has: 304 when the link is in one of them."`
}

type removeInput struct {
	Code string `path:"code" doc:"The link's short code."`
	InDomain
	Waiting
}

type changeLinkInput struct {
	Code string `path:"code" doc:"The link's short code."`
	InDomain
	Waiting
	Match string `header:"If-Match" maxLength:"4096" doc:"ETags of the states that may be changed: 412 when the link is in none of them. Clicks do not count. Left out: any."`
	Body  body[linkChange]
}

type changeLinkOutput struct {
	Position string `header:"Waypost-Position" doc:"Position of the change: a replica that has reached it redirects by it."`
	ETag     string `header:"ETag" doc:"Names this state of the link, for If-Match and If-None-Match."`
	Applied  string `header:"Waypost-Applied" doc:"What came of waiting; see wait."`
	Body     link
}

// optional is a field of a change that may be left out, or null.
type optional[T any] struct {
	given bool
	value *T // nil: null
}

// UnmarshalJSON is called only for fields that are there.
func (o *optional[T]) UnmarshalJSON(data []byte) error {
	o.given = true
	return json.Unmarshal(data, &o.value)
}

// Schema is that of T, or null.
func (o optional[T]) Schema(r huma.Registry) *huma.Schema {
	var zero T
	switch any(zero).(type) {
	case string:
		return &huma.Schema{Type: huma.TypeString, Nullable: true}
	case bool:
		return &huma.Schema{Type: huma.TypeBoolean, Nullable: true}
	case int, int64:
		return &huma.Schema{Type: huma.TypeInteger, Format: "int64", Nullable: true}
	case time.Time:
		return &huma.Schema{Type: huma.TypeString, Format: "date-time", Nullable: true}
	case []string:
		return &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Nullable: true}
	case metadata:
		return metadata{}.Schema(r)
	}
	panic("httpapi: no schema for an optional field")
}

// to gives what the field shall become, nil for no change. Null means the zero value.
func (o optional[T]) to() *T {
	switch {
	case !o.given:
		return nil
	case o.value == nil:
		return new(T)
	}
	return o.value
}

// linkChange is what is to change of a link (RFC 7396, but that metadata are replaced as
// a whole). What is left out stays.
type linkChange struct {
	OriginalURL      optional[string]    `json:"original_url,omitzero" nullable:"false" example:"https://example.com/a?b=c" doc:"The new target."`
	Active           optional[bool]      `json:"active,omitzero" nullable:"false" doc:"False: the link answers 410 until it is active again."`
	ExpiresInSeconds optional[int64]     `json:"expires_in_seconds,omitzero" minimum:"1" maximum:"3155760000" doc:"New time to live in seconds, from now. At most one of the three expiry fields may be given; null in any means that the link never expires. An expired link lives again."`
	ExpiresInHours   optional[int64]     `json:"expires_in_hours,omitzero" minimum:"1" maximum:"8760" doc:"New time to live in hours, from now."`
	ExpiresAt        optional[time.Time] `json:"expires_at,omitzero" doc:"When the link expires: RFC 3339, in the future, before the year 10000."`
	RedirectStatus   optional[int]       `json:"redirect_status,omitzero" enum:"301,302,307,308" doc:"The status of the redirect. Null: 302."`
	ForwardQuery     optional[bool]      `json:"forward_query,omitzero" doc:"Add the query that a visitor brings to the target's. Null: no."`
	ForwardPath      optional[bool]      `json:"forward_path,omitzero" doc:"Add what follows the code in the path to the target's path. Null: no."`
	Title            optional[string]    `json:"title,omitzero" maxLength:"512" doc:"At most 512 bytes. Null: none."`
	Description      optional[string]    `json:"description,omitzero" maxLength:"4096" doc:"At most 4,096 bytes. Null: none."`
	Tags             optional[[]string]  `json:"tags,omitzero" maxItems:"32" doc:"All tags: at most 32, each of 1 to 64 bytes, without control characters. Null: none."`
	Metadata         optional[metadata]  `json:"metadata,omitzero" doc:"All metadata: any JSON object of at most 8,192 bytes, also with its numbers written out in full. Null: none."`
}

func (s *server) registerEdit() {
	answers := problems(400, 401, 403, 404, 408, 412, 413, 415, 422)
	handle(s, withBody(huma.Operation{
		OperationID: "change-link",
		Method:      http.MethodPatch,
		Path:        linksPath + "/{code}",
		Summary:     "Change a link",
		Description: "Changes what the body names, and leaves the rest. Codes and domains of links do not change. A link that has expired can be changed until it is cleaned up, some time after.",
		Security:    s.needs(controlplane.ScopeLinksWrite),
		Responses:   answers,
	}, maxBody), s.change)
}

func (s *server) change(ctx context.Context, in *changeLinkInput) (*changeLinkOutput, error) {
	if !waypost.ValidCode(in.Code) {
		return nil, errNoLink
	}
	match, err := versionsOf(in.Match)
	if err != nil {
		return nil, err
	}
	body, err := decode[linkChange](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	c, err := body.wish(s.now())
	if err != nil {
		return nil, err
	}
	c.Match = match
	o, position, err := s.links.Change(ctx, actorFrom(ctx), in.Domain, in.Code, c)
	if err != nil {
		return nil, err
	}
	return &changeLinkOutput{Position: position.String(), ETag: etag(&o.Link), Applied: s.await(ctx, &in.Waiting, position), Body: s.showOutcome(&o)}, nil
}

// wish turns what a client wrote into a change for the service.
func (c *linkChange) wish(now time.Time) (controlplane.LinkChange, error) {
	none := controlplane.LinkChange{}
	expires, err := c.expiry(now)
	switch {
	case err != nil:
		return none, err
	case c.OriginalURL.given && c.OriginalURL.value == nil:
		return none, fieldErrors{{Location: "body.original_url", Message: "a link has a target: expected string"}}
	case c.Active.given && c.Active.value == nil:
		return none, fieldErrors{{Location: "body.active", Message: "expected boolean"}}
	}
	out := controlplane.LinkChange{
		OriginalURL: c.OriginalURL.to(), Active: c.Active.to(), ExpiresAt: expires, RedirectStatus: c.RedirectStatus.to(),
		ForwardQuery: c.ForwardQuery.to(), ForwardPath: c.ForwardPath.to(), Title: c.Title.to(), Description: c.Description.to(), Tags: c.Tags.to(),
	}
	if m := c.Metadata.to(); m != nil {
		object, err := m.compact()
		if err != nil {
			return none, err
		}
		out.Metadata = &object
	}
	return out, nil
}

// expiry gives the one expiry that was asked for: zero for never, nil for no change.
func (c *linkChange) expiry(now time.Time) (*time.Time, error) {
	given := 0
	var at *time.Time
	for _, in := range []struct {
		optional[int64]
		unit time.Duration
	}{{c.ExpiresInSeconds, time.Second}, {c.ExpiresInHours, time.Hour}} {
		if !in.given {
			continue
		}
		given++
		at = &time.Time{}
		if in.value != nil {
			*at = now.Add(time.Duration(*in.value) * in.unit).UTC()
		}
	}
	if c.ExpiresAt.given {
		given++
		at = c.ExpiresAt.to()
		if c.ExpiresAt.value != nil && at.IsZero() {
			return nil, waypost.Errorf(waypost.EInvalid, "expires_at must be in the future")
		}
	}
	if given > 1 {
		return nil, waypost.Errorf(waypost.EInvalid, "body: give at most one of expires_in_seconds, expires_in_hours and expires_at")
	}
	return at, nil
}
