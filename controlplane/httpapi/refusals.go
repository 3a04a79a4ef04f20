package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/limit"
)

// refusals logs requests that were refused with 401, 403 or 429, at a bounded rate: a
// refusal of the same route, sender and status once in refusalEvery, and refusals of one
// status up to refusalBurst at once and then one in refusalAgain. Repeated refusals are
// noted in the audit log too.
type refusals struct {
	log  *slog.Logger
	note func(context.Context, controlplane.Actor, controlplane.RefusedRequests) error

	mu       sync.Mutex
	logged   map[refused]time.Time
	kinds    map[int]*refusedKind // by status
	repeated map[repeatedRefusal]*tally
}

const (
	refusalBurst = 20
	refusalAgain = 3 * time.Second

	// manyRefusals of one workspace and status within repeatedEvery are noted in the audit
	// log, once in that time. Unknown senders count as one workspace.
	manyRefusals  = 100
	repeatedEvery = time.Hour
)

type repeatedRefusal struct {
	workspace waypost.WorkspaceID // 0: the sender is unknown
	status    int
}

type tally struct {
	since time.Time
	count int
}

// refused describes a refused request without its secrets.
type refused struct {
	status     int
	route      string
	credential string // the part that may be shown; "" without a well-formed credential
	workspace  string // slug; "" if the sender is unknown
	network    netip.Prefix
}

func (r *refused) shownNetwork() string {
	if !r.network.IsValid() {
		return ""
	}
	return r.network.String()
}

// refusedKind holds the refusals of one status.
type refusedKind struct {
	limiter *rate.Limiter
	omitted int // since the last line
}

func newRefusals(log *slog.Logger, note func(context.Context, controlplane.Actor, controlplane.RefusedRequests) error) *refusals {
	return &refusals{
		log: log, note: note, logged: make(map[refused]time.Time), kinds: make(map[int]*refusedKind), repeated: make(map[repeatedRefusal]*tally),
	}
}

// handleRefusal logs a refusal, and notes it in the audit log if it is one of many.
func (f *refusals) handleRefusal(ctx context.Context, by controlplane.Actor, is refused, reason string, now time.Time) {
	f.logRefusal(ctx, is, reason, now)
	if !f.isOneOfMany(repeatedRefusal{by.Workspace, is.status}, now) {
		return
	}
	err := f.note(ctx, by, controlplane.RefusedRequests{
		Status: is.status, AtLeast: manyRefusals, Route: is.route, Credential: is.credential, Network: is.shownNetwork(),
	})
	if err != nil {
		f.log.WarnContext(ctx, "cannot note refused requests in the audit log", "workspace", is.workspace, "status", is.status, "error", err)
	}
}

// isOneOfMany counts a refusal, and reports whether it is to be noted.
func (f *refusals) isOneOfMany(of repeatedRefusal, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.repeated[of]
	if t == nil || now.Sub(t.since) >= repeatedEvery {
		if t == nil && len(f.repeated) >= maxRefusals {
			clear(f.repeated)
		}
		t = &tally{since: now}
		f.repeated[of] = t
	}
	t.count++
	return t.count == manyRefusals
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
	f.log.WarnContext(ctx, "refused a request", "status", is.status, "route", is.route, "credential", is.credential,
		"workspace", is.workspace, "network", is.shownNetwork(), "reason", reason, "omitted", omitted)
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
