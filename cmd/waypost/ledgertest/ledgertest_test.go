// Package ledgertest_test proves on real edges, control planes and a real PostgreSQL that
// what visitors were answered is what is counted, link by link, in every place where clicks
// are counted, while all of them are killed wherever that could matter and messages between
// them are lost, doubled and late.
package ledgertest_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// longTime names a variable with how long the long version takes, such as "5m".
const longTime = "WAYPOST_LEDGER"

// place is a failpoint, and how often at most it is passed before it kills.
type place struct {
	name   string
	passes int
}

// Places of edges. Those of the short version come first.
var edgePlaces = []place{
	{"append click: begun", 300},
	{"append click: done", 300},
	{"make batch: written", 8},
	{"make batch: durable", 8},
	{"send batch: begun", 8},
	{"send batch: answered", 8},
	{"acknowledge batch: begun", 8},
	{"acknowledge batch: done", 8},
	{"seal segment: begun", 0},
	{"seal segment: done", 0},
	{"remove segment: begun", 2},
	{"remove segment: done", 2},
	// From here on the long version's.
	{"append click: half", 300},
	{"make batch: synced", 8},
	{"make batch: renamed", 8},
	{"make segment: written", 5},
	{"make segment: synced", 5},
	{"make segment: renamed", 5},
	{"make segment: durable", 5},
	{"make fold: written", 2},
	{"make fold: synced", 2},
	{"make fold: renamed", 2},
	{"make fold: durable", 2},
	{"merge folds: begun", 0},
	{"merge folds: durable", 0},
	{"remove fold: begun", 7},
	{"remove fold: done", 7},
	{"make pack: written", 0},
	{"make pack: synced", 0},
	{"make pack: renamed", 0},
	{"make pack: durable", 0},
	{"remove batch: begun", 5},
	{"remove batch: done", 5},
	{"remove pack: begun", 0},
	{"remove pack: done", 0},
	{"recover boot: begun", 2},
	{"recover boot: done", 2},
}

const shortEdgePlaces = 12

var (
	controlPlaces = []place{
		{"ingest clicks: begun", 6},
		{"ingest clicks: sent", 6},
		{"ingest clicks: committed", 6},
		{"fold clicks: begun", 1},
		{"fold clicks: links", 1},
		{"fold clicks: committed", 1},
	}
	// Places at which a control plane kills PostgreSQL.
	postgresPlaces = []place{
		{"ingest clicks: begun", 0},
		{"ingest clicks: sent", 0},
		{"ingest clicks: committed", 0},
		{"fold clicks: begun", 0},
		{"fold clicks: links", 0},
	}
)

// limits make everything that takes long, or much, happen all the time.
const limits = "clicks become a batch after@20ms;batches of a pack@4;acknowledged clicks are kept@1s;clicks are sent again within@300ms"

func TestWhatVisitorsWereAnsweredIsCountedWhoeverIsKilledWherever(t *testing.T) {
	few, least, most := shortEdgePlaces, time.Duration(0), 4*time.Minute
	if text := os.Getenv(longTime); text != "" {
		d, err := time.ParseDuration(text)
		require.NoError(t, err, longTime)
		few, least, most = len(edgePlaces), d, d+10*time.Minute
	}
	w := startWorld(t)
	edges := newTurns("edge", edgePlaces[:few])
	controls := newTurns("control plane", controlPlaces)
	postgres := newTurns("PostgreSQL", postgresPlaces)
	w.live(edges, controls, postgres)

	began := time.Now()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	missing := func() []string { return slices.Concat(edges.missing(), controls.missing(), postgres.missing()) }
	for (time.Since(began) < least || len(missing()) > 0) && time.Since(began) < most && !w.failed() {
		<-poll.C
	}
	w.end()
	t.Logf("%s: kills: %d of edges, %d of control planes, %d of PostgreSQL; %s; %s", time.Since(began).Round(time.Millisecond),
		edges.total(), controls.total(), postgres.total(), w.visitors.String(), w.mischief())
	t.Log(strings.Join(slices.Concat(edges.list(), controls.list(), postgres.list()), "; "))
	require.Empty(t, w.errors)
	require.Empty(t, missing(), "places at which nobody was killed")

	w.calm()
	w.judge()
	for _, e := range w.edges {
		e.proxy.deliverAll()
	}
	w.judge() // what comes late, and once more, changes nothing
	require.Empty(t, w.errors)
}
