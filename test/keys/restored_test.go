package keys_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/internal/pgserver"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
	"waypost/test/devtest"
)

// restored is an installation whose PostgreSQL goes back to an old copy, and whose
// clients remember every key that they ever got.
type restored struct {
	t      *testing.T
	base   string
	server *pgserver.Server
	nodes  []*devtest.Control
	starts int
	keys   ledger
}

func newRestored(t *testing.T) *restored {
	in := &restored{t: t, base: t.TempDir()}
	t.Cleanup(func() { in.stopPostgres() })
	require.NoError(t, os.MkdirAll(filepath.Dir(in.dir("first")), 0o755))
	devtest.CopyDatabase(t, in.dir("first"))
	in.startPostgres("first")
	in.startNodes()
	return in
}

// dir is the directory of a PostgreSQL by name.
func (in *restored) dir(name string) string { return filepath.Join(in.base, "postgres", name) }

func (in *restored) startPostgres(name string) {
	in.t.Helper()
	ctx, cancel := context.WithTimeout(in.t.Context(), time.Minute)
	defer cancel()
	require.NoError(in.t, os.MkdirAll(filepath.Dir(in.dir(name)), 0o755))
	var err error
	in.server, err = pgserver.Start(ctx, pgserver.Config{Dir: in.dir(name), Settings: map[string]string{"fsync": "off"}})
	require.NoError(in.t, err)
}

func (in *restored) stopPostgres() {
	in.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := in.server.Stop(ctx); err != nil {
		in.t.Error(err)
	}
}

// homes are the control planes: by name their region.
var homes = [][2]string{{"eu-0", "eu-west-1"}, {"us-0", "us-east-1"}}

// startNodes starts all control planes at once, as after an outage.
func (in *restored) startNodes() {
	in.t.Helper()
	in.starts++
	in.nodes = nil
	for _, home := range homes {
		c, err := devtest.StartControl(in.t, devtest.ControlConfig{
			Database: pgservertest.Patient(in.server.URL()), DataDir: dirOf(in.base, home[0]), Region: home[1], Node: fmt.Sprintf("%s.%d",
				home[0], in.starts),
			Env: []string{"FAILPOINT=keys of a lease@500", patient, unhurried},
		})
		require.NoError(in.t, err)
		in.nodes = append(in.nodes, c)
		in.t.Cleanup(func() { requireNoRace(in.t, c) })
	}
	for _, c := range in.nodes {
		ready, err := c.Ready()
		require.NoError(in.t, err)
		require.True(in.t, ready, c.Output())
	}
}

func (in *restored) stopNodes() {
	in.t.Helper()
	for _, c := range in.nodes {
		require.NoError(in.t, c.Terminate())
	}
	for _, c := range in.nodes {
		require.NoError(in.t, c.Stop())
	}
}

// loseMemories takes the data directories of all control planes away.
func (in *restored) loseMemories() {
	in.t.Helper()
	for _, home := range homes {
		require.NoError(in.t, os.RemoveAll(dirOf(in.base, home[0])))
	}
}

// issue has every control plane issue keys of all kinds.
func (in *restored) issue() {
	in.t.Helper()
	for _, c := range in.nodes {
		in.issueFrom(c)
	}
}

func (in *restored) issueFrom(c *devtest.Control) {
	in.t.Helper()
	in.issueAs(c, http.StatusOK, in.keys.reserve, func() ([]string, answer) { return reserve(in.t.Context(), c.API, "service", 700) })
	for range 5 {
		in.createFrom(c)
	}
	codes := in.issueAs(c, http.StatusOK, in.keys.receive, func() ([]string, answer) { return createMany(in.t.Context(), c.API, 200) })
	require.Len(in.t, codes, 200)
}

// createFrom makes one link, and returns its code.
func (in *restored) createFrom(c *devtest.Control) string {
	in.t.Helper()
	return in.issueAs(c, http.StatusCreated, in.keys.receive, func() ([]string, answer) {
		code, got := create(in.t.Context(), c.API, "")
		return []string{code}, got
	})[0]
}

// issueAs has a request answered, and notes what it brings. A control plane whose
// PostgreSQL was restarted below it says 503 for a moment, on each of the connections
// that it had.
func (in *restored) issueAs(c *devtest.Control, good int, note func(node string, keys ...string), ask func() ([]string,
	answer),
) (keys []string) {
	in.t.Helper()
	eventually(in.t, c.Node+" issues keys", func() bool {
		var got answer
		keys, got = ask()
		if got.status == 0 || got.status == http.StatusServiceUnavailable {
			return false
		}
		require.Equal(in.t, good, got.status, got.text)
		note(c.Node, keys...)
		return true
	})
	return keys
}

// live returns the live ranges of a region.
func (in *restored) live(region string) (live []listedRange) {
	in.t.Helper()
	for _, r := range listRanges(in.t, in.nodes[0].API) {
		if r.Region == region && r.State == "live" {
			live = append(live, r)
		}
	}
	return live
}

// rebalance splits, moves and drains, and has a new prefix used, so that keys are
// issued from ranges that the old copy does not know. It returns acts that would issue
// them once more, if the copy were believed.
func (in *restored) rebalance() (again []step) {
	in.t.Helper()
	api := in.nodes[0].API
	eu, us := in.live("eu-west-1")[0], in.live("us-east-1")[0]
	const farther = 100_000_000 // than any gap
	far := step{"action": "move", "range": eu.ID, "region": "us-east-1", "at": eu.Next + farther}
	changed(in.t, api, far)
	changed(in.t, api, step{"action": "drain", "range": us.ID}) // the far end is left
	in.issueUntil(func(prefix string, counter int64) bool { return prefix == eu.Prefix && counter >= eu.Next+farther })
	changed(in.t, api, step{"action": "split", "range": eu.ID})
	changed(in.t, api, step{"action": "move", "range": eu.ID, "region": "us-east-1", "remainder": true})
	changed(in.t, api, step{"action": "move", "range": us.ID, "region": "eu-west-1"}, step{"action": "assign", "region": "us-east-1"})
	live := in.live("us-east-1")
	fresh := live[len(live)-1].Prefix
	for _, r := range live[:len(live)-1] { // what is left is the new prefix
		changed(in.t, api, step{"action": "drain", "range": r.ID})
	}
	in.issueUntil(func(prefix string, _ int64) bool { return prefix == fresh })
	return []step{far, {"action": "assign", "region": "us-east-1", "prefix": fresh}}
}

// issueUntil has us-east-1 issue until a key is as a test wants it: its control plane
// has leases of earlier ranges still.
func (in *restored) issueUntil(is func(prefix string, counter int64) bool) {
	in.t.Helper()
	codes := coder(in.t)
	for range 60 {
		in.issueFrom(in.nodes[1])
		code := in.createFrom(in.nodes[1])
		if _, counter, ok := codes.Decode(waypost.Code(code)); ok && is(code[:2], counter) {
			return
		}
	}
	require.FailNow(in.t, "no key of the range that it is about was issued")
}

// requireRefused has the acts refused, because what they are about was used.
func (in *restored) requireRefused(acts []step) {
	in.t.Helper()
	for _, act := range acts {
		got := change(in.t, in.nodes[0].API, act)
		require.Equal(in.t, http.StatusConflict, got.status, "%v: %s", act, got.text)
	}
}

// requireFresh issues after a restore, and finds no key that was issued before.
func (in *restored) requireFresh() {
	in.t.Helper()
	for range 3 {
		in.issue()
	}
	in.keys.requireNoneTwice(in.t)
}

// epochs counts the histories.
func (in *restored) epochs() (n int) {
	in.t.Helper()
	conn, err := pgx.Connect(in.t.Context(), in.server.URL())
	require.NoError(in.t, err)
	require.NoError(in.t, conn.QueryRow(in.t.Context(), `SELECT count(*) FROM changelog_epoch`).Scan(&n))
	require.NoError(in.t, conn.Close(in.t.Context()))
	return n
}

// backUp makes a copy of the stopped cluster, and putBack makes it the cluster.
func (in *restored) backUp() {
	in.t.Helper()
	in.stopPostgres()
	devtest.CopyTree(in.t, filepath.Join(in.dir("first"), "data"), filepath.Join(in.base, "backup"))
	in.startPostgres("first")
}

func (in *restored) putBack() {
	in.t.Helper()
	in.stopPostgres()
	devtest.CopyTree(in.t, filepath.Join(in.base, "backup"), filepath.Join(in.dir("first"), "data"))
	in.startPostgres("first")
}

func TestKeys_AreNotIssuedAgainAfterAnOldCopyIsRestored(t *testing.T) {
	for name, running := range map[string]bool{"while the control planes are stopped": false, "below running control planes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := newRestored(t)
			in.issue()
			in.backUp()
			in.issue()
			again := in.rebalance()
			rounds := 1
			if devtest.Long() {
				rounds = 2 // a second time as well, from the same copy
			}
			for range rounds {
				if !running {
					in.stopNodes()
				}
				in.putBack()
				if !running {
					in.startNodes()
				}
				in.requireFresh()
				require.Equal(t, 2, in.epochs(), "all control planes came at once, and one epoch was opened")
				in.requireRefused(again)
			}
			requireHeld(t, in.nodes[0], false)
		})
	}
}

// age makes the database look as if it had been left alone for an hour.
func (in *restored) age() {
	in.t.Helper()
	conn := psql(in.t, in.server.URL())
	for _, sql := range []string{
		`UPDATE control_node SET seen_at = seen_at - interval '1 hour'`,
		`UPDATE changelog_epoch SET opened_at = opened_at - interval '1 hour'`,
		`ALTER TABLE changelog NO FORCE ROW LEVEL SECURITY`,
		`UPDATE changelog SET at = at - interval '1 hour'`,
		`ALTER TABLE changelog FORCE ROW LEVEL SECURITY`,
	} {
		_, err := conn.Exec(in.t.Context(), sql)
		require.NoError(in.t, err)
	}
	require.NoError(in.t, conn.Close(in.t.Context()))
}

// requireHeldUntilResumed looks at what clients and operators see while no key is
// issued, and has an operator end that.
func (in *restored) requireHeldUntilResumed(resume ...string) {
	t := in.t
	t.Helper()
	for _, c := range in.nodes {
		_, got := create(t.Context(), c.API, "")
		require.Equal(t, http.StatusServiceUnavailable, got.status, got.text)
		require.Contains(t, got.text, "waypost ranges resume")
		require.Contains(t, got.text, "no control plane remembers which keys were issued before")
		_, got = reserve(t.Context(), c.API, "service", 10)
		require.Equal(t, http.StatusServiceUnavailable, got.status, got.text)
		requireHeld(t, c, true)
	}
	_, got := create(t.Context(), in.nodes[0].API, "chosen-by-hand")
	require.Equal(t, http.StatusCreated, got.status, "a custom code needs no key: %s", got.text)
	rangesDone(t, in.nodes[0].API, append(resume, "--dry-run")...)
	requireHeld(t, in.nodes[1], true)
	require.Contains(t, rangesDone(t, in.nodes[0].API, resume...), "keys are issued again")
	requireHeld(t, in.nodes[1], false)
}

func TestKeys_AreHeldAfterAnOldCopyThatNoNodeRemembersUntilAnOperatorResumes(t *testing.T) {
	t.Parallel()
	in := newRestored(t)
	in.issue()
	in.backUp()
	in.issue()
	in.stopNodes()
	in.loseMemories()
	in.putBack()
	in.age()
	in.startNodes()
	in.requireHeldUntilResumed("resume", "--gap=80000000")
	in.requireFresh()
	require.Equal(t, 2, in.epochs())

	// A control plane that joins others, and so remembers nothing either, holds nothing.
	joined := start(t, devtest.ControlConfig{
		Database: pgservertest.Patient(in.server.URL()), DataDir: dirOf(in.base, "new"),
		Region: "eu-west-1", Node: "new", Env: []string{patient},
	})
	in.issueFrom(joined)
	requireHeld(t, joined, false)
	in.keys.requireNoneTwice(t)
}

// requireHeld looks at what operators see.
func requireHeld(t *testing.T, c *devtest.Control, held bool) {
	t.Helper()
	var metrics answer
	eventually(t, "the database answers in time for the metrics", func() bool {
		metrics = ask(t.Context(), http.MethodGet, c.Admin+"/metrics", nil, nil)
		return strings.Contains(metrics.text, "\nwaypost_keys_held ")
	})
	list := rangesDone(t, c.API, "list")
	if held {
		require.Contains(t, metrics.text, "\nwaypost_keys_held 1\n")
		require.True(t, strings.HasPrefix(list, "!! NO KEY IS ISSUED"), list)
		require.Contains(t, list, "waypost ranges resume")
		return
	}
	require.Contains(t, metrics.text, "\nwaypost_keys_held 0\n")
	require.NotContains(t, list, "NO KEY IS ISSUED")
}

// superuser is the address of the server's database for pg_dump, which rows of all
// workspaces are shown to.
func (in *restored) superuser() string {
	return strings.Replace(in.server.URL(), pgserver.Role+"@", "postgres@", 1)
}

// restoreDump replaces PostgreSQL by a new cluster that is made from a dump.
func (in *restored) restoreDump(name string) {
	in.t.Helper()
	in.stopPostgres()
	in.startPostgres(name)
	roles, err := migrations.Roles(pgserver.Role) // which no dump of one database holds
	require.NoError(in.t, err)
	_, err = psql(in.t, in.server.URL()).Exec(in.t.Context(), roles)
	require.NoError(in.t, err)
	devtest.PostgresTool(in.t, "pg_restore", "--exit-on-error", "--dbname", in.superuser(), filepath.Join(in.base, "dump"))
}

func TestKeys_AreNotIssuedAgainAfterADumpIsRestored(t *testing.T) {
	t.Parallel()
	in := newRestored(t)
	in.issue()
	devtest.PostgresTool(in.t, "pg_dump", "--format=custom", "--file", filepath.Join(in.base, "dump"), "--dbname", in.superuser())
	in.issue()
	again := in.rebalance()

	in.stopNodes()
	in.restoreDump("second")
	in.startNodes()
	in.requireFresh()
	in.requireRefused(again)
	requireHeld(t, in.nodes[0], false)

	if !devtest.Long() {
		return
	}
	// The same once more, and now no one remembers.
	in.stopNodes()
	in.loseMemories()
	in.restoreDump("third")
	in.startNodes()
	// The operator knows that a range was cut far ahead since the dump was made.
	in.requireHeldUntilResumed("resume", "--gap", "300000000")
	in.requireFresh()
}
