package postgres_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
	"waypost/controlplane/postgres"
	"waypost/replication"
	"waypost/rules/budget"
)

// nodes returns a judge of credentials on a database, as one instance of several has.
func nodes(db *postgres.DB) *fleet.Nodes {
	return fleet.NewNodes(fleet.NodesConfig{Store: db, Patience: waitLimit})
}

func token(t *testing.T, n *fleet.Nodes, e api.NewEnrolment) string {
	t.Helper()
	made, err := n.NewEnrolment(t.Context(), operator, e)
	require.NoError(t, err)
	return made.Token
}

func credential(t *testing.T) string {
	t.Helper()
	text := fleet.NewNodeCredential()
	return text
}

// enrolling returns the request of an edge.
func enrolling(token, node, credential string) *api.Enrol {
	hash := controlplane.HashKey(credential)
	return &api.Enrol{Token: token, Hash: hex.EncodeToString(hash[:]), Node: node, Region: "eu"}
}

func requireCode(t *testing.T, want waypost.ErrorCode, err error, contains string) {
	t.Helper()
	require.Equal(t, want, waypost.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, contains)
}

func TestATokenIsExchangedForACredentialOnce(t *testing.T) {
	db, hand := open(t)
	n := nodes(db)
	text, secret := token(t, n, api.NewEnrolment{Region: "eu", Role: "relay", Label: "rack 4"}), credential(t)
	before, err := n.Authenticate(t.Context(), secret)
	requireCode(t, waypost.EUnauthorized, err, "valid credential")
	require.Zero(t, before)

	wrong := enrolling(text, "eu-1", secret)
	wrong.Region = "us"
	_, err = n.Enrol(t.Context(), wrong)
	requireCode(t, waypost.EInvalid, err, "start this edge with --region eu")
	_, err = n.Enrol(t.Context(), enrolling(text, "eu 1", secret))
	requireCode(t, waypost.EInvalid, err, "node must be")
	_, err = n.Enrol(t.Context(), enrolling(text[:len(text)-1]+"#", "eu-1", secret))
	requireCode(t, waypost.EUnauthorized, err, "not valid")

	first, err := n.Enrol(t.Context(), enrolling(text, "eu-1", secret))
	require.NoError(t, err)
	require.Equal(t, fleet.Node{
		Credential: first.Credential, Name: "eu-1", Region: "eu", Role: fleet.RoleRelay,
		Former: []string{},
	}, first)
	again, err := n.Enrol(t.Context(), enrolling(text, "eu-1", secret))
	require.NoError(t, err, "the answer may have been lost")
	require.Equal(t, first, again)
	exec(t, hand, `UPDATE node_enrolment SET expires_at = now() - interval '1 minute'`)
	_, err = n.Enrol(t.Context(), enrolling(text, "eu-1", secret))
	require.NoError(t, err, "it was used in time")
	for name, other := range map[string]*api.Enrol{
		"another secret": enrolling(text, "eu-1", credential(t)),
		"another name":   enrolling(text, "eu-2", secret),
	} {
		_, err = n.Enrol(t.Context(), other)
		requireCode(t, waypost.EGone, err, "used already")
		require.NotEmpty(t, name)
	}
	got, err := n.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	require.Equal(t, first, got)

	require.NoError(t, db.Beat(t.Context(), "control-1/abcdef", "eu", nil))
	_, err = n.Enrol(t.Context(), enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), "control-1", credential(t)))
	requireCode(t, waypost.EConflict, err, "the name of a control plane")
	_, err = n.Enrol(t.Context(), enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), "CONTROL-1", credential(t)))
	requireCode(t, waypost.EConflict, err, "the name of a control plane")
	exec(t, hand, `DELETE FROM audit WHERE id >= (SELECT max(id) FROM audit) - 1`)

	late := token(t, n, api.NewEnrolment{Region: "eu"})
	exec(t, hand, `UPDATE node_enrolment SET expires_at = now() - interval '1 second' WHERE used_at IS NULL`)
	_, err = n.Enrol(t.Context(), enrolling(late, "eu-3", credential(t)))
	requireCode(t, waypost.EGone, err, "expired")

	require.Zero(t, number(t, hand, fmt.Sprintf(`SELECT count(*) FROM node_enrolment e, node_credential c
		WHERE position('%s' in e::text || c::text) > 0 OR position('%s' in e::text || c::text) > 0`, text, secret)), "only hashes are kept")
	require.Equal(t, "edges.enrol any ops (key 7), edges.enrolled eu-1 node eu-1, with a token of ops (key 7), edges.enrol any ops (key 7)",
		textOf(t, hand, `SELECT string_agg(action || ' ' || subject || ' ' || actor, ', ' ORDER BY id) FROM audit`))
}

func TestATokenIsMadeByOperatorsAndForADayAtMost(t *testing.T) {
	db, hand := open(t)
	n := nodes(db)
	_, err := n.NewEnrolment(t.Context(), controlplane.Actor{Workspace: 7, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}},
		api.NewEnrolment{Region: "eu"})
	requireCode(t, waypost.EForbidden, err, "")
	for _, e := range []api.NewEnrolment{
		{Region: "EU"},
		{Region: "eu", Role: "control"},
		{Region: "eu", Node: "a b"},
		{Region: "eu", ExpiresIn: 25 * 3600},
		{Region: "eu", ExpiresIn: -1},
		{Region: "eu", Label: "a\x1bb"},
	} {
		_, err := n.NewEnrolment(t.Context(), operator, e)
		requireCode(t, waypost.EInvalid, err, "")
	}
	_, err = hand.Exec(t.Context(), `INSERT INTO node_enrolment (hash, region, role, created_by, expires_at)
		VALUES (sha256('x'), 'eu', 'edge', 'x', now() + interval '25 hours')`)
	require.Error(t, err, "PostgreSQL sees to it as well")
	exec(t, hand, `INSERT INTO node_enrolment (hash, region, role, created_by, expires_at)
		SELECT sha256(i::text::bytea), 'eu', 'edge', 'x', now() + interval '1 hour' FROM generate_series(1, 1000) i`)
	_, err = n.NewEnrolment(t.Context(), operator, api.NewEnrolment{Region: "eu"})
	requireCode(t, waypost.EConflict, err, "1000 enrolment tokens are open")
}

func TestANameIsReplacedOnlyByATokenThatIsForIt(t *testing.T) {
	db, _ := open(t)
	n, other := nodes(db), nodes(db)
	old, fresh := credential(t), credential(t)
	_, err := n.Enrol(t.Context(), enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), "eu-1", old))
	require.NoError(t, err)
	_, err = other.Authenticate(t.Context(), old)
	require.NoError(t, err)
	_, err = n.Enrol(t.Context(), enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), "eu-1", fresh))
	requireCode(t, waypost.EConflict, err, "waypost edges enrol --region eu --node eu-1")
	named := token(t, n, api.NewEnrolment{Region: "eu", Node: "eu-1"})
	_, err = n.Enrol(t.Context(), enrolling(named, "eu-2", fresh))
	requireCode(t, waypost.EInvalid, err, "start this edge with --node eu-1")
	_, err = n.Enrol(t.Context(), enrolling(named, "eu-1", fresh))
	require.NoError(t, err)
	_, err = n.Authenticate(t.Context(), fresh)
	require.NoError(t, err)
	_, err = n.Authenticate(t.Context(), old)
	requireCode(t, waypost.EForbidden, err, "has enrolled again")
	require.Eventually(t, func() bool {
		_, err := other.Authenticate(t.Context(), old)
		return waypost.CodeOf(err) == waypost.EForbidden
	}, 60*time.Second, 10*time.Millisecond, "on other instances as well")

	// An edge that shows what it had needs no more than any token, and may change its name.
	again, renamed := credential(t), credential(t)
	e := enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), "eu-1", again)
	e.Previous = fresh
	_, err = n.Enrol(t.Context(), e)
	require.NoError(t, err)
	e = enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), "eu-9", renamed)
	e.Previous = again
	node, err := n.Enrol(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, []string{"eu-1"}, node.Former)
	_, err = n.Authenticate(t.Context(), again)
	requireCode(t, waypost.EForbidden, err, "")
	require.NoError(t, n.MayShip(t.Context(), &node, "eu-1"), "clicks of before it was renamed")
	requireCode(t, waypost.EForbidden, n.MayReport(t.Context(), &node, "eu-1", "eu"), "report of node eu-1")

	_, err = n.Enrol(t.Context(), enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), "eu-4", renamed))
	requireCode(t, waypost.EConflict, err, "make a new one")
}

func TestOfManyWhoUseATokenOrANameAtOnceOneGetsIt(t *testing.T) {
	db, hand := open(t)
	n := nodes(db)
	one := token(t, n, api.NewEnrolment{Region: "eu"})
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[waypost.ErrorCode]int{}
	for i := range 8 {
		text, name := one, fmt.Sprintf("eu-%d", i)
		if i%2 == 0 {
			text, name = token(t, n, api.NewEnrolment{Region: "eu"}), "wanted"
		}
		secret := credential(t)
		wg.Go(func() {
			_, err := n.Enrol(t.Context(), enrolling(text, name, secret))
			mu.Lock()
			defer mu.Unlock()
			outcomes[waypost.CodeOf(err)]++
		})
	}
	wg.Wait()
	require.Equal(t, map[waypost.ErrorCode]int{"": 2, waypost.EGone: 3, waypost.EConflict: 3}, outcomes)
	require.EqualValues(t, 2, number(t, hand, `SELECT count(*) FROM node_credential`))
}

func TestARevocationEndsWhatIsOpenOnEveryInstance(t *testing.T) {
	db, hand := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	instances := []*fleet.Nodes{nodes(db), nodes(db)}
	var running sync.WaitGroup
	for _, n := range instances {
		running.Go(func() { n.Run(ctx) })
	}
	defer running.Wait()
	defer cancel()
	n := instances[0]
	secret, text := credential(t), token(t, n, api.NewEnrolment{Region: "eu"})
	_, err := n.Enrol(t.Context(), enrolling(text, "eu-1", secret))
	require.NoError(t, err)
	var held []context.Context
	for _, n := range instances {
		node, err := n.Authenticate(t.Context(), secret)
		require.NoError(t, err)
		ctx, release := n.Hold(t.Context(), &node)
		defer release()
		held = append(held, ctx)
		gone, release := n.Hold(t.Context(), &node)
		release()
		require.ErrorIs(t, context.Cause(gone), context.Canceled)
	}
	unused := token(t, n, api.NewEnrolment{Region: "eu", Node: "eu-1"})
	requireCode(t, waypost.EForbidden, n.Revoke(t.Context(), controlplane.Actor{Workspace: 2, Scopes: operator.Scopes}, "eu-1"), "")
	requireCode(t, waypost.ENotFound, n.Revoke(t.Context(), operator, "eu-7"), "no edge of that name")
	began := time.Now()
	require.NoError(t, n.Revoke(t.Context(), operator, "eu-1"))
	require.NoError(t, n.Revoke(t.Context(), operator, "eu-1"), "once more is once")
	for _, ctx := range held {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatal("a connection outlives the credential")
		}
		var end *replication.EndError
		require.ErrorAs(t, context.Cause(ctx), &end)
		require.Contains(t, end.Text, "waypost edges enrol --region eu --node eu-1")
	}
	t.Logf("connections ended %v after the revocation began", time.Since(began))
	for _, n := range instances {
		require.Eventually(t, func() bool {
			_, err := n.Authenticate(t.Context(), secret)
			return waypost.CodeOf(err) == waypost.EForbidden
		}, 60*time.Second, 10*time.Millisecond)
	}
	_, err = n.Enrol(t.Context(), enrolling(text, "eu-1", secret))
	requireCode(t, waypost.EForbidden, err, "is revoked")
	_, err = n.Enrol(t.Context(), enrolling(unused, "eu-1", credential(t)))
	requireCode(t, waypost.EGone, err, "expired")
	_, err = n.Enrol(t.Context(), enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), "eu-1", credential(t)))
	requireCode(t, waypost.EConflict, err, "there is, or was, an edge eu-1")

	all, err := n.Credentials(t.Context(), operator)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.False(t, all[0].RevokedAt.IsZero())
	cancel()
	running.Wait()
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM node_credential
		WHERE last_seen_at > now() - interval '1 minute'`), "it was seen")
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM audit WHERE action = 'edges.revoke'`))

	back := credential(t)
	_, err = n.Enrol(t.Context(), enrolling(token(t, n, api.NewEnrolment{Region: "eu", Node: "eu-1"}), "eu-1", back))
	require.NoError(t, err)
	_, err = n.Authenticate(t.Context(), back)
	require.NoError(t, err)
}

// An edge that is revoked reports nothing any more.
func TestRevoke_BudgetsOfALaterEpochDoNotWaitForTheEdge(t *testing.T) {
	db, hand := open(t)
	n := nodes(db)
	limited(t, db, hand, "tickets", 50)
	epoch := func() uint32 { return uint32(number(t, hand, `SELECT epoch FROM changelog_head`)) }
	begin := func() {
		exec(t, hand, openEpoch)
		exec(t, hand, `UPDATE changelog_epoch SET opened_at = opened_at - interval '1 minute'`)
	}
	frozen := func() int64 {
		t.Helper()
		frozen, err := db.FrozenBudgets(t.Context())
		require.NoError(t, err)
		return frozen
	}
	for _, node := range []string{"eu-1", "eu-2"} {
		_, err := n.Enrol(t.Context(), enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), node, credential(t)))
		require.NoError(t, err)
		_, err = db.ReportBudgets(t.Context(), &controlplane.BudgetReport{Node: node, Epoch: epoch(), Complete: true})
		require.NoError(t, err)
	}
	require.EqualValues(t, 5, reports(t, db, "eu-1", account("tickets", 1, budget.Account{}, 5)).Granted)
	require.NoError(t, n.Revoke(t.Context(), operator, "eu-1"))
	begin()
	_, err := db.ReportBudgets(t.Context(), &controlplane.BudgetReport{Node: "eu-2", Epoch: epoch(), Complete: true})
	require.NoError(t, err)
	require.Zero(t, frozen())
	require.EqualValues(t, 5, reports(t, db, "eu-2", account("tickets", 2, budget.Account{}, 5)).Granted)

	begin()
	require.NoError(t, n.Revoke(t.Context(), operator, "eu-2"))
	require.EqualValues(t, 1, frozen(), "PostgreSQL may have forgotten what it was granted")
	exec(t, hand, `INSERT INTO click_progress (node, region, has_left, reported_at) VALUES ('eu-2', 'eu', false, now() - interval '1 hour')`)
	require.NoError(t, db.GiveUpEdge(t.Context(), operator, "eu-2", 1))
	require.Zero(t, frozen())
}

func TestAnEdgeSpeaksForItselfOnly(t *testing.T) {
	db, _ := open(t)
	n := nodes(db)
	_, err := n.Enrol(t.Context(), enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), "eu-2", credential(t)))
	require.NoError(t, err)
	own, err := n.Enrol(t.Context(), enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), "eu-1", credential(t)))
	require.NoError(t, err)
	shared, certified := fleet.Node{}, fleet.Node{Name: "old-1"}
	ctx := t.Context()

	require.NoError(t, n.MayReport(ctx, &own, "eu-1", "eu"))
	requireCode(t, waypost.EForbidden, n.MayReport(ctx, &own, "eu-2", "eu"), "of node eu-2")
	requireCode(t, waypost.EForbidden, n.MayReport(ctx, &own, "old-1", "eu"), "of node old-1")
	requireCode(t, waypost.EForbidden, n.MayReport(ctx, &own, "eu-1", "us"), "from region us")
	require.NoError(t, n.MayReport(ctx, &shared, "old-1", "us"))
	requireCode(t, waypost.EForbidden, n.MayReport(ctx, &shared, "eu-1", "eu"), "a credential of its own")
	require.NoError(t, n.MayReport(ctx, &certified, "old-1", "us"))
	requireCode(t, waypost.EForbidden, n.MayReport(ctx, &certified, "old-2", "us"), "of node old-2")

	require.NoError(t, n.MayShip(ctx, &own, "eu-1"))
	requireCode(t, waypost.EForbidden, n.MayShip(ctx, &own, "old-1"), "waypost edges enrol --region eu --node eu-1")
	requireCode(t, waypost.EForbidden, n.MayShip(ctx, &own, "eu-2"), "of node eu-2")
	require.NoError(t, n.MayShip(ctx, &shared, "old-1"))
	requireCode(t, waypost.EForbidden, n.MayShip(ctx, &shared, "eu-2"), "a credential of its own")

	e := enrolling(token(t, n, api.NewEnrolment{Region: "eu", Node: "eu-1"}), "eu-1", credential(t))
	e.Former = []string{"old-1", "eu-2", "eu-1"}
	again, err := n.Enrol(ctx, e)
	require.NoError(t, err)
	require.Equal(t, []string{"old-1"}, again.Former)
	require.NoError(t, n.MayShip(ctx, &again, "old-1"), "the name that it had with the token that all share")
	requireCode(t, waypost.EForbidden, n.MayShip(ctx, &again, "eu-2"), "of node eu-2")
	e = enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), "eu-3", credential(t))
	e.Former = []string{"old-1"}
	third, err := n.Enrol(ctx, e)
	require.NoError(t, err)
	requireCode(t, waypost.EForbidden, n.MayShip(ctx, &third, "old-1"), "of node old-1")
	e.Former = []string{"no name"}
	_, err = n.Enrol(ctx, e)
	requireCode(t, waypost.EInvalid, err, "former_names")
}

func TestWhileTheDatabaseIsAwayThoseWhoWereLetInStillAre(t *testing.T) {
	db, _ := open(t)
	now := time.Now()
	n := fleet.NewNodes(fleet.NodesConfig{Store: db, Patience: waitLimit, Now: func() time.Time { return now }})
	secret := credential(t)
	made, err := n.Enrol(t.Context(), enrolling(token(t, n, api.NewEnrolment{Region: "eu"}), "eu-1", secret))
	require.NoError(t, err)
	_, err = n.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	db.Close()
	now = now.Add(10 * time.Minute)
	got, err := n.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	require.Equal(t, made, got)
	_, err = n.Authenticate(t.Context(), credential(t))
	require.Error(t, err)
	require.NotEqual(t, waypost.EUnauthorized, waypost.CodeOf(err), "who else it is nobody knows")
	now = now.Add(time.Hour)
	_, err = n.Authenticate(t.Context(), secret)
	require.Error(t, err)
}
