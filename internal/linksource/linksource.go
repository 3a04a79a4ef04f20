// Package linksource reads the links of other services through their APIs, and writes
// them as JSON lines, which package linkfile reads as the format with the name of the
// service. The services may be slow, wrong or hostile: requests, answers and links are
// bounded. The package judges no links.
package linksource

import (
	"cmp"
	"context"
	"crypto/sha256"
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
	Name string // of its format, too
	Base string // address of the API; "": each installation has its own
	read func(context.Context, *reader) error

	id   string // names whose values belong to one link alone
	more string // further names that a line has
}

// Sources lists the services.
func Sources() []Source {
	return []Source{
		{"shlink", "", readShlink, "domain shortCode", "longUrl title tags dateCreated meta visitsSummary forwardQuery rules"},
		{"kutt", "", readKutt, "domain address", "target description created_at expire_in password banned"},
		{"bitly", "https://api-ssl.bitly.com", readBitly, "id", "long_url custom_bitlinks title tags created_at"},
	}
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
		Config: c, from: s, base: base, http: &http.Client{Timeout: c.Timeout, CheckRedirect: stay}, header: make(http.Header),
		seen: make(map[[sha256.Size]byte]struct{}), to: json.NewEncoder(to),
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

// link is a link as the API of its service has it.
type link map[string]json.RawMessage

// reader reads one source.
type reader struct {
	Config
	from   Source
	base   *url.URL
	http   *http.Client
	header http.Header
	told   int // links, as the source says

	to   *json.Encoder
	seen map[[sha256.Size]byte]struct{} // ids, which may be long
}

// writePage writes the links of a page that were on no page before: links move to later
// pages while others are created. An API that sends the same page forever is refused,
// because it has no end. Each line has all names, because an import maps the names of the
// first lines.
func (r *reader) writePage(links []link) error {
	before := len(r.seen)
	for _, l := range links {
		line, names := make(link), ""
		for name := range strings.FieldsSeq(r.from.id) {
			line[name] = l[name]
			names += string(l[name]) + " "
		}
		id := sha256.Sum256([]byte(names))
		if _, there := r.seen[id]; there {
			continue
		}
		for name := range strings.FieldsSeq(r.from.more) {
			line[name] = l[name]
		}
		if len(r.seen) == maxLinks {
			return fmt.Errorf("it has more than %d links", maxLinks)
		}
		r.seen[id] = struct{}{}
		if err := r.to.Encode(line); err != nil {
			return err
		}
	}
	if len(links) > 0 && len(r.seen) == before {
		return errors.New("the API sends the same links again, and no end")
	}
	r.Progress(len(r.seen))
	return nil
}

// failure is an answer that is of no use.
type failure struct {
	text    string
	passing bool          // a later answer may be another one
	after   time.Duration // to wait, as the API asks
}

func (f *failure) Error() string { return f.text }

// failureOf describes an answer with a status that is no success.
func failureOf(answer *http.Response, text string) *failure {
	status := answer.StatusCode
	switch {
	case status >= 300 && status < 400:
		return &failure{text: "the API redirects to " + answer.Header.Get("Location") + ": name that address"}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return &failure{text: fmt.Sprintf("the API refuses the key (%d): %s", status, text)}
	case status == http.StatusNotFound:
		return &failure{text: "the API has no such address (404): is this its address, and its version known?"}
	}
	passing := status >= 500 || status == http.StatusTooManyRequests
	return &failure{fmt.Sprintf("the API answers %d: %s", status, text), passing, retryAfter(answer.Header)}
}

// get asks the API, again when that is of use, and decodes the answer.
func (r *reader) get(ctx context.Context, path string, query url.Values, into any) error {
	address := r.base.JoinPath(path)
	address.RawQuery = query.Encode()
	return client.Retry{Tries: maxTries, Again: r.again, Pause: r.Pause}.Do(ctx, func() error {
		return r.try(ctx, address.String(), into)
	})
}

// again reports whether another try is of use: not after a refusal.
func (r *reader) again(err error) (after time.Duration, ok bool) {
	bad, is := errors.AsType[*failure](err)
	if !is {
		return 0, true
	}
	if bad.after > maxWait {
		return 0, false
	}
	if bad.after > time.Minute {
		r.Note("the API asks to wait for " + bad.after.String())
	}
	return bad.after, bad.passing
}

func (r *reader) try(ctx context.Context, address string, into any) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return &failure{text: err.Error()}
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
		return &failure{text: fmt.Sprintf("an answer is longer than %d MB", maxAnswer>>20)}
	case response.StatusCode != http.StatusOK:
		return failureOf(response, strings.ToValidUTF8(string(body[:min(len(body), 200)]), ""))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &failure{text: "the answer is not the JSON of this API (is this its address?): " + err.Error()}
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
