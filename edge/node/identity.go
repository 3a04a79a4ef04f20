package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"waypost/api/requestid"
	"waypost/edge/enrol"
	"waypost/replication"
)

// identity proves this edge to the control plane: by a credential of its own, or by the
// token that all edges share. Every request to the control plane carries the credential
// of that moment.
type identity struct {
	cfg   *Config
	log   *slog.Logger
	nodes *nodeTLS
	due   bool // there is a token that is to be exchanged

	mu      sync.Mutex
	present *enrol.Credential // nil: none
	why     error             // reason for having none
	changed chan struct{}     // closed, and replaced, when present or why changes
}

// ErrNoCredential stops the start of an edge that has neither a credential nor a token.
var ErrNoCredential = errors.New("edge.token is missing, and this edge is not enrolled: set WAYPOST_ENROL_TOKEN " +
	"to a token of `waypost edges enrol`, or WAYPOST_EDGE_TOKEN to the control plane's edge token")

// openIdentity reads the credential. Nothing is exchanged before run.
func openIdentity(cfg *Config, log *slog.Logger) (*identity, error) {
	id := &identity{cfg: cfg, log: log, changed: make(chan struct{})}
	var err error
	if id.nodes, err = openNodeTLS(cfg.TLS, log); err != nil {
		return nil, err
	}
	if id.present, err = enrol.Read(cfg.DataDir); err != nil {
		id.why = fmt.Errorf("credential: %w", err)
		log.Error("cannot read the credential of this edge; serving the links on disk", "error", err)
	}
	token := cfg.Control.EnrolToken
	id.due = token != "" && !id.present.GotWith(token)
	const remedy = "another token of `waypost edges enrol` changes that"
	switch p := id.present; {
	case id.due:
	case id.why != nil:
	case p == nil && cfg.Control.Token == "":
		return nil, &ConfigError{ErrNoCredential}
	case p != nil && p.Region != cfg.Region:
		return nil, &ConfigError{fmt.Errorf("edge.region: this edge is enrolled in %s, and not in %s; %s", p.Region, cfg.Region, remedy)}
	case p != nil && cfg.Node != "" && cfg.Node != p.Node:
		return nil, &ConfigError{fmt.Errorf("edge.node: this edge is enrolled as %s, and not as %s; %s", p.Node, cfg.Node, remedy)}
	}
	return id, nil
}

// node returns the edge's name in its settings or its credential; "": it has none yet.
func (id *identity) node() string {
	if id.cfg.Node == "" && id.present != nil {
		return id.present.Node
	}
	return id.cfg.Node
}

// errNotEnrolled fails requests that have waited for a credential.
var errNotEnrolled = errors.New("this edge is not enrolled yet")

// credential returns the bearer token for a request. While an enrolment is under way it
// waits for a moment.
func (id *identity) credential(ctx context.Context) (string, error) {
	const moment = time.Second
	limit := time.After(moment)
	for {
		id.mu.Lock()
		present, why, changed := id.present, id.why, id.changed
		id.mu.Unlock()
		switch {
		case present != nil:
			return present.Secret, nil
		case id.cfg.Control.Token != "":
			return id.cfg.Control.Token, nil
		case why != nil:
			return "", why
		}
		select {
		case <-changed:
		case <-limit:
			return "", errNotEnrolled
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// own reports whether the edge has a credential of its own.
func (id *identity) own() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.present != nil
}

// through returns a transport that adds the credential to requests.
func (id *identity) through(t *http.Transport) http.RoundTripper {
	t.TLSClientConfig = id.nodes.client()
	return &proven{id: id, next: t}
}

// follower returns the client for the replica's stream.
func (id *identity) follower() *http.Client {
	c := replication.NewClient(id.nodes.client())
	c.Transport = &proven{id: id, next: c.Transport}
	return c
}

// proven is a transport that adds the credential to each request, unless the edge is to
// get one, and the relay token, because the other side may be a relay.
type proven struct {
	id    *identity
	next  http.RoundTripper
	enrol bool
}

// RoundTrip implements [http.RoundTripper].
func (p *proven) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if token := p.id.cfg.RelayToken; token != "" {
		r.Header.Set(headerRelay, token)
	}
	if p.enrol {
		return p.next.RoundTrip(r)
	}
	credential, err := p.id.credential(r.Context())
	if err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+credential)
	return p.next.RoundTrip(r)
}

// CloseIdleConnections is called by [http.Client].
func (p *proven) CloseIdleConnections() { closeIdle(p.next) }

func closeIdle(t http.RoundTripper) {
	if c, ok := t.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// run exchanges the enrolment token, if one is due, for a credential. The directory is
// there; former returns names that it had before. It fails when the token is refused, or
// the credential cannot be read, and the edge can do nothing without.
func (id *identity) run(ctx context.Context, node string, former func() []string, serves func() bool) error {
	if !id.due {
		if id.why != nil && id.cfg.Control.Token == "" && !serves() {
			return id.why
		}
		return nil
	}
	//nolint:forcetypeassert // no package replaces the default transport
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = id.nodes.client()
	client := &http.Client{
		Timeout: 10 * time.Second, Transport: &proven{id, transport, true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	control := id.cfg.Control
	for failures := 0; ; failures++ {
		ctx := requestid.New(ctx)
		url := control.URLs[failures%len(control.URLs)]
		got, err := enrol.Enrol(ctx, enrol.Config{
			Dir: id.cfg.DataDir, URL: url, Token: control.EnrolToken, Node: node, Region: id.cfg.Region,
			Present: id.present, Former: former(), Client: client,
		})
		if err == nil {
			id.log.Info("enrolled this edge, which has a credential of its own", "node", got.Node, "role", got.Role)
			id.set(got, nil)
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if refused, ok := errors.AsType[*enrol.RefusedError](err); ok {
			err = fmt.Errorf("the control plane at %s does not enrol this edge: %w", url, refused)
			if id.present == nil && control.Token == "" && !serves() {
				return err
			}
			id.log.WarnContext(ctx, "cannot enrol this edge, because its token is refused; continuing without a credential of its own", "error", err)
			if id.present == nil {
				id.set(nil, err)
			}
			return nil
		}
		id.log.Log(ctx, levelOf(failures, slog.LevelWarn), "cannot enrol this edge yet; trying again", "error", err, "failures", failures+1)
		if !pauseAfter(ctx, failures) {
			return nil
		}
	}
}

func (id *identity) set(c *enrol.Credential, why error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.present, id.why = c, why
	close(id.changed)
	id.changed = make(chan struct{})
}
