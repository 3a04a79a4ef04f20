package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"waypost"
	"waypost/api"
	"waypost/api/clickbatch"
	"waypost/edge/replica"
	"waypost/internal/listener"
	"waypost/replication"
)

// passedOn bounds the requests that a relay passes on at a time.
const passedOn = 64

// routes returns the handler for followers.
func (p *peering) routes(server *replication.Server) http.Handler {
	routes := map[string]http.Handler{
		replication.PathStream:   listener.Endless(server.Stream),
		replication.PathSnapshot: listener.Endless(server.Snapshot),
		replication.PathSums:     listener.Endless(server.Sums),
	}
	if p.edge.cfg.Peers.Relay {
		//nolint:forcetypeassert // no package replaces the default transport
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = passedOn
		by := p.edge.identity.securely(t)
		pass := passOn(p.edge.controls, by)
		routes[api.PathEdgeReports] = passToAll(p.edge.controls, by, pass)
		for _, path := range []string{
			clickbatch.Path, api.PathEdgeOutcomes, api.PathEdgeCertificates, api.PathEdgeBudgets, api.PathEdgeBlocks,
			replication.PathEnrol,
		} {
			routes[path] = pass
		}
	}
	return p.peersOnly(routes)
}

// passOn forwards requests of the edges below a relay unchanged, because the control
// plane authenticates them. Excess requests are refused, and come again.
func passOn(to *controls, by http.RoundTripper) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: to.through(by),
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to.urls[0]); r.SetXForwarded() },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the source of this relay does not answer", http.StatusBadGateway)
		},
	}
	tokens := make(chan struct{}, passedOn)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case tokens <- struct{}{}:
			defer func() { <-tokens }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

const (
	maxReport     = 4 << 10 // bytes of a report, as the control plane bounds it
	reportTimeout = 1500 * time.Millisecond
)

// passToAll forwards reports to every control plane, because each has to know from them
// which edges there are and what they have. The answer is that of the one that pass asks;
// a copy that does not get through is dropped, as the next report says more.
func passToAll(to *controls, by http.RoundTripper, pass http.Handler) http.Handler {
	copies := make([]http.Handler, len(to.urls))
	for i, u := range to.urls {
		copies[i] = passOn(&controls{urls: []*url.URL{u}}, by)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReport))
		if err != nil {
			http.Error(w, "the report cannot be read", http.StatusBadRequest)
			return
		}
		answering := int(to.at.Load())
		for i, c := range copies {
			if i == answering {
				continue
			}
			// Not the request's context: with that of a server, the proxy panics when an answer
			// breaks off.
			ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
			again := r.Clone(ctx)
			again.Body = io.NopCloser(bytes.NewReader(body))
			go func() {
				defer cancel()
				c.ServeHTTP(unread{http.Header{}}, again)
			}()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(w, r)
	})
}

// unread is an answer that is thrown away.
type unread struct{ header http.Header }

func (u unread) Header() http.Header          { return u.header }
func (unread) Write(text []byte) (int, error) { return len(text), nil }
func (unread) WriteHeader(int)                {}

// headerPeer carries the token of peers next to a credential for the control plane.
const headerPeer = "Waypost-Peer"

// peersOnly admits requests with the token of peers or, on a relay, with the edge token
// that goes on to the control plane. The control plane authenticates what is passed on.
func (p *peering) peersOnly(routes map[string]http.Handler) http.Handler {
	hash := func(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }
	known := [][sha256.Size]byte{hash("Bearer " + p.token)}
	if own := p.edge.cfg.Control.Token; p.edge.cfg.Peers.Relay && own != "" {
		known = append(known, hash("Bearer "+own))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		right := 0
		for _, got := range [][sha256.Size]byte{hash(r.Header.Get("Authorization")), hash("Bearer " + r.Header.Get(headerPeer))} {
			for i := range known {
				right |= subtle.ConstantTimeCompare(got[:], known[i][:])
			}
		}
		h, found := routes[r.URL.Path]
		switch {
		case right != 1:
			w.Header().Set("WWW-Authenticate", `Bearer realm="waypost replication"`)
			http.Error(w, "a valid token is required", http.StatusUnauthorized)
		case !found:
			http.NotFound(w, r)
		default:
			r.Header.Del(headerPeer)
			h.ServeHTTP(w, r)
		}
	})
}

// relaySource is the source for followers of this edge: its replica, while there is one
// that takes changes.
type relaySource struct{ store *store }

var errNoSource = errors.Join(replication.ErrNoSource, errNoReplica)

func (s relaySource) db() (*replica.DB, error) {
	if db := s.store.live(); db != nil {
		return db, nil
	}
	return nil, errNoSource
}

// Head implements [replication.Source].
func (s relaySource) Head(ctx context.Context) (h replication.Head, err error) {
	db, err := s.db()
	if err != nil {
		return h, err
	}
	return db.Head(ctx)
}

// Origin implements [replication.Relay].
func (s relaySource) Origin() (h replication.Head) {
	db, err := s.db()
	if err != nil {
		return h
	}
	return db.Origin()
}

// Read implements [replication.Source].
func (s relaySource) Read(ctx context.Context, after waypost.Position, maxRecords int) (b replication.Batch, err error) {
	db, err := s.db()
	if err != nil {
		return b, err
	}
	b, err = db.Read(ctx, after, maxRecords)
	if err == nil && b.Frame != nil && b.Signature.Generation != s.store.trust.Generation() {
		return replication.Batch{}, replication.ErrTrimmed // the key of its signature is not trusted any more
	}
	return b, err
}

// Snapshot implements [replication.Source].
func (s relaySource) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (h replication.Head, err error) {
	db, err := s.db()
	if err != nil {
		return h, err
	}
	return db.Snapshot(ctx, first, last, visit)
}

// Sums implements [replication.Source].
func (s relaySource) Sums(ctx context.Context, first, last uint16) ([]replication.Sum, replication.Head, error) {
	db, err := s.db()
	if err != nil {
		return nil, replication.Head{}, err
	}
	return db.Sums(ctx, first, last)
}

// SnapshotWidth implements [replication.Source].
func (s relaySource) SnapshotWidth(ctx context.Context) (int, error) {
	db, err := s.db()
	if err != nil {
		return 0, err
	}
	return db.SnapshotWidth(ctx)
}

// Count implements [replication.Counter].
func (s relaySource) Count(ctx context.Context) (uint64, error) {
	db, err := s.db()
	if err != nil {
		return 0, err
	}
	return db.Count(ctx)
}

// Changed implements [replication.Source].
func (s relaySource) Changed() <-chan struct{} {
	db, err := s.db()
	if err != nil {
		return make(chan struct{}) // polling notices the replica
	}
	return db.Changed()
}
