package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// goBack makes a database what a disk that was rolled back looks like from inside:
// nothing is left of the transactions after seq, and PostgreSQL is the one that it was.
func goBack(t *testing.T, hand *pgx.Conn, seq uint64, tables map[string]string) {
	t.Helper()
	restore(t, hand, tables)
	exec(t, hand, `DELETE FROM link WHERE rev_seq > `+fmt.Sprint(seq))
	trim(t, hand, `seq > `+fmt.Sprint(seq))
	exec(t, hand, `UPDATE changelog_head SET seq = `+fmt.Sprint(seq)+`,
		stamp = (SELECT stamp FROM changelog WHERE ord = 0 AND seq = `+fmt.Sprint(seq)+`)`)
}

// rolledBack is a database that went back while no control plane was there, and that a
// control plane without a memory has begun to use; what an edge has seen before; and the
// lease that was lost.
func rolledBack(t *testing.T) (db *postgres.DB, said replication.Testimony, lost int64) {
	t.Helper()
	return rolledBackAt(t, cluster.Database(t))
}

func rolledBackAt(t *testing.T, url string) (db *postgres.DB, said replication.Testimony, lost int64) {
	t.Helper()
	before := startNode(t, url, &memory{})
	lease(t, before, "eu")
	hand := psql(t, url)
	backup, head := dump(t, hand), headOf(t, before)
	for range 3 {
		lost = lease(t, before, "eu").Hi
	}
	insert(t, before, link("lost"))
	at := headOf(t, before)
	said = replication.Testimony{Position: at.Position, At: at.At}
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

func TestAnEdgeThatSawMoreThanPostgreSQLHasOpensAnEpochWithoutKeys(t *testing.T) {
	db, said, lost := rolledBack(t)
	require.NoError(t, db.Hear(t.Context(), said))
	head := headOf(t, db)
	require.Greater(t, head.Position.Epoch.Ordinal, said.Position.Epoch.Ordinal)
	_, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.ErrorContains(t, err, "an edge has seen")
	require.ErrorContains(t, err, "waypost ranges resume")
	newFollow(t, db)

	gap := int64(1_000_000)
	_, err = db.ChangeRanges(t.Context(), operator, resume(&gap, false))
	require.NoError(t, err)
	require.NoError(t, db.Hear(t.Context(), said), "another edge")
	require.Equal(t, head.Position.Epoch, headOf(t, db).Position.Epoch, "one epoch is enough")
	require.GreaterOrEqual(t, lease(t, db, "eu").Lo, lost)
}

// While keys are held, reports of edges neither free them nor hold them again, whether
// they are of the lost history or of the held one; and a control plane that has looked at
// the database meanwhile knows no more of keys than before.
func TestWhatAnEdgeSaysWhileKeysAreHeldGivesNoneFree(t *testing.T) {
	url := cluster.Database(t)
	db, said, lost := rolledBackAt(t, url)
	hand := psql(t, url)
	requireHeld := func() {
		t.Helper()
		_, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
		require.ErrorContains(t, err, "waypost ranges resume")
	}
	require.NoError(t, db.Hear(t.Context(), said))
	requireHeld()
	held := headOf(t, db).Position
	require.NoError(t, db.Hear(t.Context(), said), "another edge")
	insert(t, db, link("while-held"))
	of := headOf(t, db).Position
	require.NoError(t, db.Hear(t.Context(), replication.Testimony{Position: of}))
	require.NoError(t, db.WatchOnce(t.Context()))
	require.Equal(t, held.Epoch, headOf(t, db).Position.Epoch)
	requireHeld()

	// And back once more: a second history is lost, in which no key was issued.
	goBack(t, hand, held.Seq, dump(t, hand))
	require.NoError(t, db.Hear(t.Context(), replication.Testimony{Position: of}))
	require.Greater(t, headOf(t, db).Position.Epoch.Ordinal, held.Epoch.Ordinal)
	requireHeld()
	gap := int64(1_000_000)
	_, err := db.ChangeRanges(t.Context(), operator, resume(&gap, false))
	require.NoError(t, err)
	require.GreaterOrEqual(t, lease(t, db, "eu").Lo, lost)
}

func TestAControlPlaneThatRemembersAsMuchAsAnEdgeNeedsNoOperator(t *testing.T) {
	db, hand := open(t)
	lease(t, db, "eu")
	backup, head := dump(t, hand), headOf(t, db)
	lost := lease(t, db, "eu").Hi
	insert(t, db, link("first-one"))
	require.NoError(t, db.WatchOnce(t.Context()))
	at := headOf(t, db)
	goBack(t, hand, head.Position.Seq, backup)
	require.NoError(t, db.Hear(t.Context(), replication.Testimony{Position: at.Position, At: at.At}))
	require.Greater(t, headOf(t, db).Position.Epoch.Ordinal, at.Position.Epoch.Ordinal)
	require.GreaterOrEqual(t, lease(t, db, "eu").Lo, lost)
}

// It has no signature, unlike the position.
func TestWhatAFollowerSaysOfKeyRangesCountsForNothing(t *testing.T) {
	url := cluster.Database(t)
	before := startNode(t, url, &memory{})
	lease(t, before, "eu")
	hand := psql(t, url)
	backup, head := dump(t, hand), headOf(t, before)
	lease(t, before, "eu")
	insert(t, before, link("lost"))
	word := signedHead(t, before)
	before.Close()
	goBack(t, hand, head.Position.Seq, backup)

	db := startNode(t, url, &memory{})
	defer db.Close()
	server := serve(t, db)
	tellRanges(t, server, word, `[]`)
	require.Greater(t, headOf(t, db).Position.Epoch.Ordinal, head.Position.Epoch.Ordinal)
	_, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.ErrorContains(t, err, "waypost ranges resume")
	gap := int64(1_000_000)
	_, err = db.ChangeRanges(t.Context(), operator, resume(&gap, false))
	require.NoError(t, err)

	// The position is of an epoch that is over now, and still signed.
	l := lease(t, db, "eu")
	at, keys, leases := headOf(t, db).Position, rangesOf(t, hand), states(t, hand)
	unused := (l.Prefix + 1) % 3844
	tellRanges(t, server, word, fmt.Sprintf(`[{"prefix": %d, "region": "eu", "lo": 0, "hi": 916132832, "next": 916132832}, `+
		`{"prefix": %d, "region": "eu", "lo": 0, "hi": 1, "next": 1}]`, l.Prefix, unused))
	require.Equal(t, at, headOf(t, db).Position)
	require.Equal(t, keys, rangesOf(t, hand))
	require.Equal(t, leases, states(t, hand))
}

// rangesOf is all of the key ranges.
func rangesOf(t *testing.T, hand *pgx.Conn) []string {
	t.Helper()
	rows, err := hand.Query(t.Context(), `SELECT r::text FROM key_range r ORDER BY id`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

// serve lets followers have a database's changelog, as a control plane does.
func serve(t *testing.T, db *postgres.DB) (url string) {
	t.Helper()
	signer, err := replication.NewSigner(clusterConfig.Secret, headOf(t, db).Cluster, 1)
	require.NoError(t, err)
	stream, err := replication.NewServer(replication.ServerConfig{
		Source: db, Signer: signer, Logger: slog.New(slog.DiscardHandler),
		Hear: func(ctx context.Context, _ string, said *replication.Testimony) error {
			if said == nil {
				return nil
			}
			err := db.Hear(ctx, *said)
			if ctx.Err() == nil { // the follower has not left
				assert.NoError(t, err)
			}
			return err
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = stream.Run(ctx) })
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+replication.PathStream, stream.Stream)
	mux.HandleFunc("GET "+replication.PathSnapshot, stream.Snapshot)
	server := httptest.NewServer(mux)
	t.Cleanup(func() { cancel(); server.CloseClientConnections(); server.Close(); running.Wait() })
	return server.URL
}

// signedHead returns a follower's memory of the head that it has reached.
func signedHead(t *testing.T, db *postgres.DB) string {
	t.Helper()
	trust, err := replication.NewTrust(nil, func([]byte) error { return nil })
	require.NoError(t, err)
	sink := replicationtest.NewSink()
	f, err := replication.NewFollower(replication.FollowConfig{
		URL: serve(t, db), Sink: sink, Trust: trust, Node: "edge", Region: "eu", Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	defer running.Wait()
	defer cancel()
	signer, err := replication.NewSigner(clusterConfig.Secret, headOf(t, db).Cluster, 1)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		said, err := signer.VerifyTestimony(trust.Testimony())
		return err == nil && said.Position == headOf(t, db).Position
	}, waitLimit, pause)
	return trust.Testimony()
}

// tellRanges connects as a follower that has seen a position, and reports key ranges.
func tellRanges(t *testing.T, url, word, ranges string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	var status int
	require.Eventually(t, func() bool { // a server that has just begun may not have read the head yet
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+replication.PathStream, nil)
		require.NoError(t, err)
		req.Header.Set(replication.HeaderTestimony, word)
		req.Header.Set("Waypost-Key-Ranges", ranges)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		status = res.StatusCode
		require.NoError(t, res.Body.Close())
		return status == http.StatusOK
	}, waitLimit, pause, "%d", status)
}

func TestAPositionThatPostgreSQLHasAlsoOpensNothing(t *testing.T) {
	db, _ := open(t)
	lease(t, db, "eu")
	insert(t, db, link("first-one"))
	at := headOf(t, db)
	insert(t, db, link("second-one"))
	said := replication.Testimony{Position: at.Position, At: at.At}
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
}

// A newer epoch may be that of a primary that was promoted in place of this one.
func TestHistory_NewerEpochOfAnEdgeHoldsKeysAndOpensNothing(t *testing.T) {
	t.Run("a newer one", func(t *testing.T) {
		epochOfAnEdgeHoldsKeys(t, func(own waypost.Epoch) waypost.Epoch {
			return waypost.Epoch{Ordinal: own.Ordinal + 100, ID: waypost.EpochID{1}}
		})
	})
	// Two databases were promoted within one minute.
	t.Run("another of the same ordinal", func(t *testing.T) {
		epochOfAnEdgeHoldsKeys(t, func(own waypost.Epoch) waypost.Epoch {
			return waypost.Epoch{Ordinal: own.Ordinal, ID: waypost.EpochID{1}}
		})
	})
}

func epochOfAnEdgeHoldsKeys(t *testing.T, elsewhere func(own waypost.Epoch) waypost.Epoch) {
	db, _ := open(t)
	taken := lease(t, db, "eu")
	at := headOf(t, db).Position
	said := replication.Testimony{Position: waypost.Position{Epoch: elsewhere(at.Epoch), Seq: 1}}
	superseded := func() {
		t.Helper()
		for _, err := range []error{db.Hear(t.Context(), said), db.Superseded(headOf(t, db).Position)} {
			require.ErrorContains(t, err, "waypost ranges resume")
			_, is := errors.AsType[*postgres.SupersededError](err)
			require.True(t, is)
		}
		require.Equal(t, at.Epoch, headOf(t, db).Position.Epoch)
		_, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
		require.ErrorContains(t, err, "another primary was promoted")
	}
	// Its own clicks, and those of edges that have not followed yet, belong elsewhere.
	const claimed, proven = "without proof", "another primary was promoted"
	says := claimed
	takes := func(edge waypost.Epoch) (err error) {
		t.Helper()
		if err = db.Outdated(t.Context(), edge); err != nil {
			require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
		}
		_, reported := db.ReportBudgets(t.Context(), &controlplane.BudgetReport{Node: "edge-a", Epoch: edge.Ordinal})
		if edge.Ordinal != at.Epoch.Ordinal || edge.ID == at.Epoch.ID { // a report has no id
			require.Equal(t, waypost.CodeOf(err), waypost.CodeOf(reported), "%v", reported)
			for _, err := range []error{err, reported} {
				if err != nil {
					require.ErrorContains(t, err, says)
				}
				_, is := errors.AsType[*postgres.SupersededError](err)
				require.Equal(t, err != nil && says == proven, is, "advice to the operator is for a signed position: %v", err)
			}
		}
		return err
	}
	require.NoError(t, db.Superseded(at))
	require.NoError(t, takes(at.Epoch))
	require.Error(t, takes(said.Position.Epoch))
	require.NoError(t, takes(waypost.Epoch{}), "an edge that has not followed yet")
	superseded()
	superseded()
	says = proven
	require.Error(t, takes(waypost.Epoch{}))
	require.Error(t, takes(at.Epoch))
	require.Error(t, takes(waypost.Epoch{Ordinal: said.Position.Epoch.Ordinal + 1}))
	require.NoError(t, db.WatchOnce(t.Context()))

	// An operator says that this is the right database.
	_, err := db.ChangeRanges(t.Context(), operator, resume(nil, false))
	require.ErrorContains(t, err, "by how many counters")
	superseded()
	gap := int64(1_000_000)
	_, err = db.ChangeRanges(t.Context(), operator, resume(&gap, false))
	require.NoError(t, err)
	require.Greater(t, headOf(t, db).Position.Epoch.Ordinal, said.Position.Epoch.Ordinal)
	require.NoError(t, db.Hear(t.Context(), said))
	require.NoError(t, db.Superseded(headOf(t, db).Position))
	require.NoError(t, takes(said.Position.Epoch))
	require.GreaterOrEqual(t, lease(t, db, "eu").Lo, taken.Hi+gap)
}

// A replaced primary goes back to an old copy, which does not know that it was replaced.
// An epoch opened now would be the newest by the clock, and take the edges over.
func TestHistory_ReplacedPrimaryThatGoesBackOpensNoEpoch(t *testing.T) {
	url, m := cluster.Database(t), &memory{}
	db := startNode(t, url, m)
	lease(t, db, "eu")
	hand := psql(t, url)
	backup, old := dump(t, hand), headOf(t, db).Position
	insert(t, db, link("lost"))
	seen := headOf(t, db).Position
	require.NoError(t, db.WatchOnce(t.Context()))
	promoted := replication.Testimony{Position: waypost.Position{Epoch: waypost.Epoch{Ordinal: old.Epoch.Ordinal + 1, ID: waypost.EpochID{1}}}}
	require.ErrorContains(t, db.Hear(t.Context(), promoted), "another primary was promoted")

	goBack(t, hand, old.Seq, backup)
	db.Close()
	db = startNode(t, url, m)
	t.Cleanup(db.Close)
	require.NoError(t, db.WatchOnce(t.Context()))
	require.ErrorContains(t, db.Superseded(headOf(t, db).Position), "another primary was promoted")
	require.ErrorContains(t, db.Hear(t.Context(), replication.Testimony{Position: seen}), "another primary was promoted")
	_, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.ErrorContains(t, err, "went back in time")
	require.Equal(t, old.Epoch, headOf(t, db).Position.Epoch)

	gap := int64(1_000_000)
	_, err = db.ChangeRanges(t.Context(), operator, resume(&gap, false))
	require.NoError(t, err)
	require.Greater(t, headOf(t, db).Position.Epoch.Ordinal, promoted.Position.Epoch.Ordinal)
	require.NoError(t, db.Superseded(headOf(t, db).Position))
	lease(t, db, "eu")
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
