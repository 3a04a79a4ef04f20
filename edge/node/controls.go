package node

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
)

// controls are the control planes, or relays, that an edge may send requests to. All
// have the same database, so that any of them can answer.
type controls struct {
	urls []*url.URL
	at   atomic.Uint32 // index of the one that is asked
}

func newControls(urls []string) (*controls, error) {
	c := &controls{}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("control plane: %w", err)
		}
		c.urls = append(c.urls, u)
	}
	if len(c.urls) == 0 {
		return nil, errors.New("an edge needs a control plane")
	}
	return c, nil
}

// through returns a transport that sends each request to one of the control planes,
// whatever its host. When one does not answer, or answers 502, 503 or 504, later requests
// go to the next. No request is repeated here.
func (c *controls) through(next http.RoundTripper) http.RoundTripper {
	return &alternating{c, next}
}

type alternating struct {
	controls *controls
	next     http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (a *alternating) RoundTrip(r *http.Request) (*http.Response, error) {
	c := a.controls
	at := c.at.Load()
	to := c.urls[at]
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = to.Scheme, to.Host, ""
	res, err := a.next.RoundTrip(r)
	failed := err != nil
	if !failed {
		switch res.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			failed = true
		}
	}
	if failed {
		c.at.CompareAndSwap(at, (at+1)%uint32(len(c.urls)))
	}
	return res, err
}

// CloseIdleConnections is called by [http.Client].
func (a *alternating) CloseIdleConnections() { closeIdle(a.next) }
