package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"waypost/controlplane"
	"waypost/controlplane/limit"
)

// refusals logs requests that were refused with 401, 403 or 429, at a bounded rate: a
// refusal of the same route, sender and status once in refusalEvery, and refusals of one
// status up to refusalBurst at once and then one in refusalAgain.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	logged map[refused]time.Time
	kinds  map[int]*refusedKind // by status
}

const (
	refusalBurst = 20
	refusalAgain = 3 * time.Second
)

// refused describes a refused request without its secrets.
type refused struct {
	status     int
	route      string
	credential string // the part that may be shown; "" without a well-formed credential
	workspace  string // slug; "" if the sender is unknown
	network    netip.Prefix
}

// refusedKind holds the refusals of one status.
type refusedKind struct {
	limiter *rate.Limiter
	omitted int // since the last line
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, logged: make(map[refused]time.Time), kinds: make(map[int]*refusedKind)}
}

// logRefusal logs a refusal, or counts it for the next line of its status.
func (f *refusals) logRefusal(ctx context.Context, is refused, reason string, now time.Time) {
	f.mu.Lock()
	kind := f.kinds[is.status]
	if kind == nil {
		kind = &refusedKind{limiter: rate.NewLimiter(rate.Every(refusalAgain), refusalBurst)}
		f.kinds[is.status] = kind
	}
	last, known := f.logged[is]
	if known && now.Sub(last) < refusalEvery || !kind.limiter.AllowN(now, 1) {
		kind.omitted++
		f.mu.Unlock()
		return
	}
	if len(f.logged) >= maxRefusals {
		clear(f.logged)
	}
	f.logged[is] = now
	omitted := kind.omitted
	kind.omitted = 0
	f.mu.Unlock()
	network := ""
	if is.network.IsValid() {
		network = is.network.String()
	}
	f.log.WarnContext(ctx, "refused a request", "status", is.status, "route", is.route, "credential", is.credential,
		"workspace", is.workspace, "network", network, "reason", reason, "omitted", omitted)
}

// isRefusal reports whether a status says that the sender may not do this, or not now.
func isRefusal(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusTooManyRequests
}

// shownCredential returns the part of a credential that may be shown: the prefix of an
// API key, and the kind of a session. A text of any other form may be a password.
func shownCredential(credential string) string {
	switch {
	case controlplane.ValidKey(credential):
		return credential[:controlplane.KeyDisplay]
	case controlplane.IsSession(credential):
		return "session"
	}
	return ""
}

// refusedSender describes the sender of a refused request.
func refusedSender(r *http.Request, status int, s *sender) refused {
	return refused{
		status: status, route: r.Pattern, credential: shownCredential(credentialOf(r)), workspace: s.actor.Slug,
		network: limit.Around(s.client),
	}
}
