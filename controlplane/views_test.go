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

func TestClicks_ViewsAreOfTheirWorkspaceAndBounded(t *testing.T) {
	s := start(t)
	_, err := s.hand.Exec(t.Context(), `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	require.NoError(t, err)
	other := controlplane.Actor{Workspace: 7}
	_, _, err = s.Links.Create(t.Context(), actor, wish(custom("spring")))
	require.NoError(t, err)
	v, err := s.Clicks.SaveView(t.Context(), actor, "Germany", "by=countries&name=DE")
	require.NoError(t, err)
	require.False(t, v.CreatedAt.IsZero())
	_, err = s.Clicks.SaveView(t.Context(), other, "Germany", "")
	require.NoError(t, err, "another workspace has names of its own")
	for name, c := range map[string]struct {
		name, query string
		code        waypost.ErrorCode
	}{
		"taken":         {"Germany", "", waypost.EConflict},
		"no name":       {" ", "", waypost.EInvalid},
		"a long name":   {strings.Repeat("x", 101), "", waypost.EInvalid},
		"a long query":  {"x", strings.Repeat("x", 2001), waypost.EInvalid},
		"a line break":  {"x", "a\nb", waypost.EInvalid},
		"a bare umlaut": {"x", "ä", waypost.EInvalid},
	} {
		_, err := s.Clicks.SaveView(t.Context(), actor, c.name, c.query)
		require.Equal(t, c.code, waypost.CodeOf(err), name)
	}

	// A public view.
	_, _, err = s.Clicks.PublishView(t.Context(), other, "Press", "", "spring", "", 3, time.UTC)
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err), "the link of another workspace")
	_, _, err = s.Clicks.PublishView(t.Context(), actor, "Press", "", "spring", "", 367, time.UTC)
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	p, secret, err := s.Clicks.PublishView(t.Context(), actor, "Press", "", "spring", "", 3, zone(t, "Europe/Berlin"))
	require.NoError(t, err)
	require.Len(t, secret, 43)
	shown, stats, err := s.Clicks.PublicStats(t.Context(), secret)
	require.NoError(t, err)
	require.Equal(t, p, shown)
	require.Len(t, stats.Series, 3)
	require.Equal(t, "Europe/Berlin", stats.Span.Zone.String())
	all, err := s.Clicks.Views(t.Context(), actor)
	require.NoError(t, err)
	require.Equal(t, []controlplane.View{v, p}, all)
	var kept int
	require.NoError(t, s.hand.QueryRow(t.Context(), `SELECT count(*) FROM stats_view v WHERE v::text LIKE '%'||$1||'%'`+
		` OR secret = convert_to($1, 'UTF8')`, secret).Scan(&kept))
	require.Zero(t, kept, "a hash alone is kept")

	require.Equal(t, controlplane.ErrNoView, s.Clicks.RenameView(t.Context(), other, p.ID, "Mine"))
	require.Equal(t, controlplane.ErrNoView, s.Clicks.DeleteView(t.Context(), other, p.ID))
	require.Equal(t, waypost.EConflict, waypost.CodeOf(s.Clicks.RenameView(t.Context(), actor, p.ID, "Germany")))
	require.NoError(t, s.Clicks.RenameView(t.Context(), actor, p.ID, "Media"))

	_, err = s.Links.Remove(t.Context(), actor, "", "spring")
	require.NoError(t, err)
	_, _, err = s.Clicks.PublicStats(t.Context(), secret)
	require.Equal(t, controlplane.ErrNoView, err, "the link is deleted")
	_, _, err = s.Links.Restore(t.Context(), actor, "", "spring")
	require.NoError(t, err)
	shown, _, err = s.Clicks.PublicStats(t.Context(), secret)
	require.NoError(t, err)
	require.Equal(t, "Media", shown.Name)
	require.NoError(t, s.Clicks.DeleteView(t.Context(), actor, p.ID))
	for _, wrong := range []string{secret, "", "x"} {
		_, _, err = s.Clicks.PublicStats(t.Context(), wrong)
		require.Equal(t, controlplane.ErrNoView, err)
	}
	// A public view of a tag is of the links that have it when the page is read.
	_, tagged, err := s.Clicks.PublishView(t.Context(), actor, "Campaign", "", "", " mail ", 3, time.UTC)
	require.NoError(t, err)
	requireNone := func(why string) {
		t.Helper()
		_, _, err := s.Clicks.PublicStats(t.Context(), tagged)
		require.Equal(t, controlplane.ErrNoView, err, why)
	}
	requireNone("no link has the tag")
	retag := func(code string, tags ...string) {
		t.Helper()
		_, _, err := s.Links.Change(t.Context(), actor, "", code, controlplane.LinkChange{Details: func(d *waypost.Details) { d.Tags = tags }})
		require.NoError(t, err)
	}
	for day, code := range []string{"spring", "summer"} {
		if day > 0 {
			_, _, err = s.Links.Create(t.Context(), actor, wish(custom(code)))
			require.NoError(t, err)
		}
		_, err = s.hand.Exec(t.Context(), `INSERT INTO click_day SELECT id, current_date - 1, workspace_id, $2, 0, '', '', '' FROM link WHERE code = $1`,
			code, 10*(day+1))
		require.NoError(t, err)
		retag(code, "mail", "other")
	}
	clicks := func() int64 {
		t.Helper()
		v, stats, err := s.Clicks.PublicStats(t.Context(), tagged)
		require.NoError(t, err)
		require.Equal(t, "mail", v.Tag)
		return stats.Clicks
	}
	require.EqualValues(t, 30, clicks())
	retag("spring")
	require.EqualValues(t, 20, clicks())
	_, err = s.Links.Remove(t.Context(), actor, "", "summer")
	require.NoError(t, err)
	requireNone("the links with the tag are gone")
	retag("spring", "mail")
	require.EqualValues(t, 10, clicks())
	_, err = s.hand.Exec(t.Context(), `UPDATE workspace SET deleted_at = now() WHERE id = 1`)
	require.NoError(t, err)
	requireNone("the workspace is deleted")
	_, err = s.hand.Exec(t.Context(), `UPDATE workspace SET deleted_at = NULL WHERE id = 1`)
	require.NoError(t, err)
	all, err = s.Clicks.Views(t.Context(), actor)
	require.NoError(t, err)
	require.NoError(t, s.Clicks.DeleteView(t.Context(), actor, all[0].ID))
	requireNone("it is withdrawn")

	var acts []string
	require.NoError(t, s.hand.QueryRow(t.Context(), `SELECT array_agg(action || ' ' || subject ORDER BY id) FROM audit
		WHERE action LIKE 'views%'`).Scan(&acts))
	require.Equal(t, []string{"views.publish Press", "views.withdraw Media", "views.publish Campaign", "views.withdraw Campaign"}, acts)

	_, err = s.hand.Exec(t.Context(), `INSERT INTO stats_view (workspace_id, name, query) SELECT 1, n::text, '' FROM generate_series(2, $1) n`,
		controlplane.MaxViews)
	require.NoError(t, err)
	_, err = s.Clicks.SaveView(t.Context(), actor, fmt.Sprint(controlplane.MaxViews+1), "")
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
}
