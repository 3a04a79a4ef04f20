package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/postgres"
)

// TestDB_KnowsPostgreSQLsTime stands for a control plane with a wrong clock by a database
// with another one.
func TestDB_KnowsPostgreSQLsTime(t *testing.T) {
	url := cluster.Database(t)
	hand := psql(t, url)
	exec(t, hand, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`)
	set := func(offset time.Duration) {
		t.Helper()
		exec(t, hand, fmt.Sprintf(`CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
			RETURN pg_catalog.clock_timestamp() + interval '%d seconds'`, int(offset.Seconds())))
	}
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url, ReadOnly: true})
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), db.Now(), 100*time.Millisecond)
	db.Close()

	set(6 * time.Hour)
	db, err = postgres.Open(t.Context(), postgres.Config{URL: url, HearTimeout: waitLimit})
	require.NoError(t, err)
	defer db.Close()
	require.WithinDuration(t, time.Now().Add(6*time.Hour), db.Now(), time.Minute, "as soon as it is open")
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)

	// A step of either clock counts from the next look at the head on.
	set(-400 * 24 * time.Hour)
	_, err = db.Head(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(-400*24*time.Hour), db.Now(), time.Minute)
}
