// Package fleet_test shows that a fleet needs no hand: edges in two regions and two
// control planes are restarted, cut off and killed under traffic, and come right by
// themselves. There are six edges, and twenty in `make soak`. It has no code of its own.
package fleet_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
	"waypost/replication/replicationtest"
	"waypost/test/devtest"
)

var databases = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(databases.Main(m)) }

const (
	east, west = "us-east-1", "eu-west-1"
	relay      = "east-1"
	email      = "ann@example.com"
	password   = "correct horse battery staple"
	limit      = 2 * time.Minute // for everything that has to happen
	// A quiet machine takes a second or two, and one that runs other tests too takes longer.
	switchTime = 10 * time.Second
)

var (
	token     = strings.Repeat("e", 32) // as devtest has it
	gossipKey = strings.Repeat("5a", 32)
)

// fleet is two control planes and many edges.
type fleet struct {
	t        *testing.T
	inEast   int // edges, of which the first two and the first of the others are processes
	net      *network
	root     string
	database string
	web      *http.Client
	controls [2]atomic.Pointer[devtest.Control]
	clients  [2]*client.Client
	wires    map[string][2]*replicationtest.Wire // to the control planes, by region
	edges    []*edge
	traffic  *traffic
	began    time.Time
}

func startFleet(t *testing.T, inEast, inWest int) *fleet {
	f := &fleet{
		t: t, inEast: inEast, began: time.Now(), net: newNetwork(t), root: t.TempDir(), database: databases.Database(t),
		web:   &http.Client{Timeout: 10 * time.Second},
		wires: map[string][2]*replicationtest.Wire{},
	}
	t.Cleanup(f.web.CloseIdleConnections)
	backend := func(i int) func() string {
		return func() string {
			if c := f.controls[i].Load(); c != nil {
				return strings.TrimPrefix(c.API, "http://")
			}
			return "127.0.0.1:0"
		}
	}
	for _, region := range []string{east, west} {
		f.wires[region] = [2]*replicationtest.Wire{replicationtest.NewWire(t, backend(0)), replicationtest.NewWire(t, backend(1))}
	}
	for i := range f.controls {
		f.net.join(i, east)
		f.startControl(i)
		c, err := client.New(replicationtest.NewWire(t, backend(i)).URL(), "")
		require.NoError(t, err)
		t.Cleanup(c.Close)
		f.clients[i] = c
	}
	user := api.NewMember{Email: email, Role: "admin", Password: password}
	_, err := client.Send[api.Member](t.Context(), f.clients[0], http.MethodPost, api.PathUsers, user)
	require.NoError(t, err)
	add := func(name, region string, process bool) {
		e := &edge{f: f, name: name, region: region, number: 2 + len(f.edges), process: process, dir: filepath.Join(f.root, name)}
		require.NoError(t, os.MkdirAll(e.dir, 0o700))
		f.edges = append(f.edges, e)
		f.net.join(e.number, region)
	}
	for i := 1; i <= inEast; i++ {
		add(fmt.Sprintf("east-%d", i), east, i <= 2)
	}
	for i := 1; i <= inWest; i++ {
		add(fmt.Sprintf("west-%d", i), west, i == 1)
	}
	return f
}

func (f *fleet) startControl(i int) {
	f.t.Helper()
	name := [2]string{"one", "two"}[i]
	c, err := devtest.StartControl(f.t, devtest.ControlConfig{
		Database: f.database, DataDir: filepath.Join(f.root, name, "data"), Region: east, Node: name,
		Env: []string{
			"WAYPOST_GOSSIP_ADDR=" + f.net.own(i).String(), "WAYPOST_GOSSIP_ADVERTISE=" + f.net.shown(i).String(),
			"WAYPOST_GOSSIP_SEEDS=" + strings.Join(f.seeds(), ","), "WAYPOST_GOSSIP_KEY=" + gossipKey,
		},
	})
	require.NoError(f.t, err)
	ready, err := c.Ready()
	require.NoError(f.t, err)
	require.True(f.t, ready, c.Output())
	f.controls[i].Store(c)
}

// seeds are a control plane and two edges.
func (f *fleet) seeds() []string {
	return []string{f.net.shown(0).String(), f.net.shown(2).String(), f.net.shown(2 + f.inEast).String()}
}

func (f *fleet) relayAddr() string { return f.net.own(2).Addr().String() + ":8090" }

func (f *fleet) controlURLs(region string) []string {
	urls := []string{f.wires[region][0].URL(), f.wires[region][1].URL()}
	if region == west {
		urls = append(urls, "http://"+f.relayAddr())
	}
	return urls
}

// each does something with edges at once.
func (f *fleet) each(edges []*edge, do func(*edge)) {
	var work sync.WaitGroup
	for _, e := range edges {
		work.Go(func() { do(e) })
	}
	work.Wait()
}

func (f *fleet) in(region string) (edges []*edge) {
	for _, e := range f.edges {
		if e.region == region {
			edges = append(edges, e)
		}
	}
	return edges
}

func (f *fleet) eventually(what string, holds func() bool) {
	f.t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	began := time.Now()
	for ; !holds(); <-poll.C {
		require.Less(f.t, time.Since(began), limit, "not %s", what)
	}
	if took := time.Since(began); took > 3*time.Second {
		f.t.Logf("%s after %v", what, took)
	}
}

// all waits until something holds of each edge.
func (f *fleet) all(edges []*edge, what string, holds func(*edge) bool) {
	f.t.Helper()
	for _, e := range edges {
		f.eventually(what+": "+e.name, func() bool { return holds(e) })
	}
}

func notThere(err error) bool {
	p, ok := errors.AsType[*client.Problem](err)
	return ok && (p.Status == http.StatusNotFound || p.Status == http.StatusGone)
}

// everywhere is the outcome of waiting when the whole fleet has a change.
func (f *fleet) everywhere() string { return fmt.Sprintf("all; edges=%d", len(f.edges)) }

// whole waits until nothing is left of a fault but in the gossip: all edges follow a
// control plane and have what both write, and the fleet view shows all alive.
func (f *fleet) whole() {
	f.t.Helper()
	f.all(f.edges, "at home", func(e *edge) bool {
		s := e.state()
		return s.Connected && (s.Source == f.wires[e.region][0].URL() || s.Source == f.wires[e.region][1].URL())
	})
	for _, c := range f.clients {
		f.eventually("written everywhere", func() bool {
			made, receipt, err := c.Links.Make(f.t.Context(), client.NewLink{OriginalURL: "https://example.com/probe"},
				client.Write{Wait: "all", Timeout: 3 * time.Second})
			if err != nil || receipt.Applied != f.everywhere() {
				return false
			}
			for _, e := range f.edges {
				status, _, err := e.ask(http.MethodHead, made.ShortCode)
				require.NoError(f.t, err)
				require.Equal(f.t, http.StatusFound, status, e.name)
			}
			return true
		})
		f.eventually("shown alive", func() bool {
			edges, err := c.Edges.List(f.t.Context())
			alive := 0
			for _, e := range edges {
				if e.State == "alive" && e.Via == "report" && e.Role == map[bool]string{true: "relay", false: "edge"}[e.Node == relay] {
					alive++
				}
			}
			return err == nil && alive == len(f.edges) && len(edges) == alive
		})
	}
}

// gossips waits until the gossip of each edge shows all nodes alive. After a partition
// that takes up to a minute, because nodes compare all that they know every 30 s.
func (f *fleet) gossips() {
	f.t.Helper()
	f.all(f.edges, "in a whole gossip", func(e *edge) bool {
		var answer struct {
			Members []struct{ Node, State string }
		}
		alive := map[string]bool{}
		for _, m := range answerOf(e, &answer).Members {
			if m.State == "alive" {
				alive[m.Node] = true
			}
		}
		return len(alive) == len(f.edges)+len(f.controls)
	})
}

func answerOf[T any](e *edge, into *T) *T {
	e.shows("/members", into)
	return into
}

// under does something while the traffic goes on, and waits until all is right again.
func (f *fleet) under(fault string, do func()) {
	f.t.Helper()
	f.traffic.during(fault)
	do()
	began := time.Now()
	f.whole()
	took := time.Since(began)
	f.t.Logf("%s: right again after %v, at %v", fault, took, time.Since(f.began))
	f.traffic.note(func(c *counts) { c.rounds++; c.longest = max(c.longest, took) }, "")
	f.traffic.during("no fault")
}

// restartAll restarts all edges at once: processes without a lost request, the others by
// a stop.
func (f *fleet) restartAll() { f.each(f.edges, (*edge).restart) }

// partition cuts the west off from the control planes, first in one direction and then in
// both, so that its edges follow the relay in the east, and mends that.
func (f *fleet) partition() {
	f.t.Helper()
	for _, w := range f.wires[west] {
		w.Deafen()
	}
	f.net.lose([2]string{east, west})
	f.behindRelay()
	for _, w := range f.wires[west] {
		w.Cut()
	}
	f.net.lose([2]string{east, west}, [2]string{west, east})
	f.behindRelay()
	for _, w := range f.wires[west] {
		w.Mend()
	}
	f.net.lose()
}

// behindRelay waits until edges in the west follow the relay, and have a new link and its
// deletion by that.
func (f *fleet) behindRelay() {
	f.t.Helper()
	f.all(f.in(west), "behind the relay", func(e *edge) bool {
		s := e.state()
		return s.Connected && s.Source == "http://"+f.relayAddr()
	})
	code := f.create()
	f.all(f.in(west), "told of a new link", answers(code, http.StatusFound))
	f.eventually("deleted", func() bool {
		_, err := f.clients[1].Links.Remove(f.t.Context(), code, client.Write{})
		return err == nil || notThere(err)
	})
	f.all(f.edges, "told of a deletion", answers(code, http.StatusGone))
}

func answers(code string, want int) func(*edge) bool {
	return func(e *edge) bool {
		status, _, err := e.ask(http.MethodHead, code)
		return err == nil && status == want
	}
}

func (f *fleet) create() (code string) {
	f.eventually("created", func() bool {
		made, err := f.clients[0].Links.Create(f.t.Context(), client.NewLink{OriginalURL: "https://example.com/new"})
		code = made.ShortCode
		return err == nil
	})
	return code
}

// roll restarts one control plane after the other.
func (f *fleet) roll() {
	f.t.Helper()
	for i := range f.controls {
		c := f.controls[i].Load()
		began := time.Now()
		require.NoError(f.t, c.Stop())
		f.t.Logf("control plane %s has answered all and ended after %v", c.Node, time.Since(began))
		f.switched(i)
		f.startControl(i)
		f.whole()
	}
}

// switched measures the time until all edges have what is written through the control
// plane that is left. They follow that one, or until they are back the relay.
func (f *fleet) switched(from int) {
	f.t.Helper()
	began := time.Now()
	var code string
	f.eventually("created", func() bool {
		made, err := f.clients[1-from].Links.Create(f.t.Context(), client.NewLink{OriginalURL: "https://example.com/left"})
		code = made.ShortCode
		return err == nil
	})
	f.all(f.edges, "told through the other control plane", answers(code, http.StatusFound))
	took := time.Since(began)
	f.t.Logf("all %d edges have what the other control plane writes after %v", len(f.edges), took)
	require.Less(f.t, took, switchTime)
}

// killSome kills a control plane and two edges at once.
func (f *fleet) killSome() {
	f.t.Helper()
	victims := []*edge{f.edges[1], f.edges[f.inEast]}
	f.controls[0].Load().Kill()
	f.each(victims, (*edge).kill)
	f.startControl(0)
	f.each(victims, (*edge).start)
}

// end stops everything in order, while control planes take the last clicks.
func (f *fleet) end() {
	if f.traffic != nil {
		f.traffic.end()
	}
	f.each(f.edges, (*edge).end)
}

// judge compares everything with what visitors and users were told.
func (f *fleet) judge() {
	f.t.Helper()
	f.traffic.end()
	f.whole()
	table := f.traffic.table()
	f.t.Logf("\n%s", table)
	if path := os.Getenv("WAYPOST_SOAK_TABLE"); path != "" {
		require.NoError(f.t, os.WriteFile(path, []byte(table), 0o600))
	}
	require.Empty(f.t, f.traffic.problems)

	live, deleted := 0, 0
	for _, target := range f.traffic.links {
		if target == "" {
			deleted++
		} else {
			live++
		}
	}
	var wrong atomic.Pointer[string]
	f.each(f.edges, func(e *edge) {
		for code, target := range f.traffic.links {
			want := http.StatusFound
			if target == "" {
				want = http.StatusGone
			}
			status, location, err := e.ask(http.MethodHead, code)
			if err != nil || status != want || location != target {
				text := fmt.Sprintf("%s: %s has %d, %q and not %d, %q: %v", e.name, code, status, location, want, target, err)
				wrong.Store(&text)
			}
		}
	})
	require.Nil(f.t, wrong.Load(), "%v", wrong.Load())
	first := readiness{}
	f.eventually("equal on all edges", func() bool {
		first = f.edges[0].state()
		for _, e := range f.edges {
			if s := e.state(); s.Digest == "" || s.Digest != first.Digest || s.Position != first.Position {
				return false
			}
		}
		return true
	})
	var clicks int64
	for code, want := range f.traffic.answered {
		clicks += want
		var got int64
		f.eventually("counted: "+code, func() bool {
			l, err := f.clients[0].Links.Find(f.t.Context(), "", code)
			got = l.ClickCount
			return err == nil && got >= want
		})
		require.Equal(f.t, want, got, code)
	}
	f.t.Logf("%d edges at %s, digest %s: %d links redirected, %d gone, %d clicks counted once", len(f.edges), first.Position, first.Digest, live, deleted, clicks)
}

func TestFleet_ComesRightByItselfAfterRestartsAndPartitions(t *testing.T) {
	soak, err := time.ParseDuration(os.Getenv("WAYPOST_SOAK"))
	require.True(t, err == nil || os.Getenv("WAYPOST_SOAK") == "", "WAYPOST_SOAK is no duration")
	inEast, inWest := 4, 2
	if soak > 0 {
		inEast, inWest = 15, 5
	}
	f := startFleet(t, inEast, inWest)
	defer f.end()
	f.each(f.edges, (*edge).start)
	f.traffic = startTraffic(f)
	began := time.Now()
	for round := 0; round == 0 || time.Since(began) < soak; round++ {
		f.under("all edges restarted at once", f.restartAll)
		f.gossips()
		f.under("the west hears nobody, and is cut off then", f.partition)
		f.under("control planes restarted in turn", f.roll)
		if soak > 0 {
			f.under("a control plane and two edges killed", f.killSome)
			f.gossips()
		}
	}
	f.judge()
}
