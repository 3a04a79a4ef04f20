package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

// newLink is the wish for a link, as a client writes it. Null is as good as
// leaving a field out. Lengths in the schema count characters, because that is
// what schemas do; the limits in bytes are the service's to check.
type newLink struct {
	OriginalURL      string    `json:"original_url" example:"https://example.com/a?b=c" doc:"The target: an http or https URL of at most 8,192 bytes. It is kept byte for byte."`
	CustomCode       string    `json:"custom_code,omitempty" example:"spring-sale" doc:"4 to 32 characters of A-Z, a-z, 0-9, _ and -. Left out or empty: a code is generated."`
	Domain           string    `json:"domain,omitempty" maxLength:"253" example:"go.example.com" doc:"The host of a domain that the workspace has, or that all share. Left out or empty: the domain that all share."`
	Dedupe           *bool     `json:"dedupe,omitempty" doc:"True: the one link of the target, under the domain; one that is there and live is given with 200, and the other fields do not count then. Targets are the same when their normal forms are. Not with custom_code. Left out: as the workspace has it, which usually is false."`
	ExpiresInSeconds int64     `json:"expires_in_seconds,omitempty" minimum:"1" maximum:"3155760000" doc:"Time to live in seconds. At most one of the three expiry fields may be given."`
	ExpiresInHours   int64     `json:"expires_in_hours,omitempty" minimum:"1" maximum:"8760" doc:"Time to live in hours."`
	ExpiresAt        time.Time `json:"expires_at,omitzero" doc:"When the link expires: RFC 3339, in the future, before the year 10000."`
	RedirectStatus   int       `json:"redirect_status,omitempty" enum:"301,302,307,308" default:"302" doc:"The status of the redirect."`
	ForwardQuery     bool      `json:"forward_query,omitempty" doc:"Add the query that a visitor brings to the target's. The target's own parameters stay first."`
	ForwardPath      bool      `json:"forward_path,omitempty" doc:"Add what follows the code in the path to the target's path. Otherwise such paths answer 404."`
	Title            string    `json:"title,omitempty" maxLength:"512" doc:"At most 512 bytes."`
	Description      string    `json:"description,omitempty" maxLength:"4096" doc:"At most 4,096 bytes."`
	Tags             []string  `json:"tags,omitempty" nullable:"false" maxItems:"32" minLength:"1" maxLength:"64" doc:"At most 32, each of 1 to 64 bytes, without control characters."`
	Metadata         metadata  `json:"metadata,omitzero" doc:"Any JSON object of at most 8,192 bytes, also with its numbers written out in full."`
	Active           *bool     `json:"active,omitempty" default:"true" doc:"False: the link answers 410 until it is made active."`
	CreatedBy        string    `json:"created_by,omitempty" maxLength:"512" doc:"Free text about who made the link, at most 512 bytes."`
}

// link is a link, as a client reads it.
type link struct {
	ID             string     `json:"id"`
	ShortCode      string     `json:"short_code"`
	ShortURL       string     `json:"short_url" format:"uri"`
	Domain         string     `json:"domain" doc:"The host of the link's domain."`
	OriginalURL    string     `json:"original_url" doc:"The target byte for byte as it was sent."`
	RedirectStatus int        `json:"redirect_status" enum:"301,302,307,308"`
	ForwardQuery   bool       `json:"forward_query" doc:"Whether the query that a visitor brings is added to the target's."`
	ForwardPath    bool       `json:"forward_path" doc:"Whether what follows the code in the path is added to the target's."`
	Title          string     `json:"title"`
	Description    string     `json:"description"`
	Tags           []string   `json:"tags" nullable:"false"`
	Metadata       metadata   `json:"metadata"`
	CreatedBy      string     `json:"created_by"`
	Active         bool       `json:"active"`
	ClickCount     int64      `json:"click_count" minimum:"0" doc:"Redirects by edges; see the statistics."`
	LastAccessedAt *time.Time `json:"last_accessed_at" doc:"Time of the newest of these clicks, null when there was none."`
	CreatedAt      time.Time  `json:"created_at"`
	UpdatedAt      time.Time  `json:"updated_at"`
	ExpiresAt      *time.Time `json:"expires_at" doc:"Null when the link never expires."`
	Warnings       []warning  `json:"warnings,omitempty" nullable:"false" doc:"What to look at, when the link was made or its target was changed just now."`
}

// warning is something about a link that does not keep it from being made.
type warning struct {
	Code    string `json:"code" enum:"host-looks-like-another,host-mixes-scripts" doc:"Stays the same over time."`
	Message string `json:"message"`
}

// metadata is a JSON object, or null.
type metadata struct{ json.RawMessage }

// Schema tells huma what RawMessage cannot.
func (metadata) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Nullable: true, AdditionalProperties: true}
}

// wish turns what a client wrote into a wish for the service. At says where it
// stands in the body.
func (n *newLink) wish(now time.Time, at string) (controlplane.NewLink, error) {
	expires, err := n.expiry(now, at)
	if err != nil {
		return controlplane.NewLink{}, err
	}
	object, err := n.Metadata.compact()
	if err != nil {
		return controlplane.NewLink{}, err
	}
	return controlplane.NewLink{
		OriginalURL:    n.OriginalURL,
		CustomCode:     n.CustomCode,
		Domain:         n.Domain,
		Dedupe:         n.Dedupe,
		ExpiresAt:      expires,
		RedirectStatus: n.RedirectStatus,
		ForwardQuery:   n.ForwardQuery,
		ForwardPath:    n.ForwardPath,
		Title:          n.Title,
		Description:    n.Description,
		Tags:           n.Tags,
		Metadata:       object,
		CreatedBy:      n.CreatedBy,
		Disabled:       n.Active != nil && !*n.Active,
	}, nil
}

// expiry gives the one expiry time that was asked for, zero when none was.
func (n *newLink) expiry(now time.Time, at string) (time.Time, error) {
	given := 0
	for _, is := range []bool{n.ExpiresInSeconds != 0, n.ExpiresInHours != 0, !n.ExpiresAt.IsZero()} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return time.Time{}, waypost.Errorf(waypost.EInvalid, "%s: give at most one of expires_in_seconds, expires_in_hours and expires_at", at)
	case n.ExpiresInSeconds != 0:
		return now.Add(time.Duration(n.ExpiresInSeconds) * time.Second).UTC(), nil
	case n.ExpiresInHours != 0:
		return now.Add(time.Duration(n.ExpiresInHours) * time.Hour).UTC(), nil
	default:
		return n.ExpiresAt, nil
	}
}

// compact gives the object without white space, nil for null.
func (m metadata) compact() (json.RawMessage, error) {
	if len(m.RawMessage) == 0 || string(m.RawMessage) == "null" {
		return nil, nil
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, m.RawMessage); err != nil {
		return nil, waypost.WrapError(waypost.EMalformed, "the body is no JSON", err)
	}
	return buf.Bytes(), nil
}

// show gives a link as a client reads it.
func (s *server) show(l *waypost.Link) link {
	shown := link{
		ID:             strconv.FormatInt(l.ID, 10),
		ShortCode:      string(l.Code),
		ShortURL:       s.shortURL(l),
		Domain:         cmp.Or(l.Host, s.baseHost),
		OriginalURL:    l.OriginalURL,
		RedirectStatus: l.RedirectStatus,
		ForwardQuery:   l.Flags&waypost.ForwardQuery != 0,
		ForwardPath:    l.Flags&waypost.ForwardPath != 0,
		Title:          l.Title,
		Description:    l.Description,
		Tags:           l.Tags,
		Metadata:       metadata{l.Metadata},
		CreatedBy:      l.CreatedBy,
		Active:         l.Active,
		ClickCount:     l.Clicks,
		LastAccessedAt: momentOf(l.LastAccessedAt),
		CreatedAt:      l.CreatedAt.UTC(),
		UpdatedAt:      l.UpdatedAt.UTC(),
		ExpiresAt:      momentOf(l.ExpiresAt),
	}
	if shown.Tags == nil {
		shown.Tags = []string{}
	}
	return shown
}

// showOutcome is show with the warnings of an outcome.
func (s *server) showOutcome(o *controlplane.Outcome) link {
	shown := s.show(&o.Link)
	for _, w := range o.Warnings {
		shown.Warnings = append(shown.Warnings, warning(w))
	}
	return shown
}

// shortURL is where visitors of a link go: the base URL, with the host of the link's own
// domain if it has one.
func (s *server) shortURL(l *waypost.Link) string {
	base := s.baseURL
	if l.Host != "" {
		if u, err := url.Parse(base); err == nil {
			if u.Host = l.Host; u.Port() == "" && s.basePort != "" {
				u.Host += ":" + s.basePort
			}
			base = strings.TrimSuffix(u.String(), "/")
		}
	}
	return base + "/" + string(l.Code)
}

// momentOf gives a time as a client reads it, nil for zero.
func momentOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
