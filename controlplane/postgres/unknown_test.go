package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
)

const unknownDomain = waypost.DomainID(101)

// unknownDB is a database with a domain of workspace 20.
func unknownDB(t *testing.T) (
	db *postgres.DB, hand *pgx.Conn, day time.Time,
	list func(ws waypost.WorkspaceID, domain waypost.DomainID, limit int) []api.UnknownAddress,
) {
	db, hand = open(t)
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (20, 'Shop', 'shop')`)
	exec(t, hand, `INSERT INTO domain (id, workspace_id, host) VALUES (101, 20, 'shop.example')`)
	day = time.Unix(int64(today(t, hand))*24*60*60, 0).UTC()
	return db, hand, day, func(ws waypost.WorkspaceID, domain waypost.DomainID, limit int) []api.UnknownAddress {
		all, err := db.Unknown(t.Context(), &controlplane.UnknownQuery{
			Workspace: ws, Domain: domain, From: day.AddDate(0, 0, -3), To: day, Limit: limit,
		})
		require.NoError(t, err)
		return all
	}
}

// asked returns visits of an address on a day by visitors with numbers.
func asked(domain waypost.DomainID, day time.Time, path string, people int64, visitors ...uint64) controlplane.UnknownVisits {
	for i := range visitors {
		visitors[i] <<= 60 // of which PostgreSQL has no unsigned number
	}
	return controlplane.UnknownVisits{
		Domain: domain, Day: waypost.Day(day.UnixMilli()), Path: path, People: people, Bots: 1, Visitors: visitors,
	}
}

func TestUnknown_IsShownAfterFiveVisitorsOfADay(t *testing.T) {
	db, _, day, list := unknownDB(t)
	count := func(node string, seq uint64, visits ...controlplane.UnknownVisits) {
		t.Helper()
		r := controlplane.UnknownReport{Node: node, Boot: waypost.BootID{1}, Seq: seq, Addresses: visits}
		require.NoError(t, db.CountUnknown(t.Context(), &r))
	}
	before := day.AddDate(0, 0, -1)
	count("a", 1, asked(unknownDomain, day, "hr", 3, 1, 2, 3), asked(unknownDomain, before, "hr", 2, 4, 5),
		asked(999, day, "of no domain", 9, 1, 2, 3, 4, 5),
		asked(unknownDomain, day.AddDate(0, 0, -9), "of long ago", 9, 1, 2, 3, 4, 5),

		asked(unknownDomain, day.AddDate(0, 0, 9), "of the future", 9, 1, 2, 3, 4, 5))
	require.Empty(t, list(20, unknownDomain, 10), "visitors of two days are no five of one")
	count("b", 1, asked(unknownDomain, day, "hr", 5, 3, 4))
	require.Empty(t, list(20, unknownDomain, 10), "one visitor asked two edges")
	last := asked(unknownDomain, day, "hr", 1, 15)
	count("b", 2, last, asked(unknownDomain, day, "vpn", 7, 6, 7, 8, 9, 10), asked(waypost.DefaultDomain, day, "shared", 5, 1, 2, 3, 4, 5))
	want := []api.UnknownAddress{
		{Path: "hr", People: 9, Bots: 3, Days: []api.UnknownDay{{Day: day.Format(time.DateOnly), People: 9, Bots: 3}}},
		{Path: "vpn", People: 7, Bots: 1, Days: []api.UnknownDay{{Day: day.Format(time.DateOnly), People: 7, Bots: 1}}},
	}
	require.Equal(t, want, list(20, unknownDomain, 10))

	count("b", 2, last) // again
	count("b", 1, last)
	require.Equal(t, want, list(20, unknownDomain, 10), "a report counts once")
	require.Equal(t, want[:1], list(20, unknownDomain, 1))
	require.Empty(t, list(waypost.DefaultWorkspace, unknownDomain, 10), "another workspace's")
	require.Empty(t, list(20, waypost.DefaultDomain, 10))
	require.Len(t, list(waypost.DefaultWorkspace, waypost.DefaultDomain, 10), 1)

	count("a", 2, asked(unknownDomain, before, "hr", 4, 1, 2, 3))
	want[0].People, want[0].Bots = 15, 5
	want[0].Days = append([]api.UnknownDay{{Day: before.Format(time.DateOnly), People: 6, Bots: 2}}, want[0].Days...)
	require.Equal(t, want, list(20, unknownDomain, 10))
}

func TestUnknown_IsNotShownWhileItIsALink(t *testing.T) {
	db, hand, day, list := unknownDB(t)
	require.NoError(t, db.CountUnknown(t.Context(), &controlplane.UnknownReport{
		Node: "a", Boot: waypost.BootID{1}, Seq: 1, Addresses: []controlplane.UnknownVisits{asked(unknownDomain, day, "hr", 5, 1, 2, 3, 4, 5)},
	}))
	require.Len(t, list(20, unknownDomain, 10), 1)
	exec(t, hand, `INSERT INTO link (workspace_id, domain_id, code, original_url, location) VALUES (20, 101, 'hr', 'https://example.com/', 'https://example.com/')`)
	require.Empty(t, list(20, unknownDomain, 10))
	exec(t, hand, `UPDATE link SET deleted_at = now() WHERE code = 'hr'`)
	require.Len(t, list(20, unknownDomain, 10), 1)

	require.NoError(t, db.CountUnknown(t.Context(), &controlplane.UnknownReport{
		Node: "a", Boot: waypost.BootID{1}, Seq: 2, Addresses: []controlplane.UnknownVisits{asked(unknownDomain, day, "vpn/a/b", 5, 1, 2, 3, 4, 5)},
	}))
	exec(t, hand, `INSERT INTO link (workspace_id, domain_id, code, original_url, location) VALUES (20, 101, 'vpn', 'https://example.com/', 'https://example.com/')`)
	require.Len(t, list(20, unknownDomain, 10), 2)
	exec(t, hand, `UPDATE link SET forward_path = true WHERE code = 'vpn'`)
	require.Len(t, list(20, unknownDomain, 10), 1)
}

func TestUnknown_KeepsWhatSeveralAskedFor(t *testing.T) {
	db, hand, day, list := unknownDB(t)
	var seq uint64
	count := func(visits ...controlplane.UnknownVisits) {
		t.Helper()
		seq++
		r := controlplane.UnknownReport{Node: "a", Boot: waypost.BootID{1}, Seq: seq, Addresses: visits}
		require.NoError(t, db.CountUnknown(t.Context(), &r))
	}
	count(asked(unknownDomain, day, "wanted", 2, 1, 2))
	for n := range 12 {
		var flood []controlplane.UnknownVisits
		for i := range 500 {
			flood = append(flood, asked(unknownDomain, day, fmt.Sprintf("random-%d-%d", n, i), 1000, 3))
		}
		count(flood...)
		require.Less(t, number(t, hand, `SELECT count(*) FROM unknown_address`), int64(2500))
	}
	count(asked(unknownDomain, day, "wanted", 3, 3, 4, 5))
	require.Len(t, list(20, unknownDomain, 10), 1)
	require.EqualValues(t, 5, list(20, unknownDomain, 10)[0].People)
}

func TestUnknown_IsForgotten(t *testing.T) {
	db, hand, day, _ := unknownDB(t)
	for _, age := range []int{0, 2, 3, 29, 30, 31} {
		for _, visitors := range []string{"{1,2,3,4}", "{1,2,3,4,5}"} {
			_, err := hand.Exec(t.Context(), `
				INSERT INTO unknown_address (domain_id, day, kind, path, workspace_id, people, bots, visitors)
				VALUES (101, $1, 0, $2, 20, 1, 0, $2::text::bigint[])`, day.AddDate(0, 0, -age), visitors)
			require.NoError(t, err)
		}
	}
	exec(t, hand, `INSERT INTO unknown_report VALUES ('old', gen_random_uuid(), 1, now() - interval '3 days'), ('new', gen_random_uuid(), 1, now())`)
	require.NoError(t, db.MaintainOnce(t.Context()))
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM unknown_report`))
	require.EqualValues(t, 2, number(t, hand, `SELECT count(*) FROM unknown_address WHERE cardinality(visitors) = 4`), "today's, and those of two days ago")
	require.EqualValues(t, 5, number(t, hand, `SELECT count(*) FROM unknown_address WHERE cardinality(visitors) = 5`))
}
