package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Write says how a change is to be made. Zero fields are left to the API.
type Write struct {
	Domain  string        // host of the link's domain; "": the shared one
	Wait    string        // "region" or "all": until those edges have it
	Timeout time.Duration // for that
	IfMatch string        // entity tag of the state to change; "": any
	Key     string        // names the request, which then may be sent again; "": a random one where that is possible
}

// Receipt is what the API says about a change that it has made.
type Receipt struct {
	Position string `json:"position"`
	Applied  string `json:"applied,omitempty"` // what came of waiting
	ETag     string `json:"etag,omitempty"`
	Found    bool   `json:"found,omitempty"` // the link was there before
}

func receiptOf(h http.Header, status int) Receipt {
	return Receipt{Position: h.Get("Waypost-Position"), Applied: h.Get("Waypost-Applied"), ETag: h.Get("ETag"), Found: status == http.StatusOK}
}

func (w Write) query() string {
	q := url.Values{}
	if w.Domain != "" {
		q.Set("domain", w.Domain)
	}
	if w.Wait != "" {
		q.Set("wait", w.Wait)
		if w.Timeout > 0 {
			q.Set("wait_timeout", strconv.FormatFloat(w.Timeout.Seconds(), 'f', -1, 64))
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// maxTries bounds how often a request that may be sent again is sent.
const maxTries = 3

// retryPause is the pause after a first failure; it doubles.
const retryPause = 200 * time.Millisecond

// Make makes one link, or finds the one of its target when that is asked for. The request
// has a name, so that it is sent again when its answer is lost.
func (c *Client) Make(ctx context.Context, n NewLink, w Write) (Link, Receipt, error) {
	key := w.Key
	if key == "" {
		key = rand.Text()
	}
	w.Domain = "" // it is in the body
	var l Link
	for try := 1; ; try++ {
		h, status, err := c.send(ctx, http.MethodPost, linksPath+w.query(), http.Header{"Idempotency-Key": {key}}, n, &l)
		if err == nil {
			r := receiptOf(h, status)
			return l, r, nil
		}
		after, passing := Passing(err)
		if !passing || try == maxTries {
			return Link{}, Receipt{}, err
		}
		timer := time.NewTimer(max(after, retryPause<<(try-1)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return Link{}, Receipt{}, err
		case <-timer.C:
		}
	}
}

// Find gives a link.
func (c *Client) Find(ctx context.Context, domain, code string) (Link, error) {
	var l Link
	err := c.do(ctx, http.MethodGet, linksPath+"/"+url.PathEscape(code)+Write{Domain: domain}.query(), nil, &l)
	return l, err
}

// LinkChange says what to change, by the names of the API's fields. Null takes a field away.
type LinkChange map[string]any

// Change changes a link.
func (c *Client) Change(ctx context.Context, code string, change LinkChange, w Write) (Link, Receipt, error) {
	header := http.Header{}
	if w.IfMatch != "" {
		header.Set("If-Match", w.IfMatch)
	}
	var l Link
	h, _, err := c.send(ctx, http.MethodPatch, linksPath+"/"+url.PathEscape(code)+w.query(), header, change, &l)
	return l, receiptOf(h, 0), err
}

// Remove removes a link.
func (c *Client) Remove(ctx context.Context, code string, w Write) (Receipt, error) {
	h, _, err := c.send(ctx, http.MethodDelete, linksPath+"/"+url.PathEscape(code)+w.query(), nil, nil, nil)
	return receiptOf(h, 0), err
}

// NewDomain is a wish for a domain.
type NewDomain struct {
	Host        string `json:"host"`
	Shared      bool   `json:"shared,omitempty"`
	RootURL     string `json:"root_url,omitempty"`
	NotFoundURL string `json:"not_found_url,omitempty"`
}

// AddDomain adds a domain.
func (c *Client) AddDomain(ctx context.Context, n NewDomain) (Domain, error) {
	var d Domain
	err := c.do(ctx, http.MethodPost, workspaceDomainsPath, n, &d)
	return d, err
}

// RemoveDomain removes a domain, with force also its links.
func (c *Client) RemoveDomain(ctx context.Context, id uint32, force bool) error {
	return c.do(ctx, http.MethodDelete, workspaceDomainsPath+"/"+strconv.FormatUint(uint64(id), 10)+"?force="+strconv.FormatBool(force), nil, nil)
}

const workspaceDomainsPath = "/api/v1/domains"

// Warning is something about a link that its maker should look at.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// RawObject is a JSON object that is passed on as it is.
type RawObject = json.RawMessage
