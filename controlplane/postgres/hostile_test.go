package postgres_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"waypost"
	"waypost/api"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
)

func TestAMoveFromACounterOnNeverFences(t *testing.T) {
	db, _ := open(t)
	l := lease(t, db, "eu")
	rest := do(t, db, api.RangeStep{Action: keys.SplitRange, Range: l.Range, At: 5000})[0].Ranges[1]
	fresh := do(t, db, api.RangeStep{Action: keys.MoveRange, Range: rest.ID, Region: "us", At: 5000})
	require.Equal(t, rest.ID, fresh[0].Ranges[0].ID, "nothing of it is leased yet")
	held := lease(t, db, "us")
	require.Equal(t, rest.ID, held.Range)
	for _, at := range []int64{-1, 1, 4999, 5000, 5099} {
		refused(t, db, waypost.EConflict, api.RangeStep{Action: keys.MoveRange, Range: rest.ID, Region: "eu", At: at})
	}
	require.NoError(t, use(db, t, held, "goes-on"))
}

func TestADryRunLeavesNoTrace(t *testing.T) {
	var log bytes.Buffer
	db, _ := open(t, func(c *postgres.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	log.Reset()
	before, err := db.Head(t.Context())
	require.NoError(t, err)
	_, err = db.ChangeRanges(t.Context(), operator, api.RangeChange{
		Steps: []api.RangeStep{{Action: keys.AssignPrefix, Region: "us"}}, DryRun: true,
	})
	require.NoError(t, err)
	require.Empty(t, log.String())
	after, err := db.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, before.Position, after.Position)
	entries, err := db.Audit(t.Context(), waypost.DefaultWorkspace, 0, 10)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestLeasesDoNotDependOnTheDatabasesDefaultIsolation(t *testing.T) {
	url := cluster.Database(t)
	hand := psql(t, url)
	exec(t, hand, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I
		SET default_transaction_isolation = ''repeatable read''', current_database()); END $$`)
	db := startNode(t, url, nil)
	defer db.Close()
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			for range 5 {
				if _, err := db.TakeLease(t.Context(), "eu", "n/1", 10, nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}

func TestControlPlanesOfARegionReportWithoutWaitingForEachOther(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO key_range (prefix, lo, hi, next, region) SELECT p, 0, 10, 10, 'eu' FROM generate_series(1, 200) p`)
	space, err := db.KeySpace(t.Context())
	require.NoError(t, err)
	issued := make(map[int64]int64)
	for _, r := range space.Ranges {
		issued[r.ID] = 1
	}
	var group errgroup.Group
	for _, node := range []string{"a/1", "b/1", "c/1"} {
		group.Go(func() error {
			for range 5 {
				if err := db.Beat(t.Context(), node, "eu", issued); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}
