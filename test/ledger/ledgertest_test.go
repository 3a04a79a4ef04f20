// Package ledger_test proves on real edges, control planes and a real PostgreSQL that
// what visitors were answered is what is counted, link by link, in every place where
// clicks are counted, while all of them are killed wherever that could matter and
// messages between them are lost, doubled and late.
package ledger_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// longTime names a variable with how long the long version takes, such as "5m". The short
// one ends when somebody was killed at each place.
const longTime = "WAYPOST_LEDGER"

// place is a failpoint, how often at most it is passed before it kills, and how an edge
// lives that comes there.
type place struct {
	name   string
	passes int
	way    way
}

// way sets how an edge lives. Limits make what takes long, or much, happen all the time.
type way struct {
	limits  string
	longest time.Duration // until it is killed wherever it is
	busy    int           // one of that many visits takes place: there is little room for many clicks at once
	cutOff  bool          // no batch reaches the control plane
}

const (
	always = "clicks become a batch after@20ms;batches of a pack@4;clicks are sent again within@300ms"
	large  = always + ";bytes of a click segment@262144"
	small  = always + ";bytes of a click segment@16384;bytes of exact compacted segments@4096"
	kept   = ";acknowledged clicks are kept@1m"
)

var (
	shipping = way{limits: large + kept, longest: longestLife, busy: 1}
	filling  = way{limits: small + kept, longest: longestLife, busy: 2}
	// Batches wait, so that segments become folds, and folds one.
	folding    = way{limits: small + kept, longest: 4 * longestLife, busy: 2, cutOff: true}
	forgetting = way{limits: large + ";acknowledged clicks are kept@2s", longest: 2 * longestLife, busy: 1}
)

var edgePlaces = []place{
	{"append click: begun", 300, shipping},
	{"append click: half", 300, shipping},
	{"append click: done", 300, shipping},
	{"make batch: written", 4, shipping},
	{"make batch: synced", 4, shipping},
	{"make batch: renamed", 4, shipping},
	{"make batch: durable", 4, shipping},
	{"send batch: begun", 4, shipping},
	{"send batch: answered", 4, shipping},
	{"acknowledge batch: begun", 4, shipping},
	{"acknowledge batch: done", 4, shipping},
	{"make pack: written", 0, shipping},
	{"make pack: synced", 0, shipping},
	{"make pack: renamed", 0, shipping},
	{"make pack: durable", 0, shipping},
	{"remove batch: begun", 2, shipping},
	{"remove batch: done", 2, shipping},
	{"make segment: written", 3, filling},
	{"make segment: synced", 3, filling},
	{"make segment: renamed", 3, filling},
	{"make segment: durable", 3, filling},
	{"seal segment: begun", 3, filling},
	{"seal segment: done", 3, filling},
	{"remove segment: begun", 2, filling},
	{"remove segment: done", 2, filling},
	{"make compacted: written", 2, folding},
	{"make compacted: synced", 2, folding},
	{"make compacted: renamed", 2, folding},
	{"make compacted: durable", 2, folding},
	{"merge compacted: begun", 0, folding},
	{"merge compacted: durable", 0, folding},
	{"remove compacted: begun", 3, folding},
	{"remove compacted: done", 3, folding},
	{"remove pack: begun", 0, forgetting},
	{"remove pack: done", 0, forgetting},
	{"recover boot: begun", 1, shipping},
	{"recover boot: done", 1, shipping},
}

var (
	serving       = way{longest: longestLife}
	controlPlaces = []place{
		{"ingest clicks: begun", 6, serving},
		{"ingest clicks: sent", 6, serving},
		{"ingest clicks: committed", 6, serving},
		{"fold clicks: begun", 1, serving},
		{"fold clicks: links", 1, serving},
		{"fold clicks: committed", 1, serving},
	}
	// Places at which a control plane kills PostgreSQL.
	postgresPlaces = []place{
		{name: "ingest clicks: begun"},
		{name: "ingest clicks: sent"},
		{name: "ingest clicks: committed"},
		{name: "fold clicks: begun"},
		{name: "fold clicks: links"},
	}
)

// TestWhatVisitorsWereAnsweredIsCountedWhoeverIsKilledWherever finds this defect: a
// batch whose answer was lost is sent again as the first of another boot, so that the
// control plane counts it twice.
func TestWhatVisitorsWereAnsweredIsCountedWhoeverIsKilledWherever(t *testing.T) {
	least, most := time.Duration(0), 15*time.Minute
	if text := os.Getenv(longTime); text != "" {
		d, err := time.ParseDuration(text)
		require.NoError(t, err, longTime)
		least, most = d, d+10*time.Minute
	}
	w := startWorld(t)
	edges := newTurns("edge", edgePlaces)
	controls := newTurns("control plane", controlPlaces)
	postgres := newTurns("PostgreSQL", postgresPlaces)
	w.live(edges, controls, postgres)

	began := time.Now()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	missing := func() []string { return slices.Concat(edges.missing(), controls.missing(), postgres.missing()) }
	for left := -1; (time.Since(began) < least || left != 0) && time.Since(began) < most && !w.failed(); {
		switch n := len(missing()); {
		case n == 0:
			w.progress.Store(0)
			left = 0
		case n != left:
			w.progress.Store(time.Now().UnixMilli())
			left = n
		}
		<-poll.C
	}
	w.end()
	t.Logf("%s: kills: %d of edges, %d of control planes, %d of PostgreSQL; %s; %s", time.Since(began).Round(time.Millisecond),
		edges.total(), controls.total(), postgres.total(), w.visitors.String(), w.mischief())
	t.Log(strings.Join(slices.Concat(edges.list(), controls.list(), postgres.list()), "; "))
	require.Empty(t, w.errors)
	require.Empty(t, missing(), "places at which no one was killed")

	w.calm()
	w.judge()
	for _, e := range w.edges {
		e.proxy.deliverAll()
	}
	w.judge() // what comes late, and once more, changes nothing
	require.Empty(t, w.errors)
}
