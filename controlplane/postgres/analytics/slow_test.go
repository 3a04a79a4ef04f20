//go:build !race

// Without the race detector only, which has these sequences take several times as long.

package analytics_test

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
)

// Every row has the longest of profiles, and no part shares them with another.
func TestABatchThatGrowsBeyondBoundsWhenItIsTakenApartIsADeadLetter(t *testing.T) {
	db, hand := open(t)
	const n = 1_000
	insert(t, db, links(n)...)
	b := &waypost.ClickBatch{Node: "edge-1", Boot: someBoot, Seq: 1, Exact: true}
	now := time.Now().UnixMilli()
	var all []waypost.ClickRow
	for i := range uint32(clickbatch.MaxRows / n) {
		long := strings.Repeat(string(rune('a'+i%26)), waypost.MaxClickName-4)
		name := fmt.Sprintf("%s%04d", long, i)
		b.Profiles = append(b.Profiles, waypost.ClickProfile{
			Country: "DE", City: name, Device: "mobile", Browser: name, OS: name,
			Referrer: name,
		})
		all = append(all, waypost.ClickRow{At: now, Profile: i, Count: 1})
	}
	for i := range n {
		b.Links = append(b.Links, waypost.LinkClicks{
			Domain: waypost.DefaultDomain, Code: waypost.Code(fmt.Sprintf("link-%d", i)),
			Last: now, Rows: all,
		})
	}
	require.Less(t, len(clickbatch.Append(nil, b)), clickbatch.MaxBytes)
	require.Equal(t, controlplane.ClickReceipt{Watermark: 1, DeadLetter: true}, ingest(t, db, b))
	require.Contains(t, textOf(t, hand, `SELECT reason FROM click_dead_letter`), "more of its clicks than can be kept")
	require.Zero(t, number(t, hand, `SELECT count(*) FROM click_part`))

	b.Seq, b.Links = 2, b.Links[:n/5]
	require.EqualValues(t, len(all)*n/5, ingest(t, db, b).Clicks)
}

func TestDaysWithManyNamesAreStoredSomeAtATime(t *testing.T) {
	db, hand := open(t)
	const n = 300
	var names []waypost.ClickProfile
	for i := range 1000 {
		names = append(names, waypost.ClickProfile{Referrer: fmt.Sprintf("%x.example", sha256.Sum256([]byte{byte(i), byte(i >> 8)}))})
	}
	some := links(n)
	insert(t, db, some...)
	now := time.Now().UnixMilli()
	b := &waypost.ClickBatch{Node: "edge-1", Boot: someBoot, Seq: 1, Exact: true, Profiles: names}
	for i, s := range some {
		l := waypost.LinkClicks{Domain: waypost.DefaultDomain, Code: s.Code, Last: now}
		for k := range names[:1+(i%3)*400] {
			l.Rows = append(l.Rows, waypost.ClickRow{At: now, Profile: uint32(k), Count: 1})
		}
		b.Links = append(b.Links, l)
	}
	require.False(t, ingest(t, db, b).DeadLetter)
	fold(t, db)
	require.Greater(t, number(t, hand, `SELECT sum(octet_length(breakdown)) FROM click_day`), int64(5<<20), "one statement does not read them all")
	again := batch(2)
	for _, s := range some {
		again.Links = append(again.Links, total(string(s.Code), 1))
	}
	ingest(t, db, again)
	fold(t, db)
	for i, s := range some[:6] {
		require.EqualValues(t, 2+(i%3)*400, clicks(t, db, string(s.Code)))
	}
	require.EqualValues(t, n, number(t, hand, `SELECT count(*) FROM click_day`))
	require.Equal(t, number(t, hand, `SELECT sum(clicks) FROM link_click`), number(t, hand, `SELECT sum(clicks) FROM click_day`))
}

// More parts wait than are looked through: others may have more clicks, and that is told.
func TestTopLinks_OfABacklogAreRightAndCalledInexact(t *testing.T) {
	db, hand := open(t)
	const n = 21_000
	exec(t, hand, `INSERT INTO domain (id, workspace_id, host) VALUES (2, 1, 'own.example')`)
	many(t, hand, n)
	first := int32(at(0, 0).Unix() / 86400)
	send(t, db, 1, rows("many-7", 1, 0, 50, at(12, 0)))
	fold(t, db)
	all := make([]waypost.LinkClicks, 0, n)
	for i := 1; i <= n; i++ {
		l := rows(fmt.Sprintf("many-%d", i), uint64(i), 0, 1, at(13, 0))
		if i%100 == 0 {
			l.Domain = 2
		}
		all = append(all, l)
	}
	send(t, db, 2, all...)
	top, exact, err := db.TopLinks(t.Context(), waypost.DefaultWorkspace, first, first+1, 1)
	require.NoError(t, err)
	require.False(t, exact)
	require.Equal(t, everyTopOf(t, hand, first, first+1, 1), top)
	require.EqualValues(t, 51, top[0].Clicks)

	// The next day has clicks, too, but all parts that are looked through are of the first.
	all = all[:0]
	for i := n - 500; i <= n; i++ {
		if i%100 != 0 {
			all = append(all, rows(fmt.Sprintf("many-%d", i), uint64(i), 0, 1, at(13, 0).AddDate(0, 0, 1)))
		}
	}
	send(t, db, 3, all...)
	top, exact, err = db.TopLinks(t.Context(), waypost.DefaultWorkspace, first+1, first+2, 1)
	require.NoError(t, err)
	require.Empty(t, top, "else the test shows nothing")
	require.False(t, exact)
	fold(t, db)
	for day, want := range []uint64{51, 1} {
		top, exact, err = db.TopLinks(t.Context(), waypost.DefaultWorkspace, first+int32(day), first+int32(day)+1, 1)
		require.NoError(t, err)
		require.True(t, exact)
		require.Equal(t, want, top[0].Clicks)
	}
}

// Wide rows fill many blocks quickly.
func TestAMonthOfManyBlocksIsExportedWhole(t *testing.T) {
	dir := t.TempDir()
	db, hand := open(t, func(c *postgres.Config) { c.ExportEvents, c.EventMonths = dir, 13 })
	insert(t, db, link("spring"))
	month := time.Now().UTC().Format("2006_01")
	exec(t, hand, `INSERT INTO click_event SELECT now(), 1, l.id, n, false, '', '', '', '', '', repeat('x', 1900)
		FROM link l, generate_series(1, 1100) n`)
	exec(t, hand, `DELETE FROM click_event WHERE clicks % 10 = 0`)
	require.Greater(t, number(t, hand, `SELECT pg_relation_size($1::regclass) / 8192`, "click_event_"+month), int64(250),
		"more than is read at once")
	now := time.Now().UTC()
	require.NoError(t, db.KeepEventsOnce(t.Context(), time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, 14, 0)))

	f, err := os.Open(filepath.Join(dir, fmt.Sprintf("clicks-%s.jsonl.gz", now.Format("2006-01"))))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	seen := make(map[int]bool)
	for lines := bufio.NewScanner(z); lines.Scan(); {
		var event struct {
			Code   string
			Clicks int
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &event))
		require.Equal(t, "spring", event.Code)
		require.False(t, seen[event.Clicks], "twice")
		seen[event.Clicks] = true
	}
	require.Len(t, seen, 990)
}
