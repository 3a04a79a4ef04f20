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
	"time"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/limit"
)

// EdgeNodes judges credentials of edges. All methods may be called by many goroutines
// at once.
type EdgeNodes interface {
	Enrol(ctx context.Context, e controlplane.Enrolling) (controlplane.Node, error)

	// Authenticate says EUnauthorized for an unknown credential, EForbidden for one that was revoked.
	Authenticate(ctx context.Context, credential string) (controlplane.Node, error)

	// Hold gives a context that ends when the node's credential is revoked.
	Hold(ctx context.Context, node *controlplane.Node) (held context.Context, release func())

	// MayReport and MayShip say EForbidden when a node may not speak for a name.
	MayReport(ctx context.Context, node *controlplane.Node, name string, region waypost.Region) error
	MayShip(ctx context.Context, node *controlplane.Node, name string) error
}

// EdgeGateConfig says who is let in at the routes that are for edges.
type EdgeGateConfig struct {
	Nodes        EdgeNodes
	SharedToken  string // that all edges may have; "": none
	Certificates bool   // a client certificate with the node's name is needed as well

	Guesses *limit.Guesses                 // nil: no limit
	Client  func(*http.Request) netip.Addr // default: the peer of the connection
	Logger  *slog.Logger                   // default: nothing is logged

	// Patience is how long a credential waits to be looked up where too many attempts have failed.
	Patience time.Duration // default 5 s
}

// Headers in which a follower describes itself: see package replication.
const (
	headerNode   = "Waypost-Node"
	headerRegion = "Waypost-Region"
)

// EdgeGate lets edges in, and nobody else. Who an edge is comes from its credential:
// what a request says of it in headers is put right.
type EdgeGate struct {
	cfg    EdgeGateConfig
	shared [sha256.Size]byte
	late   *limit.Turns // of those to whom attempts of others are counted
}

// Credentials that come from where too many attempts have failed are looked up so many at a
// time, and wait so long for it.
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
	return &EdgeGate{cfg: cfg, shared: sha256.Sum256([]byte(cfg.SharedToken)), late: limit.NewTurns(lateAtOnce, cfg.Patience)}
}

// Only lets requests of edges through to next. Their context ends when the credential is
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
		ctx = context.WithValue(ctx, speakerKey{}, &speaker{g.cfg.Nodes, node})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// admit finds out who sent r.
func (g *EdgeGate) admit(r *http.Request) (node controlplane.Node, err error) {
	credential, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !g.sharedBy(credential) { // which costs less than to count
		err = g.judge(r, credential, controlplane.ValidNodeCredential(credential), func() error {
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

// sharedBy reports whether a credential is the token that all edges may have.
func (g *EdgeGate) sharedBy(credential string) bool {
	sent := sha256.Sum256([]byte(credential)) // so that its length cannot be learned from the time it takes
	return g.cfg.SharedToken != "" && subtle.ConstantTimeCompare(sent[:], g.shared[:]) == 1
}

// judge is for credentials that may be guessed at: of the kind that is meant, also beside one another.
// Many edges may have one address, and one that is good is not refused for what others there have
// tried. So beyond the limit what can be a credential is looked up all the same, in its turn: guesses
// among 160 bits need no limit, but the database does.
func (g *EdgeGate) judge(r *http.Request, credential string, kind bool, check func() error) error {
	from := g.cfg.Client(r)
	by, retry := g.cfg.Guesses.Check(from, credential)
	beyond := by == limit.ByAddress || by != "" && kind
	if beyond {
		leave, ok := func() {}, false
		if kind {
			leave, ok = g.late.Enter(r.Context())
		}
		if !ok {
			return tooManyFailed(retry)
		}
		defer leave()
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

func tooManyFailed(retry time.Duration) error {
	return tooMany("too many attempts to authenticate have failed", retry)
}

var errNoCertificate = waypost.Errorf(waypost.EForbidden, "this needs a client certificate that names the node, by its common name or as waypost://node/NAME")

func certifies(names []string, node string) error {
	for _, name := range names {
		if name == node {
			return nil
		}
	}
	return waypost.Errorf(waypost.EForbidden, "the client certificate is of %s, and the credential of node %s", strings.Join(names, ", "), node)
}

// certified gives the names of nodes that a verified client certificate has.
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

// refuse answers with a problem, and logs what only we may know.
func (g *EdgeGate) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		code := waypost.CodeOf(err)
		if code == waypost.EInternal {
			code = waypost.EUnavailable // an edge tries again
			g.cfg.Logger.ErrorContext(r.Context(), "an edge cannot be judged", slog.Any("error", err))
		}
		if p = newProblem(code, waypost.MessageOf(err)); code == waypost.EUnavailable {
			p.header.Set("Retry-After", "1")
		}
	}
	if p.Status == http.StatusForbidden {
		g.cfg.Logger.WarnContext(r.Context(), "an edge is refused", slog.String("path", r.URL.Path), slog.String("why", p.Detail))
	}
	writeProblem(w, p)
}

// speaker is the edge that sent a request.
type speaker struct {
	nodes EdgeNodes
	node  controlplane.Node
}

type speakerKey struct{}

// speakerOf gives who sent a request; nil when nobody has asked.
func speakerOf(ctx context.Context) *speaker {
	s, _ := ctx.Value(speakerKey{}).(*speaker)
	return s
}

func (s *speaker) mayReport(ctx context.Context, name string, region waypost.Region) error {
	if s == nil {
		return nil
	}
	return s.nodes.MayReport(ctx, &s.node, name, region)
}

// maySpeak is mayReport for what names no region.
func (s *speaker) maySpeak(ctx context.Context, name string) error {
	if s == nil {
		return nil
	}
	return s.nodes.MayReport(ctx, &s.node, name, s.node.Region)
}

func (s *speaker) mayShip(ctx context.Context, name string) error {
	if s == nil {
		return nil
	}
	return s.nodes.MayShip(ctx, &s.node, name)
}

// credential tells by what kind of credential an edge was let in.
func (s *speaker) credential() controlplane.CredentialState {
	switch {
	case s == nil:
		return ""
	case s.node.Own():
		return controlplane.CredentialOwn
	}
	return controlplane.CredentialShared
}
