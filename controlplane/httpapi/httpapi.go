// Package httpapi is the control plane's public HTTP API: it reads requests, calls the
// services of package controlplane and writes their answers, and it describes itself in
// an OpenAPI document. Package api declares the bodies.
//
// It checks the form of requests only. Package controlplane decides which targets and
// codes are allowed, and who may do what. The package opens no listener and starts no
// goroutine.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/internal/semaphore"
)

// Services are the parts of a control plane that the API shows, all of them required.
// Many goroutines call them at once. Their methods must return soon after their context
// has ended. The types of package controlplane and its subpackages with the names of
// these interfaces document the methods.
//
// Their errors carry a [waypost.ErrorCode] and a message for the client. A passing
// failure, such as a database out of reach, is EUnavailable. An error without a code is a
// fault of the control plane: it is logged, and the client does not see it.
type Services struct {
	Links        Links
	Domains      Domains
	Keys         Keys
	Clicks       Clicks
	Budgets      Budgets
	Blocks       Blocks
	Access       Access
	Workspaces   Workspaces
	Fleet        Fleet
	Nodes        Nodes
	Orders       Orders
	Cleanup      Cleanup
	Digests      Digests
	Certificates Certificates
	Imports      Imports
}

// missing names a service that is not there; "" when all are.
func (s *Services) missing() string {
	for _, f := range reflect.VisibleFields(typeOf[Services]()) {
		if reflect.ValueOf(s).Elem().FieldByIndex(f.Index).IsNil() {
			return f.Name
		}
	}
	return ""
}

// Config holds the services and settings of the API. Services and BaseURL are required.
type Config struct {
	Services

	BaseURL string // short URLs are this, a slash and the code
	Node    string // name of this control plane, for operators

	// FleetURL is the URL at which edges reach this control plane. Empty: they use the
	// API's, or the URL is not known.
	FleetURL string

	Version string // of the product; default "unknown"
	Contact string // whom visitors of a blocked link may ask; "": the answer names none

	// Anonymous is the actor of requests without a credential that were sent to a loopback
	// address, localhost or the base URL's host. Nil: such requests are refused.
	Anonymous *controlplane.Actor

	// Limits bound requests and failed attempts to authenticate; default: no limit.
	Limits Limits

	// Origins are those of web pages that may call the API with a key; "*" stands for all.
	Origins []string

	// Console serves the console under [ConsolePath]; nil: no console.
	Console http.Handler

	// Stopping is closed when the control plane is about to stop: live streams end then.
	// Nil: they end with their connections.
	Stopping <-chan struct{}

	// RequestTimeout bounds the time from a request's headers to its answer;
	// default 5 s.
	RequestTimeout time.Duration

	Logger  *slog.Logger          // default: nothing is logged
	Metrics prometheus.Registerer // default: metrics are not registered
	Now     func() time.Time      // default time.Now; a time to live counts from it
}

// ConsolePath is the path of the console; all paths below it are the console's, too.
const ConsolePath = "/console"

// New builds the API. It panics when a service is missing, and when the metrics are
// already registered, which are errors of the program.
func New(c Config) http.Handler {
	if name := c.missing(); name != "" {
		panic("httpapi: Config lacks the service " + name)
	}
	c.BaseURL = strings.TrimSuffix(c.BaseURL, "/")
	if c.Version == "" {
		c.Version = "unknown"
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = 5 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Limits.Client == nil {
		c.Limits.Client = peer
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	urls := newShortURLs(c.BaseURL)
	metrics := newMetrics(c.Metrics)
	auth := &authenticator{
		access: c.Access, anonymous: c.Anonymous, baseHost: urls.host, limits: c.Limits,
		signIns: newSignIns(), origins: http.NewCrossOriginProtection(), metrics: metrics,
	}
	rt := &router{
		mux: http.NewServeMux(), console: c.Console, document: newDocument(c.Version, c.BaseURL, c.Anonymous != nil), auth: auth,
		timeout: c.RequestTimeout, log: c.Logger, metrics: metrics, refusals: newRefusals(c.Logger, c.Workspaces.NoteRefusals),
		large:       semaphore.NewKeyed[waypost.WorkspaceID](largeAtOnce, largeAtOnceOfOne),
		largeMemory: semaphore.NewKeyed[waypost.WorkspaceID](largeMemory, largeMemoryOfOne),
	}
	registerService(rt, &c)
	registerLinks(rt, &linksAPI{
		links: c.Links, budgets: c.Budgets, blocks: c.Blocks, orders: c.Orders, urls: urls, waiter: c.Fleet, auth: auth,
		timeout: c.RequestTimeout, now: c.Now, contact: c.Contact,
		exports: semaphore.NewKeyed[waypost.WorkspaceID](maxExports, maxTheirs),
		pages:   semaphore.NewKeyed[waypost.WorkspaceID](exportPages, exportPages/2),
	})
	registerImports(rt, &importsAPI{imports: c.Imports, timeout: c.RequestTimeout})
	registerStatistics(rt, &statisticsAPI{clicks: c.Clicks, host: urls.host, auth: auth})
	registerKeys(rt, &keysAPI{keys: c.Keys, auth: auth})
	registerRanges(rt, &rangesAPI{keys: c.Keys})
	sessions := &sessionAPI{access: c.Access, auth: auth}
	registerSession(rt, sessions)
	registerFactors(rt, sessions)
	registerAPIKeys(rt, c.Access)
	registerWorkspaces(rt, c.Workspaces)
	registerUsers(rt, c.Workspaces)
	registerDomains(rt, &domainsAPI{domains: c.Domains, waiter: c.Fleet, certificates: c.Certificates})
	registerBlocks(rt, &blocksAPI{blocks: c.Blocks, urls: urls})
	fleet := &fleetAPI{fleet: c.Fleet, blocks: c.Blocks, nodes: c.Nodes, orders: c.Orders, clicks: c.Clicks, url: c.FleetURL, log: c.Logger}
	registerFleet(rt, fleet)
	registerLive(rt, &liveAPI{clicks: c.Clicks, fleet: fleet, auth: auth, stopping: c.Stopping})
	registerAdmin(rt, &adminAPI{workspaces: c.Workspaces, cleanup: c.Cleanup, digests: c.Digests, node: c.Node})
	rt.document.serve(rt.mux)
	return allowOrigins(c.Origins, rt)
}

// shortURLs makes the URLs that visitors follow.
type shortURLs struct {
	base, host, port string // port: "" for the scheme's own
}

func newShortURLs(base string) shortURLs {
	u, err := url.Parse(base)
	if err != nil {
		return shortURLs{base: base}
	}
	return shortURLs{base, waypost.HostName(u.Host), u.Port()}
}

// of returns the short URL of a link: the base URL, with the host of the link's own
// domain if it has one. Characters beyond ASCII are percent-encoded. The URL of a pattern
// has its placeholders as they are, for people to read.
func (s *shortURLs) of(l *waypost.Link) string {
	return s.at(l.Host, l.Code)
}

// at returns the short URL of a code under a host, "" for the default domain.
func (s *shortURLs) at(host string, code waypost.Code) string {
	base := s.base
	if host != "" {
		if u, err := url.Parse(base); err == nil {
			if u.Host = host; u.Port() == "" && s.port != "" {
				u.Host += ":" + s.port
			}
			base = strings.TrimSuffix(u.String(), "/")
		}
	}
	path := waypost.AppendEncoded(nil, string(code))
	return base + "/" + strings.NewReplacer("%7B", "{", "%7D", "}").Replace(string(path))
}

type serviceOutput struct {
	Instead responder
	Body    api.Service
}

type healthOutput struct {
	Status int
	Body   api.Health
}

// rootTimeout bounds the look-up of the root's target. A client that asks for the root
// may be a program that checks whether the service runs, which it does without a
// database.
const rootTimeout = time.Second

func registerService(rt *router, c *Config) {
	handle(rt, operation{
		id: "service", method: http.MethodGet, path: "/", summary: "Name and version of the service", anyQuery: true,
		description: "Under the host of a domain with a root target: a redirect to it. Otherwise browsers are redirected to the console.",
		problems:    []int{http.StatusNotFound},
		answers: map[int]answer{
			http.StatusOK:    {Description: "OK", Content: map[string]media{jsonType: {&schema{Ref: "#/components/schemas/Service"}}}},
			http.StatusFound: {Description: "The root of a domain with a target, or the console", Headers: redirectHeaders},
		},
	}, func(ctx context.Context, _ *struct{}) (*serviceOutput, error) {
		limited, cancel := context.WithTimeout(ctx, rootTimeout)
		defer cancel()
		res, leads, err := c.Domains.Root(limited, callFrom(ctx).request.Host)
		if err != nil {
			c.Logger.WarnContext(ctx, "cannot look up the root's target", "error", err)
		} else if leads {
			return &serviceOutput{Instead: redirect(res)}, nil
		}
		if c.Console != nil && strings.Contains(callFrom(ctx).request.Header.Get("Accept"), "text/html") {
			return &serviceOutput{Instead: redirect{Status: http.StatusFound, Location: []byte(ConsolePath)}}, nil
		}
		return &serviceOutput{Body: api.Service{Service: "waypost", Version: c.Version}}, nil
	})
	rt.document.schemas.component(typeOf[api.Service]())

	handle(rt, operation{
		id: "health", method: http.MethodGet, path: "/health", summary: "Whether links can be created", anyQuery: true,
		problems: []int{http.StatusNotFound},
		answers: map[int]answer{http.StatusServiceUnavailable: {
			Description: "The database is out of reach",
			Headers:     map[string]header{"Retry-After": textHeader("Seconds to wait before another try.")},
			Content: map[string]media{
				jsonType:    {&schema{Ref: "#/components/schemas/Health"}},
				problemType: {&schema{Ref: "#/components/schemas/Problem"}},
			},
		}},
	}, func(ctx context.Context, _ *struct{}) (*healthOutput, error) {
		h := c.Keys.Health(ctx)
		out := &healthOutput{Status: http.StatusOK, Body: api.Health{
			Status: "healthy", Timestamp: c.Now().UTC(), Version: c.Version, KGSPoolSize: h.KeyPoolSize, Database: "connected",
		}}
		if !h.Database {
			out.Status, out.Body.Status, out.Body.Database = http.StatusServiceUnavailable, "unhealthy", "disconnected"
		}
		return out, nil
	})
}

// moment returns a time in UTC; nil for zero.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// known returns v; nil unless it is known.
func known[T any](v T, ok bool) *T {
	if !ok {
		return nil
	}
	return &v
}

// textOrNull returns a text; nil for an empty one.
func textOrNull(text string) *string { return known(text, text != "") }

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
