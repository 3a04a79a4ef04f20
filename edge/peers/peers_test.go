package peers_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/peers"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// cutAt makes a node of an origin that has come to its head, and no further.
func cutAt(t *testing.T, o *origin, name, token string) *node {
	t.Helper()
	n := newNode(t, o, name, token)
	n.run(t, n.config())
	head, err := o.Head(t.Context())
	require.NoError(t, err)
	n.at(t, head.Position)
	until(t, "it has heard the head", func() bool { return n.loop.Status().Head.Position == head.Position })
	reports(t, n.url, token, n.db, head.Position)
	n.home.Cut()
	return n
}

// fullAt makes a node of an origin that has all, up to a position.
func fullAt(t *testing.T, o *origin, at waypost.Position) *node {
	t.Helper()
	n := newNode(t, o, "full", token)
	n.run(t, n.config())
	n.at(t, at)
	return n
}

func TestOfPeersTheMostAdvancedIsChosenAndNoneThatIsNoHelp(t *testing.T) {
	o, other := newOrigin(t), newOrigin(t)
	o.put(1)
	other.put(9)
	behind := cutAt(t, o, "behind", token)
	o.put(1)
	own := cutAt(t, o, "own", token)
	o.put(1)
	ahead := cutAt(t, o, "ahead", token)
	o.put(1)
	further := cutAt(t, o, "further", token)
	stranger := cutAt(t, o, "stranger", "another token")
	foreign := cutAt(t, other, "foreign", token)
	empty := newNode(t, o, "empty", token)
	unsigned := serve(t, replication.ServerConfig{Source: o.Source, Via: func() []string { return []string{"unsigned"} }}, token)
	through := serve(t, replication.ServerConfig{
		Source: further.db, Trust: further.trust, Via: func() []string { return []string{"through", "own"} },
	}, token)
	taken := busy(t, replication.ServerConfig{Source: further.db, Trust: further.trust, Via: func() []string { return []string{"taken"} }})
	known := newNode(t, o, "known", token)
	known.trust = own.trust
	o.NewHistory()
	o.put(1)
	newer := cutAt(t, o, "newer", token)

	nobody := "http://127.0.0.1:1"
	useless := []string{behind.url, own.url, stranger.url, foreign.url, empty.url, unsigned, through, nobody}
	for name, c := range map[string]struct {
		of   *node
		list []string
		best string
	}{
		"none that is behind":                               {own, []string{behind.url}, ""},
		"not itself":                                        {own, []string{own.url}, ""},
		"none that asks for another token":                  {own, []string{stranger.url}, ""},
		"none of another cluster":                           {own, []string{foreign.url}, ""},
		"none that holds nothing":                           {own, []string{empty.url}, ""},
		"none that shows no signature":                      {own, []string{unsigned}, ""},
		"none that follows this node":                       {own, []string{through}, ""},
		"nobody":                                            {own, []string{nobody}, ""},
		"none of an older history":                          {newer, []string{own.url, further.url}, ""},
		"the one that is ahead":                             {own, append([]string{ahead.url}, useless...), ahead.url},
		"the one that is further":                           {own, append(useless, ahead.url, further.url), further.url},
		"of a newer history, wherever it is":                {own, []string{further.url, newer.url, ahead.url}, newer.url},
		"where it need not wait for its first snapshot":     {known, []string{taken, ahead.url}, ahead.url},
		"where it waits, if there is none else":             {known, []string{taken}, taken},
		"though others wait there, if it needs no snapshot": {own, []string{ahead.url, taken}, taken},
		"nobody's word, for who has no key":                 {empty, []string{behind.url}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			chooser := peers.New(c.of.config(c.list...))
			require.Equal(t, c.best, chooser.Best(t.Context(), c.of.loop.Status()))
		})
	}
}

func TestAnEdgeThatIsCutOffFollowsThePeerThatKnowsMostAndReturnsByItself(t *testing.T) {
	o := newOrigin(t)
	o.put(1)
	one, two, edge := newNode(t, o, "one", token), newNode(t, o, "two", token), newNode(t, o, "edge", token)
	for _, n := range []*node{one, two} {
		n.run(t, n.config())
	}
	edge.loop.well.Store(true)
	chooser := edge.run(t, edge.config(one.url, two.url))
	for _, n := range []*node{one, two, edge} {
		n.at(t, o.put(1))
	}
	require.Empty(t, chooser.Peer())
	until(t, "all are", func() bool { return one.db.Position() == edge.db.Position() && two.db.Position() == edge.db.Position() })

	edge.home.Cut()
	one.home.Cut()
	two.at(t, o.put(3))
	reports(t, two.url, token, two.db, two.db.Position())
	edge.loop.well.Store(false)
	edge.at(t, two.db.Position())
	require.Equal(t, two.url, chooser.Peer())
	edge.at(t, o.put(1))
	require.Equal(t, []string{"two"}, edge.loop.Status().Via)

	two.home.Cut() // now the other one hears what is new
	one.home.Mend()
	one.at(t, o.put(3))
	reports(t, one.url, token, one.db, one.db.Position())
	edge.loop.well.Store(false)
	edge.at(t, one.db.Position())
	require.Equal(t, one.url, chooser.Peer())

	edge.home.Mend()
	until(t, "it returns", func() bool { return chooser.Peer() == "" && edge.loop.Status().Connected })
	one.home.Cut()
	edge.at(t, o.put(1))
	turns := edge.loop.turns.Load()
	require.LessOrEqual(t, turns, int64(5), "it does not go to and fro")
	require.Empty(t, edge.loop.Status().Via)
	require.Equal(t, 1, edge.loop.Status().Snapshots, "the one that it began with")
	replicationtest.RequireEqual(t, o.Source, edge.db)
}

func TestAnEmptyEdgeTakesItsFirstSnapshotFromAPeerWhileItsHomeIsAway(t *testing.T) {
	o := newOrigin(t)
	at := o.put(5)
	full := fullAt(t, o, at)

	// This node has lost its replica, and not the key of its control plane.
	known := newNode(t, o, "known", token)
	known.trust = full.trust
	known.home.Cut()
	chooser := known.run(t, known.config(full.url))
	known.at(t, at)
	require.Equal(t, full.url, chooser.Peer())
	replicationtest.RequireEqual(t, o.Source, known.db)

	// A node without a pinned key believes no peer: first its home has to answer once.
	fresh := newNode(t, o, "fresh", token)
	fresh.home.Cut()
	cfg := fresh.config(full.url)
	looks := make(chan struct{}, 1000)
	list := cfg.List
	cfg.List = func() []string {
		select {
		case looks <- struct{}{}:
		default: // no test counts that far
		}
		return list()
	}
	chooser = fresh.run(t, cfg)
	for range 3 {
		select {
		case <-looks:
		case <-time.After(time.Minute):
			t.Fatal("it does not look for peers")
		}
	}
	require.True(t, fresh.db.Position().IsZero())
	require.Empty(t, chooser.Peer())
	fresh.home.Mend()
	fresh.at(t, at)
}

func TestAFirstSnapshotIsTakenFromAPeerAlsoWhileHomeIsThere(t *testing.T) {
	o := newOrigin(t)
	at := o.put(5)
	full, fresh := newNode(t, o, "full", token), newNode(t, o, "fresh", token)
	full.run(t, full.config())
	full.at(t, at)
	cfg := fresh.config(full.url)
	cfg.First = true
	chooser := peers.New(cfg)
	require.Empty(t, chooser.Peer())
	// Home pins its key, and then nothing but the peer has links.
	until(t, "it is asked", func() bool {
		_, err := replication.Look(t.Context(), cfg.Home)
		return err == nil
	})
	until(t, "the peer is chosen", func() bool { return chooser.Best(t.Context(), replication.Status{}) == full.url })
	fresh.run(t, cfg)
	fresh.at(t, at)
	until(t, "it returns home", func() bool {
		return fresh.loop.chooser.Peer() == "" && len(fresh.loop.Status().Via) == 0 && fresh.loop.Status().Connected
	})
	fresh.at(t, o.put(1))
}

// shut is a source whose snapshots do not end.
type shut struct{ replication.Source }

func (s shut) Snapshot(ctx context.Context, _, _ uint16, _ func([]byte) error) (h replication.Head, err error) {
	<-ctx.Done()
	return h, ctx.Err()
}

// busy serves a source whose only snapshot at a time is taken, and never ends.
func busy(t *testing.T, cfg replication.ServerConfig) (url string) {
	t.Helper()
	cfg.MaxSnapshots, cfg.Source = 1, shut{cfg.Source}
	url = serve(t, cfg, "")
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+replication.PathSnapshot, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		if res.StatusCode == http.StatusOK {
			t.Cleanup(func() { require.NoError(t, res.Body.Close()) })
			return url
		}
		require.NoError(t, res.Body.Close()) // it has not read its head yet
		require.True(t, time.Now().Before(end), res.Status)
	}
}

func TestAnEdgeThatWaitsAtAPeerGoesToOneWhereNobodyDoes(t *testing.T) {
	o := newOrigin(t)
	at := o.put(5)
	full := fullAt(t, o, at)
	reports(t, full.url, token, full.db, at)
	taken := busy(t, replication.ServerConfig{Source: full.db, Trust: full.trust, Via: func() []string { return []string{"taken"} }})
	fresh := newNode(t, o, "fresh", token)
	fresh.trust = full.trust
	fresh.home.Cut()
	var free atomic.Bool
	cfg := fresh.config()
	cfg.Home.Silence = time.Minute
	cfg.List = func() []string {
		if free.Load() {
			return []string{taken, full.url}
		}
		return []string{taken}
	}
	chooser := fresh.run(t, cfg)
	until(t, "it waits there", func() bool { return chooser.Peer() == taken && fresh.loop.Status().Wait.Waits() })

	free.Store(true)
	fresh.loop.well.Store(false)
	fresh.at(t, at)
}

func TestAnEdgeThatWaitsAtHomeStays(t *testing.T) {
	o := newOrigin(t)
	at := o.put(5)
	full := fullAt(t, o, at)
	home := &origin{Source: o.Source, url: busy(t, replication.ServerConfig{Source: o.Source, Signer: o.signer})}
	fresh := newNode(t, home, "fresh", token)
	fresh.trust = full.trust // else no peer would be believed
	cfg := fresh.config(full.url)
	cfg.Home.Silence, cfg.After = time.Minute, 20*time.Millisecond
	fresh.loop.waits.Store(true)
	chooser := fresh.run(t, cfg)
	until(t, "it waits", func() bool { return fresh.loop.Status().Wait.Waits() })
	for range 3 {
		began, looks := fresh.loop.Status().Wait.HeardAt, fresh.loop.looks.Load()
		until(t, "it is not let in", func() bool {
			return fresh.loop.Status().Wait.HeardAt.Sub(began) > cfg.After && fresh.loop.looks.Load() > looks+1
		})
	}
	require.Empty(t, chooser.Peer())
	require.True(t, fresh.db.Position().IsZero())
}

func TestAFirstSnapshotFromAPeerIsOfHomesHistory(t *testing.T) {
	o := newOrigin(t)
	o.put(5)
	old := cutAt(t, o, "old", token)
	o.NewHistory()
	at := o.put(3)
	fresh := newNode(t, o, "fresh", token)
	reports(t, o.url, "", fresh.db, at) // of the older history it may be for a moment
	cfg := fresh.config(old.url)
	cfg.First, cfg.After = true, time.Hour
	fresh.run(t, cfg)
	fresh.at(t, at)
	require.Zero(t, fresh.loop.turns.Load(), "it has taken nothing from a peer")
}

func TestAFirstSnapshotIsTakenAtHomeWhenItWouldHaveToWaitForAPeers(t *testing.T) {
	o := newOrigin(t)
	at := o.put(5)
	full := fullAt(t, o, at)
	taken := busy(t, replication.ServerConfig{Source: full.db, Trust: full.trust, Via: func() []string { return []string{"taken"} }})
	fresh := newNode(t, o, "fresh", token)
	cfg := fresh.config(taken)
	cfg.First = true
	chooser := fresh.run(t, cfg)
	fresh.at(t, at)
	until(t, "it is at home", func() bool { return chooser.Peer() == "" })
}

func TestAPeerThatLetsOthersGoFirstIsNotQuiet(t *testing.T) {
	o := newOrigin(t)
	n := newNode(t, o, "one", token)
	chooser := peers.New(n.config())
	soon := time.Now().Add(time.Hour)
	require.Negative(t, chooser.Quiet(replication.Status{Wait: replication.Wait{Since: soon, HeardAt: soon}}))
	require.Positive(t, chooser.Quiet(replication.Status{}))
}
