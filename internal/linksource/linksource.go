// Package linksource reads the links of other services through their APIs, and writes
// them as JSON lines with the names of the API of Waypost, which an import reads. The
// services may be slow, wrong or hostile: requests, answers and links are bounded. The
// package judges no links.
package linksource

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"waypost/client"
)

// Bounds of an API.
const (
	maxAnswer = 32 << 20  // bytes
	maxLinks  = 3_000_000 // in all, which an import can take
	maxTries  = 6         // of a request
	maxWait   = time.Hour // that an API may ask for
)

// Source is a service with an API.
type Source struct {
	Name string
	Base string // address of the API; "": each installation has its own
	read func(context.Context, *reader) error
}

// Sources lists the services.
func Sources() []Source {
	return []Source{{"shlink", "", readShlink}, {"kutt", "", readKutt}, {"bitly", "https://api-ssl.bitly.com", readBitly}}
}

// Config says how to read a source.
type Config struct {
	Base     string // address of the API
	Key      string
	Progress func(links int)
	Note     func(text string) // for the owner of the links, such as why it takes long

	// Timeout bounds a request with its answer; default: 60 s.
	Timeout time.Duration

	// Pause waits before a request is sent again; default: [client.Pause].
	Pause func(ctx context.Context, d time.Duration) error
}

// Write writes all links of a source. After an error, the written part must be
// discarded.
func (s Source) Write(ctx context.Context, c Config, to io.Writer) error {
	base, err := url.Parse(strings.TrimSuffix(c.Base, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return fmt.Errorf("%q is no address such as https://go.example.com", c.Base)
	}
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	r := &reader{
		Config: c, base: base, http: &http.Client{Timeout: c.Timeout, CheckRedirect: stay}, header: make(http.Header),
		seen: make(map[string]struct{}), to: json.NewEncoder(to),
	}
	r.to.SetEscapeHTML(false)
	defer r.http.CloseIdleConnections()
	if err := s.read(ctx, r); err != nil {
		return fmt.Errorf("%s at %s, after %d links: %w", s.Name, base.Host, len(r.seen), err)
	}
	if r.told > len(r.seen) {
		c.Note(fmt.Sprintf("%s names %d links, and has sent %d: they may have changed while they were read", s.Name, r.told, len(r.seen)))
	}
	return nil
}

// stay keeps a client from sending the key to another host.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// link is a line that an import reads. Each line has all names, because the names of the
// first lines are mapped.
type link struct {
	OriginalURL    string   `json:"original_url"`
	CustomCode     string   `json:"custom_code"`
	ShortURL       string   `json:"short_url"`
	CustomBitlinks []string `json:"custom_bitlinks"`
	Domain         string   `json:"domain"`
	Title          string   `json:"title"`
	Description    string   `json:"description"`
	Tags           []string `json:"tags"`
	CreatedAt      string   `json:"created_at"`
	ValidFrom      string   `json:"valid_from"`
	ExpiresAt      string   `json:"expires_at"`
	MaxClicks      int64    `json:"max_clicks"`
	ClickCount     int64    `json:"click_count"`
	ForwardQuery   bool     `json:"forward_query"`
	Active         bool     `json:"active"`
	HasPassword    bool     `json:"has_password"`
	Rules          []rule   `json:"rules"`
}

type rule struct {
	To   string           `json:"to"`
	When []map[string]any `json:"when"`
}

// reader reads one source.
type reader struct {
	Config
	base   *url.URL
	http   *http.Client
	header http.Header
	told   int // links, as the source says

	to    *json.Encoder
	seen  map[string]struct{}
	fresh int // links of this page that were on no page before
}

// write writes a link, unless a page before had it: links move to later pages while
// others are created.
func (r *reader) write(l *link) error {
	name := l.ShortURL + " " + l.Domain + " " + l.CustomCode
	if _, there := r.seen[name]; there {
		return nil
	}
	if len(r.seen) == maxLinks {
		return fmt.Errorf("it has more than %d links", maxLinks)
	}
	r.seen[name] = struct{}{}
	r.fresh++
	return r.to.Encode(l)
}

// endPage reports the progress after a page, and refuses a page of links that were there
// before: an API that sends the same page forever has no end.
func (r *reader) endPage(links int) error {
	if links > 0 && r.fresh == 0 {
		return errors.New("the API sends the same links again, and no end")
	}
	r.fresh = 0
	r.Progress(len(r.seen))
	return nil
}

// failure is an answer that is no success.
type failure struct {
	status int
	after  time.Duration // to wait, as the API asks
	text   string
}

func (f *failure) Error() string {
	switch f.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Sprintf("the API refuses the key (%d): %s", f.status, f.text)
	case http.StatusNotFound:
		return "the API has no such address (404): is this its address, and its version known?"
	}
	return fmt.Sprintf("the API answers %d: %s", f.status, f.text)
}

// get asks the API, again when that is of use, and decodes the answer.
func (r *reader) get(ctx context.Context, path string, query url.Values, into any) error {
	address := *r.base
	address.Path, address.RawPath = r.base.Path+path, ""
	if plain, err := url.PathUnescape(path); err == nil {
		address.Path, address.RawPath = r.base.Path+plain, r.base.EscapedPath()+path
	}
	address.RawQuery = query.Encode()
	return client.Retry{Tries: maxTries, Again: r.again, Pause: r.Pause}.Do(ctx, func() error {
		return r.try(ctx, address.String(), into)
	})
}

// again reports whether another try is of use: not after a refusal.
func (r *reader) again(err error) (after time.Duration, ok bool) {
	bad, is := errors.AsType[*failure](err)
	if !is {
		_, isWrong := errors.AsType[*wrongAnswer](err)
		return 0, !isWrong
	}
	if bad.after > maxWait {
		return 0, false
	}
	if bad.after > time.Minute {
		r.Note("the API asks to wait for " + bad.after.String())
	}
	return bad.after, bad.status >= 500 || bad.status == http.StatusTooManyRequests
}

// wrongAnswer is an answer that will not be another one later.
type wrongAnswer struct{ text string }

func (e *wrongAnswer) Error() string { return e.text }

func (r *reader) try(ctx context.Context, address string, into any) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return &wrongAnswer{err.Error()}
	}
	request.Header = r.header
	response, err := r.http.Do(request)
	if err != nil {
		return r.plainError(err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return r.plainError(err)
	case len(body) > maxAnswer:
		return &wrongAnswer{fmt.Sprintf("an answer is longer than %d MB", maxAnswer>>20)}
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return &wrongAnswer{"the API redirects to " + response.Header.Get("Location") + ": name that address"}
	case response.StatusCode != http.StatusOK:
		return &failure{response.StatusCode, retryAfter(response.Header), strings.ToValidUTF8(string(body[:min(len(body), 200)]), "")}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &wrongAnswer{"the answer is not the JSON of this API (is this its address?): " + err.Error()}
	}
	return nil
}

// plainError describes a failed request without its address, which may be long.
func (r *reader) plainError(err error) error {
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return fmt.Errorf("the API has not answered for %s", r.Timeout)
	}
	if bad, ok := errors.AsType[*url.Error](err); ok {
		return bad.Err
	}
	return err
}

// retryAfter reads how long the API asks to wait: seconds, or a date.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), 1<<30)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
