package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
)

func TestOrdersOfEdgesTravelThroughTheDatabase(t *testing.T) {
	db, hand := open(t)
	by := controlplane.Actor{Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
	ask := func(node string, what string) (api.EdgeOrder, error) {
		return db.OrderEdge(t.Context(), by, api.EdgeOrder{
			Node: node, What: what, OrderedBy: "ann",
			Until: time.Now().Add(time.Hour),
		}, false)
	}
	_, err := ask("eu-1", fleet.OrderVerify)
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err), "it has never reported")
	require.NoError(t, db.NoteProgress(t.Context(), []controlplane.EdgeProgress{{Node: "eu-1", Region: "eu", Pending: -1}}))
	first, err := ask("eu-1", fleet.OrderVerify)
	require.NoError(t, err)
	second, err := ask("eu-1", fleet.OrderAccept)
	require.NoError(t, err)

	open, verified, err := db.EdgeOrders(t.Context())
	require.NoError(t, err)
	require.Equal(t, []api.EdgeOrder{first, second}, open)
	require.Empty(t, verified)

	outcome := api.EdgeOutcome{Records: 7, Damage: "a record is cut", Position: &api.Sequence{Epoch: 1, Seq: 9}, Seconds: 0.5}
	require.NoError(t, db.OrderDone(t.Context(), "eu-1", first.ID, outcome))
	require.NoError(t, db.OrderDone(t.Context(), "eu-1", first.ID, api.EdgeOutcome{Error: "again"}), "an answer may come twice")
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(db.OrderDone(t.Context(), "eu-2", second.ID, outcome)), "it was asked of another")
	done, err := db.EdgeOrder(t.Context(), "eu-1", first.ID)
	require.NoError(t, err)
	require.Equal(t, &outcome, done.Outcome)
	require.NotNil(t, done.DoneAt)
	_, err = db.EdgeOrder(t.Context(), "eu-2", first.ID)
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	open, verified, err = db.EdgeOrders(t.Context())
	require.NoError(t, err)
	require.Equal(t, []api.EdgeOrder{second}, open)
	require.Equal(t, []api.EdgeOrder{done}, verified)
	require.Equal(t, int64(2), number(t, hand, `SELECT count(*) FROM audit WHERE subject = 'eu-1'
		AND action IN ('edges.verify', 'edges.accept')`))

	_, err = db.OrderEdge(t.Context(), by, api.EdgeOrder{
		Node: "eu-9", What: fleet.OrderVerify, OrderedBy: "ann",
		Until: time.Now().Add(time.Hour),
	}, true)
	require.NoError(t, err, "it is there, and its first report is not kept yet")

	question := api.EdgeQuestion{Path: "spring", At: time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC), Address: "192.0.2.7"}
	asked, err := db.OrderEdge(t.Context(), by, api.EdgeOrder{
		Node: "eu-1", What: fleet.OrderExplain, Question: &question, OrderedBy: "ann", Until: time.Now().Add(time.Hour),
	}, true)
	require.NoError(t, err)
	require.Equal(t, &question, asked.Question)
	answered := api.EdgeOutcome{Explained: &api.EdgeExplained{
		Code: "spring", Match: "exact", Status: 302, Location: "https://example.com/", Steps: []api.EdgeStep{{Rule: 1, Failed: 2}},
	}}
	require.NoError(t, db.OrderDone(t.Context(), "eu-1", asked.ID, answered))
	done, err = db.EdgeOrder(t.Context(), "eu-1", asked.ID)
	require.NoError(t, err)
	require.Equal(t, &answered, done.Outcome)

	for range 60 {
		o, err := ask("eu-1", fleet.OrderAccept)
		require.NoError(t, err)
		require.NoError(t, db.OrderDone(t.Context(), "eu-1", o.ID, api.EdgeOutcome{}))
	}
	require.LessOrEqual(t, number(t, hand, `SELECT count(*) FROM edge_order`), int64(53), "old ones go")
}
