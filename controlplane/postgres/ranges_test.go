package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/keyrange"
)

func do(t *testing.T, db *postgres.DB, steps ...api.RangeStep) []api.StepDone {
	t.Helper()
	done, err := db.ChangeRanges(t.Context(), operator, api.RangeChange{Steps: steps})
	require.NoError(t, err)
	return done
}

func refused(t *testing.T, db *postgres.DB, code waypost.ErrorCode, steps ...api.RangeStep) {
	t.Helper()
	_, err := db.ChangeRanges(t.Context(), operator, api.RangeChange{Steps: steps})
	require.Equal(t, code, waypost.CodeOf(err), "%v", err)
}

// lease takes a block of a hundred.
func lease(t *testing.T, db *postgres.DB, region waypost.Region) keys.Lease {
	t.Helper()
	l, err := db.TakeLease(t.Context(), region, "n/1", 100, nil)
	require.NoError(t, err)
	return l
}

func rangeOf(t *testing.T, db *postgres.DB, id int64) keys.Range {
	t.Helper()
	space, err := db.KeySpace(t.Context())
	require.NoError(t, err)
	for _, r := range space.Ranges {
		if r.ID == id {
			return r
		}
	}
	t.Fatalf("there is no range %d", id)
	return keys.Range{}
}

func use(db *postgres.DB, t *testing.T, l keys.Lease, code string) error {
	_, _, err := db.InsertLinks(t.Context(), l.Epoch, []controlplane.Insertion{{Link: link(code), Lease: l.ID}})
	return err
}

func TestAMoveOfAWholeRangeFencesItsLeasesAndTheRestGoesOnElsewhere(t *testing.T) {
	db, hand := open(t)
	old := lease(t, db, "eu")
	free := lease(t, db, "eu")
	require.NoError(t, db.ReturnLease(t.Context(), free, free.Lo))

	done := do(t, db, api.RangeStep{Action: keys.MoveRange, Range: old.Range, Region: "us"})
	require.Equal(t, 1, done[0].Fenced)
	require.Equal(t, fmt.Sprintf("range %d goes from region eu to us; us had no range before", old.Range), done[0].What, "it may be misspelt")
	require.Equal(t, "us", done[0].Ranges[0].Region)
	fenced := &controlplane.FencedError{}
	require.ErrorAs(t, use(db, t, old, "too-late"), &fenced)

	again := lease(t, db, "us")
	require.Equal(t, [2]int64{free.Lo, free.Hi}, [2]int64{again.Lo, again.Hi}, "what was given back is the new region's")
	require.Equal(t, old.Generation+1, again.Generation)
	require.NoError(t, use(db, t, again, "in-time"))
	other := lease(t, db, "eu")
	require.NotEqual(t, old.Prefix, other.Prefix)
	require.Equal(t, map[string]int{"burned": 1, "held": 2}, states(t, hand))
}

// TestAWriteWithKeysOfSeveralLeasesTellsWhichAreVoid finds this defect: a control plane
// may write with keys of a lease that was burned, because another may have them.
func TestAWriteWithKeysOfSeveralLeasesTellsWhichAreVoid(t *testing.T) {
	db, hand := open(t)
	leases := []keys.Lease{lease(t, db, "eu"), lease(t, db, "us"), lease(t, db, "eu"), lease(t, db, "us")}
	write := func() error {
		var all []controlplane.Insertion
		for i, l := range leases {
			all = append(all, controlplane.Insertion{Link: link(fmt.Sprintf("several-%d", i)), Lease: l.ID})
		}
		_, _, err := db.InsertLinks(t.Context(), leases[0].Epoch, all)
		return err
	}
	exec(t, hand, fmt.Sprintf(`UPDATE key_lease SET state = 'burned' WHERE id IN (%d, %d)`, leases[1].ID, leases[2].ID))
	fenced := &controlplane.FencedError{}
	require.ErrorAs(t, write(), &fenced)
	require.Equal(t, []int64{leases[1].ID, leases[2].ID}, fenced.Leases)

	leases = []keys.Lease{leases[0], leases[3]}
	require.NoError(t, write(), "none of the links was written")
}

func TestAMoveOfTheRemainderFencesNothing(t *testing.T) {
	db, _ := open(t)
	l := lease(t, db, "eu")
	done := do(t, db, api.RangeStep{Action: keys.MoveRange, Range: l.Range, Region: "us", At: l.Hi})
	require.Zero(t, done[0].Fenced)
	require.NoError(t, use(db, t, l, "goes-on"))
	moved := lease(t, db, "us")
	require.Equal(t, [2]int64{int64(l.Prefix), l.Hi}, [2]int64{int64(moved.Prefix), moved.Lo})
	require.Equal(t, done[0].Ranges[0].ID, moved.Range)
	require.Equal(t, l.Hi, rangeOf(t, db, l.Range).Hi)
}

func TestSplitDrainReviveAndRetire(t *testing.T) {
	db, hand := open(t)
	l := lease(t, db, "eu")
	half := do(t, db, api.RangeStep{Action: keys.SplitRange, Range: l.Range})[0].Ranges
	require.Len(t, half, 2)
	require.Equal(t, half[0].Hi, half[1].Lo)
	require.InDelta(t, half[0].Unissued(), half[1].Unissued(), 1)

	do(t, db, api.RangeStep{Action: keys.DrainRange, Range: l.Range})
	require.NoError(t, use(db, t, l, "drained"), "what is leased is used up")
	require.Equal(t, half[1].ID, lease(t, db, "eu").Range)
	do(t, db, api.RangeStep{Action: keys.ReviveRange, Range: l.Range})
	require.Equal(t, l.Range, lease(t, db, "eu").Range)

	refused(t, db, waypost.EConflict, api.RangeStep{Action: keys.RetireRange, Range: l.Range})
	done := do(t, db, api.RangeStep{Action: keys.RetireRange, Range: l.Range, Force: true})
	require.Equal(t, 2, done[0].Fenced)
	fenced := &controlplane.FencedError{}
	require.ErrorAs(t, use(db, t, l, "retired"), &fenced)
	refused(t, db, waypost.EConflict, api.RangeStep{Action: keys.ReviveRange, Range: l.Range})

	entries, err := db.Audit(t.Context(), waypost.DefaultWorkspace, 0, 10)
	require.NoError(t, err)
	var actions []string
	for _, e := range entries {
		require.Equal(t, "ops (key 7)", e.Actor)
		require.Equal(t, fmt.Sprintf("range %d", l.Range), e.Subject)
		actions = append(actions, e.Action)
	}
	require.Equal(t, []string{"ranges.retire", "ranges.revive", "ranges.drain", "ranges.split"}, actions, "newest first")
	others, err := db.Audit(t.Context(), 2, 0, 10)
	require.NoError(t, err)
	require.Empty(t, others)
	require.Equal(t, map[string]int{"burned": 2, "held": 1}, states(t, hand))
}

func TestStepsThatCannotBeDoneChangeNothing(t *testing.T) {
	db, _ := open(t)
	l := lease(t, db, "eu")
	before, err := db.KeySpace(t.Context())
	require.NoError(t, err)
	good := api.RangeStep{Action: keys.SplitRange, Range: l.Range, At: 500}
	for name, c := range map[string]struct {
		step api.RangeStep
		code waypost.ErrorCode
	}{
		"no such range":         {api.RangeStep{Action: keys.DrainRange, Range: 99}, waypost.ENotFound},
		"no such act":           {api.RangeStep{Action: "explode", Range: l.Range}, waypost.EInvalid},
		"a region that is none": {api.RangeStep{Action: keys.MoveRange, Range: l.Range, Region: "Ü"}, waypost.EInvalid},
		"to itself":             {api.RangeStep{Action: keys.MoveRange, Range: l.Range, Region: "eu"}, waypost.EConflict},
		"a cut in a lease":      {api.RangeStep{Action: keys.SplitRange, Range: l.Range, At: 50}, waypost.EConflict},
		"a cut at the end":      {api.RangeStep{Action: keys.SplitRange, Range: l.Range, At: 916_132_832}, waypost.EConflict},
		"a cut beyond": {
			api.RangeStep{Action: keys.MoveRange, Range: l.Range, Region: "us", At: 1 << 60},
			waypost.EConflict,
		},
		"a prefix in use": {api.RangeStep{Action: keys.AssignPrefix, Region: "us", Prefix: rangeOf(t, db,
			l.Range).Prefix}, waypost.EConflict},
		"a prefix that is none": {api.RangeStep{Action: keys.AssignPrefix, Region: "us", Prefix: "a-"}, waypost.EInvalid},
		"a long prefix":         {api.RangeStep{Action: keys.AssignPrefix, Region: "us", Prefix: "aaa"}, waypost.EInvalid},
		"live already":          {api.RangeStep{Action: keys.ReviveRange, Range: l.Range}, waypost.EConflict},
		"nothing to resume":     {api.RangeStep{Action: keys.ResumeKeys}, waypost.EConflict},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, db, c.code, good, c.step)
			after, err := db.KeySpace(t.Context())
			require.NoError(t, err)
			require.Equal(t, before, after)
		})
	}
	_, err = db.ChangeRanges(t.Context(), operator, api.RangeChange{Steps: []api.RangeStep{good}, Fingerprint: "stale"})
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
	_, err = db.ChangeRanges(t.Context(), operator, api.RangeChange{
		Steps:       []api.RangeStep{good},
		Fingerprint: before.Fingerprint(),
	})
	require.NoError(t, err)
}

var testCoder = func() *keyrange.Coder {
	space, err := keyrange.NewSpace(7, 2)
	if err != nil {
		panic(err)
	}
	return keyrange.NewCoder(space, [32]byte{})
}()

// choose inserts a link with the code of a counter as its custom code.
func choose(t *testing.T, db *postgres.DB, prefix int, counter int64) controlplane.InsertResult {
	t.Helper()
	placed, _, err := db.InsertLinks(t.Context(), 0, []controlplane.Insertion{{
		Link: link(string(testCoder.Encode(prefix, counter))), Claim: &controlplane.Counter{Prefix: prefix, N: counter},
	}})
	require.NoError(t, err)
	return placed[0]
}

func state(t *testing.T, db *postgres.DB, prefix int, counter int64) string {
	t.Helper()
	d, err := db.Counter(t.Context(), prefix, counter, testCoder.Encode(prefix, counter))
	require.NoError(t, err)
	return d.State
}

func TestACustomCodeBurnsItsCounterOrIsRefused(t *testing.T) {
	db, hand := open(t)
	held := lease(t, db, "eu")                                        // 0 to 99
	back := lease(t, db, "eu")                                        // 100 to 199
	require.NoError(t, db.ReturnLease(t.Context(), back, back.Lo+50)) // 100 to 149 are closed
	p := held.Prefix
	for _, c := range []struct {
		counter int64
		was, is string
		placed  controlplane.InsertResult
	}{
		{7, keys.CounterLeased, keys.CounterLeased, controlplane.Issuable},
		{120, keys.CounterSpent, keys.CounterSpent, controlplane.Issuable},
		{150, keys.CounterUnissued, keys.CounterBurned, controlplane.Placed},
		{170, keys.CounterUnissued, keys.CounterBurned, controlplane.Placed},
		{199, keys.CounterUnissued, keys.CounterBurned, controlplane.Placed},
		{200, keys.CounterUnissued, keys.CounterBurned, controlplane.Placed},
		{201, keys.CounterUnissued, keys.CounterBurned, controlplane.Placed},
		{250, keys.CounterUnissued, keys.CounterBurned, controlplane.Placed},
	} {
		require.Equal(t, c.was, state(t, db, p, c.counter), c.counter)
		require.Equal(t, c.placed, choose(t, db, p, c.counter), c.counter)
		require.Equal(t, c.is, state(t, db, p, c.counter), c.counter)
	}
	require.Equal(t, controlplane.Taken, choose(t, db, p, 250), "a code that is burned is taken")

	var got [][2]int64
	for range 4 {
		l := lease(t, db, "eu")
		got = append(got, [2]int64{l.Lo, l.Hi})
	}
	require.ElementsMatch(t, [][2]int64{{151, 170}, {171, 199}, {202, 250}, {251, 351}}, got, "blocks are leased around what is burned")

	other := (p + 1) % 3844 // no region owns it yet
	require.Equal(t, keys.CounterUnassigned, state(t, db, other, 0))
	require.Equal(t, controlplane.Placed, choose(t, db, other, 0))
	require.Equal(t, controlplane.Placed, choose(t, db, other, 3))
	do(t, db, api.RangeStep{Action: keys.AssignPrefix, Region: "us", Prefix: testCoder.Space().Prefix(other)})
	require.Equal(t, int64(1), lease(t, db, "us").Lo)
	require.Equal(t, int64(4), lease(t, db, "us").Lo)
	var seqs, newest int
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT count(DISTINCT seq) - 1, max(seq) FROM changelog`).Scan(&seqs, &newest))
	require.Equal(t, newest, seqs, "every burn took a sequence number")
}

func TestKeysOfServicesAreTheirsAloneAndComeBackOnce(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (2, 'Two', 'two')`)
	l := lease(t, db, "eu")
	var minted []controlplane.Key
	var codes []waypost.Code
	for i := range int64(5) {
		codes = append(codes, testCoder.Encode(l.Prefix, i))
		minted = append(minted, controlplane.Key{Code: codes[i], Lease: l.ID})
	}
	reserve := func(epoch uint32, reservations ...controlplane.Key) error {
		_, err := db.ReserveKeys(t.Context(), 1, "mailer", epoch, reservations)
		return err
	}
	require.NoError(t, reserve(l.Epoch, minted...))
	require.Error(t, reserve(l.Epoch, minted[0]), "a key is reserved once")
	require.ErrorIs(t, reserve(l.Epoch+1, minted[0]), controlplane.ErrEpoch)
	fenced := &controlplane.FencedError{}
	require.ErrorAs(t, reserve(l.Epoch, controlplane.Key{Code: "abcdefg", Lease: 99}), &fenced)

	place := func(ws waypost.WorkspaceID, code waypost.Code, counter int64) controlplane.InsertResult {
		x := link(string(code))
		x.Workspace = ws
		placed, _, err := db.InsertLinks(t.Context(), 0, []controlplane.Insertion{{Link: x, Claim: &controlplane.Counter{
			Prefix: l.Prefix,
			N:      counter,
		}}})
		require.NoError(t, err)
		return placed[0]
	}
	require.Equal(t, controlplane.Issuable, place(2, codes[0], 0), "another workspace cannot take it")
	elsewhere := link(string(codes[1]))
	elsewhere.Domain = waypost.DomainID(number(t, hand, `INSERT INTO domain (host) VALUES ('own.example') RETURNING id`))
	refused := link(string(codes[1]))
	refused.Workspace = 2
	placed, _, err := db.InsertLinks(t.Context(), 0, []controlplane.Insertion{{
		Link:  refused,
		Claim: &controlplane.Counter{Prefix: l.Prefix, N: 1},
	}, {Link: elsewhere}})
	require.NoError(t, err)
	require.Equal(t, []controlplane.InsertResult{controlplane.Issuable, controlplane.Placed}, placed, "codes of other domains are no counters")
	require.Equal(t, controlplane.Placed, place(1, codes[0], 0), "its own can make a link of it")
	require.Equal(t, keys.CounterIssued, state(t, db, l.Prefix, 1))

	back, err := db.ReturnKeys(t.Context(), 1, "mailer", []waypost.Code{codes[0], codes[1], codes[1], "unknown", codes[2]})
	require.NoError(t, err)
	var errs []waypost.ErrorCode
	for _, r := range back {
		errs = append(errs, waypost.CodeOf(r.Err))
	}
	require.Equal(t, []waypost.ErrorCode{waypost.EConflict, "", waypost.ENotFound, waypost.ENotFound, ""}, errs)
	for _, who := range []struct {
		ws      waypost.WorkspaceID
		service string
	}{{2, "mailer"}, {1, "other"}} {
		back, err = db.ReturnKeys(t.Context(), who.ws, who.service, []waypost.Code{codes[3], codes[0]})
		require.NoError(t, err)
		require.Equal(t, waypost.ENotFound, waypost.CodeOf(back[0].Err), "only the holder gives back")
		require.Equal(t, waypost.ENotFound, waypost.CodeOf(back[1].Err), "another service does not learn that a link has the code")
	}
	held, err := db.CountHeld(t.Context(), 1)
	require.NoError(t, err)
	require.EqualValues(t, 4, held, "two are reserved, two were given back, and one is a link")
	held, err = db.CountHeld(t.Context(), 2)
	require.NoError(t, err)
	require.Zero(t, held)

	reused, err := db.ReuseKeys(t.Context(), 2, "x", 5)
	require.NoError(t, err)
	require.Empty(t, reused, "another workspace does not get what came back")
	reused, err = db.ReuseKeys(t.Context(), 1, "printer", 1)
	require.NoError(t, err)
	require.Len(t, reused, 1)
	counts, err := db.CountReserved(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"mailer": 2, "printer": 1}, counts)

	exec(t, hand, openEpoch)
	reused, err = db.ReuseKeys(t.Context(), 1, "printer", 5)
	require.NoError(t, err)
	require.Empty(t, reused, "in a new history nobody knows whether they were given out again")
}

func TestReuseKeys_ReadsNoMoreFreeKeysThanItTakes(t *testing.T) {
	_, hand := open(t)
	exec(t, hand, `SET enable_seqscan = off`)
	exec(t, hand, `SET enable_bitmapscan = off`)
	query := strings.NewReplacer("$1", "1", "$2", "'mailer'", "$3", "10").Replace(postgres.ReuseKeysQuery())
	rows, err := hand.Query(t.Context(), `EXPLAIN `+query)
	require.NoError(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	text := strings.Join(plan, "\n")
	require.NotContains(t, text, "Sort", "LIMIT ends the scan")
	require.Contains(t, text, "reserved_key_free")
}

func TestRatesAreThoseOfTheRegionThatIssued(t *testing.T) {
	db, hand := open(t)
	l := lease(t, db, "eu")
	require.NoError(t, db.Beat(t.Context(), "n/1", "eu", map[int64]int64{l.Range: 600}))
	exec(t, hand, `UPDATE key_issue SET minute = minute - interval '30 minutes'`)
	require.NoError(t, db.Beat(t.Context(), "n/1", "eu", map[int64]int64{l.Range: 300}))
	require.NoError(t, db.Beat(t.Context(), "n/1", "eu", map[int64]int64{l.Range: 300}))
	require.InDelta(t, 40, rangeOf(t, db, l.Range).Rate, 2)

	do(t, db, api.RangeStep{Action: keys.MoveRange, Range: l.Range, Region: "us"})
	require.Zero(t, rangeOf(t, db, l.Range).Rate)
	space, err := db.KeySpace(t.Context())
	require.NoError(t, err)
	supplies := space.Supplies()
	require.Len(t, supplies, 2)
	require.InDelta(t, 40, supplies[0].Rate, 2)
	require.Equal(t, "eu", supplies[0].Region)
	require.Zero(t, supplies[1].Rate)
}

func TestARegionThatRunsLowTakesAFreePrefixBeforeItRunsOut(t *testing.T) {
	db, hand := open(t)
	l := lease(t, db, "eu")
	exec(t, hand, `UPDATE key_range SET next = hi - 91000000`)
	require.Equal(t, l.Range, lease(t, db, "eu").Range)
	space, err := db.KeySpace(t.Context())
	require.NoError(t, err)
	require.Len(t, space.Ranges, 1, "for a region that issues next to nothing that is plenty")
	require.NoError(t, db.Beat(t.Context(), "n/1", "eu", map[int64]int64{l.Range: 200_000}))
	require.Equal(t, l.Range, lease(t, db, "eu").Range)
	space, err = db.KeySpace(t.Context())
	require.NoError(t, err)
	require.Len(t, space.Ranges, 2)
	require.Equal(t, space.Prefixes-2, space.FreePrefixes)
	lease(t, db, "eu")
	space, err = db.KeySpace(t.Context())
	require.NoError(t, err)
	require.Len(t, space.Ranges, 2, "one is enough")
}
