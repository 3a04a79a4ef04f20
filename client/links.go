package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waypost/api"
)

// Links creates, finds, changes and lists links.
type Links struct{ c *Client }

// Page is one page of a list of links. Next is the cursor of the next one, "" on the
// last.
type Page struct {
	Links []Link    `json:"urls"`
	Next  string    `json:"next_cursor"`
	Time  time.Time `json:"-"` // when the API answered, by its clock, to the second; zero: unknown
}

// Write configures a change. Zero fields are left to the API.
type Write struct {
	Domain  string        // host of the link's domain; "": the shared default domain
	Wait    string        // "region" or "all": until those edges have the change
	Timeout time.Duration // for the waiting
	IfMatch string        // entity tag of the state to change; "": any
	Key     string        // Idempotency-Key; "": a random one where there can be one
	alias   string        // host of the domain of an alias
}

// Receipt describes a change that was made.
type Receipt struct {
	Position string `json:"position"`
	Applied  string `json:"applied,omitempty"` // outcome of waiting
	ETag     string `json:"etag,omitempty"`
	Found    bool   `json:"found,omitempty"` // the link existed before
}

func receiptOf(h http.Header, status int) Receipt {
	return Receipt{
		Position: h.Get(api.HeaderPosition), Applied: h.Get(api.HeaderApplied), ETag: h.Get("ETag"), Found: status == http.StatusOK,
	}
}

func (w Write) query() string {
	q := filled(map[string]string{"domain": w.Domain, "wait": w.Wait, "alias_domain": w.alias})
	if w.Wait != "" && w.Timeout > 0 {
		q.Set("wait_timeout", strconv.FormatFloat(w.Timeout.Seconds(), 'f', -1, 64))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// Create creates one link. It sends the request once.
func (l Links) Create(ctx context.Context, n NewLink) (Link, error) {
	return Send[Link](ctx, l.c, http.MethodPost, api.PathLinks, n)
}

// maxTries bounds how often a repeatable request is sent.
const maxTries = 3

// Make creates one link, or finds the one of its target when n asks for that. The request
// has an Idempotency-Key, so that Make sends it again when the answer is lost.
func (l Links) Make(ctx context.Context, n NewLink, w Write) (link Link, r Receipt, err error) {
	key := cmp.Or(w.Key, rand.Text())
	w.Domain = "" // it is in the body
	var got answer
	err = Retry{Tries: maxTries, Again: Passing}.Do(ctx, func() (err error) {
		got, err = l.c.exchange(ctx, http.MethodPost, api.PathLinks+w.query(), http.Header{"Idempotency-Key": {key}}, n)
		return err
	})
	if err == nil {
		err = l.c.decode(got, &link)
	}
	return link, receiptOf(got.header, got.status), err
}

// change sends a change of a link, and returns the link behind it.
func (l Links) change(ctx context.Context, method, path string, header http.Header, in any) (link Link, r Receipt, err error) {
	got, err := l.c.fetch(ctx, method, path, header, in, &link)
	return link, receiptOf(got.header, 0), err
}

// CreateBulk creates up to 1,000 links, each with its own outcome, in order. The outcomes
// hold the codes of the links only.
func (l Links) CreateBulk(ctx context.Context, ns []NewLink) ([]api.LinkOutcome, error) {
	minimal := http.Header{"Prefer": {"return=minimal"}}
	var answer api.LinkOutcomes
	if _, err := l.c.fetch(ctx, http.MethodPost, api.PathLinks+"/bulk", minimal, api.NewLinks{Links: ns}, &answer); err != nil {
		return nil, err
	}
	if len(answer.Results) != len(ns) {
		return nil, fmt.Errorf("the API returned %d outcomes for %d links", len(answer.Results), len(ns))
	}
	return answer.Results, nil
}

// Find finds a link by the host of its domain, "" for the default one, and its code, also
// one that has expired.
func (l Links) Find(ctx context.Context, domain, code string) (link Link, err error) {
	link, _, err = l.Read(ctx, domain, code)
	return link, err
}

// Read finds a link like Find, with the entity tag of its state.
func (l Links) Read(ctx context.Context, domain, code string) (link Link, etag string, err error) {
	q := filled(map[string]string{"expired": "true", "domain": domain})
	got, err := l.c.fetch(ctx, http.MethodGet, linkPath(code)+"?"+q.Encode(), nil, nil, &link)
	return link, got.header.Get("ETag"), err
}

// Change changes a link.
func (l Links) Change(ctx context.Context, code string, change LinkChange, w Write) (link Link, r Receipt, err error) {
	header := http.Header{}
	if w.IfMatch != "" {
		header.Set("If-Match", w.IfMatch)
	}
	return l.change(ctx, http.MethodPatch, linkPath(code)+w.query(), header, change)
}

// Remove removes a link.
func (l Links) Remove(ctx context.Context, code string, w Write) (Receipt, error) {
	got, err := l.c.fetch(ctx, http.MethodDelete, linkPath(code)+w.query(), nil, nil, nil)
	return receiptOf(got.header, 0), err
}

// Restore undoes the removal of a link.
func (l Links) Restore(ctx context.Context, code string, w Write) (link Link, r Receipt, err error) {
	return l.change(ctx, http.MethodPost, linkPath(code)+"/restore"+w.query(), nil, nil)
}

// AddAlias adds an alias to a link. Found reports that the link has it already.
func (l Links) AddAlias(ctx context.Context, code string, n NewAlias, w Write) (link Link, r Receipt, err error) {
	got, err := l.c.fetch(ctx, http.MethodPost, linkPath(code)+"/aliases"+w.query(), nil, n, &link)
	return link, receiptOf(got.header, got.status), err
}

// RemoveAlias removes the alias of a link with a domain, "" for the default one, and a
// code.
func (l Links) RemoveAlias(ctx context.Context, code, host, alias string, w Write) (link Link, r Receipt, err error) {
	w.alias = host
	return l.change(ctx, http.MethodDelete, linkPath(code)+"/aliases/"+url.PathEscape(alias)+w.query(), nil, nil)
}

func linkPath(code string) string { return api.PathLinks + "/" + url.PathEscape(code) }

// Filter narrows a list or an export. Zero fields select all links.
type Filter struct {
	Words         string
	Typed         string // beginnings of words, tags, a code, a host or a URL
	Tags          []string
	Domain        string
	Active        string // "true", "false" or ""
	Expired       string // likewise
	CreatedAfter  time.Time
	CreatedBefore time.Time
	ExpiresBefore time.Time
	Deleted       bool // deleted links that can be restored; no other filter may be set
}

func (f *Filter) values() url.Values {
	v := filled(map[string]string{"q": f.Words, "search": f.Typed, "domain": f.Domain, "active": f.Active, "expired": f.Expired})
	v["tag"] = f.Tags
	if f.Deleted {
		v.Set("deleted", "true")
	}
	for name, t := range map[string]time.Time{
		"created_after": f.CreatedAfter, "created_before": f.CreatedBefore, "expires_before": f.ExpiresBefore,
	} {
		if !t.IsZero() {
			v.Set(name, t.Format(time.RFC3339Nano))
		}
	}
	return v
}

// Search returns one page of at most limit links that match a filter. Sort is the
// parameter of the API; "" is newest first. An empty cursor begins at the first page.
func (l Links) Search(ctx context.Context, f Filter, sort string, limit int, cursor string) (Page, error) {
	query := f.values()
	maps.Copy(query, filled(map[string]string{"limit": strconv.Itoa(limit), "sort": sort, "cursor": cursor}))
	var listed api.LinkPage
	got, err := l.c.fetch(ctx, http.MethodGet, api.PathLinks+"?"+query.Encode(), nil, nil, &listed)
	if err != nil {
		return Page{}, err
	}
	p := Page{Links: listed.Links, Next: listed.Next}
	if at, err := http.ParseTime(got.header.Get("Date")); err == nil {
		p.Time = at
	}
	return p, nil
}

// List returns one page of at most limit links, newest first.
func (l Links) List(ctx context.Context, limit int, cursor string) (Page, error) {
	return l.Search(ctx, Filter{}, "", limit, cursor)
}

// Tags returns tags with a prefix, and the one after which the next page begins, "" at
// the end.
func (l Links) Tags(ctx context.Context, prefix, after string, limit int) (tags []api.TagCount, next string, err error) {
	var page api.TagPage
	query := url.Values{"prefix": {prefix}, "after": {after}, "limit": {strconv.Itoa(limit)}}
	err = l.c.do(ctx, http.MethodGet, api.PathTags+"?"+query.Encode(), nil, &page)
	return page.Tags, page.Next, err
}

// Exported describes an export. Next is the cursor of the next one, "" at the end.
type Exported struct {
	Links int
	Next  string
}

// Export copies up to limit links that match a filter to a writer, in a format of the
// API, beginning behind an earlier export's cursor. After an error, the written part
// must be discarded.
func (l Links) Export(ctx context.Context, f Filter, format string, raw bool, after string, limit int, to io.Writer) (Exported, error) {
	query := f.values()
	maps.Copy(query, filled(map[string]string{"format": format, "limit": strconv.Itoa(limit), "after": after}))
	if raw {
		query.Set("raw", "true")
	}
	ends, err := l.c.copy(ctx, api.PathLinks+"/export?"+query.Encode(), to)
	if err != nil {
		return Exported{}, err
	}
	links, err := strconv.Atoi(ends.Get(api.HeaderLinks))
	if err != nil {
		return Exported{}, l.c.foreign(errors.New("the export has no end"))
	}
	return Exported{Links: links, Next: ends.Get(api.HeaderCursor)}, nil
}
