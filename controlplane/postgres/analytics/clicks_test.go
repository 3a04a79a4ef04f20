package analytics_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/controlplane/postgres/analytics"
)

var someBoot = waypost.BootID{1, 2, 3}

// total is n clicks on a code of the default domain, made just now.
func total(code string, n uint64) waypost.LinkClicks {
	return totalAt(code, n, time.Now().UnixMilli())
}

func totalAt(code string, n uint64, at int64) waypost.LinkClicks {
	return waypost.LinkClicks{
		Domain: waypost.DefaultDomain, Code: waypost.Code(code), Last: at, Rows: []waypost.ClickRow{{At: at, Count: n}},
	}
}

// fold puts parts into counters and rollups, as the control plane does all the time.
func fold(t testing.TB, db *postgres.DB) {
	t.Helper()
	require.NoError(t, db.NewRoller(nil).Fold(context.Background()))
}

// anybody are the profiles of people and of bots of whom nothing else is known.
var anybody = []waypost.ClickProfile{{}, {Bot: true}}

func batch(seq uint64, links ...waypost.LinkClicks) *waypost.ClickBatch {
	return &waypost.ClickBatch{Node: "edge-1", Boot: someBoot, Seq: seq, Exact: true, Profiles: anybody, Links: links}
}

func tryIngest(t *testing.T, db *postgres.DB, b *waypost.ClickBatch) (controlplane.ClickReceipt, error) {
	t.Helper()
	body := clickbatch.Append(nil, b)
	return db.IngestClicks(t.Context(), b, sha256.Sum256(body), body)
}

func ingest(t *testing.T, db *postgres.DB, b *waypost.ClickBatch) controlplane.ClickReceipt {
	t.Helper()
	r, err := tryIngest(t, db, b)
	require.NoError(t, err)
	return r
}

func clicks(t *testing.T, db *postgres.DB, code string) int64 {
	t.Helper()
	l, err := db.Link(t.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, waypost.Code(code))
	require.NoError(t, err)
	return l.Clicks
}

func TestClicksAreCountedOnceHoweverOftenTheirBatchIsSent(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"), link("summer"), link("autumn"))
	first := batch(1, totalAt("spring", 3, time.Now().UnixMilli()-60_000), total("summer", 1))
	require.Equal(t, controlplane.ClickReceipt{Watermark: 1, Clicks: 4}, ingest(t, db, first))
	second := batch(2, total("spring", 2))
	require.Equal(t, controlplane.ClickReceipt{Watermark: 2, Clicks: 2}, ingest(t, db, second))
	for _, again := range []*waypost.ClickBatch{first, second, first} {
		require.Equal(t, controlplane.ClickReceipt{Watermark: 2}, ingest(t, db, again), "a resend changes nothing")
	}
	ingest(t, db, batch(3))
	ingest(t, db, batch(4, totalAt("spring", 1, time.Now().UnixMilli()-3_600_000)))

	for range 2 { // before and after they are folded
		l, err := db.Link(t.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, "spring")
		require.NoError(t, err)
		require.EqualValues(t, 6, l.Clicks)
		require.Equal(t, second.Links[0].Last, l.LastAccessedAt.UnixMilli(), "an older click does not move it back")
		list, err := db.ListLinks(t.Context(), waypost.DefaultWorkspace, controlplane.LinkFilter{}, time.Now(), controlplane.NewestFirst,
			controlplane.ListPlace{}, 10)
		require.NoError(t, err)
		page := list.Links
		require.Equal(t, []int64{0, 1, 6}, []int64{page[0].Clicks, page[1].Clicks, page[2].Clicks})
		require.True(t, page[0].LastAccessedAt.IsZero())
		fold(t, db)
		require.Zero(t, number(t, hand, `SELECT count(*) FROM click_part`))
	}
	require.EqualValues(t, 7, number(t, hand, `SELECT clicks FROM click_watermark`))
}

func TestCopiesOfABatchThatArriveAtOnceAreCountedOnce(t *testing.T) {
	db, _ := open(t)
	insert(t, db, link("spring"))
	for seq := uint64(1); seq <= 10; seq++ {
		b := batch(seq, total("spring", 5))
		var mu sync.Mutex
		var counted uint64
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				r, err := tryIngest(t, db, b)
				if err != nil || r.Watermark != seq || r.DeadLetter {
					t.Errorf("%+v, %v", r, err)
				}
				mu.Lock()
				defer mu.Unlock()
				counted += r.Clicks
			})
		}
		wg.Wait()
		require.EqualValues(t, 5, counted, "one of the copies")
	}
	require.EqualValues(t, 50, clicks(t, db, "spring"))
}

func TestABatchBeyondAGapIsRefusedWithTheWatermark(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	refused := func(seq, watermark uint64) {
		_, err := tryIngest(t, db, batch(seq, total("spring", 1)))
		gap, ok := errors.AsType[*controlplane.ClickGapError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, watermark, gap.Watermark)
	}
	refused(2, 0)
	refused(math.MaxInt64, 0)
	require.Zero(t, number(t, hand, `SELECT count(*) FROM click_watermark`))
	ingest(t, db, batch(1, total("spring", 1)))
	refused(3, 1)
	ingest(t, db, batch(2, total("spring", 1)))
	refused(4, 2)
	require.EqualValues(t, 2, clicks(t, db, "spring"))

	other := batch(1, total("spring", 1))
	other.Boot[0]++
	require.EqualValues(t, 1, ingest(t, db, other).Watermark, "every boot counts from one")
	for _, seq := range []uint64{0, math.MaxInt64 + 1} {
		_, err := tryIngest(t, db, batch(seq))
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	}
}

func TestAnotherBatchUnderATakenIdentityIsADeadLetter(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	ingest(t, db, batch(1, total("spring", 1)))
	ingest(t, db, batch(2, total("spring", 1)))
	dedupe := batch(1, total("spring", 40), total("summer", 2))
	for range 2 {
		require.Equal(t, controlplane.ClickReceipt{Watermark: 2, DeadLetter: true}, ingest(t, db, dedupe))
	}
	require.EqualValues(t, 2, clicks(t, db, "spring"))
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM click_dead_letter`))
	var body []byte
	var said int64
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT clicks::bigint, body FROM click_dead_letter`).Scan(&said, &body))
	require.EqualValues(t, 42, said)
	require.Equal(t, clickbatch.Append(nil, dedupe), body)
	require.Equal(t, controlplane.ClickReceipt{Watermark: 3, Clicks: 1}, ingest(t, db, batch(3, total("spring", 1))))
}

func TestABatchThatCanNeverBeCountedIsADeadLetterAndTheQueueMoves(t *testing.T) {
	for name, poison := range map[string]waypost.LinkClicks{
		"a count that overflows the link's": total("spring", math.MaxInt64),
		"a count beyond all bounds":         total("spring", math.MaxUint64),
		"no count":                          total("spring", 0),
		"a code that is no text":            total("\x00", 1),
	} {
		t.Run(name, func(t *testing.T) {
			db, hand := open(t)
			insert(t, db, link("spring"), link("summer"))
			ingest(t, db, batch(1, total("spring", 1)))
			_, err := tryIngest(t, db, batch(3, total("summer", 7), poison))
			require.ErrorAs(t, err, new(*controlplane.ClickGapError), "poison leaves no gap either")
			require.Zero(t, number(t, hand, `SELECT count(*) FROM click_dead_letter`))
			bad := batch(2, total("summer", 7), poison)
			for range 2 {
				require.Equal(t, controlplane.ClickReceipt{Watermark: 2, DeadLetter: true}, ingest(t, db, bad))
			}
			require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM click_dead_letter
				WHERE clicks = 7 + $1::numeric`, fmt.Sprint(poison.Rows[0].Count)))
			require.Equal(t, controlplane.ClickReceipt{Watermark: 3, Clicks: 1}, ingest(t, db, batch(3, total("spring", 1))))
			require.EqualValues(t, 2, clicks(t, db, "spring"))
			require.Zero(t, clicks(t, db, "summer"), "a batch is counted whole or not at all")
		})
	}
}

func TestTheFirstDeadLettersOfANodeAreKeptAndTheOthersCounted(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	ingest(t, db, batch(1))
	bury := func(n uint64) *waypost.ClickBatch {
		t.Helper()
		b := batch(1, total("spring", n))
		require.True(t, ingest(t, db, b).DeadLetter)
		return b
	}
	first := bury(1)
	for n := range uint64(102) {
		bury(n + 2)
	}
	require.EqualValues(t, 103, number(t, hand, `SELECT count(*) FROM click_dead_letter`))
	require.EqualValues(t, 100, number(t, hand, `SELECT count(body) FROM click_dead_letter`))

	exec(t, hand, `INSERT INTO click_dead_letter SELECT node, boot, seq, decode(lpad(to_hex(n), 64, '0'), 'hex'), 1, ''
		FROM click_watermark, generate_series(1, 897) n`)
	bury(200)
	bury(201)
	require.True(t, ingest(t, db, first).DeadLetter, "it is there")
	require.EqualValues(t, 1_000, number(t, hand, `SELECT count(*) FROM click_dead_letter`))
	require.EqualValues(t, 2, number(t, hand, `SELECT letters FROM click_dead_letter_more`))
	require.EqualValues(t, 401, number(t, hand, `SELECT clicks::bigint FROM click_dead_letter_more`))
	require.EqualValues(t, 1, ingest(t, db, batch(2, total("spring", 1))).Clicks, "clicks that can be counted are")

	exec(t, hand, `DELETE FROM click_dead_letter WHERE clicks < 10`)
	exec(t, hand, `UPDATE click_dead_letter SET body = NULL WHERE clicks > 12`)
	exec(t, hand, `UPDATE click_dead_letter SET body = convert_to(repeat('x', 33 << 20), 'UTF8') WHERE clicks < 12`) // 66 MiB
	bury(300)
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM click_dead_letter WHERE clicks = 300
		AND body IS NULL`), "what was judged makes room again; bytes are bounded, too")
	other := batch(1, total("spring", 1<<40))
	other.Node = "edge-2"
	require.True(t, ingest(t, db, other).DeadLetter)
	require.EqualValues(t, 1, number(t, hand, `SELECT count(body) FROM click_dead_letter
		WHERE node = 'edge-2'`), "nodes have room of their own")
}

func TestClicksOfUnknownCodesAreCountedApartAndThoseOfDeletedLinksAsUsual(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("summer"))
	insert(t, db, link("spring"))
	_, err := db.DeleteLink(t.Context(), controlplane.Actor{Workspace: waypost.DefaultWorkspace}, waypost.DefaultDomain, "summer")
	require.NoError(t, err)
	strange := total("spring", 16)
	strange.Domain = math.MaxUint32
	r := ingest(t, db, batch(1, total("spring", 1), total("summer", 2), total("winter", 4), total("monsoon", 8), strange))
	require.Equal(t, controlplane.ClickReceipt{Watermark: 1, Clicks: 3, Unknown: 28}, r)
	require.EqualValues(t, 3, number(t, hand, `SELECT clicks FROM click_watermark`))
	require.EqualValues(t, 28, number(t, hand, `SELECT unknown FROM click_watermark`))
	require.EqualValues(t, 31, number(t, hand, `SELECT clicks FROM click_batch`))
	require.EqualValues(t, 1, clicks(t, db, "spring"))
	fold(t, db)
	require.EqualValues(t, 2, number(t, hand, `SELECT clicks FROM link_click JOIN link ON id = link_id WHERE code = 'summer'`))

	exec(t, hand, `DELETE FROM link WHERE code = 'spring'`)
	require.Equal(t, controlplane.ClickReceipt{Watermark: 2, Unknown: 5}, ingest(t, db, batch(2, total("spring", 5))))
}

func TestClicksWithImpossibleTimesCountAtTheTimeOfReceipt(t *testing.T) {
	db, _ := open(t)
	now := time.Now()
	for name, c := range map[string]struct {
		last     int64
		believed bool
	}{
		"soon":      {now.Add(4 * time.Minute).UnixMilli(), true},
		"too-soon":  {now.Add(6 * time.Minute).UnixMilli(), false},
		"aged":      {now.Add(-29 * 24 * time.Hour).UnixMilli(), true},
		"too-aged":  {now.Add(-31 * 24 * time.Hour).UnixMilli(), false},
		"epoch":     {0, false},
		"end-times": {math.MaxInt64, false},
		"beginning": {math.MinInt64, false},
	} {
		insert(t, db, link(name))
		at := total(name, 2)
		at.Last, at.Rows[0].At = c.last, c.last
		b := batch(1, at)
		b.Node = name
		r := ingest(t, db, b)
		require.EqualValues(t, 2, r.Clicks, name)
		l, err := db.Link(t.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, waypost.Code(name))
		require.NoError(t, err)
		if c.believed {
			require.Zero(t, r.Redated, name)
			require.Equal(t, c.last, l.LastAccessedAt.UnixMilli(), name)
		} else {
			require.EqualValues(t, 2, r.Redated, name)
			require.WithinRange(t, l.LastAccessedAt, now.Truncate(time.Millisecond), time.Now(), name)
		}
	}
}

func TestClicksTakeNoTurnAtTheHeadOfTheChangelog(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	before := number(t, hand, `SELECT seq FROM changelog_head`)
	tx, err := hand.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT changelog_begin()`)
	require.NoError(t, err)
	require.EqualValues(t, 1, ingest(t, db, batch(1, total("spring", 1))).Clicks, "also while somebody holds the head")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, before, number(t, hand, `SELECT seq FROM changelog_head`))
	require.Equal(t, before, number(t, hand, `SELECT rev_seq FROM link`))
}

func TestManyNodesWithTheSameLinksAndRollersNeverWaitInACircle(t *testing.T) {
	db, hand := open(t)
	const nodes, batches, codes = 8, 10, 60
	insert(t, db, links(codes)...)
	var wg sync.WaitGroup
	for n := range nodes {
		wg.Go(func() {
			for seq := uint64(1); seq <= batches; seq++ {
				b := batch(seq)
				b.Node = fmt.Sprintf("edge-%d", n)
				for _, i := range rand.Perm(codes) {
					b.Links = append(b.Links, total(fmt.Sprintf("link-%d", i), uint64(i+1)))
				}
				if _, err := tryIngest(t, db, b); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	var rollers sync.WaitGroup
	for range 3 {
		rollers.Go(func() {
			r := db.NewRoller(nil).With(analytics.Limits{Parts: 50})
			for {
				if err := r.Fold(t.Context()); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	wg.Wait()
	close(done)
	rollers.Wait()
	for i := range codes {
		require.EqualValues(t, nodes*batches*(i+1), clicks(t, db, fmt.Sprintf("link-%d", i)))
	}
	fold(t, db)
	require.Equal(t, number(t, hand, `SELECT sum(clicks)::bigint FROM link_click`), number(t, hand,
		`SELECT sum(clicks)::bigint FROM click_watermark`))
}

func TestABatchIsForgottenAfterADayAndStaysCounted(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("spring"))
	for seq := range uint64(3) {
		ingest(t, db, batch(seq+1, total("spring", 1)))
	}
	exec(t, hand, `UPDATE click_batch SET received_at = now() - interval '25 hours' WHERE seq <> 2`)
	require.NoError(t, db.MaintainOnce(t.Context()))
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM click_batch`))
	require.EqualValues(t, 2, number(t, hand, `SELECT seq FROM click_batch`))

	require.Equal(t, controlplane.ClickReceipt{Watermark: 3}, ingest(t, db, batch(1, total("spring", 1))))
	require.True(t, ingest(t, db, batch(3, total("spring", 9))).DeadLetter, "the newest batch's hash is kept for ever")
	require.EqualValues(t, 3, clicks(t, db, "spring"))
}

func TestRowSecurityKeepsTheClicksOfTenantsApart(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	theirs := link("theirs")
	theirs.Workspace = 7
	insert(t, db, link("mine"))
	insert(t, db, theirs)
	exec(t, hand, `UPDATE workspace SET settings = '{"events": "all"}'`)
	require.EqualValues(t, 3, ingest(t, db, batch(1, total("mine", 1), total("theirs", 2))).Clicks)
	fold(t, db)
	require.EqualValues(t, 3, ingest(t, db, batch(2, total("mine", 1), total("theirs", 2))).Clicks)
	require.True(t, ingest(t, db, batch(1, total("mine", 9))).DeadLetter)

	tables := []string{
		"link_click", "click_part", "click_workspace_part", "click_day", "click_workspace_day", "click_event",
		"v_daily_click_stats", "v_active_short_links",
	}
	month := "click_event_" + time.Now().UTC().Format("2006_01")
	count := func(table string) int64 { return number(t, hand, `SELECT count(*) FROM `+table) }
	for _, table := range tables {
		require.GreaterOrEqual(t, count(table), int64(2), table)
	}
	require.EqualValues(t, 1, count("click_dead_letter"))
	exec(t, hand, `SET ROLE waypost_tenant`)
	for _, table := range tables {
		require.Zero(t, count(table), table)
	}
	exec(t, hand, `SET waypost.workspaces = '7'`)
	for _, table := range tables {
		require.Zero(t, number(t, hand, `SELECT count(*) FROM `+table+` WHERE workspace_id <> 7`), table)
		require.Positive(t, count(table), table)
	}
	require.EqualValues(t, 2, number(t, hand, `SELECT sum(clicks)::bigint FROM link_click`))
	require.EqualValues(t, 4, number(t, hand, `SELECT sum(clicks)::bigint FROM v_daily_click_stats`))
	for _, table := range []string{"click_dead_letter", "click_set_aside", month} {
		_, err := hand.Exec(t.Context(), `SELECT FROM `+table)
		require.ErrorContains(t, err, "permission denied")
	}
	for ws, want := range map[waypost.WorkspaceID]int{1: 0, 7: 1} {
		theirs := analytics.ClickDays{Links: []int64{number(t, hand, `SELECT id FROM link WHERE code = 'theirs'`)}, End: 1 << 20}
		days, err := db.ClicksByDay(t.Context(), ws, theirs)
		require.NoError(t, err)
		require.Len(t, days, want, "of workspace %d", ws)
		top, _, err := db.TopLinks(t.Context(), ws, 0, 1<<20, 10)
		require.NoError(t, err)
		require.Len(t, top, 1)
	}
	_, err := hand.Exec(t.Context(), `INSERT INTO link_click (link_id, workspace_id, clicks, last_accessed_at) SELECT 1, 1, 1, now()`)
	require.ErrorContains(t, err, "permission denied")
	_, err = hand.Exec(t.Context(), `INSERT INTO click_pack SELECT * FROM click_pack`)
	require.ErrorContains(t, err, "permission denied")
}
