// Package rules_test shows that edges, the control plane and explanations decide alike,
// and as one who reads the rules expects.
package rules_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/edge/server"
	"waypost/internal/patterns"
	"waypost/internal/pgserver/pgservertest"
	"waypost/keyrange"
	"waypost/migrations"
	"waypost/replication"
	"waypost/rules"
)

var cluster = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

var actor = controlplane.Actor{Workspace: waypost.DefaultWorkspace}

// system is a control plane on PostgreSQL, and an edge's server with the records that
// PostgreSQL has for edges. A test sets their clock.
type system struct {
	*controlplane.Services
	db    *postgres.DB
	clock atomic.Int64 // Unix ms
	edge  *edgeServer
}

func start(t *testing.T) *system {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: cluster.Database(t)})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	s := &system{db: db}
	s.at(june)
	s.Services = controlplane.New(controlplane.Config{
		Store: db, Patience: time.Minute, Now: s.now, FreeSharedCodes: true,
		Minter: keys.NewMinter(keys.MinterConfig{
			Store: db, Coder: keyrange.NewCoder(space, [32]byte{}), Region: "eu", Node: "test/1", Size: 100, Patience: time.Minute,
			Logger: slog.New(slog.DiscardHandler),
		}),
	})
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	s.edge = startEdge(t, s.now)
	return s
}

func (s *system) at(t time.Time) { s.clock.Store(t.UnixMilli()) }

func (s *system) now() time.Time { return time.UnixMilli(s.clock.Load()) }

// create creates a link, and hands the edge the record that PostgreSQL has for it.
func (s *system) create(t *testing.T, n controlplane.NewLink) {
	t.Helper()
	_, _, err := s.Links.Create(t.Context(), actor, n)
	require.NoError(t, err)
	s.edge.mu.Lock()
	defer s.edge.mu.Unlock()
	s.edge.records[n.CustomCode] = s.record(t, n.CustomCode)
}

func (s *system) record(t *testing.T, code string) waypost.Record {
	t.Helper()
	r, found, err := s.db.Record(t.Context(), waypost.DefaultDomain, waypost.Code(code))
	require.NoError(t, err)
	require.True(t, found)
	var decoded waypost.Record
	require.NoError(t, replication.DecodeRecord(replication.AppendRecord(nil, &r), &decoded))
	return decoded
}

// edgeServer is an edge's server, whose visitors' places are where the test says.
type edgeServer struct {
	addr    string
	mu      sync.Mutex
	records map[string]waypost.Record
	traits  waypost.DomainTraits
	country [2]byte
	city    string
}

func startEdge(t *testing.T, clock func() time.Time) *edgeServer {
	t.Helper()
	e := &edgeServer{records: map[string]waypost.Record{}}
	s := server.New(server.Config{
		Links: e, Locator: e, Clock: clock, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.NoError(t, <-served)
	})
	return e
}

// Link, Domain and Targets implement server.Links, and Locate server.Places.
func (e *edgeServer) Link(_ waypost.DomainID, code, buf []byte, rec *waypost.Record) (grown []byte, found bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*rec, found = e.records[string(code)]
	return buf, found, nil
}

func (e *edgeServer) Domain([]byte) (waypost.DomainID, waypost.DomainTraits, bool) {
	return waypost.DefaultDomain, e.traits, true
}

func (*edgeServer) Patterns(waypost.DomainID) *patterns.Index { return nil }

func (e *edgeServer) Targets(waypost.DomainID) waypost.DomainTargets { return waypost.DomainTargets{} }

func (e *edgeServer) Locate(netip.Addr) (country [2]byte, city string) { return e.country, e.city }

// follow sends a request as its client would. The slow form has a header that the fast
// path leaves to the handler.
func (e *edgeServer) follow(t *testing.T, i int, slow bool) string {
	t.Helper()
	v := visits[i]
	e.country, e.city = [2]byte{}, v.city
	copy(e.country[:], v.country)
	conn, err := net.Dial("tcp", e.addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	var b strings.Builder
	fmt.Fprintf(&b, "GET /%s", v.code)
	if v.query != "" {
		fmt.Fprintf(&b, "?%s", v.query)
	}
	b.WriteString(" HTTP/1.1\r\nHost: go.example.com\r\n")
	for name, value := range map[string]string{
		"User-Agent": v.agent, "Accept-Language": v.language, "X-Forwarded-For": v.address, "Purpose": strings.Repeat("none", count(slow)),
	} {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	_, err = conn.Write([]byte(b.String() + "\r\n"))
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return shown(res.StatusCode, res.Header.Get("Location"))
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// shown returns an answer as the table has it.
func shown(status int, location string) string {
	if location == "" {
		return strconv.Itoa(status)
	}
	return strings.TrimPrefix(location, target)
}

// request returns the request of a visit.
func request(i int, at time.Time) *rules.Request {
	v := visits[i]
	r := &rules.Request{
		At: at.UnixMilli(), UserAgent: []byte(v.agent), AcceptLanguage: []byte(v.language), Query: []byte(v.query),
	}
	if v.address != "" {
		r.Address = netip.MustParseAddr(v.address)
	}
	return r
}

func TestVisits_EdgeControlPlaneAndExplanationAnswerAsWorkedOutByHand(t *testing.T) {
	s := start(t)
	for code, source := range sources {
		n := controlplane.NewLink{OriginalURL: target + "home", CustomCode: code, Rules: source}
		if code == "life" {
			n.ExpiresAt = expiry
		}
		s.create(t, n)
	}
	for i, v := range visits {
		at := june
		if v.at != "" {
			at = date(v.at)
		}
		s.at(at)
		name := fmt.Sprintf("visit %d: %+v", i, v)
		require.Equal(t, v.want, s.edge.follow(t, i, false), name)
		require.Equal(t, v.want, s.edge.follow(t, i, true), "the handler, %s", name)

		visit := waypost.ParseVisit([]byte("/" + v.code + "?" + v.query))
		res, err := s.Links.Resolve(t.Context(), "go.example.com", &visit, request(i, at))
		require.NoError(t, err)
		require.Equal(t, cmp.Or(v.elsewhere, v.want), shown(res.Status, string(res.Location)), "the control plane, %s", name)

		record := s.record(t, v.code)
		var facts rules.Facts
		facts.Read(rules.RequiredFacts(record.Programme), request(i, at))
		copy(facts.Country[:], v.country)
		facts.City = v.city
		res, trace := rules.Explain(&record, &facts)
		require.Equal(t, v.want, shown(res.Status, string(res.Location)), "explained, %s", name)
		if n := len(trace.Steps); res.Rule != 0 {
			require.Equal(t, rules.Step{Rule: int(res.Rule), Failed: -1}, trace.Steps[n-1], name)
		}
	}
}
