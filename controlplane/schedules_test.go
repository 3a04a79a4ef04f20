package controlplane_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/rules"
)

func TestReschedule_OffsetsAreRenewedAndTheOwnersVersionStays(t *testing.T) {
	s := start(t)
	s.now.Store(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	n := wish(func(n *controlplane.NewLink) {
		n.CustomCode = "opening-hours"
		n.Rules.Rules = []rules.Rule{{To: "https://example.com/open", When: []rules.Condition{{
			Week: &rules.Schedule{Zone: "Europe/Berlin", Hours: []string{"mon 09:00-10:00"}},
		}}}}
	})
	made, _, err := s.Links.Create(t.Context(), actor, n)
	require.NoError(t, err)
	version := controlplane.VersionOf(&made)
	record := func() waypost.Record {
		r, found, err := s.db.Record(t.Context(), waypost.DefaultDomain, made.Code)
		require.NoError(t, err)
		require.True(t, found)
		return r
	}
	first := record()
	require.NoError(t, s.Links.Reschedule(t.Context()))
	require.Equal(t, first, record(), "nothing has changed, and nothing was written")

	s.now.Store(time.Date(2029, 6, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	require.NoError(t, s.Links.Reschedule(t.Context()))
	renewed := record()
	require.NotEqual(t, first.Programme, renewed.Programme, "edges get other offsets")
	summer := rules.Facts{At: time.Date(2032, 7, 5, 7, 30, 0, 0, time.UTC).UnixMilli()} // Monday, 09:30 CEST
	require.Zero(t, rules.Resolve(&first, &summer).Rule, "the old offsets had ended")
	require.Equal(t, uint8(1), rules.Resolve(&renewed, &summer).Rule)

	found, err := s.Links.Find(t.Context(), actor, "", string(made.Code))
	require.NoError(t, err)
	require.Equal(t, version, controlplane.VersionOf(&found))
	changes, _, err := s.Links.History(t.Context(), actor, "", string(made.Code), 50, "")
	require.NoError(t, err)
	require.Len(t, changes, 1, "the creation alone")
	changed, _, err := s.Links.Change(t.Context(), actor, "", string(made.Code), controlplane.LinkChange{
		Match: []controlplane.Version{version}, Details: entitle("Opening hours"),
	})
	require.NoError(t, err, "an edit that is based on the owner's version")
	require.NotEqual(t, version, controlplane.VersionOf(&changed.Link))
	found, err = s.Links.Find(t.Context(), actor, "", string(made.Code))
	require.NoError(t, err)
	require.Equal(t, controlplane.VersionOf(&changed.Link), controlplane.VersionOf(&found))
	require.Equal(t, renewed.Programme, found.Programme)
}
