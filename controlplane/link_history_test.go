package controlplane_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

// did lays out the history of a link, newest first.
func (s *system) did(t *testing.T, code string) (all []string) {
	t.Helper()
	changes, next, err := s.Links.History(t.Context(), actor, "", code, 100, "")
	require.NoError(t, err)
	require.Empty(t, next)
	for _, c := range changes {
		text := fmt.Sprintf("%s by %s %d %s:", c.What, c.By.Kind, c.By.ID, c.By.Name)
		for _, f := range c.Fields {
			text += fmt.Sprintf(" %s %s > %s", f.Name, f.Before, f.After)
		}
		all = append(all, text)
	}
	return all
}

func TestLinks_HistoryNamesWhoChangedWhat(t *testing.T) {
	s := start(t)
	ada := controlplane.Actor{Workspace: actor.Workspace, UserID: 7, SessionID: 1, Name: "Ada", Email: "ada@example.com"}
	key := controlplane.Actor{Workspace: actor.Workspace, UserID: 7, KeyID: 9, Name: "deploy"}
	_, _, err := s.Links.Create(t.Context(), ada, wish(custom("told"), func(n *controlplane.NewLink) {
		n.OriginalURL, n.CreatedBy = "https://bücher.example/", "Bob"
	}))
	require.NoError(t, err)
	require.Equal(t, []string{"created by stated 0 Bob:"}, s.did(t, "told"))
	_, _, err = s.Links.Create(t.Context(), ada, wish(custom("signed-in")))
	require.NoError(t, err)
	require.Equal(t, []string{"created by stated 0 Ada <ada@example.com>:"}, s.did(t, "signed-in"))
	_, _, err = s.Links.Create(t.Context(), key, wish(custom("by-key")))
	require.NoError(t, err)
	require.Equal(t, []string{"created by  0 :"}, s.did(t, "by-key"))

	same, off := "https://BÜCHER.example/", false
	expiry := time.Date(2999, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	for _, c := range []controlplane.LinkChange{
		{Details: func(d *waypost.Details) { d.Title, d.Tags = "new", []string{"a"} }},
		{Details: entitle("new")},
		{OriginalURL: &same},
		{ExpiresAt: &expiry, Active: &off},
	} {
		_, _, err = s.Links.Change(t.Context(), ada, "", "told", c)
		require.NoError(t, err)
	}
	_, err = s.Links.Remove(t.Context(), key, "", "told")
	require.NoError(t, err)
	_, _, err = s.Links.Restore(t.Context(), actor, "", "told")
	require.NoError(t, err)
	_, err = s.hand.Exec(t.Context(), `UPDATE link SET description = 'by hand', deleted_at = now() WHERE code = 'told'`)
	require.NoError(t, err)
	require.Equal(t, []string{
		`deleted by database 0 postgres: description "" > "by hand"`,
		`restored by system 0 development system:`,
		`deleted by key 9 deploy:`,
		`changed by user 7 Ada <ada@example.com>: active true > false expires_at null > "2999-01-02T03:04:05.006Z"`,
		`changed by user 7 Ada <ada@example.com>: original_url "https://bücher.example/" > "https://BÜCHER.example/"`,
		`changed by user 7 Ada <ada@example.com>: tags [] > ["a"] title "" > "new"`,
		`created by stated 0 Bob:`,
	}, s.did(t, "told"))

	_, _, err = s.Links.History(t.Context(), controlplane.Actor{Workspace: 7}, "", "told", 1, "")
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err), "another workspace")
	var pages []string
	cursor := ""
	for more := true; more; more = cursor != "" {
		var page []controlplane.Change
		page, cursor, err = s.Links.History(t.Context(), actor, "", "told", 3, cursor)
		require.NoError(t, err)
		for _, c := range page {
			pages = append(pages, c.What)
		}
	}
	require.Equal(t, "deleted restored deleted changed changed changed created", strings.Join(pages, " "))
	for _, bad := range []string{"x", "1", "1-2-3", "01-2", "-1-2", "1-2 ", "99999999999-1", "1-99999999999999999999"} {
		_, _, err = s.Links.History(t.Context(), actor, "", "told", 3, bad)
		require.Equal(t, waypost.EMalformed, waypost.CodeOf(err), bad)
	}
}

func TestLinks_HistoryKeepsTheNewest200AndGoesWithTheLink(t *testing.T) {
	s := start(t)
	_, _, err := s.Links.Create(t.Context(), actor, wish(custom("busy")))
	require.NoError(t, err)
	for i := range 205 {
		_, err = s.hand.Exec(t.Context(), `UPDATE link SET title = $1 WHERE code = 'busy'`, fmt.Sprint(i))
		require.NoError(t, err)
	}
	first, next, err := s.Links.History(t.Context(), actor, "", "busy", 200, "")
	require.NoError(t, err)
	require.Len(t, first, 200)
	require.Equal(t, `"204"`, string(first[0].Fields[0].After))
	rest, next, err := s.Links.History(t.Context(), actor, "", "busy", 200, next)
	require.NoError(t, err)
	require.Empty(t, next)
	require.Len(t, rest, 1, "the creation")
	_, err = s.hand.Exec(t.Context(), `UPDATE link SET deleted_at = now() - interval '200 days', expires_at = NULL WHERE code = 'busy'`)
	require.NoError(t, err)
	n, err := s.db.PurgeLinks(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, s.hand.QueryRow(t.Context(), `SELECT count(*) FROM link_change`).Scan(&n))
	require.Zero(t, n)
}

func TestClicks_AnnotationsComeFromTheHistoryOfTheLink(t *testing.T) {
	s := start(t)
	ada := controlplane.Actor{Workspace: actor.Workspace, UserID: 7, KeyID: 9, Name: "Ada", Scopes: controlplane.Scopes()}
	for _, code := range []string{"noted", "other"} {
		_, _, err := s.Links.Create(t.Context(), ada, wish(custom(code)))
		require.NoError(t, err)
		target, off, never := "https://example.com/new", false, time.Time{}
		for _, c := range []controlplane.LinkChange{
			{Details: entitle("new")}, {OriginalURL: &target}, {Active: &off, ExpiresAt: &never},
		} {
			_, _, err = s.Links.Change(t.Context(), ada, "", code, c)
			require.NoError(t, err)
		}
	}
	notes := func(by controlplane.Actor, q controlplane.StatsQuery) (all []string) {
		stats, err := s.Clicks.LinkStats(t.Context(), by, "", "noted", q)
		require.NoError(t, err)
		for _, a := range stats.Annotations {
			all = append(all, strings.Join(a.Changes, "+")+" "+a.By.Name)
		}
		return all
	}
	require.Equal(t, []string{"state Ada", "target Ada"}, notes(ada, controlplane.StatsQuery{}))
	require.Empty(t, notes(ada, controlplane.StatsQuery{To: time.Now().AddDate(0, 0, -1)}))
	_, err := s.Links.Remove(t.Context(), ada, "", "noted")
	require.NoError(t, err)
	_, _, err = s.Links.Restore(t.Context(), ada, "", "noted")
	require.NoError(t, err)
	require.Equal(t, []string{"restored Ada", "deleted Ada", "state Ada", "target Ada"}, notes(ada, controlplane.StatsQuery{}))
}

func TestLinks_HistoryEndsInTheExpiry(t *testing.T) {
	s := start(t)
	_, _, err := s.Links.Create(t.Context(), actor, wish(custom("brief"), func(n *controlplane.NewLink) {
		n.ExpiresAt = time.Now().Add(time.Hour)
	}))
	require.NoError(t, err)
	_, err = s.hand.Exec(t.Context(), `UPDATE link SET expires_at = now() - interval '1 day' WHERE code = 'brief'`)
	require.NoError(t, err)
	n, err := s.db.ExpireLinks(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	did := s.did(t, "brief")
	require.Len(t, did, 3)
	require.Equal(t, "expired by system 0 waypost:", did[0])
	page, cursor, err := s.Links.History(t.Context(), actor, "", "brief", 1, "")
	require.NoError(t, err)
	require.Equal(t, "expired", page[0].What)
	page, _, err = s.Links.History(t.Context(), actor, "", "brief", 2, cursor)
	require.NoError(t, err)
	require.Len(t, page, 2)
	require.Equal(t, "changed", page[0].What)
}

func TestLinks_ListOfDeletedHasWhatCanBeRestored(t *testing.T) {
	s := start(t)
	for _, code := range []string{"code-0", "code-1", "code-2", "code-3", "code-4", "code-5"} {
		_, _, err := s.Links.Create(t.Context(), actor, wish(custom(code)))
		require.NoError(t, err)
	}
	for _, code := range []string{"code-3", "code-1", "code-2", "code-4", "code-5"} {
		_, err := s.Links.Remove(t.Context(), actor, "", code)
		require.NoError(t, err)
	}
	_, err := s.hand.Exec(t.Context(), `UPDATE link SET deleted_at = now() - interval '31 days' WHERE code = 'code-4'`)
	require.NoError(t, err)
	_, err = s.hand.Exec(t.Context(), `UPDATE link SET deleted_at = now() - interval '2 days',
		expires_at = now() - interval '1 day' WHERE code = 'code-5'`)
	require.NoError(t, err)
	for limit := 1; limit <= 4; limit++ {
		var got []waypost.Code
		r := controlplane.ListRequest{Order: controlplane.NewestDeleted, Limit: limit}
		for more := true; more; more = r.Cursor != "" {
			page, err := s.Links.List(t.Context(), actor, r)
			require.NoError(t, err)
			for _, l := range page.Links {
				require.WithinDuration(t, time.Now(), l.DeletedAt, time.Minute)
				got = append(got, l.Code)
			}
			r.Cursor = page.Next
		}
		require.Equal(t, []waypost.Code{"code-2", "code-1", "code-3"}, got, "by %d", limit)
	}
	none, err := s.Links.List(t.Context(), controlplane.Actor{Workspace: 7},
		controlplane.ListRequest{Order: controlplane.NewestDeleted, Limit: 1})
	require.NoError(t, err)
	require.Empty(t, none.Links)
	_, err = s.Links.List(t.Context(), actor, controlplane.ListRequest{
		Order: controlplane.NewestDeleted, Limit: 1, LinkFilter: controlplane.LinkFilter{Words: "x"},
	})
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
}
