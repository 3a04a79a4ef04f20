package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"waypost"
	"waypost/internal/config"
	"waypost/internal/enrol"
	"waypost/replication"
)

// edgeIdentity is what an edge proves itself with to the control plane: a credential of its
// own, or the token that all edges may have. All connections to the control plane are
// made through it, and have what is the credential by then.
type edgeIdentity struct {
	cfg    config.Edge
	log    *slog.Logger
	secure *tls.Config // nil: the defaults
	due    bool        // there is a token that is to be exchanged

	mu      sync.Mutex
	present *enrol.Credential // nil: none
	why     error             // why there is none
	changed chan struct{}     // closed, and replaced, when there is another
}

// openIdentity reads what an edge has. Nothing is exchanged before run.
func openIdentity(cfg config.Edge, log *slog.Logger) (*edgeIdentity, error) {
	id := &edgeIdentity{cfg: cfg, log: log, changed: make(chan struct{})}
	var err error
	if id.secure, err = edgeTLS(cfg); err != nil {
		return nil, err
	}
	if id.present, err = enrol.Read(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("credential: %w", err)
	}
	token := cfg.EnrolToken.Reveal()
	id.due = token != "" && !id.present.GotWith(token)
	switch p := id.present; {
	case id.due:
	case p == nil && cfg.Token == "":
		return nil, &usageError{errors.New("edge.token is missing, and this edge is not enrolled: set WAYPOST_ENROL_TOKEN to a token of `waypost edges enrol`, or WAYPOST_EDGE_TOKEN to the control plane's edge token")}
	case p != nil && string(p.Region) != cfg.Region:
		return nil, &usageError{fmt.Errorf("edge.region: this edge is enrolled in %s, and not in %s; another token of `waypost edges enrol` changes that", p.Region, cfg.Region)}
	case p != nil && cfg.Node != "" && cfg.Node != p.Node:
		return nil, &usageError{fmt.Errorf("edge.node: this edge is enrolled as %s, and not as %s; another token of `waypost edges enrol` changes that", p.Node, cfg.Node)}
	}
	return id, nil
}

// node is the name that this edge has by its settings or its credential; "": none yet.
func (id *edgeIdentity) node() string {
	if id.cfg.Node == "" && id.present != nil {
		return id.present.Node
	}
	return id.cfg.Node
}

// edgeTLS is how an edge speaks TLS to the control plane; nil: in the default way.
func edgeTLS(cfg config.Edge) (*tls.Config, error) {
	if cfg.ControlCAFile == "" && cfg.ClientCertFile == "" {
		return nil, nil //nolint:nilnil // the defaults
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if cfg.ControlCAFile != "" {
		if c.RootCAs, err = readRoots("edge.control_ca_file", cfg.ControlCAFile); err != nil {
			return nil, err
		}
	}
	if cfg.ClientCertFile != "" {
		load := certificateFrom("edge.client_cert_file", cfg.ClientCertFile, cfg.ClientKeyFile)
		if _, err := load(nil); err != nil {
			return nil, err
		}
		c.GetClientCertificate = load
	}
	return c, nil
}

// errNotEnrolled is for requests that wait for a credential.
var errNotEnrolled = errors.New("this edge is not enrolled yet")

// credential gives what to send, and waits a moment for it while it is being got.
func (id *edgeIdentity) credential(ctx context.Context) (string, error) {
	const moment = time.Second
	limit := time.NewTimer(moment)
	defer limit.Stop()
	for {
		id.mu.Lock()
		present, why, changed := id.present, id.why, id.changed
		id.mu.Unlock()
		switch {
		case present != nil:
			return present.Secret, nil
		case id.cfg.Token != "":
			return id.cfg.Token.Reveal(), nil
		case why != nil:
			return "", why
		}
		select {
		case <-changed:
		case <-limit.C:
			return "", errNotEnrolled
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// own reports whether the edge has a credential of its own.
func (id *edgeIdentity) own() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.present != nil
}

// through sends requests with the credential.
func (id *edgeIdentity) through(t *http.Transport) http.RoundTripper {
	return &proven{id, id.introduced(id.securely(t))}
}

func (id *edgeIdentity) securely(t *http.Transport) *http.Transport {
	if id.secure != nil {
		t.TLSClientConfig = id.secure.Clone()
	}
	return t
}

// follower is the client of the replica's stream.
func (id *edgeIdentity) follower() *http.Client {
	c := replication.NewClient(id.secure)
	c.Transport = &proven{id, id.introduced(c.Transport)}
	return c
}

// proven is a transport that puts the credential on each request.
type proven struct {
	id   *edgeIdentity
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (p *proven) RoundTrip(r *http.Request) (*http.Response, error) {
	credential, err := p.id.credential(r.Context())
	if err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+credential)
	return p.next.RoundTrip(r)
}

// introduced is a transport that shows the token of peers as well, if there is one: what is
// followed may be a relay.
func (id *edgeIdentity) introduced(next http.RoundTripper) http.RoundTripper {
	if id.cfg.PeerToken == "" {
		return next
	}
	return &introduction{id.cfg.PeerToken.Reveal(), next}
}

type introduction struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (i *introduction) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(headerPeer, i.token)
	return i.next.RoundTrip(r)
}

// CloseIdleConnections is called by [http.Client].
func (i *introduction) CloseIdleConnections() {
	if c, ok := i.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// CloseIdleConnections is called by [http.Client].
func (p *proven) CloseIdleConnections() {
	if c, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// run exchanges the token, if there is one to be exchanged, for a credential. The
// directory is there; former gives names that it had before. It fails when the token is refused and the edge can do nothing without.
func (id *edgeIdentity) run(ctx context.Context, node string, former func() []string, serves func() bool) error {
	if !id.due {
		return nil
	}
	client := &http.Client{
		Timeout: 10 * time.Second, Transport: id.introduced(id.securely(http.DefaultTransport.(*http.Transport).Clone())), //nolint:forcetypeassert // nobody changes it
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	const longest = 10 * time.Second
	for failures := 0; ; failures++ {
		got, err := enrol.Enrol(ctx, enrol.Config{
			Dir: id.cfg.DataDir, URL: id.cfg.ControlURL, Token: id.cfg.EnrolToken.Reveal(), Node: node, Region: waypost.Region(id.cfg.Region),
			Present: id.present, Former: former(), Client: client,
		})
		if err == nil {
			id.log.Info("this edge is enrolled, and has a credential of its own", "node", got.Node, "role", got.Role)
			id.set(got, nil)
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if refused, ok := errors.AsType[*enrol.RefusedError](err); ok {
			err = fmt.Errorf("the control plane at %s does not enrol this edge: %w", id.cfg.ControlURL, refused)
			if id.present == nil && id.cfg.Token == "" && !serves() {
				return err
			}
			id.log.Error("the enrolment token is refused; this edge goes on with what it has", "error", err)
			if id.present == nil {
				id.set(nil, err)
			}
			return nil
		}
		level := slog.LevelDebug
		if failures&(failures-1) == 0 {
			level = slog.LevelWarn
		}
		id.log.Log(ctx, level, "this edge is not enrolled yet; trying again", "error", err, "failures", failures+1)
		wait := min(200*time.Millisecond<<min(failures, 10), longest)
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-ctx.Done():
			return nil
		}
	}
}

func (id *edgeIdentity) set(c *enrol.Credential, why error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.present, id.why = c, why
	close(id.changed)
	id.changed = make(chan struct{})
}
