package analytics_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost/controlplane"
)

// TestGroupClicks_FollowAModel creates, tags, deletes, restores and clicks links in any
// order. After each step the answers about a group and the tables equal the model.
func TestGroupClicks_FollowAModel(t *testing.T) {
	db, hand := open(t)
	r := rand.New(rand.NewPCG(5, 6))
	m := makeUp(t, db, hand, r, 12)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	date := func(days int) string { return today.AddDate(0, 0, days).Format(time.DateOnly) }
	zones := []string{"UTC", "America/St_Johns", "Asia/Kathmandu", "Pacific/Kiritimati"}

	rapid.Check(t, func(rt *rapid.T) {
		l := m.links[rapid.IntRange(0, len(m.links)-1).Draw(rt, "link")]
		switch rapid.SampledFrom([]string{"create", "tag", "delete", "restore", "click", "click", "fold"}).Draw(rt, "step") {
		case "create":
			l = &madeUpLink{code: fmt.Sprintf("later-%d", len(m.links)), domain: 1, creator: "bob", tags: []string{"mail"}}
			stored := link(l.code)
			stored.CreatedBy, stored.Tags = l.creator, l.tags
			insert(t, db, stored)
			m.links = append(m.links, l)
		case "tag":
			l.tags = append([]string{}, rapid.SliceOfNDistinct(rapid.SampledFrom(madeUpTags), 0, 3, rapid.ID[string]).Draw(rt, "tags")...)
			_, err := hand.Exec(t.Context(), `UPDATE link SET tags = $1 WHERE code = $2`, l.tags, l.code)
			require.NoError(t, err)
		case "delete", "restore":
			l.deleted = !l.deleted
			_, err := hand.Exec(t.Context(), `UPDATE link SET deleted_at = CASE WHEN $1 THEN now() END WHERE code = $2`, l.deleted, l.code)
			require.NoError(t, err)
		case "click":
			m.click(t, db, r, rapid.IntRange(1, 20).Draw(rt, "clicks"), today)
		case "fold":
			fold(t, db)
		}

		g := controlplane.LinkGroup{
			Tags:    rapid.SliceOfNDistinct(rapid.SampledFrom(madeUpTags), 0, 2, rapid.ID[string]).Draw(rt, "tags of the group"),
			Creator: rapid.SampledFrom([]string{"", "", "bob"}).Draw(rt, "creator"),
		}
		zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(rt, "zone"))
		require.NoError(t, err)
		first := rapid.IntRange(-6, -2).Draw(rt, "first day")
		require.Equal(t, m.count(&g, date(first), date(-2), zone), answerOf(t, db, &g, date(first), date(-2), zone), "%v in %s", g, zone)
		m.requireTables(t, db, date(-3), date(-2), date(-5), date(-4))
	})
}
