package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/postgres"
	"waypost/replication"
)

// goBack makes a database what a disk that was rolled back looks like from inside:
// nothing is left of the transactions after seq, and PostgreSQL is the one that it was.
func goBack(t *testing.T, hand *pgx.Conn, seq uint64, tables map[string]string) {
	t.Helper()
	restore(t, hand, tables)
	exec(t, hand, `DELETE FROM link WHERE rev_seq > `+fmt.Sprint(seq))
	trim(t, hand, `seq > `+fmt.Sprint(seq))
	exec(t, hand, `UPDATE changelog_head SET seq = `+fmt.Sprint(seq)+`, stamp = (SELECT stamp FROM changelog WHERE ord = 0 AND seq = `+fmt.Sprint(seq)+`)`)
}

// rolledBack is a database that went back while no control plane was there, and that a
// control plane without a memory has begun to use; what an edge has seen before; and the lease
// that was lost.
func rolledBack(t *testing.T) (db *postgres.DB, said replication.Testimony, lost int64) {
	t.Helper()
	url := cluster.Database(t)
	before := startNode(t, url, &memory{})
	lease(t, before, "eu")
	hand := psql(t, url)
	backup, head := dump(t, hand), headOf(t, before)
	for range 3 {
		lost = lease(t, before, "eu").Hi
	}
	insert(t, before, link("lost"))
	at := headOf(t, before)
	said = replication.Testimony{Position: at.Position, At: at.At, Ranges: rangesOf(t, hand)}
	before.Close()
	goBack(t, hand, head.Position.Seq, backup)
	db = startNode(t, url, &memory{})
	t.Cleanup(db.Close)
	insert(t, db, link("after"))
	require.Equal(t, at.Position.Epoch, headOf(t, db).Position.Epoch, "nothing tells it")
	return db, said, lost
}

func headOf(t *testing.T, db *postgres.DB) replication.Head {
	t.Helper()
	head, err := db.Head(t.Context())
	require.NoError(t, err)
	return head
}

// rangesOf is what an edge holds of the key ranges.
func rangesOf(t *testing.T, hand *pgx.Conn) (all []replication.KeyRange) {
	t.Helper()
	rows, err := hand.Query(t.Context(), `SELECT prefix, region, lo, hi, next FROM key_range`)
	require.NoError(t, err)
	all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[replication.KeyRange])
	require.NoError(t, err)
	return all
}

func TestAnEdgeThatSawMoreThanPostgreSQLHasOpensAnEpochAboveTheKeysThatItKnows(t *testing.T) {
	db, said, lost := rolledBack(t)
	require.NoError(t, db.Hear(t.Context(), said))
	head := headOf(t, db)
	require.Greater(t, head.Position.Epoch.Ordinal, said.Position.Epoch.Ordinal)
	next := lease(t, db, "eu")
	require.GreaterOrEqual(t, next.Lo, lost+600_000, "and a minute at the peak")
	require.NoError(t, db.Hear(t.Context(), said), "another edge")
	require.Equal(t, head.Position.Epoch, headOf(t, db).Position.Epoch, "one epoch is enough")
	newFollow(t, db)
}

func TestAnEdgeThatDoesNotKnowTheKeysHoldsThemBack(t *testing.T) {
	db, said, _ := rolledBack(t)
	said.Ranges = nil
	require.NoError(t, db.Hear(t.Context(), said))
	require.Greater(t, headOf(t, db).Position.Epoch.Ordinal, said.Position.Epoch.Ordinal)
	_, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.ErrorContains(t, err, "waypost ranges resume")
}

func TestAnEdgeThatComesWhenTheEpochIsOpenTellsItsKeysAllTheSame(t *testing.T) {
	db, said, lost := rolledBack(t)
	first := said
	first.Ranges = []replication.KeyRange{{Prefix: said.Ranges[0].Prefix, Region: "eu", Hi: said.Ranges[0].Hi, Next: 1}}
	require.NoError(t, db.Hear(t.Context(), first))
	early := lease(t, db, "eu")
	require.Less(t, early.Lo, int64(50_000_000))
	said.Ranges[0].Next = lost + 100_000_000
	require.NoError(t, db.Hear(t.Context(), said))
	late := lease(t, db, "eu")
	require.True(t, late.Prefix != early.Prefix || late.Lo >= said.Ranges[0].Next, "%+v", late)
	head := headOf(t, db)
	require.NoError(t, db.Hear(t.Context(), said))
	require.Equal(t, head.Position, headOf(t, db).Position, "what is known costs no transaction")
}

func TestAPositionThatPostgreSQLHasAlsoOpensNothing(t *testing.T) {
	db, hand := open(t)
	lease(t, db, "eu")
	insert(t, db, link("first-one"))
	at := headOf(t, db)
	insert(t, db, link("second-one"))
	said := replication.Testimony{Position: at.Position, At: at.At, Ranges: rangesOf(t, hand)}
	require.NoError(t, db.Hear(t.Context(), said))
	said.Position.Epoch.Ordinal--
	said.Position.Seq += 1_000_000
	require.NoError(t, db.Hear(t.Context(), said), "an epoch that is over")
	require.Equal(t, at.Position.Epoch, headOf(t, db).Position.Epoch)

	// At its sequence PostgreSQL has written something else since.
	said.Position = at.Position
	said.Position.Stamp++
	require.NoError(t, db.Hear(t.Context(), said))
	require.Greater(t, headOf(t, db).Position.Epoch.Ordinal, at.Position.Epoch.Ordinal)

	// An epoch that PostgreSQL has forgotten as a whole.
	said.Position.Epoch.Ordinal = uint32(time.Now().Unix()/60) + 100
	said.Position.Epoch.ID = waypost.EpochID{1}
	require.NoError(t, db.Hear(t.Context(), said))
	require.Greater(t, headOf(t, db).Position.Epoch.Ordinal, said.Position.Epoch.Ordinal)
}

func TestWhatAnEdgeHasSeenIsHeldAgainstPostgreSQLOnceThatAnswers(t *testing.T) {
	db, said, _ := rolledBack(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, db.Hear(gone, said))
	older := said
	older.Position.Seq = 1
	require.Error(t, db.Hear(gone, older), "the newest counts")
	require.Equal(t, said.Position.Epoch, headOf(t, db).Position.Epoch)
	require.NoError(t, db.WatchOnce(t.Context()))
	require.Greater(t, headOf(t, db).Position.Epoch.Ordinal, said.Position.Epoch.Ordinal)
}
