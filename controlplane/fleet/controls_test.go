package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/fleet"
)

func TestFleet_ShowsControlPlanesThatAreDown(t *testing.T) {
	now := time.Date(2031, 1, 1, 12, 0, 0, 0, time.UTC)
	began := now
	f := fleet.New(fleet.Config{
		Now: func() time.Time { return now },
		Own: func() fleet.ControlPlane { return fleet.ControlPlane{Node: "a", Region: "eu"} },
	})
	states := func() map[string]fleet.ControlState {
		found := make(map[string]fleet.ControlState)
		for _, c := range f.ControlPlanes() {
			found[c.Node] = c.State
			require.Equal(t, c.Node == "a", c.Answers)
		}
		return found
	}
	require.Equal(t, map[string]fleet.ControlState{"a": "alive"}, states(), "without PostgreSQL it knows itself")
	heard := func(node string, age, silent time.Duration, stopped bool) fleet.ControlPlane {
		return fleet.ControlPlane{Node: node, Region: "eu", StartedAt: began.Add(-age), Silent: silent, Stopped: stopped}
	}
	f.HearControls([]fleet.ControlPlane{
		heard("a", time.Hour, time.Minute, false), // an earlier start of this one
		heard("b", time.Hour, 4*time.Second, false),
		heard("c", time.Hour, 16*time.Second, false),
		heard("d", time.Hour, time.Hour, true),
		heard("e", 2*time.Hour, time.Hour, false), heard("e", time.Minute, time.Second, false), // killed and started again
	})
	require.Equal(t, map[string]fleet.ControlState{"a": "alive", "b": "alive", "c": "silent", "d": "stopped", "e": "alive"}, states())
	now = now.Add(16 * time.Second)
	require.Equal(t, map[string]fleet.ControlState{"a": "alive", "b": "unknown", "c": "unknown", "d": "stopped", "e": "unknown"}, states(),
		"PostgreSQL was not asked since")
}
