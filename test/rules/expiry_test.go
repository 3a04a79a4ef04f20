package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/rules"
)

// The reaper goes by PostgreSQL's clock, for which the links have expired long ago.
func TestExpiredURL_LeadsVisitorsUntilItsOwnerEndsIt(t *testing.T) {
	s := start(t)
	over := "https://example.com/over"
	s.create(t, controlplane.NewLink{
		OriginalURL: target, CustomCode: "campaign", ExpiresAt: expiry, Rules: rules.Source{ExpiredURL: over},
	})
	s.create(t, controlplane.NewLink{OriginalURL: target, CustomCode: "ordinary", ExpiresAt: expiry})
	s.at(expiry.Add(48 * time.Hour))
	reaper := controlplane.NewReaper(controlplane.ReaperConfig{
		Store: s.db, Buffer: time.Hour, PurgeAfter: 90 * 24 * time.Hour, Patience: time.Minute,
	})
	answers := func(code string, status int, location string) {
		t.Helper()
		require.NoError(t, reaper.Once(t.Context()))
		stats, err := s.db.CleanupStats(t.Context())
		require.NoError(t, err)
		require.Zero(t, stats.Backlog)
		s.edge.mu.Lock()
		s.edge.records[code] = s.record(t, code)
		s.edge.mu.Unlock()
		res := s.edge.ask(t, "GET", "/"+code, "", "")
		require.Equal(t, status, res.StatusCode)
		require.Equal(t, location, res.Header.Get("Location"))
		visit := waypost.ParseVisit([]byte("/" + code))
		resolved, err := s.Links.Resolve(t.Context(), "go.example.com", &visit, &rules.Request{})
		require.NoError(t, err)
		require.Equal(t, status, resolved.Status)
		require.Equal(t, location, string(resolved.Location))
	}
	answers("ordinary", 410, "")
	answers("campaign", 302, over)
	require.Equal(t, waypost.Deleted, s.record(t, "ordinary").State)

	_, err := s.Links.Remove(t.Context(), actor, "", "campaign")
	require.NoError(t, err)
	answers("campaign", 410, "")
	deleted, err := s.Links.List(t.Context(), actor, controlplane.ListRequest{Order: controlplane.NewestDeleted, Limit: 10})
	require.NoError(t, err)
	require.Len(t, deleted.Links, 1)
	_, _, err = s.Links.Restore(t.Context(), actor, "", "campaign")
	require.NoError(t, err)
	answers("campaign", 302, over)

	none := ""
	_, _, err = s.Links.Change(t.Context(), actor, "", "campaign", controlplane.LinkChange{Rules: controlplane.RulesChange{ExpiredURL: &none}})
	require.NoError(t, err)
	answers("campaign", 410, "")
	require.Equal(t, waypost.Deleted, s.record(t, "campaign").State)
}
