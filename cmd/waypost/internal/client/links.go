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

const linksPath = "/api/v1/urls"

// Link is a link as the API shows it.
type Link struct {
	ID             string          `json:"id"`
	ShortCode      string          `json:"short_code"`
	ShortURL       string          `json:"short_url"`
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
}

// NewLink is a wish for a link. Zero fields are left to the API.
type NewLink struct {
	OriginalURL      string    `json:"original_url"`
	CustomCode       string    `json:"custom_code,omitempty"`
	Title            string    `json:"title,omitempty"`
	Description      string    `json:"description,omitempty"`
	Tags             []string  `json:"tags,omitempty"`
	ExpiresInSeconds int64     `json:"expires_in_seconds,omitempty"`
	ExpiresAt        time.Time `json:"expires_at,omitzero"`
	RedirectStatus   int       `json:"redirect_status,omitempty"`
	ForwardQuery     bool      `json:"forward_query,omitempty"`
	ForwardPath      bool      `json:"forward_path,omitempty"`
	CreatedBy        string    `json:"created_by,omitempty"`
}

// Outcome is what became of one wish of many: a link, or the reason why not.
type Outcome struct {
	Status int      `json:"status"`
	Link   *Link    `json:"link"`
	Error  *Problem `json:"error"`
}

// Page is one page of a list, newest first. Next is empty on the last.
type Page struct {
	Links []Link `json:"urls"`
	Next  string `json:"next_cursor"`

	// Time is when the API answered, by its own clock, to the second; zero when it
	// does not say.
	Time time.Time `json:"-"`
}

// RawPage is a page whose links are the JSON objects that the API sent.
type RawPage struct {
	Links []json.RawMessage `json:"urls"`
	Next  string            `json:"next_cursor"`
}

// Create makes one link.
func (c *Client) Create(ctx context.Context, n NewLink) (Link, error) {
	var l Link
	err := c.do(ctx, http.MethodPost, linksPath, n, &l)
	return l, err
}

// CreateBulk makes up to 1,000 links, each with its own outcome, in their order.
func (c *Client) CreateBulk(ctx context.Context, ns []NewLink) ([]Outcome, error) {
	var answer struct {
		Results []Outcome `json:"results"`
	}
	if err := c.do(ctx, http.MethodPost, linksPath+"/bulk", map[string]any{"links": ns}, &answer); err != nil {
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
	var p Page
	header, err := c.ask(ctx, http.MethodGet, pagePath(limit, cursor), nil, &p)
	if err != nil {
		return Page{}, err
	}
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		p.Time = at
	}
	return p, nil
}

// ListRaw is List for what passes links on as they are.
func (c *Client) ListRaw(ctx context.Context, limit int, cursor string) (RawPage, error) {
	var p RawPage
	err := c.do(ctx, http.MethodGet, pagePath(limit, cursor), nil, &p)
	return p, err
}

func pagePath(limit int, cursor string) string {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return linksPath + "?" + query.Encode()
}
