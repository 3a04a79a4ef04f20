// Package client speaks the control plane's HTTP API for the commands of the
// waypost program. It knows no rule about links: what the API answers is final.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxAnswer bounds what is read of an answer: a bulk of 1,000 links with
// everything that a link may hold fits.
const maxAnswer = 64 << 20

// Client talks to one API. Make it with New.
type Client struct {
	// Slug is that of the workspace to act in; "" for the only one of the credential. It
	// is set before the client is used.
	Slug string

	base string
	key  string
	http *http.Client
}

// New gives a client of the API at base, such as http://127.0.0.1:8080. An empty
// key sends none.
func New(base, key string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the API's address %q is no URL such as http://127.0.0.1:8080", base)
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		ForceAttemptHTTP2:     true,
	}
	return &Client{base: strings.TrimSuffix(base, "/"), key: key, http: &http.Client{Transport: transport}}, nil
}

// Base is the API's address.
func (c *Client) Base() string { return c.base }

// Close frees the connections that are kept open.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Problem is a refusal by the API.
type Problem struct {
	Status     int           `json:"status"`
	Title      string        `json:"title"`
	Detail     string        `json:"detail"`
	RetryAfter time.Duration `json:"-"`
}

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if text == "" {
		text = http.StatusText(p.Status)
	}
	if p.Status == http.StatusUnauthorized {
		text += ": run `waypost login`, or set WAYPOST_API_KEY or --api-key-file"
	}
	return fmt.Sprintf("%s (%d)", text, p.Status)
}

// Processed reports whether a failed request may have had an effect: false only
// when it surely had none, so that sending it again cannot do a thing twice. A
// 503 counts as an effect, because an unknown outcome is answered that way too.
func Processed(err error) bool {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Status >= 500
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return !ok || dial.Op != "dial"
}

// Transient reports whether another try of a request that failed with err is
// both safe and of use, and how long the API asks to wait before it.
func Transient(err error) (after time.Duration, ok bool) {
	if p, is := errors.AsType[*Problem](err); is {
		return p.RetryAfter, p.Status == http.StatusTooManyRequests
	}
	return 0, !Processed(err)
}

// Passing reports whether another try of a request that changes nothing is of use
// after err, and how long the API asks to wait before it.
func Passing(err error) (after time.Duration, ok bool) {
	if p, is := errors.AsType[*Problem](err); is {
		return p.RetryAfter, p.Status >= 500 || p.Status == http.StatusTooManyRequests || p.Status == http.StatusRequestTimeout
	}
	return 0, true
}

// do sends one request and reads the answer into out, unless that is nil.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	_, err := c.ask(ctx, method, path, nil, in, out)
	return err
}

// ask is do with headers, of the request and of a good answer.
func (c *Client) ask(ctx context.Context, method, path string, header http.Header, in, out any) (http.Header, error) {
	got, _, err := c.send(ctx, method, path, header, in, out)
	return got, err
}

// send is ask with the status of the answer.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, in, out any) (http.Header, int, error) {
	got, err := c.exchange(ctx, method, path, header, in)
	if err != nil {
		return nil, 0, err
	}
	if out == nil {
		return got.header, got.status, nil
	}
	if err := json.Unmarshal(got.body, out); err != nil {
		return nil, 0, c.foreign(err)
	}
	return got.header, got.status, nil
}

// foreign says that an answer is none of the API's.
func (c *Client) foreign(err error) error {
	return fmt.Errorf("%s does not answer like the API of Waypost: %w", c.base, err)
}

// request makes a request with a header, and with in as its body, unless that is nil.
func (c *Client) request(ctx context.Context, method, path string, header http.Header, in any) (*http.Request, error) {
	var body io.Reader = http.NoBody
	if in != nil {
		var encoded bytes.Buffer
		enc := json.NewEncoder(&encoded)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(in); err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(encoded.Bytes())
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("User-Agent", "waypost-cli")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if c.Slug != "" {
		req.Header.Set("Waypost-Workspace", c.Slug)
	}
	return req, nil
}

// answer is a good answer of the API.
type answer struct {
	header http.Header
	status int
	body   []byte
}

// exchange sends one request and gives a good answer to it.
func (c *Client) exchange(ctx context.Context, method, path string, header http.Header, in any) (answer, error) {
	req, err := c.request(ctx, method, path, header, in)
	if err != nil {
		return answer{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, c.unreachable(err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return answer{}, fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	if len(body) > maxAnswer {
		return answer{}, fmt.Errorf("the answer of %s is larger than %d bytes", c.base, maxAnswer)
	}
	if resp.StatusCode >= 300 {
		return answer{}, problem(resp, body)
	}
	return answer{resp.Header, resp.StatusCode, body}, nil
}

// unreachable drops what net/http says before the cause, and adds what to do.
func (c *Client) unreachable(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if !Processed(err) {
		return fmt.Errorf("no API at %s: is the control plane running? %w", c.base, err)
	}
	return fmt.Errorf("ask %s: %w", c.base, err)
}

func problem(resp *http.Response, answer []byte) error {
	p := &Problem{}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || media != "application/problem+json" || json.Unmarshal(answer, p) != nil {
		*p = Problem{Title: http.StatusText(resp.StatusCode)}
	}
	p.Status = resp.StatusCode
	if seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16); err == nil {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}
