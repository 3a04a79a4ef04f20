package analytics_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/controlplane/postgres/analytics"
)

// crowded sends clicks of many links, those with low numbers more often.
func crowded(t *testing.T, db *postgres.DB, seq uint64, of []*waypost.Link) {
	t.Helper()
	b := batch(seq)
	b.Profiles = nil
	for i := range of {
		b.Profiles = append(b.Profiles, waypost.ClickProfile{Referrer: fmt.Sprintf("www.%0100d.example", i)})
		l := total(string(of[i].Code), uint64(i)+1)
		l.Rows[0].Profile = uint32(i)
		b.Links = append(b.Links, l)
	}
	ingest(t, db, b)
}

func TestPartsOfManyLinksShareRowsThatFitAPage(t *testing.T) {
	db, hand := open(t)
	some := links(900)
	insert(t, db, some...)
	crowded(t, db, 1, some)
	crowded(t, db, 2, some[:5])

	require.EqualValues(t, 905, number(t, hand, `SELECT count(*) FROM click_part`))
	rows := number(t, hand, `SELECT count(*) FROM click_pack`)
	require.Greater(t, rows, int64(10))
	require.Less(t, rows, int64(60))
	require.Zero(t, number(t, hand, `SELECT count(*) FROM click_pack p WHERE pg_column_size(p.*) > 8160`))
	require.Zero(t, number(t, hand, `SELECT pg_relation_size(reltoastrelid) FROM pg_class
		WHERE relname = 'click_pack'`), "nothing lies elsewhere")
	require.Zero(t, number(t, hand, `SELECT count(*) FROM click_part WHERE area <> ALL (click_areas(link_id))`))
	require.Positive(t, number(t, hand, `SELECT count(DISTINCT area & 255) FROM click_pack`))
	require.EqualValues(t, 450, clicks(t, db, "link-449"))
	require.EqualValues(t, 10, clicks(t, db, "link-4"), "in two batches")

	fold(t, db)
	require.Zero(t, number(t, hand, `SELECT count(*) FROM click_pack`))
	require.EqualValues(t, 900*901/2+15, number(t, hand, `SELECT sum(clicks)::bigint FROM link_click`))
	require.EqualValues(t, 10, clicks(t, db, "link-4"))
}

func TestARoundTakesNoMoreRowsThanItMay(t *testing.T) {
	db, hand := open(t)
	some := links(300)
	insert(t, db, some...)
	for seq := range uint64(3) {
		crowded(t, db, seq+1, some)
	}
	require.NoError(t, db.NewRoller(nil).With(analytics.Limits{Parts: 7, Bytes: 1}).Fold(t.Context()))
	require.Zero(t, number(t, hand, `SELECT count(*) FROM click_pack`))
	require.EqualValues(t, 3*300*301/2, number(t, hand, `SELECT sum(clicks)::bigint FROM link_click`))
}

func TestForgettingALinkLeavesTheOthersOfItsRow(t *testing.T) {
	db, hand := open(t)
	some := links(4)
	insert(t, db, some...)
	crowded(t, db, 1, some)
	crowded(t, db, 2, some[2:3])
	f, err := db.ForgetClicks(t.Context(), eraser, waypost.DefaultDomain, "link-2")
	require.NoError(t, err)
	require.Equal(t, controlplane.ForgottenClicks{Clicks: 3 + 1}, f)
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM click_pack`))
	fold(t, db)
	for i, want := range []int64{1, 2, 0, 4} {
		require.Equal(t, want, clicks(t, db, fmt.Sprintf("link-%d", i)))
	}
	require.EqualValues(t, 7, number(t, hand, `SELECT sum(clicks)::bigint FROM click_workspace_day`))
	require.Zero(t, number(t, hand, `SELECT count(*) FROM click_set_aside`))
}

func TestPurgingALinkFoldsTheRowThatItShares(t *testing.T) {
	db, hand := open(t)
	some := links(3)
	insert(t, db, some...)
	crowded(t, db, 1, some)
	exec(t, hand, `UPDATE link SET deleted_at = now() - interval '2 hours' WHERE code = 'link-1'`)
	n, err := db.PurgeLinks(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.EqualValues(t, 3, clicks(t, db, "link-2"))
	all, _, err := db.WorkspaceTotals(t.Context(), waypost.DefaultWorkspace)
	require.NoError(t, err)
	require.EqualValues(t, 6, all)
}

// A database that was restored from a backup may give the id of a link to another one.
func TestRememberedLinksAreForgottenWhenTheirIdsAreOthers(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("kept"))
	insert(t, db, link("lost-1"), link("lost-2"))
	ingest(t, db, batch(1, total("kept", 1), total("lost-1", 2), total("lost-2", 4)))
	ids := number(t, hand, `SELECT min(id) FROM link WHERE code LIKE 'lost%'`)
	exec(t, hand, `DELETE FROM link WHERE code LIKE 'lost%'`)
	exec(t, hand, fmt.Sprintf(`ALTER TABLE link ALTER COLUMN id RESTART WITH %d`, ids))
	exec(t, hand, `DELETE FROM click_pack`)
	insert(t, db, link("new-1"))
	insert(t, db, link("lost-1"))

	r := ingest(t, db, batch(2, total("kept", 8), total("lost-1", 16), total("lost-2", 32), total("new-1", 64)))
	require.EqualValues(t, 32, r.Unknown)
	for code, want := range map[string]int64{"kept": 8, "lost-1": 16, "new-1": 64} {
		require.Equal(t, want, clicks(t, db, code), code)
	}
}

func TestRememberedLinksAreForgottenThoughTheNewestOfABatchIsRight(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("kept"))
	insert(t, db, link("lost"))
	ingest(t, db, batch(1, total("kept", 1), total("lost", 2)))
	id := number(t, hand, `SELECT id FROM link WHERE code = 'lost'`)
	exec(t, hand, `DELETE FROM link WHERE code = 'lost'`)
	exec(t, hand, fmt.Sprintf(`ALTER TABLE link ALTER COLUMN id RESTART WITH %d`, id))
	exec(t, hand, `DELETE FROM click_pack`)
	insert(t, db, link("other")) // with that id
	insert(t, db, link("newer"))

	ingest(t, db, batch(2, total("newer", 4)))
	r := ingest(t, db, batch(3, total("lost", 8), total("newer", 16)))
	require.EqualValues(t, 8, r.Unknown)
	require.Zero(t, clicks(t, db, "other"))
	require.EqualValues(t, 20, clicks(t, db, "newer"))
}
