// Package httpapi is the control plane's public HTTP API: it reads requests,
// asks a [Links] for the answer and writes it, and describes itself in an
// OpenAPI document.
//
// It holds no rule about links but for the shape of a request: what a target may
// be, which codes are free and who may do what is decided in package
// controlplane. It opens no listener and starts no goroutine.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/limit"
)

// Links answers what the API is asked. All methods may be called by many
// goroutines at once, and must return soon after their context has ended.
//
// An error carries a [waypost.ErrorCode] and a message fit for the client. What
// passes by itself, such as a database out of reach, is EUnavailable; an error
// without a code is a fault of ours, is logged, and is not shown.
type Links interface {
	// CreateBulk makes up to [waypost.MaxBulk] links, each with its own outcome, in the
	// order of ns. An error is that of all: nothing happened, or nobody knows. The
	// position is that of the last change, zero when there was none. When it returns
	// without an error the links are durable. EMalformed says that a target is no
	// URL, EInvalid that a rule forbids it, EConflict that a custom code is taken,
	// EExhausted that the region has no key left.
	CreateBulk(ctx context.Context, actor controlplane.Actor, ns []controlplane.NewLink) ([]controlplane.Outcome, waypost.Position, error)

	LinkEditor

	// Stats finds a link of the actor's workspace for its clicks, also when it has
	// expired: ENotFound when it is unknown or deleted.
	Stats(ctx context.Context, actor controlplane.Actor, code string) (waypost.Link, error)

	LinkLister

	// Resolve gives what a visitor of a code gets, by all that was written here. The host is as the
	// client sent it. Unknown, deleted and expired codes are resolutions, not errors.
	Resolve(ctx context.Context, host string, v *waypost.Visit) (waypost.Resolution, error)

	// Authenticate gives the actor that a key stands for, EUnauthorized when none.
	// Keys of any text up to 512 bytes may come.
	Authenticate(ctx context.Context, key string) (controlplane.Actor, error)

	// Health tells how the control plane is; it never fails.
	Health(ctx context.Context) controlplane.Health
}

// Config is what the API needs. Only Links and BaseURL have no default.
type Config struct {
	Links   Links
	BaseURL string // short URLs are this, a slash and the code
	Version string // of the product; default "unknown"

	// Fleet answers who serves. Nil: the API has no operation for that.
	Fleet Fleet

	// Nodes looks after the credentials of edges. Nil: the API has no operations for that.
	Nodes Nodes

	// Orders passes on what is asked of edges. Nil: the API has no operations for that.
	Orders Orders

	// Domains answers for hosts. Nil: the API has no operations for that, and no
	// domain's root leads anywhere.
	Domains Domains

	// Cleanup tells what the reapers did. Nil: the API has no operation for that.
	Cleanup Cleanup

	// Statistics answers for clicks. Nil: the API has the short old form only.
	Statistics Statistics

	// Waiter knows when edges have a change. Nil: nobody waits.
	Waiter Waiter

	// Keys looks after key ranges. Nil: the API has no operations for that.
	Keys Keys

	// Access looks after workspaces, users, sessions and API keys. Nil: the API has
	// no operations for that, and knows no sessions.
	Access Access

	// Anonymous is who asks when a request carries no key at all, and was sent to
	// a loopback address, localhost or the base URL's host. Nil: such requests are
	// refused.
	Anonymous *controlplane.Actor

	// Limits bound requests and failed attempts to authenticate; default: nothing does.
	Limits Limits

	// RequestTimeout bounds the time from a request's headers to its answer;
	// default 5 s.
	RequestTimeout time.Duration

	Logger  *slog.Logger          // default: nothing is logged
	Metrics prometheus.Registerer // default: metrics are not registered
	Now     func() time.Time      // default time.Now; what a time to live counts from
}

// server holds what the handlers share.
type server struct {
	links      Links
	fleet      Fleet
	nodes      Nodes
	orders     Orders
	domains    Domains
	statistics Statistics
	keys       Keys
	waiter     Waiter
	access     Access
	cleanup    Cleanup
	baseURL    string
	baseHost   string
	basePort   string // "" for the scheme's own
	version    string
	anonymous  *controlplane.Actor
	limits     Limits
	signIns    *limit.AtOnce // passwords that are being checked
	timeout    time.Duration
	bulky      chan struct{} // one token for each large body in memory
	exports    exports
	log        *slog.Logger
	now        func() time.Time
	metrics    metrics
	origins    *http.CrossOriginProtection
	mux        *http.ServeMux
	directs    map[string]http.HandlerFunc // by path, for POST
	api        huma.API
}

// New builds the API. It panics when Links is nil, or when the metrics are
// already registered: both are errors of the program.
func New(c Config) http.Handler {
	if c.Links == nil {
		panic("httpapi: Config.Links is nil")
	}
	s := &server{
		links:      c.Links,
		fleet:      c.Fleet,
		nodes:      c.Nodes,
		orders:     c.Orders,
		domains:    c.Domains,
		statistics: c.Statistics,
		keys:       c.Keys,
		waiter:     c.Waiter,
		access:     c.Access,
		cleanup:    c.Cleanup,
		baseURL:    strings.TrimSuffix(c.BaseURL, "/"),
		version:    c.Version,
		anonymous:  c.Anonymous,
		limits:     c.Limits,
		signIns:    limit.NewAtOnce(signInsAtOnce),
		timeout:    c.RequestTimeout,
		bulky:      make(chan struct{}, maxBulky),
		log:        c.Logger,
		now:        c.Now,
		metrics:    newMetrics(c.Metrics),
		origins:    http.NewCrossOriginProtection(),
		mux:        http.NewServeMux(),
		directs:    map[string]http.HandlerFunc{},
	}
	if u, err := url.Parse(s.baseURL); err == nil {
		s.baseHost, s.basePort = waypost.HostName(u.Host), u.Port()
	}
	if s.version == "" {
		s.version = "unknown"
	}
	if s.timeout <= 0 {
		s.timeout = 5 * time.Second
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.limits.Client == nil {
		s.limits.Client = peer
	}
	if s.now == nil {
		s.now = time.Now
	}

	document := describe(s.version)
	if s.access != nil {
		document.Components.SecuritySchemes[bearerScheme].Description = "An API key, or the token of a session."
		document.Components.SecuritySchemes[cookieScheme] = &huma.SecurityScheme{
			Type: "apiKey", In: "cookie", Name: sessionCookie, Description: "A session that was begun with a cookie. Pages of other origins cannot use it.",
		}
	}
	s.api = humago.New(exactRoot{s.mux}, document)
	s.api.UseMiddleware(s.authenticate, s.strictQuery, s.readBody)
	s.registerService()
	s.registerLinks()
	s.registerEdit()
	s.registerBulk()
	s.registerListing()
	s.registerExport()
	s.registerShorten()
	s.registerStats()
	s.registerForget()
	s.registerFleet()
	s.registerNodes()
	s.registerOrders()
	s.registerDomains()
	s.registerDomainEdit()
	s.registerKeys()
	s.registerRanges()
	s.registerRangePlan()
	s.registerAudit()
	s.registerAccess()
	s.registerCleanup()
	s.registerRedirect()
	s.serveDocument()
	return http.HandlerFunc(s.serve)
}

// handle registers one operation whose errors, whatever they are, become
// problems.
func handle[I, O any](s *server, op huma.Operation, h func(context.Context, *I) (*O, error)) {
	if s.access != nil && len(op.Security) > 0 {
		op.Parameters = append(op.Parameters, workspaceHeader())
	}
	for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} { // see strictQuery
		if text := strconv.Itoa(status); op.Responses[text] == nil && !slices.Contains(anyQuery, op.OperationID) {
			op.Responses[text] = problems(status)[text]
		}
	}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := h(ctx, in)
		switch err.(type) { //nolint:errorlint // these are never wrapped
		case nil:
			return out, nil
		case *replayed, *notModified:
			return nil, err
		}
		return nil, s.problem(ctx, op.OperationID, err)
	})
}
