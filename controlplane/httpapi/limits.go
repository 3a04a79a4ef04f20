package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane/limit"
)

// Limits bound how often a credential may ask, and how often somebody may guess one.
// Nil fields limit nothing.
type Limits struct {
	Requests *limit.Requests
	Guesses  *limit.Guesses

	// Client gives the address of who sent a request; default: that of the connection.
	Client func(*http.Request) netip.Addr
}

const codeRateLimited waypost.ErrorCode = "rate-limited"

// itemsPerRequest is how many links of a bulk request count as a request more.
const itemsPerRequest = 100

// signInsAtOnce is how many passwords from one address are checked, or wait for that, at
// the same moment; all together are bounded in package controlplane.
const signInsAtOnce = 4

// limit counts a request that is authenticated, and tells the client in the headers
// of the answer, whatever that becomes, how many more it may send.
func (s *server) limit(answer http.Header, credential string) error {
	d, limited := s.limits.Requests.Take(credential)
	if !limited {
		return nil
	}
	answer.Set("RateLimit-Limit", strconv.Itoa(d.Limit))
	answer.Set("RateLimit-Remaining", strconv.Itoa(d.Remaining))
	answer.Set("RateLimit-Reset", seconds(d.Reset))
	if d.OK {
		return nil
	}
	s.metrics.limited.WithLabelValues("requests").Inc()
	return tooMany("this API key has used up its requests", d.Retry)
}

// large counts a request of n items as the several that it is, from the next on.
func (s *server) large(ctx context.Context, n int) {
	s.limits.Requests.Owe(askerFrom(ctx).credential, n/itemsPerRequest)
}

func tooMany(detail string, retry time.Duration) *problem {
	p := newProblem(codeRateLimited, detail)
	p.header.Set("Retry-After", seconds(max(time.Second, retry)))
	return p
}

func seconds(d time.Duration) string { return strconv.Itoa(int((d + time.Second - 1) / time.Second)) }

// peer is the address of a request's connection.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr()
}

// documentLimits adds to every operation that needs a scope what limits answer.
func documentLimits(document *huma.OpenAPI) {
	for _, item := range document.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete, item.Head} {
			if op == nil || len(op.Security) == 0 {
				continue
			}
			op.Responses["429"] = problems(http.StatusTooManyRequests)["429"]
			for status, response := range op.Responses {
				if status == "401" || status == "default" {
					continue
				}
				if response.Headers == nil {
					response.Headers = map[string]*huma.Param{}
				}
				response.Headers["RateLimit-Limit"] = textHeader("Requests that the key may send at once, when the installation limits them.")
				response.Headers["RateLimit-Remaining"] = textHeader("How many of them are left.")
				response.Headers["RateLimit-Reset"] = textHeader("Seconds until all are there again.")
			}
		}
	}
}
