package postgres_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/rules/budget"
)

// limited makes a link with a budget.
func limited(t *testing.T, db *postgres.DB, hand *pgx.Conn, code string, limit int64) *waypost.Link {
	t.Helper()
	l := link(code)
	insert(t, db, l)
	budgeted(t, hand, code, "exact", limit)
	return l
}

func budgeted(t *testing.T, hand *pgx.Conn, code, mode string, limit int64) {
	t.Helper()
	exec(t, hand, fmt.Sprintf(`UPDATE link SET rules = '{"max_clicks": %d, "max_clicks_mode": "%s"}',
		programme = substring(sha256(clock_timestamp()::text::bytea) for 8) WHERE code = '%s'`, limit, mode, code))
}

// account returns an account that asks for clicks. A visitor waits for the first one.
func account(code string, id byte, a budget.Account, want int64) controlplane.BudgetAccount {
	return controlplane.BudgetAccount{
		Domain: waypost.DefaultDomain, Code: waypost.Code(code), ID: controlplane.BudgetAccountID{id}, Account: a,
		Want: want, Waiting: min(want, 1),
	}
}

// reports sends one account of a node in the newest epoch.
func reports(t *testing.T, db *postgres.DB, node string, a controlplane.BudgetAccount) api.EdgeGrant {
	t.Helper()
	asked, err := db.ReportBudgets(t.Context(), &controlplane.BudgetReport{Node: node})
	require.NoError(t, err)
	report := &controlplane.BudgetReport{Node: node, Epoch: asked.Epoch, Accounts: []controlplane.BudgetAccount{a}}
	answer, err := db.ReportBudgets(t.Context(), report)
	require.NoError(t, err)
	require.Len(t, answer.Grants, 1)
	return answer.Grants[0]
}

func TestBudgets_GrantNeverMoreThanTheLimit(t *testing.T) {
	db, hand := open(t)
	for _, limit := range []int64{0, 6, 11} {
		code := fmt.Sprintf("tickets-%d", limit)
		limited(t, db, hand, code, limit+1)
		var granted atomic.Int64
		var all sync.WaitGroup
		begin := make(chan struct{})
		for edge := range 8 {
			all.Go(func() {
				node := fmt.Sprintf("edge-%d", edge)
				<-begin
				var held budget.Account
				for range 3 {
					held.Granted = reports(t, db, node, account(code, 1, held, 7)).Granted
				}
				granted.Add(held.Granted)
			})
		}
		close(begin)
		all.Wait()
		require.Equal(t, limit+1, granted.Load())
		require.Equal(t, controlplane.BudgetUsed, reports(t, db, "late", account(code, 1, budget.Account{}, 1)).State)
	}
}

func TestBudgets_GiveALostAnswerAgain(t *testing.T) {
	db, hand := open(t)
	l := limited(t, db, hand, "lost", 80)
	for range 3 { // the edge has never seen the answer
		require.Equal(t, api.EdgeGrant{Granted: 5, State: controlplane.BudgetOpen},
			reports(t, db, "edge-a", account("lost", 1, budget.Account{}, 5)))
	}
	require.EqualValues(t, 7, reports(t, db, "edge-a", account("lost", 1, budget.Account{Granted: 5, Spent: 4}, 2)).Granted)

	require.EqualValues(t, 1, reports(t, db, "edge-a", account("lost", 2, budget.Account{}, 1)).Granted, "a restarted edge has another account")
	returned := budget.Account{Granted: 7, Returned: 2, Spent: 5}
	reports(t, db, "edge-a", account("lost", 1, returned, 0))
	reports(t, db, "edge-a", account("lost", 1, budget.Account{Granted: 5, Spent: 4}, 0)) // late
	got, err := db.LinkBudget(t.Context(), l.Workspace, idOf(t, hand, "lost"))
	require.NoError(t, err)
	require.Equal(t, api.Budget{Limit: 80, Granted: 6, Spent: 5, AtMost: new(int64(80))}, got)
	_, err = db.LinkBudget(t.Context(), l.Workspace+1, idOf(t, hand, "lost"))
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err), "another workspace's")
}

func idOf(t *testing.T, hand *pgx.Conn, code string) int64 {
	t.Helper()
	return number(t, hand, `SELECT id FROM link WHERE code = '`+code+`'`)
}

func TestBudgets_FollowTheLink(t *testing.T) {
	db, hand := open(t)
	l := limited(t, db, hand, "follow", 1)
	require.EqualValues(t, 1, reports(t, db, "edge-a", account("follow", 1, budget.Account{}, 3)).Granted)
	got, err := db.LinkBudget(t.Context(), l.Workspace, idOf(t, hand, "follow"))
	require.NoError(t, err)
	require.Equal(t, api.Budget{Limit: 1, Granted: 1, AtMost: new(int64(1))}, got)

	budgeted(t, hand, "follow", "exact", 3)
	require.EqualValues(t, 2, reports(t, db, "edge-a", account("follow", 1, budget.Account{Granted: 1, Spent: 1}, 3)).Granted, "the limit was raised")
	budgeted(t, hand, "follow", "exact", 1)
	require.Equal(t, controlplane.BudgetUsed, reports(t, db, "edge-b", account("follow", 1, budget.Account{}, 3)).State, "and lowered")
	budgeted(t, hand, "follow", "eventual", 9)
	require.Equal(t, api.EdgeGrant{Granted: 2, State: controlplane.BudgetNone},
		reports(t, db, "edge-a", account("follow", 1, budget.Account{Granted: 2}, 3)))
	exec(t, hand, `UPDATE link SET deleted_at = now() WHERE code = 'follow'`)
	require.Equal(t, controlplane.BudgetNone, reports(t, db, "edge-a", account("follow", 1, budget.Account{Granted: 2}, 3)).State,
		"it may be restored")
	require.Equal(t, controlplane.BudgetGone, reports(t, db, "edge-a", account("never-made", 1, budget.Account{}, 3)).State)
}

func TestBudgets_CountTheClicksOfTimesInWhichTheyWereOff(t *testing.T) {
	db, hand := open(t)
	l := limited(t, db, hand, "tickets", 10)
	var held budget.Account
	ask := func() string {
		t.Helper()
		g := reports(t, db, "edge-a", account("tickets", 1, held, 1))
		held.Granted, held.Spent = g.Granted, g.Granted
		return g.State
	}
	for range 3 {
		ask()
	}
	ingest(t, db, batch(1, total("tickets", 3)))
	ask()
	require.EqualValues(t, 4, held.Granted)
	ingest(t, db, batch(2, total("tickets", 1)))
	require.Zero(t, number(t, hand, `SELECT base FROM budget`), "clicks that were granted are no others")

	budgeted(t, hand, "tickets", "eventual", 10)
	bots := total("tickets", 50)
	bots.Rows[0].Profile = 1
	ingest(t, db, batch(3, total("tickets", 2)))
	ingest(t, db, batch(4, bots))
	fold(t, db)
	ingest(t, db, batch(5, total("tickets", 1))) // which is not folded
	budgeted(t, hand, "tickets", "exact", 10)
	for state := controlplane.BudgetOpen; state == controlplane.BudgetOpen; {
		state = ask()
	}
	require.EqualValues(t, 10-3, held.Granted)
	got, err := db.LinkBudget(t.Context(), l.Workspace, idOf(t, hand, "tickets"))
	require.NoError(t, err)
	require.Equal(t, api.Budget{Limit: 10, Granted: 10, Spent: 9, AtMost: new(int64(10))}, got)

	// PostgreSQL has forgotten what was granted, and not what was counted.
	_, err = db.ReportBudgets(t.Context(), &controlplane.BudgetReport{
		Node: "edge-a", Epoch: uint32(number(t, hand, `SELECT epoch FROM changelog_head`)), Complete: true,
	})
	require.NoError(t, err)
	exec(t, hand, `DELETE FROM budget`)
	exec(t, hand, openEpoch)
	reports(t, db, "edge-b", account("tickets", 1, budget.Account{}, 1))
	require.Zero(t, number(t, hand, `SELECT base FROM budget`), "an edge will report it")
}

// An edge reports the accounts of its earlier boots, whatever its name was then.
func TestBudgets_CountTheClicksOfARenamedEdgeOnce(t *testing.T) {
	db, hand := open(t)
	l := limited(t, db, hand, "tickets", 50)
	report := func(node string, former []string, boot byte, a budget.Account, want int64) {
		t.Helper()
		_, err := db.ReportBudgets(t.Context(), &controlplane.BudgetReport{
			Node: node, Former: former, Epoch: uint32(number(t, hand, `SELECT epoch FROM changelog_head`)), Complete: true, Disk: [16]byte{boot},
			Accounts: []controlplane.BudgetAccount{account("tickets", boot, a, want)},
		})
		require.NoError(t, err)
	}
	granted := func() int64 {
		t.Helper()
		b, err := db.LinkBudget(t.Context(), l.Workspace, idOf(t, hand, "tickets"))
		require.NoError(t, err)
		return b.Granted
	}
	report("edge-a", nil, 1, budget.Account{}, 5)
	exec(t, hand, openEpoch)
	exec(t, hand, `UPDATE changelog_epoch SET opened_at = opened_at - interval '1 minute'`)
	report("edge-b", []string{"edge-a"}, 1, budget.Account{Granted: 5, Spent: 3}, 0)
	require.EqualValues(t, 5, granted())
	frozen, err := db.FrozenBudgets(t.Context())
	require.NoError(t, err)
	require.Zero(t, frozen, "it is awaited under no other name")
	report("edge-b", []string{"edge-a"}, 1, budget.Account{Granted: 5, Returned: 2, Spent: 3}, 0)
	require.EqualValues(t, 3, granted())

	// An edge that never had the name changes nothing of the account.
	report("edge-c", []string{"edge-d"}, 1, budget.Account{Granted: 5, Returned: 5}, 0)
	require.EqualValues(t, 3, granted())
	report("edge-c", nil, 2, budget.Account{}, 2)
	require.EqualValues(t, 5, granted())
}

// An edge may be run by others, and its credential may be stolen.
func TestBudgets_BelieveNoClaimAboveWhatWasGranted(t *testing.T) {
	db, hand := open(t)
	l := limited(t, db, hand, "tickets", 50)
	report := func(a controlplane.BudgetAccount) controlplane.BudgetGrants {
		t.Helper()
		got, err := db.ReportBudgets(t.Context(), &controlplane.BudgetReport{
			Node: "edge-a", Epoch: uint32(number(t, hand, `SELECT epoch FROM changelog_head`)), Complete: true,
			Accounts: []controlplane.BudgetAccount{a},
		})
		require.NoError(t, err)
		return got
	}
	state := func() api.Budget {
		t.Helper()
		b, err := db.LinkBudget(t.Context(), l.Workspace, idOf(t, hand, "tickets"))
		require.NoError(t, err)
		return b
	}
	all := budget.Account{Granted: 1_000_000, Spent: 1_000_000}
	require.EqualValues(t, 1_000_000, report(account("tickets", 1, all, 0)).Excess)
	require.Equal(t, api.Budget{Limit: 50, AtMost: new(int64(50))}, state())

	require.EqualValues(t, 5, report(account("tickets", 2, budget.Account{}, 5)).Grants[0].Granted)
	got := report(account("tickets", 2, all, 5))
	require.EqualValues(t, 1_000_000-5, got.Excess)
	require.EqualValues(t, 5, got.Grants[0].Granted)
	require.Equal(t, api.Budget{Limit: 50, Granted: 5, Spent: 5, AtMost: new(int64(50))}, state())
	require.Zero(t, report(account("tickets", 2, budget.Account{Granted: 5, Spent: 5}, 5)).Excess)
}

// Clicks that an edge holds may be returned; clicks of an edge that is gone may not.
func TestBudgets_AreUsedOnceAllClicksAreSpent(t *testing.T) {
	db, hand := open(t)
	limited(t, db, hand, "tickets", 2)
	for _, node := range []string{"edge-a", "edge-b", "edge-c"} {
		_, err := db.ReportBudgets(t.Context(), &controlplane.BudgetReport{
			Node: node, Epoch: uint32(number(t, hand, `SELECT epoch FROM changelog_head`)), Complete: true,
		})
		require.NoError(t, err)
	}
	state := func() string {
		t.Helper()
		return reports(t, db, "edge-c", account("tickets", 3, budget.Account{}, 1)).State
	}
	require.EqualValues(t, 1, reports(t, db, "edge-a", account("tickets", 1, budget.Account{}, 1)).Granted)
	require.Equal(t, api.EdgeGrant{Granted: 1, State: controlplane.BudgetHeld},
		reports(t, db, "edge-b", account("tickets", 2, budget.Account{}, 1)))
	require.Equal(t, controlplane.BudgetHeld, state())
	reports(t, db, "edge-a", account("tickets", 1, budget.Account{Granted: 1, Spent: 1}, 0))
	require.Equal(t, controlplane.BudgetHeld, state())
	require.Equal(t, controlplane.BudgetUsed, reports(t, db, "edge-b", account("tickets", 2, budget.Account{Granted: 1}, 0)).State,
		"the edge knows at once when it has spent the last click")
	exec(t, hand, `INSERT INTO click_progress (node, region, has_left, reported_at) VALUES ('edge-b', 'here', false, now() - interval '1 hour')`)
	require.NoError(t, db.GiveUpEdge(t.Context(), operator, "edge-b", 1))
	require.Equal(t, controlplane.BudgetUsed, state())

	budgeted(t, hand, "tickets", "exact", 3)
	require.EqualValues(t, 2, reports(t, db, "edge-a", account("tickets", 1, budget.Account{Granted: 1, Spent: 1}, 1)).Granted)
	require.Equal(t, controlplane.BudgetHeld, state())
	_, err := db.ReportBudgets(t.Context(), &controlplane.BudgetReport{
		Node: "edge-a", Epoch: uint32(number(t, hand, `SELECT epoch FROM changelog_head`)), Complete: true, Disk: [16]byte{9},
	})
	require.NoError(t, err)
	require.Equal(t, controlplane.BudgetUsed, state(), "the edge has lost its disk")
}

// An edge opens another account of each link at each start.
func TestBudgets_KeepNoAccountThatWasGivenBack(t *testing.T) {
	db, hand := open(t)
	knows(t, db, "edge-a")
	limited(t, db, hand, "tickets", 9)
	rows := func() int64 { return number(t, hand, `SELECT count(*) FROM budget_account`) }
	for boot := range byte(5) {
		require.EqualValues(t, 2, reports(t, db, "edge-a", account("tickets", boot+1, budget.Account{}, 2)).Granted)
		require.EqualValues(t, 1, rows())
		reports(t, db, "edge-a", account("tickets", boot+1, budget.Account{Granted: 2, Returned: 2}, 0))
		require.Zero(t, rows())
	}
	// The account goes on, and a message of it that is late changes nothing.
	require.EqualValues(t, 4, reports(t, db, "edge-a", account("tickets", 5, budget.Account{Granted: 2, Returned: 2}, 2)).Granted)
	reports(t, db, "edge-a", account("tickets", 5, budget.Account{Granted: 2}, 0))
	got, err := db.LinkBudget(t.Context(), waypost.DefaultWorkspace, idOf(t, hand, "tickets"))
	require.NoError(t, err)
	require.Equal(t, api.Budget{Limit: 9, Granted: 2, AtMost: new(int64(9))}, got)
	reports(t, db, "edge-a", account("tickets", 4, budget.Account{Granted: 2}, 0))
	require.EqualValues(t, 1, rows(), "nor does one of an account that ended")
}

// knows lets PostgreSQL know edges.
func knows(t *testing.T, db *postgres.DB, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		asked, err := db.ReportBudgets(t.Context(), &controlplane.BudgetReport{Node: node})
		require.NoError(t, err)
		_, err = db.ReportBudgets(t.Context(), &controlplane.BudgetReport{Node: node, Epoch: asked.Epoch, Complete: true})
		require.NoError(t, err)
	}
}

func TestBudgets_GrantAQuarterOfTheClicksBeforeVisitorsCome(t *testing.T) {
	db, hand := open(t)
	knows(t, db, "edge-a", "edge-b", "edge-c")
	ahead := func(node, code string, want int64) int64 {
		t.Helper()
		a := account(code, node[len(node)-1], budget.Account{}, want)
		a.Waiting = 0
		return reports(t, db, node, a).Granted
	}
	limited(t, db, hand, "large", 240)
	require.EqualValues(t, 240/12, ahead("edge-a", "large", 100))
	require.EqualValues(t, 220/12, ahead("edge-b", "large", 100))
	require.EqualValues(t, 1, ahead("edge-c", "large", 1))
	crowd := account("large", 9, budget.Account{}, 190)
	crowd.Waiting = 190
	require.EqualValues(t, 190, reports(t, db, "edge-c", crowd).Granted)
	late := account("large", 10, budget.Account{}, 1)
	late.Waiting = 0
	require.Zero(t, reports(t, db, "edge-c", late).Granted, "of the 11 clicks that are left")

	limited(t, db, hand, "small", 11)
	require.Zero(t, ahead("edge-a", "small", 1))
	require.Zero(t, number(t, hand, `SELECT count(*) FROM budget JOIN link ON id = link_id WHERE code = 'small'`), "nothing is locked or written")
	require.EqualValues(t, 1, reports(t, db, "edge-a", account("small", 1, budget.Account{}, 1)).Granted, "for a visitor who waits")
}

func TestBudgets_RecallClicksThatVisitorsOfOtherEdgesWaitFor(t *testing.T) {
	db, hand := open(t)
	knows(t, db, "edge-a", "edge-b")
	limited(t, db, hand, "tickets", 1)
	recalled := func(node string) []api.EdgeLink {
		t.Helper()
		got, err := db.ReportBudgets(t.Context(), &controlplane.BudgetReport{Node: node})
		require.NoError(t, err)
		return got.Recalled
	}
	require.EqualValues(t, 1, reports(t, db, "edge-a", account("tickets", 1, budget.Account{}, 1)).Granted)
	require.Empty(t, recalled("edge-a"), "no visitor of another edge waits")
	require.Equal(t, controlplane.BudgetHeld, reports(t, db, "edge-b", account("tickets", 2, budget.Account{}, 1)).State)
	require.Equal(t, []api.EdgeLink{{Domain: uint32(waypost.DefaultDomain), Code: "tickets"}}, recalled("edge-a"))
	require.Empty(t, recalled("edge-b"), "it holds none")
	reports(t, db, "edge-a", account("tickets", 1, budget.Account{Granted: 1, Returned: 1}, 0))
	require.Empty(t, recalled("edge-a"))
	require.EqualValues(t, 1, reports(t, db, "edge-b", account("tickets", 2, budget.Account{}, 1)).Granted)
	reports(t, db, "edge-b", account("tickets", 2, budget.Account{Granted: 1, Spent: 1}, 0))
	require.Empty(t, recalled("edge-b"), "what is spent cannot be given back")
}

// In a new epoch PostgreSQL may have forgotten grants.
func TestBudgets_AreFrozenInANewEpochUntilEveryEdgeHasReported(t *testing.T) {
	db, hand := open(t)
	limited(t, db, hand, "frozen", 50)
	limited(t, db, hand, "closed", 50)
	for _, node := range []string{"edge-a", "edge-b", "edge-left"} {
		_, err := db.ReportBudgets(t.Context(), &controlplane.BudgetReport{
			Node: node, Epoch: uint32(number(t, hand, `SELECT epoch FROM changelog_head`)), Complete: true,
		})
		require.NoError(t, err)
	}
	exec(t, hand, `INSERT INTO click_progress (node, region, has_left) VALUES ('edge-left', 'here', true)`)
	require.EqualValues(t, 5, reports(t, db, "edge-a", account("frozen", 1, budget.Account{}, 5)).Granted)
	exec(t, hand, `DELETE FROM budget`) // forgotten
	exec(t, hand, openEpoch)
	exec(t, hand, `UPDATE changelog_epoch SET opened_at = opened_at - interval '1 minute'`)

	held := budget.Account{Granted: 5, Spent: 1}
	require.Equal(t, api.EdgeGrant{Granted: 0, State: controlplane.BudgetHeld},
		reports(t, db, "edge-b", account("frozen", 1, budget.Account{}, 5)))
	epoch := uint32(number(t, hand, `SELECT epoch FROM changelog_head`))
	all := &controlplane.BudgetReport{Node: "edge-a", Epoch: epoch, Complete: true, Accounts: []controlplane.BudgetAccount{account("frozen", 1, held, 0)}}
	_, err := db.ReportBudgets(t.Context(), all)
	require.NoError(t, err)
	require.Equal(t, controlplane.BudgetHeld, reports(t, db, "edge-a", account("frozen", 1, held, 5)).State, "edge-b has not reported")
	frozen, err := db.FrozenBudgets(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, frozen)

	_, err = db.ReportBudgets(t.Context(), &controlplane.BudgetReport{Node: "edge-b", Epoch: epoch - 1, Complete: true})
	require.NoError(t, err)
	require.Equal(t, controlplane.BudgetHeld, reports(t, db, "edge-a", account("frozen", 1, held, 5)).State, "it has, in another epoch")
	_, err = db.ReportBudgets(t.Context(), &controlplane.BudgetReport{Node: "edge-b", Epoch: epoch, Complete: true})
	require.NoError(t, err)
	exec(t, hand, `UPDATE changelog_epoch SET opened_at = now() + interval '1 minute'`)
	require.Equal(t, controlplane.BudgetHeld, reports(t, db, "edge-a", account("frozen", 1, held, 5)).State, "one may be forgotten")
	exec(t, hand, `UPDATE changelog_epoch SET opened_at = now() + interval '2 days'`) // PostgreSQL's clock was wrong
	require.EqualValues(t, 10, reports(t, db, "edge-a", account("frozen", 1, held, 5)).Granted)
	frozen, err = db.FrozenBudgets(t.Context())
	require.NoError(t, err)
	require.Zero(t, frozen)

	exec(t, hand, openEpoch)
	exec(t, hand, `UPDATE changelog_epoch SET opened_at = opened_at - interval '1 minute'`)
	exec(t, hand, `INSERT INTO click_progress (node, region, has_left, reported_at) VALUES ('edge-b', 'here', false, now() - interval '1 hour')`)
	all.Epoch = uint32(number(t, hand, `SELECT epoch FROM changelog_head`))
	_, err = db.ReportBudgets(t.Context(), all)
	require.NoError(t, err)
	require.NoError(t, db.GiveUpEdge(t.Context(), operator, "edge-b", 1))
	entries, err := db.Audit(t.Context(), waypost.DefaultWorkspace, 0, 1)
	require.NoError(t, err)
	require.Equal(t, "edges.gone", entries[0].Action)
	require.Contains(t, string(entries[0].Detail), "click budgets of all existing links have ended")
	require.Equal(t, controlplane.BudgetUsed, reports(t, db, "edge-a", account("closed", 1, budget.Account{}, 5)).State,
		"an edge is gone whose grants may be forgotten")
	limited(t, db, hand, "later", 50)
	require.EqualValues(t, 5, reports(t, db, "edge-a", account("later", 1, budget.Account{}, 5)).Granted, "no edge that is gone had some of it")
}

// PostgreSQL has forgotten grants that were on a disk which the edge no longer has.
func TestBudgets_EndWhenAnAwaitedEdgeReportsFromAnotherDisk(t *testing.T) {
	db, hand := open(t)
	limited(t, db, hand, "forgotten", 50)
	complete := func(node string, disk byte) {
		t.Helper()
		_, err := db.ReportBudgets(t.Context(), &controlplane.BudgetReport{
			Node: node, Epoch: uint32(number(t, hand, `SELECT epoch FROM changelog_head`)), Complete: true, Disk: [16]byte{disk},
		})
		require.NoError(t, err)
	}
	begin := func() {
		exec(t, hand, openEpoch)
		exec(t, hand, `UPDATE changelog_epoch SET opened_at = opened_at - interval '1 minute'`)
	}
	complete("edge-a", 1)
	complete("edge-b", 1)
	begin()
	complete("edge-a", 1)
	complete("edge-b", 1)
	require.EqualValues(t, 5, reports(t, db, "edge-a", account("forgotten", 1, budget.Account{}, 5)).Granted, "both have the disks that they had")

	complete("edge-b", 2)
	require.EqualValues(t, 10, reports(t, db, "edge-a", account("forgotten", 1, budget.Account{Granted: 5}, 5)).Granted,
		"PostgreSQL has forgotten nothing")
	begin()
	complete("edge-a", 1)
	complete("edge-b", 3)
	require.Equal(t, controlplane.BudgetUsed, reports(t, db, "edge-a", account("forgotten", 1, budget.Account{Granted: 10}, 5)).State)
	limited(t, db, hand, "later", 50)
	require.EqualValues(t, 5, reports(t, db, "edge-a", account("later", 1, budget.Account{}, 5)).Granted)
}

func TestEventualBudget_EndsWhenItsClicksAreCounted(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("ends"), link("goes-on"))
	for _, code := range []string{"ends", "goes-on"} {
		exec(t, hand, fmt.Sprintf(`UPDATE link SET rules = '{"max_clicks": 5, "max_clicks_mode": "eventual"}',
			programme = '\x0100000000000100' WHERE code = '%s'`, code))
	}
	flags := func(code string) waypost.LinkFlags {
		l, err := db.Link(t.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, waypost.Code(code))
		require.NoError(t, err)
		return l.Flags
	}
	bots := total("goes-on", 3)
	bots.Rows[0].Profile = 1
	seen, err := db.Link(t.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, "ends")
	require.NoError(t, err)
	ingest(t, db, batch(1, total("ends", 4), total("goes-on", 4)))
	ingest(t, db, batch(2, bots))
	fold(t, db)
	require.Zero(t, flags("ends"))
	ingest(t, db, batch(3, total("ends", 1)))
	fold(t, db)
	require.Equal(t, waypost.Exhausted, flags("ends"))
	require.Zero(t, flags("goes-on"), "bots do not count")
	now, err := db.Link(t.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, "ends")
	require.NoError(t, err)
	require.Equal(t, seen.Revision, now.Revision, "the owner has changed nothing")

	exec(t, hand, `UPDATE link SET rules = rules || '{"max_clicks": 7}', programme = '\x0100000000010100' WHERE code = 'ends'`)
	require.Zero(t, flags("ends"), "the limit was raised")
	exec(t, hand, `UPDATE link SET rules = rules || '{"max_clicks": 2}', programme = '\x0100000000020100'`)
	require.NoError(t, db.MarkAllExhausted(t.Context()))
	require.Equal(t, waypost.Exhausted, flags("ends"))
	require.Equal(t, waypost.Exhausted, flags("goes-on"), "the limit was lowered")
}
