package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
)

func TestFleetStore_KeepsBootsThatMayServe(t *testing.T) {
	db, hand := open(t)
	note := func(boots ...fleet.Boot) {
		t.Helper()
		require.NoError(t, db.NoteBoots(t.Context(), boots))
	}
	serving := func() (names []string) {
		t.Helper()
		all, err := db.Boots(t.Context())
		require.NoError(t, err)
		for _, b := range all {
			names = append(names, b.Node+string('0'+rune(b.ID[0])))
		}
		return names
	}
	now := time.Now()
	boot := func(node string, n byte, age time.Duration) fleet.Boot {
		return fleet.Boot{Node: node, ID: waypost.BootID{n}, Region: "eu", First: now.Add(-time.Hour), At: now.Add(-age)}
	}
	note(boot("a", 1, 0), boot("b", 1, 0), boot("c", 1, time.Minute))
	require.Equal(t, []string{"a1", "b1", "c1"}, serving())
	all, err := db.Boots(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, now.Add(-time.Minute), all[2].At, 10*time.Second)
	require.WithinDuration(t, now.Add(-time.Hour), all[2].First, 10*time.Second)

	stopped := boot("a", 1, 0)
	stopped.Stopped = true
	note(stopped)
	note(boot("a", 1, time.Second))
	require.Equal(t, []string{"b1", "c1"}, serving(), "a report that is late takes nothing back")
	next := boot("b", 2, 0)
	next.Continues, next.First = waypost.BootID{1}, now
	note(next)
	require.Equal(t, []string{"b2", "c1"}, serving())
	all, err = db.Boots(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, now.Add(-time.Hour), all[0].First, 10*time.Second, "of the process")

	// What another instance has heard later stays.
	note(boot("c", 2, 0), boot("c", 3, 0))
	note(boot("c", 1, 10*time.Second))
	require.NoError(t, db.DropBoots(t.Context(), []fleet.Boot{boot("c", 1, time.Minute), boot("c", 2, 0)}))
	require.Equal(t, []string{"b2", "c1", "c3"}, serving())
	exec(t, hand, `UPDATE edge_boot SET reported_at = now() + interval '1 hour' WHERE node = 'c' AND boot = '\x01000000000000000000000000000000'`)
	require.NoError(t, db.GiveUpEdge(t.Context(), operator, "c", time.Minute))
	require.Equal(t, []string{"b2", "c3"}, serving(), "of a clock that was set back")

	require.NoError(t, db.NoteProgress(t.Context(), []controlplane.EdgeProgress{{Node: "b", Region: "eu"}}))
	require.Equal(t, waypost.EConflict, waypost.CodeOf(db.GiveUpEdge(t.Context(), operator, "b", time.Minute)), "it reports")
	exec(t, hand, `UPDATE edge_boot SET reported_at = now() - interval '2 minutes' WHERE node = 'b'`)
	require.NoError(t, db.GiveUpEdge(t.Context(), operator, "b", time.Minute))
	require.Equal(t, []string{"c3"}, serving())
	note(next)
	require.Equal(t, []string{"b2", "c3"}, serving(), "it is back")
}
