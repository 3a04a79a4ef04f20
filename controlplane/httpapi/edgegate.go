package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"waypost"
	"waypost/api"
	"waypost/controlplane/fleet"
	"waypost/controlplane/limit"
)

// EdgeNodes judges the credentials of edges. Many goroutines call its methods at once.
type EdgeNodes interface {
	Enrol(ctx context.Context, e *api.Enrol) (fleet.Node, error)

	// Authenticate is EUnauthorized for an unknown credential, EForbidden for a revoked one.
	Authenticate(ctx context.Context, credential string) (fleet.Node, error)

	// Hold returns a context that ends when the node's credential is revoked.
	Hold(ctx context.Context, node *fleet.Node) (held context.Context, release func())

	// MayReport and MayShip are EForbidden when a node may not use a name.
	MayReport(ctx context.Context, node *fleet.Node, name string, region waypost.Region) error
	MayShip(ctx context.Context, node *fleet.Node, name string) error
}

// EdgeGateConfig configures the gate of the routes for edges.
type EdgeGateConfig struct {
	Nodes        EdgeNodes
	SharedToken  string // of all edges; "": none
	Certificates bool   // a client certificate with the node's name is needed as well

	Guesses *limit.Guesses                 // nil: no limit
	Client  func(*http.Request) netip.Addr // default: the peer of the connection
	Logger  *slog.Logger                   // default: nothing is logged

	// Patience bounds the wait of a credential from an address with too many failed
	// attempts; default 5 s.
	Patience time.Duration
}

// Headers in which a follower describes itself: see package replication.
const (
	headerNode   = "Waypost-Node"
	headerRegion = "Waypost-Region"
)

// EdgeGate admits edges only. An edge is identified by its credential: the gate corrects
// the headers in which a request describes its sender.
type EdgeGate struct {
	cfg    EdgeGateConfig
	shared [sha256.Size]byte
	late   *semaphore.Weighted // of credentials from addresses with too many failed attempts

	mu     sync.Mutex
	logged map[string]time.Time // when a reason to refuse an edge was logged last
}

// A refused edge tries again every second; its refusal is logged once in refusalEvery.
// maxRefusals bounds the reasons that are remembered.
const (
	refusalEvery = time.Minute
	maxRefusals  = 1000
)

// logsRefusal reports whether a reason to refuse an edge is to be logged now.
func (g *EdgeGate) logsRefusal(reason string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last, ok := g.logged[reason]; ok && now.Sub(last) < refusalEvery {
		return false
	}
	if g.logged == nil || len(g.logged) >= maxRefusals {
		g.logged = make(map[string]time.Time)
	}
	g.logged[reason] = now
	return true
}

// Credentials from addresses with too many failed attempts wait for one of few look-ups.
const (
	lateAtOnce   = 2
	latePatience = 5 * time.Second
)

// NewEdgeGate makes a gate.
func NewEdgeGate(cfg EdgeGateConfig) *EdgeGate {
	if cfg.Client == nil {
		cfg.Client = peer
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Patience == 0 {
		cfg.Patience = latePatience
	}
	return &EdgeGate{cfg: cfg, shared: sha256.Sum256([]byte(cfg.SharedToken)), late: semaphore.NewWeighted(lateAtOnce)}
}

// Only passes requests of edges to next. Their context ends when the credential is
// revoked.
func (g *EdgeGate) Only(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		node, err := g.admit(r)
		if err != nil {
			g.refuse(w, r, err)
			return
		}
		if node.Name != "" {
			r.Header.Set(headerNode, node.Name)
		}
		if node.Region != "" {
			r.Header.Set(headerRegion, string(node.Region))
		}
		ctx, release := g.cfg.Nodes.Hold(r.Context(), &node)
		defer release()
		ctx = context.WithValue(ctx, edgeKey{}, &edgeSender{g.cfg.Nodes, node})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// admit finds out who sent r.
func (g *EdgeGate) admit(r *http.Request) (node fleet.Node, err error) {
	credential, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !g.isShared(credential) { // cheaper than counting
		err = g.checkCredential(r, credential, fleet.ValidNodeCredential(credential), func() error {
			node, err = g.cfg.Nodes.Authenticate(r.Context(), credential)
			return err
		})
	}
	if err != nil || !g.cfg.Certificates {
		return node, err
	}
	names := certified(r.TLS)
	switch {
	case len(names) == 0:
		return node, errNoCertificate
	case !node.Own():
		node.Name = names[0]
		return node, nil
	}
	return node, certifies(names, node.Name)
}

// isShared reports whether a credential is the token of all edges.
func (g *EdgeGate) isShared(credential string) bool {
	sent := sha256.Sum256([]byte(credential)) // hides its length, which the duration would reveal
	return g.cfg.SharedToken != "" && subtle.ConstantTimeCompare(sent[:], g.shared[:]) == 1
}

// checkCredential checks a credential within the limits on guesses. Kind means that it
// has the form of a credential.
//
// Many edges may share one address, and a valid credential is not refused because of the
// attempts of others there. So beyond the limit a text of the right form is still looked
// up, when its turn comes: guesses among 160 bits need no limit, but the database does.
func (g *EdgeGate) checkCredential(r *http.Request, credential string, kind bool, check func() error) error {
	from := g.cfg.Client(r)
	by, retry := g.cfg.Guesses.Check(from, credential)
	beyond := by == limit.ByAddress || by != "" && kind
	if beyond {
		if !kind || !g.awaitTurn(r.Context()) {
			return tooManyFailed(retry)
		}
		defer g.late.Release(1)
	}
	err := check()
	switch {
	case beyond && waypost.CodeOf(err) == waypost.EUnauthorized:
		return tooManyFailed(retry)
	case waypost.CodeOf(err) == waypost.EUnauthorized:
		if !kind {
			credential = ""
		}
		g.cfg.Guesses.Failed(from, credential)
		p := newProblem(waypost.EUnauthorized, waypost.MessageOf(err))
		p.header.Set("WWW-Authenticate", `Bearer realm="waypost replication"`)
		return p
	case err == nil:
		g.cfg.Guesses.Succeeded(credential)
	}
	return err
}

// awaitTurn waits for one of the look-ups, and reports whether it came in time.
func (g *EdgeGate) awaitTurn(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Patience)
	defer cancel()
	return g.late.Acquire(ctx, 1) == nil
}

func tooManyFailed(retry time.Duration) error {
	return tooMany("too many attempts to authenticate have failed", retry)
}

var errNoCertificate = waypost.Errorf(waypost.EForbidden,
	"this needs a client certificate that names the node, by its common name or as waypost://node/NAME")

func certifies(names []string, node string) error {
	for _, name := range names {
		if name == node {
			return nil
		}
	}
	return waypost.Errorf(waypost.EForbidden, "the client certificate belongs to %s, and the credential to node %s", strings.Join(names, ", "), node)
}

// certified returns the names of nodes in a verified client certificate.
func certified(state *tls.ConnectionState) (names []string) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	leaf := state.VerifiedChains[0][0]
	for _, u := range leaf.URIs {
		if name := strings.TrimPrefix(u.Path, "/"); u.Scheme == "waypost" && u.Host == "node" && waypost.ValidNode(name) {
			names = append(names, name)
		}
	}
	if cn := leaf.Subject.CommonName; len(names) == 0 && waypost.ValidNode(cn) {
		names = append(names, cn)
	}
	return names
}

// refuse answers with a problem, and logs the cause.
func (g *EdgeGate) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		code := waypost.CodeOf(err)
		if code == waypost.EInternal {
			code = waypost.EUnavailable // an edge tries again
			g.cfg.Logger.WarnContext(r.Context(), "cannot judge an edge; it tries again", "error", err)
		}
		if p = newProblem(code, waypost.MessageOf(err)); code == waypost.EUnavailable {
			p.header.Set("Retry-After", "1")
		}
	}
	network := limit.Around(g.cfg.Client(r)).String()
	if isRefusal(p.Status) && g.logsRefusal(r.URL.Path+" "+p.Detail, time.Now()) {
		g.cfg.Logger.WarnContext(r.Context(), "refused an edge", "status", p.Status, "path", r.URL.Path, "network", network, "reason", p.Detail)
	}
	writeProblem(w, p)
}

// edgeSender is the edge that sent a request. Its methods allow everything for nil: there
// is no gate.
type edgeSender struct {
	nodes EdgeNodes
	node  fleet.Node
}

type edgeKey struct{}

// edgeFrom returns the sender of a request; nil without a gate.
func edgeFrom(ctx context.Context) *edgeSender {
	s, _ := ctx.Value(edgeKey{}).(*edgeSender)
	return s
}

func (s *edgeSender) mayReport(ctx context.Context, name string, region waypost.Region) error {
	if s == nil {
		return nil
	}
	return s.nodes.MayReport(ctx, &s.node, name, region)
}

// maySpeak is mayReport for messages that name no region.
func (s *edgeSender) maySpeak(ctx context.Context, name string) error {
	if s == nil {
		return nil
	}
	return s.nodes.MayReport(ctx, &s.node, name, s.node.Region)
}

// name returns the name of an edge with a credential of its own; "" for other edges.
func (s *edgeSender) name() string {
	if s == nil {
		return ""
	}
	return s.node.Name
}

// former returns the names that the edge had before; only its own credential knows any.
func (s *edgeSender) former() []string {
	if s == nil {
		return nil
	}
	return s.node.Former
}

func (s *edgeSender) mayShip(ctx context.Context, name string) error {
	if s == nil {
		return nil
	}
	return s.nodes.MayShip(ctx, &s.node, name)
}

// credential returns the kind of credential with which the edge was admitted.
func (s *edgeSender) credential() string {
	switch {
	case s == nil:
		return ""
	case s.node.Own():
		return fleet.CredentialOwn
	}
	return fleet.CredentialShared
}

const maxEnrol = 4 << 10 // bytes of a body

// Enrol exchanges a token for a credential; the node sends its SHA-256 only. The same
// request gets the same answer again.
func (g *EdgeGate) Enrol(w http.ResponseWriter, r *http.Request) {
	node, err := g.enrol(w, r)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	g.cfg.Logger.InfoContext(r.Context(), "enrolled an edge", "node", node.Name, "region", string(node.Region))
	writeJSON(w, http.StatusOK, &api.Enrolled{Node: node.Name, Region: string(node.Region), Role: string(node.Role)})
}

func (g *EdgeGate) enrol(w http.ResponseWriter, r *http.Request) (node fleet.Node, err error) {
	var body api.Enrol
	if err := readPosted(w, r, maxEnrol, &body); err != nil {
		return node, err
	}
	if g.cfg.Certificates {
		names := certified(r.TLS)
		if len(names) == 0 {
			return node, errNoCertificate
		}
		if err := certifies(names, body.Node); err != nil {
			return node, err
		}
	}
	err = g.checkCredential(r, body.Token, fleet.ValidEnrolmentToken(body.Token), func() error {
		node, err = g.cfg.Nodes.Enrol(r.Context(), &body)
		return err
	})
	return node, err
}
