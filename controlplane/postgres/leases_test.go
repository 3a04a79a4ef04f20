package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/fleet"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/internal/condition"
)

func TestConcurrentLeasesNeverShareACounter(t *testing.T) {
	db, _ := open(t)
	const nodes, each = 6, 8
	leases := make([][]keys.Lease, nodes)
	var wg sync.WaitGroup
	for n := range nodes {
		wg.Go(func() {
			for range each {
				l, err := db.TakeLease(t.Context(), "eu", "n/1", 10, nil)
				if err != nil {
					t.Error(err)
					return
				}
				leases[n] = append(leases[n], l)
			}
		})
	}
	wg.Wait()
	seen := make(map[[2]int64]bool)
	for _, ls := range leases {
		for _, l := range ls {
			require.Equal(t, int64(10), l.Hi-l.Lo)
			for c := l.Lo; c < l.Hi; c++ {
				k := [2]int64{int64(l.Prefix), c}
				require.False(t, seen[k])
				seen[k] = true
			}
		}
	}
	require.Len(t, seen, nodes*each*10)
}

func TestACleanStopGivesTheRestBackAndTheNextLeaseIsThatRest(t *testing.T) {
	db, hand := open(t)
	l, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.NoError(t, err)
	before, err := db.Unleased(t.Context(), "eu")
	require.NoError(t, err)
	require.NoError(t, db.ReturnLease(t.Context(), l, l.Lo+30))
	after, err := db.Unleased(t.Context(), "eu")
	require.NoError(t, err)
	require.Equal(t, before+70, after)
	require.NoError(t, db.ReturnLease(t.Context(), l, l.Lo+10), "a second return changes nothing")

	next, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.NoError(t, err)
	require.Equal(t, [2]int64{l.Lo + 30, l.Hi}, [2]int64{next.Lo, next.Hi})
	other, err := db.TakeLease(t.Context(), "us", "n/3", 100, nil)
	require.NoError(t, err)
	require.NotEqual(t, l.Prefix, other.Prefix, "another region has another prefix")
	require.Equal(t, map[string]int{"closed": 1, "held": 2}, states(t, hand))
}

func states(t *testing.T, hand *pgx.Conn) map[string]int {
	t.Helper()
	rows, err := hand.Query(t.Context(), `SELECT state, count(*) FROM key_lease GROUP BY 1`)
	require.NoError(t, err)
	got := make(map[string]int)
	var state string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error { got[state] = n; return nil })
	require.NoError(t, err)
	return got
}

func TestTheLeasesOfAControlPlaneThatIsSilentAreBurned(t *testing.T) {
	db, hand := open(t)
	for _, node := range []string{"node/1", "node/2"} {
		require.NoError(t, db.Beat(t.Context(), node, "eu", nil))
	}
	crashed, err := db.TakeLease(t.Context(), "eu", "node/1", 100, nil)
	require.NoError(t, err)
	_, err = db.TakeLease(t.Context(), "eu", "node/2", 100, nil)
	require.NoError(t, err)
	require.NoError(t, db.BurnSilent(t.Context(), time.Minute))
	require.Equal(t, map[string]int{"held": 2}, states(t, hand))
	exec(t, hand, `UPDATE control_node SET seen_at = seen_at - interval '2 minutes' WHERE node = 'node/1'`)
	require.NoError(t, db.BurnSilent(t.Context(), time.Minute))
	require.Equal(t, map[string]int{"burned": 1, "held": 1}, states(t, hand))
	require.NoError(t, db.ReturnLease(t.Context(), crashed, crashed.Lo), "what is burned does not come back")
	require.Equal(t, map[string]int{"burned": 1, "held": 1}, states(t, hand))
}

func TestARangeThatIsUsedUpIsFollowedByAFreePrefixAndAtLastByAClearError(t *testing.T) {
	db, hand := open(t)
	first, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.NoError(t, err)
	exec(t, hand, `UPDATE key_range SET next = hi - 5`)
	rest, err := db.TakeLease(t.Context(), "eu", "n/1", 100, []int64{first.ID})
	require.NoError(t, err)
	require.Equal(t, int64(5), rest.Hi-rest.Lo)
	second, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.NoError(t, err)
	require.NotEqual(t, first.Prefix, second.Prefix)
	require.Equal(t, map[string]int{"closed": 1, "held": 2}, states(t, hand))

	exec(t, hand, `INSERT INTO key_range (prefix, lo, hi, next, region)
	               SELECT p, 0, 10, 10, 'us' FROM generate_series(0, 3843) p WHERE NOT EXISTS (SELECT FROM key_range r WHERE r.prefix = p)`)
	exec(t, hand, `UPDATE key_range SET next = hi`)
	_, err = db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.Equal(t, waypost.EExhausted, waypost.CodeOf(err))
}

func TestPostgreSQLItselfRefusesRangesAndLeasesThatOverlap(t *testing.T) {
	db, hand := open(t)
	l, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.NoError(t, err)
	_, err = hand.Exec(t.Context(), `INSERT INTO key_range (prefix, lo, hi, next, region) VALUES ($1, 5, 9, 5, 'us')`, l.Prefix)
	require.ErrorContains(t, err, "key_ranges_are_disjoint")
	_, err = hand.Exec(t.Context(), `INSERT INTO key_lease (range_id, prefix, region, lo, hi, epoch, generation, node)
	                                 SELECT id, prefix, 'us', 99, 101, 1, 1, 'x' FROM key_range`)
	require.ErrorContains(t, err, "key_leases_are_disjoint")
}

func TestEveryRegionGetsAPrefixOnce(t *testing.T) {
	db, hand := open(t)
	for range 2 {
		require.NoError(t, db.EnsureRanges(t.Context(), []waypost.Region{"eu", "us"}))
	}
	var n int
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT count(DISTINCT prefix) FROM key_range`).Scan(&n))
	require.Equal(t, 2, n)
}

func TestAClusterKeepsItsLengthsAndItsSecretForEver(t *testing.T) {
	db, _ := open(t)
	good := postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "new.example"}
	_, err := db.EnsureCluster(t.Context(), good)
	require.NoError(t, err, "the default host may change")
	for name, change := range map[string]func(*postgres.ClusterConfig){
		"code length 7":         func(c *postgres.ClusterConfig) { c.CodeLength = 8 },
		"prefix length 2":       func(c *postgres.ClusterConfig) { c.PrefixLength = 1 },
		"secret is not the one": func(c *postgres.ClusterConfig) { c.Secret[0] = 1 },
	} {
		bad := good
		change(&bad)
		_, err := db.EnsureCluster(t.Context(), bad)
		require.ErrorContains(t, err, name)
	}
}

func TestHeartbeats_TellOfAllControlPlanes(t *testing.T) {
	db, hand := open(t)
	heard := make(chan []fleet.ControlPlane, 10)
	report := fleet.ControlReport{Addr: "10.0.0.1:8080", Version: "1", Conditions: []condition.Condition{{Name: "PostgreSQLDown", Of: "x"}}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	require.NoError(t, db.Beat(t.Context(), "old/1", "eu", nil))
	exec(t, hand, `UPDATE control_node SET seen_at = seen_at - interval '1 minute'`)
	require.NoError(t, db.Leave(t.Context(), "old/1"))
	go func() {
		defer close(done)
		db.SendHeartbeats(ctx, postgres.Heartbeat{
			Node: "control-1/abc", Region: "eu", Issued: func() map[int64]int64 { return nil },
			Report: func() fleet.ControlReport { return report }, Heard: func(all []fleet.ControlPlane) { heard <- all },
		})
	}()
	all := <-heard
	cancel()
	<-done
	require.Len(t, all, 2)
	for _, c := range all {
		if c.Node == "old" {
			require.True(t, c.Stopped)
			require.InDelta(t, time.Minute, c.Silent, float64(30*time.Second))
			continue
		}
		require.Equal(t, "control-1", c.Node)
		require.Equal(t, report, c.ControlReport)
		require.False(t, c.Stopped)
	}
}
