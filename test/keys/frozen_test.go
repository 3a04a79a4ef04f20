package keys_test

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/internal/pgserver/pgservertest"
	"waypost/test/devtest"
)

// A control plane is stopped in the middle of creates until its leases are burned. When
// it continues, it uses none of them. PostgreSQL ends the transaction that it had open.
func TestKeys_AreNotIssuedByAControlPlaneThatWasFrozenBeyondItsLeases(t *testing.T) {
	database, base := databases.Database(t), t.TempDir()
	control := func(name string) *devtest.Control {
		return start(t, devtest.ControlConfig{
			Database: pgservertest.Plain(database), DataDir: filepath.Join(base, name, "data"), Region: "eu-west-1", Node: name,
			Env: []string{"FAILPOINT=keys of a lease@500", "FAILPOINT=a control plane is dead after@2s", unhurried},
		})
	}
	frozen, other := control("frozen"), control("other")
	var keys ledger
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	stop := sync.OnceFunc(func() { cancel(); clients.Wait() })
	defer stop()
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if code, got := create(ctx, frozen.API, ""); got.status == http.StatusCreated {
					keys.receive(frozen.Node, code)
				}
				unless(ctx, pause)
			}
		})
	}
	more := func(from *devtest.Control, n int) {
		t.Helper()
		before := keys.size()
		eventually(t, from.Node+" issues keys", func() bool {
			if from != frozen { // which has its clients
				codes, got := createMany(t.Context(), from.API, 200)
				require.True(t, got.status == http.StatusOK || got.status == http.StatusServiceUnavailable, got.text)
				keys.receive(from.Node, codes...)
			}
			return keys.size() >= before+n
		})
	}
	more(frozen, 200)
	more(other, 200)

	conn := psql(t, database)
	leases := func(state string) (n int) {
		t.Helper()
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM key_lease WHERE node LIKE 'frozen%' AND state = $1`, state).Scan(&n))
		return n
	}
	require.Positive(t, leases("held"))
	require.NoError(t, syscall.Kill(frozen.PID(), syscall.SIGSTOP))
	eventually(t, "the leases are burned", func() bool { return leases("held") == 0 })
	require.Positive(t, leases("burned"))
	var burned []time.Time
	var prefixes []int
	var los, his []int64
	require.NoError(t, conn.QueryRow(t.Context(), `
		SELECT array_agg(clock_timestamp()), array_agg(prefix), array_agg(lo), array_agg(hi) FROM key_lease
		WHERE node LIKE 'frozen%' AND state = 'burned'`).Scan(&burned, &prefixes, &los, &his))
	more(other, 1200) // some leases
	require.NoError(t, syscall.Kill(frozen.PID(), syscall.SIGCONT))
	more(frozen, 600) // it has leased again
	stop()
	keys.requireNoneTwice(t)
	rows, err := conn.Query(t.Context(), `SELECT code FROM link WHERE created_at > $1`, burned[0])
	require.NoError(t, err)
	codes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(codes), 1200)
	permutation := coder(t)
	for _, code := range codes {
		prefix, counter, ok := permutation.Decode(waypost.Code(code))
		require.True(t, ok)
		for i := range prefixes {
			require.False(t, prefix == prefixes[i] && los[i] <= counter && counter < his[i], "%s is of a burned lease", code)
		}
	}
	t.Logf("%d keys", keys.size())
}
