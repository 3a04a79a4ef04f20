// Package client is a client of the control plane's HTTP API, which package api declares.
// The waypost program uses it, and other programs may.
//
//	c, err := client.New("https://go.example.com", os.Getenv("WAYPOST_API_KEY"))
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	link, _, err := c.Links.Make(ctx, client.NewLink{OriginalURL: "https://example.com/"}, client.Write{})
//
// Links, edges and imports have methods for what takes more than a request.
// [Get] and [Send] ask all other routes, with the paths and the types of package api:
//
//	me, err := client.Get[api.Me](ctx, c, api.PathMe)
//
// It contains no rule about links: the API decides. A refusal is a [*Problem].
package client

import (
	"bytes"
	"cmp"
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

// maxAnswer bounds an answer in bytes. 1,000 links with all of their fields fit.
const maxAnswer = 64 << 20

// Client is a client of one API. Make it with New. Many goroutines may use it at once.
type Client struct {
	Links   Links
	Edges   Edges
	Imports Imports

	// Slug names the workspace to act in; "" is the only one of the credential. It is set
	// before the client is used.
	Slug string

	// UserAgent names the program to the API, which shows the name in the list of an
	// account's sessions. It is set before the client is used; default: waypost-client.
	UserAgent string

	base string
	key  string
	http *http.Client
}

// New returns a client of the API at base, such as http://127.0.0.1:8080. An empty key
// sends none.
func New(base, key string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the API's address %q is not a URL such as http://127.0.0.1:8080", base)
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		ForceAttemptHTTP2:     true,
	}
	c := &Client{base: strings.TrimSuffix(base, "/"), key: key, http: &http.Client{Transport: transport, CheckRedirect: stay}}
	c.Links, c.Edges, c.Imports = Links{c}, Edges{c}, Imports{c}
	return c, nil
}

// stay keeps a client from following a redirect: the API sends none, and a change that is
// sent on after one becomes a GET.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Base returns the API's address.
func (c *Client) Base() string { return c.base }

// Close frees the connections that are kept open.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Problem is a refusal by the API.
type Problem struct {
	Type       string        `json:"type"`
	Status     int           `json:"status"`
	Title      string        `json:"title"`
	Detail     string        `json:"detail"`
	RequestID  string        `json:"request_id"` // in the log of the control plane; "": the answer has no id
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
	if p.RequestID != "" {
		return fmt.Sprintf("%s (%d, request id %s)", text, p.Status, strconv.QuoteToASCII(p.RequestID[:min(len(p.RequestID), 64)]))
	}
	return fmt.Sprintf("%s (%d)", text, p.Status)
}

// Processed reports whether a failed request may have had an effect: false only when it
// surely had none, so that it can be sent again. A 503 counts as an effect, because an
// unknown outcome is answered that way, too.
func Processed(err error) bool {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Status >= 500
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return !unsendable(err) && (!ok || dial.Op != "dial")
}

// unsendable reports whether a request was not sent because it cannot be JSON.
func unsendable(err error) bool {
	_, is := errors.AsType[*json.MarshalerError](err)
	return is
}

// Passing reports whether another try of a request without effects is of use after err,
// and how long to wait before it.
func Passing(err error) (after time.Duration, ok bool) {
	if p, is := errors.AsType[*Problem](err); is {
		return p.RetryAfter, p.Status >= 500 || p.Status == http.StatusTooManyRequests || p.Status == http.StatusRequestTimeout
	}
	return 0, !unsendable(err)
}

// do sends one request and decodes the answer into out. Nil: the answer has no body.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	_, err := c.fetch(ctx, method, path, nil, in, out)
	return err
}

// fetch is do with a header, and returns the answer as well.
func (c *Client) fetch(ctx context.Context, method, path string, header http.Header, in, out any) (answer, error) {
	got, err := c.exchange(ctx, method, path, header, in)
	if err == nil {
		err = c.decode(got, out)
	}
	return got, err
}

// Get returns the answer of a route.
func Get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return Send[T](ctx, c, http.MethodGet, path, nil)
}

// Send sends a body, unless it is nil, and returns the answer.
func Send[T any](ctx context.Context, c *Client, method, path string, body any) (answer T, err error) {
	err = c.do(ctx, method, path, body, &answer)
	return answer, err
}

// Raw returns the answer of a route as it was sent, in a format that the route has; "" is
// the usual one.
func (c *Client) Raw(ctx context.Context, path, format string) ([]byte, error) {
	var header http.Header
	if format != "" {
		header = http.Header{"Accept": {format}}
	}
	got, err := c.exchange(ctx, http.MethodGet, path, header, nil)
	return got.body, err
}

// Delete asks a route that answers without a body to delete something.
func (c *Client) Delete(ctx context.Context, path string) error {
	return c.do(ctx, http.MethodDelete, path, nil, nil)
}

// Path appends parts to a path of package api, each behind a slash.
func Path(path string, parts ...any) string {
	for _, part := range parts {
		path += "/" + url.PathEscape(fmt.Sprint(part))
	}
	return path
}

// Query returns the parameters that have a value, as the end of a path.
func Query(parameters map[string]string) string {
	query := filled(parameters)
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// filled returns the parameters that have a value.
func filled(parameters map[string]string) url.Values {
	query := url.Values{}
	for name, value := range parameters {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

func (c *Client) decode(got answer, out any) error {
	if out == nil {
		if got.status != http.StatusNoContent {
			return c.foreign(fmt.Errorf("its answer is %d with %d bytes instead of %d", got.status, len(got.body), http.StatusNoContent))
		}
		return nil
	}
	if err := json.Unmarshal(got.body, out); err != nil {
		return c.foreign(err)
	}
	return nil
}

// foreign makes the error for an answer that is not the API's.
func (c *Client) foreign(err error) error {
	return fmt.Errorf("%s does not answer like the API of Waypost: %w", c.base, err)
}

// octets is a body that is sent as it is.
type octets []byte

// request makes a request with a header, and with in as its body, unless that is nil.
func (c *Client) request(ctx context.Context, method, path string, header http.Header, in any) (*http.Request, error) {
	var body io.Reader = http.NoBody
	media := "application/json"
	if raw, ok := in.(octets); ok {
		body, media = bytes.NewReader(raw), "application/octet-stream"
	} else if in != nil {
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
	req.Header.Set("User-Agent", cmp.Or(c.UserAgent, "waypost-client"))
	if in != nil {
		req.Header.Set("Content-Type", media)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if c.Slug != "" {
		req.Header.Set("Waypost-Workspace", c.Slug)
	}
	return req, nil
}

// answer is a successful answer of the API.
type answer struct {
	header http.Header
	status int
	body   []byte
}

// exchange sends one request and returns a successful answer.
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
	if resp.StatusCode >= 300 || resp.StatusCode == http.StatusAccepted {
		return answer{}, problem(resp, body)
	}
	return answer{resp.Header, resp.StatusCode, body}, nil
}

// copy sends a GET request, copies the body of a successful answer to a writer, and
// returns its headers, and those behind the body.
func (c *Client) copy(ctx context.Context, path string, to io.Writer) (http.Header, error) {
	req, err := c.request(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return nil, errors.Join(problem(resp, answer), err, resp.Body.Close())
	}
	_, err = io.Copy(to, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("the answer of %s was cut off: %w", c.base, err)
	}
	maps.Copy(resp.Header, resp.Trailer)
	return resp.Header, nil
}

// unreachable reduces an error of net/http to its cause, and adds advice.
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
	if to := resp.Header.Get("Location"); to != "" && p.Status < http.StatusBadRequest {
		p.Detail = fmt.Sprintf("this is no address of the API, it leads to %s", strconv.QuoteToASCII(to[:min(len(to), 256)]))
	}
	if p.Status == http.StatusBadRequest && resp.Request.URL.Scheme == "http" && bytes.Contains(answer, []byte("to an HTTPS server")) {
		p.Detail = "this port speaks TLS: the address begins with https://"
	}
	if seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16); err == nil {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}
