package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const linksPath = "/api/v1/urls"

// Link is a link as the API shows it.
type Link struct {
	ID             string          `json:"id"`
	ShortCode      string          `json:"short_code"`
	ShortURL       string          `json:"short_url"`
	Domain         string          `json:"domain"`
	OriginalURL    string          `json:"original_url"`
	RedirectStatus int             `json:"redirect_status"`
	ForwardQuery   bool            `json:"forward_query"`
	ForwardPath    bool            `json:"forward_path"`
	Title          string          `json:"title"`
	Description    string          `json:"description"`
	Tags           []string        `json:"tags"`
	Metadata       json.RawMessage `json:"metadata"`
	CreatedBy      string          `json:"created_by"`
	Active         bool            `json:"active"`
	ClickCount     int64           `json:"click_count"`
	CreatedAt      time.Time       `json:"created_at"`
	UpdatedAt      time.Time       `json:"updated_at"`
	ExpiresAt      *time.Time      `json:"expires_at"`
	Warnings       []Warning       `json:"warnings,omitempty"`
}

// NewLink is a wish for a link. Zero fields are left to the API.
type NewLink struct {
	OriginalURL      string          `json:"original_url"`
	CustomCode       string          `json:"custom_code,omitempty"`
	Domain           string          `json:"domain,omitempty"`
	Dedupe           *bool           `json:"dedupe,omitempty"`
	Title            string          `json:"title,omitempty"`
	Description      string          `json:"description,omitempty"`
	Tags             []string        `json:"tags,omitempty"`
	Metadata         json.RawMessage `json:"metadata,omitempty"`
	ExpiresInSeconds int64           `json:"expires_in_seconds,omitempty"`
	ExpiresAt        time.Time       `json:"expires_at,omitzero"`
	RedirectStatus   int             `json:"redirect_status,omitempty"`
	ForwardQuery     bool            `json:"forward_query,omitempty"`
	ForwardPath      bool            `json:"forward_path,omitempty"`
	Active           *bool           `json:"active,omitempty"` // default: true
	CreatedBy        string          `json:"created_by,omitempty"`
}

// Outcome is what became of one wish of many: a link, or the reason why not. A
// control plane that knows minimal answers tells the link's code alone.
type Outcome struct {
	Status    int      `json:"status"`
	Link      *Link    `json:"link"`
	ShortCode string   `json:"short_code"`
	Error     *Problem `json:"error"`
}

// Page is one page of a list, newest first. Next is empty on the last.
type Page struct {
	Links []Link `json:"urls"`
	Next  string `json:"next_cursor"`

	// Time is when the API answered, by its own clock, to the second; zero when it
	// does not say.
	Time time.Time `json:"-"`
}

// Create makes one link.
func (c *Client) Create(ctx context.Context, n NewLink) (Link, error) {
	var l Link
	err := c.do(ctx, http.MethodPost, linksPath, n, &l)
	return l, err
}

// CreateBulk makes up to 1,000 links, each with its own outcome, in their order. It
// asks for a minimal answer.
func (c *Client) CreateBulk(ctx context.Context, ns []NewLink) ([]Outcome, error) {
	var answer struct {
		Results []Outcome `json:"results"`
	}
	request := struct {
		Links []NewLink `json:"links"`
	}{ns}
	prefer := http.Header{"Prefer": {"return=minimal"}}
	if _, err := c.ask(ctx, http.MethodPost, linksPath+"/bulk", prefer, request, &answer); err != nil {
		return nil, err
	}
	if len(answer.Results) != len(ns) {
		return nil, fmt.Errorf("the API gave %d outcomes for %d links", len(answer.Results), len(ns))
	}
	return answer.Results, nil
}

// Get finds a link by its code.
func (c *Client) Get(ctx context.Context, code string) (Link, error) {
	var l Link
	err := c.do(ctx, http.MethodGet, linksPath+"/"+url.PathEscape(code), nil, &l)
	return l, err
}

// Delete removes a link.
func (c *Client) Delete(ctx context.Context, code string) error {
	return c.do(ctx, http.MethodDelete, linksPath+"/"+url.PathEscape(code), nil, nil)
}

// List gives one page of at most limit links. An empty cursor begins at the newest.
func (c *Client) List(ctx context.Context, limit int, cursor string) (Page, error) {
	return c.Search(ctx, Filter{}, "", limit, cursor)
}

// Filter narrows a list or an export. Zero fields ask for all.
type Filter struct {
	Words         string
	Tags          []string
	Domain        string
	Active        string // "true", "false" or ""
	Expired       string // likewise
	CreatedAfter  time.Time
	CreatedBefore time.Time
}

func (f *Filter) values() url.Values {
	v := url.Values{"tag": f.Tags}
	for name, value := range map[string]string{"q": f.Words, "domain": f.Domain, "active": f.Active, "expired": f.Expired} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, t := range map[string]time.Time{"created_after": f.CreatedAfter, "created_before": f.CreatedBefore} {
		if !t.IsZero() {
			v.Set(name, t.Format(time.RFC3339Nano))
		}
	}
	return v
}

// Search gives one page of at most limit links that fit a filter, sorted as the API's
// parameter of that name says; "" is newest first.
func (c *Client) Search(ctx context.Context, f Filter, sort string, limit int, cursor string) (Page, error) {
	query := f.values()
	query.Set("limit", strconv.Itoa(limit))
	for name, value := range map[string]string{"sort": sort, "cursor": cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var p Page
	header, err := c.ask(ctx, http.MethodGet, linksPath+"?"+query.Encode(), nil, nil, &p)
	if err != nil {
		return Page{}, err
	}
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		p.Time = at
	}
	return p, nil
}

// TagCount is a tag and how many links have it.
type TagCount struct {
	Tag   string `json:"tag"`
	Links int64  `json:"links"`
}

// Tags gives one page of tags that begin with prefix, and the one to go on after, ""
// at the end.
func (c *Client) Tags(ctx context.Context, prefix, after string, limit int) (tags []TagCount, next string, err error) {
	var page struct {
		Tags []TagCount `json:"tags"`
		Next string     `json:"next_after"`
	}
	query := url.Values{"prefix": {prefix}, "after": {after}, "limit": {strconv.Itoa(limit)}}
	err = c.do(ctx, http.MethodGet, "/api/v1/tags?"+query.Encode(), nil, &page)
	return page.Tags, page.Next, err
}

// Exported tells where an export ended: Next is the cursor to go on from, "" when
// there is nothing more.
type Exported struct {
	Links int
	Next  string
}

// Export copies up to limit links that fit a filter, in a format of the API, to a
// writer, beginning behind an earlier export's cursor. When the answer is cut off, what
// was written is to be thrown away.
func (c *Client) Export(ctx context.Context, f Filter, format, after string, limit int, to io.Writer) (Exported, error) {
	query := f.values()
	query.Set("format", format)
	query.Set("limit", strconv.Itoa(limit))
	if after != "" {
		query.Set("after", after)
	}
	req, err := c.request(ctx, http.MethodGet, linksPath+"/export?"+query.Encode(), nil, nil)
	if err != nil {
		return Exported{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return Exported{}, c.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return Exported{}, errors.Join(problem(resp, answer), err, resp.Body.Close())
	}
	_, err = io.Copy(to, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return Exported{}, fmt.Errorf("the answer of %s was cut off: %w", c.base, err)
	}
	links, err := strconv.Atoi(resp.Trailer.Get("Waypost-Links"))
	if err != nil {
		return Exported{}, fmt.Errorf("%s does not answer like the API of Waypost: the export has no end", c.base)
	}
	return Exported{Links: links, Next: resp.Trailer.Get("Waypost-Cursor")}, nil
}
