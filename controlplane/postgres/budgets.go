package postgres

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/analytics"
	"waypost/controlplane/postgres/scoped"
	"waypost/rules/budget"
)

// BudgetStore keeps the click budgets of links. It implements controlplane.BudgetStore.
type BudgetStore struct {
	pool   *pool
	warned atomic.Int64 // Unix seconds of the last log line about awaited edges
}

const (
	// selectBudgetLinks reads links by their names; max is NULL for a link without an
	// exact budget, because only exact budgets grant clicks.
	selectBudgetLinks = `
		SELECT l.id, l.workspace_id, k.domain_id, k.code, CASE WHEN l.rules ->> 'max_clicks_mode' = 'exact'
			AND l.deleted_at IS NULL THEN (l.rules ->> 'max_clicks')::bigint END
		FROM unnest($1::integer[], $2::text[]) k (domain_id, code)
		LEFT JOIN link_former_key f USING (domain_id, code)
		JOIN link l ON l.id = coalesce((SELECT id FROM link WHERE domain_id = k.domain_id AND code = k.code), f.link_id)`

	insertBudgets = `
		INSERT INTO budget (link_id, workspace_id) SELECT id, workspace_id FROM link WHERE id = ANY ($1)
		ORDER BY id ON CONFLICT DO NOTHING`

	// raiseBases raises the base of a budget to the counted clicks of people that no edge
	// has taken: clicks from before the budget, and from times in which the budget was
	// switched off. An active budget adds no such clicks.
	raiseBases = `
		WITH page AS MATERIALIZED (SELECT workspace_id, id FROM link WHERE id = ANY ($1)), parts AS MATERIALIZED (` + analytics.PartsOfPage + `),
		     taken AS MATERIALIZED (
			SELECT link_id, sum(granted - returned) AS clicks FROM budget_account WHERE link_id = ANY ($1) GROUP BY link_id),
		     counted AS (
			SELECT l.id, (coalesce(c.clicks, 0) - coalesce(c.bot_clicks, 0) + coalesce(p.clicks, 0) - coalesce(p.bots, 0)
			              - coalesce(t.clicks, 0))::bigint AS base
			FROM page l LEFT JOIN link_click c ON c.link_id = l.id LEFT JOIN parts p ON p.link_id = l.id LEFT JOIN taken t ON t.link_id = l.id)
		UPDATE budget b SET base = n.base FROM counted n WHERE b.link_id = n.id AND n.base > b.base
		RETURNING b.link_id, b.base`

	// Locks are taken in the order of the ids, so that two edges never wait for each other.
	lockBudgets = `
		SELECT b.link_id, b.base, b.link_id <= s.burned FROM budget b, budget_state s WHERE b.link_id = ANY ($1)
		ORDER BY b.link_id FOR UPDATE OF b`

	// An edge that is gone can no longer spend the clicks that it holds. The edge that
	// reports is not gone.
	selectUsed = `
		SELECT a.link_id, sum(a.granted - a.returned)::bigint,
		       sum(CASE WHEN n.node IS NULL AND a.node <> $2 THEN a.granted - a.returned ELSE a.spent END)::bigint
		FROM budget_account a LEFT JOIN budget_node n USING (node) WHERE a.link_id = ANY ($1) GROUP BY a.link_id`

	// An account stays under the name with which its edge took it.
	selectAccounts = `
		SELECT link_id, id, node, granted, returned, spent FROM budget_account
		WHERE (node = $1 OR node = ANY ($2)) AND link_id = ANY ($3) AND id = ANY ($4) ORDER BY node = $1`

	// An account has no row once all its clicks were given back.
	saveAccounts = `
		WITH n AS MATERIALIZED (
			SELECT * FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[])
			     AS n (node, link_id, id, granted, returned, spent)),
		     returned AS (
			DELETE FROM budget_account a USING n
			WHERE a.link_id = n.link_id AND a.node = n.node AND a.id = n.id AND n.granted = n.returned)
		INSERT INTO budget_account (link_id, node, id, workspace_id, granted, returned, spent)
		SELECT n.link_id, n.node, n.id, b.workspace_id, n.granted, n.returned, n.spent
		FROM n JOIN budget b USING (link_id) WHERE n.granted > n.returned
		ON CONFLICT (link_id, node, id) DO UPDATE SET granted = excluded.granted, returned = excluded.returned, spent = excluded.spent`

	// Visitors ask again within some seconds, and an edge that holds clicks reports every
	// two.
	recallClicks = `
		UPDATE budget SET recalled_at = now()
		WHERE link_id = ANY ($1) AND (recalled_at IS NULL OR recalled_at NOT BETWEEN now() - interval '2 seconds' AND now())`

	selectRecalled = `
		SELECT DISTINCT l.domain_id, l.code
		FROM budget b JOIN budget_account a ON a.link_id = b.link_id AND a.node = $1 AND a.granted - a.returned > a.spent
		     JOIN link l ON l.id = b.link_id
		WHERE b.recalled_at > now() - interval '10 seconds' LIMIT 1000`

	spendLost = `UPDATE budget_account SET spent = granted - returned WHERE node = $1 AND spent < granted - returned`

	reportingBudgets = "grant clicks"
)

// budgetLink is a link that a report names.
type budgetLink struct {
	id, workspace int64
	limit         *int64 // nil: no clicks are granted
	base          int64
	used, spent   int64 // of the accounts
	burned        bool
}

type budgetAccount struct {
	link int64
	id   controlplane.BudgetAccountID
}

// ReportBudgets implements controlplane.BudgetStore. A report that asks for clicks takes
// a number in the changelog: if PostgreSQL goes back to a copy of its files, the missing
// numbers of the changelog show that it may have forgotten grants, and a new epoch
// begins.
func (db *BudgetStore) ReportBudgets(ctx context.Context, r *controlplane.BudgetReport) (answer controlplane.BudgetGrants, err error) {
	ended := false
	report := func(tx pgx.Tx) error {
		var frozen bool
		var own waypost.Epoch
		var edges int64
		if err := tx.QueryRow(ctx, `
			SELECT h.epoch, e.id, budget_frozen(), (SELECT count(*) FROM budget_present)
			FROM changelog_head h JOIN changelog_epoch e ON e.ordinal = h.epoch`).
			Scan(&own.Ordinal, (*[16]byte)(&own.ID), &frozen, &edges); err != nil {
			return err
		}
		// A newer primary may have granted the rest, and waits for this edge's accounts.
		if err := db.pool.outdated(own, waypost.Epoch{Ordinal: r.Epoch, ID: own.ID}); err != nil {
			return err
		}
		answer.Epoch = own.Ordinal
		if len(r.Accounts) > 0 {
			p := placing{node: r.Node, edges: edges, frozen: frozen || r.Epoch != answer.Epoch, believes: frozen}
			if err := p.placeAll(ctx, tx, r); err != nil {
				return err
			}
			answer.Grants, answer.Excess = p.grants, p.excess
		}
		if r.Complete && r.Epoch == answer.Epoch {
			if ended, err = completeBudgets(ctx, tx, r); err != nil {
				return err
			}
		}
		answer.Recalled, err = recalledBudgets(ctx, tx, r.Node)
		return err
	}
	if slices.ContainsFunc(r.Accounts, isAhead) {
		if err := db.dropVainWishes(ctx, r.Accounts); err != nil {
			return answer, err
		}
	}
	if slices.ContainsFunc(r.Accounts, func(a controlplane.BudgetAccount) bool { return a.Want > 0 }) {
		err = db.pool.change(ctx, reportingBudgets, func(tx pgx.Tx, _ uint32) error { return report(tx) })
	} else {
		err = db.pool.Within(ctx, scoped.Operator, reportingBudgets, report)
	}
	if err != nil {
		return answer, err
	}
	if ended {
		db.pool.Log.Error("ended all grants to links that exist now: an edge has lost its grants of click budgets, "+
			"and PostgreSQL may have forgotten them", "edge", r.Node)
	}
	for i := range answer.Grants {
		if answer.Grants[i].State == controlplane.BudgetHeld && r.Accounts[i].Want > 0 {
			db.warn(ctx)
			break
		}
	}
	return answer, nil
}

// isAhead reports whether an account that never had clicks asks for some before a visitor
// waits.
func isAhead(a controlplane.BudgetAccount) bool {
	return a.Want > 0 && a.Waiting == 0 && a.Granted == 0
}

// dropVainWishes sets to 0 the wishes ahead of need for budgets that are too small, so
// that the edges' wishes for many new one-time links neither lock nor write.
func (db *BudgetStore) dropVainWishes(ctx context.Context, accounts []controlplane.BudgetAccount) error {
	return db.pool.Within(ctx, scoped.Operator, reportingBudgets, func(tx pgx.Tx) error {
		var edges int64
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM budget_present`).Scan(&edges); err != nil {
			return err
		}
		links, err := selectBudgets(ctx, tx, accounts)
		if err != nil {
			return err
		}
		for i := range accounts {
			l := links[controlplane.LinkName{Domain: accounts[i].Domain, Code: accounts[i].Code}]
			if isAhead(accounts[i]) && (l == nil || l.limit == nil || budget.Pool{Limit: *l.limit, Edges: edges}.Ahead() == 0) {
				accounts[i].Want = 0
			}
		}
		return nil
	})
}

// recalledBudgets returns the links of which an edge is to give clicks back.
func recalledBudgets(ctx context.Context, tx pgx.Tx, node string) ([]api.EdgeLink, error) {
	rows, _ := tx.Query(ctx, selectRecalled, node)
	return pgx.CollectRows(rows, pgx.RowToStructByPos[api.EdgeLink])
}

// warn names the edges for which budgets wait, once a minute.
func (db *BudgetStore) warn(ctx context.Context) {
	last, now := db.warned.Load(), time.Now().Unix()
	if now-last < 60 || !db.warned.CompareAndSwap(last, now) {
		return
	}
	var nodes []string
	err := db.pool.QueryIn(ctx, scoped.Operator, `SELECT node FROM budget_awaited ORDER BY node LIMIT 20`, nil, scoped.CollectInto(&nodes))
	if err == nil && len(nodes) > 0 {
		db.pool.Log.Warn("holding back clicks of budgets until these edges have reported their accounts", "edges", nodes)
	}
}

// selectBudgets finds the links of accounts.
func selectBudgets(
	ctx context.Context, tx pgx.Tx, accounts []controlplane.BudgetAccount,
) (links map[controlplane.LinkName]*budgetLink, err error) {
	domains, codes := make([]int32, len(accounts)), make([]string, len(accounts))
	for i := range accounts {
		domains[i], codes[i] = int32(accounts[i].Domain), string(accounts[i].Code)
	}
	rows, _ := tx.Query(ctx, selectBudgetLinks, domains, codes)
	links = make(map[controlplane.LinkName]*budgetLink)
	var l budgetLink
	var n controlplane.LinkName
	_, err = pgx.ForEachRow(rows, []any{&l.id, &l.workspace, &n.Domain, &n.Code, &l.limit}, func() error {
		links[n] = &budgetLink{id: l.id, workspace: l.workspace, limit: l.limit}
		return nil
	})
	return links, err
}

// findBudgets finds the links of accounts, and begins the budgets that are new. limited
// holds the ids of the links with exact budgets, which grant clicks.
func findBudgets(
	ctx context.Context, tx pgx.Tx, accounts []controlplane.BudgetAccount,
) (links map[controlplane.LinkName]*budgetLink, limited []int64, err error) {
	if links, err = selectBudgets(ctx, tx, accounts); err != nil {
		return nil, nil, err
	}
	for i := range accounts {
		l := links[controlplane.LinkName{Domain: accounts[i].Domain, Code: accounts[i].Code}]
		if l != nil && l.limit != nil && (accounts[i].Want > 0 || accounts[i].Granted > 0) {
			limited = append(limited, l.id)
		}
	}
	if len(limited) == 0 {
		return links, nil, nil
	}
	_, err = tx.Exec(ctx, insertBudgets, limited)
	return links, limited, err
}

// raiseBasesOf notes clicks of locked budgets that were counted without being granted.
func raiseBasesOf(ctx context.Context, tx pgx.Tx, limited []int64, byID map[int64]*budgetLink) error {
	rows, _ := tx.Query(ctx, raiseBases, limited)
	var id, base int64
	_, err := pgx.ForEachRow(rows, []any{&id, &base}, func() error {
		byID[id].base = base
		return nil
	})
	return err
}

// lockBudgetsOf locks budgets until the end of the transaction, and then reads their used
// clicks, which no other transaction can change under the lock, for a report of a node.
func lockBudgetsOf(ctx context.Context, tx pgx.Tx, node string, ids []int64, byID map[int64]*budgetLink) error {
	rows, _ := tx.Query(ctx, lockBudgets, ids)
	var id, n, spent int64
	var burned bool
	if _, err := pgx.ForEachRow(rows, []any{&id, &n, &burned}, func() error {
		byID[id].base, byID[id].burned = n, burned
		return nil
	}); err != nil {
		return err
	}
	rows, _ = tx.Query(ctx, selectUsed, ids, node)
	_, err := pgx.ForEachRow(rows, []any{&id, &n, &spent}, func() error {
		byID[id].used, byID[id].spent = n, spent
		return nil
	})
	return err
}

// knownAccount is an account as it is stored.
type knownAccount struct {
	budget.Account

	node string // "": it is new
}

func accountsOf(ctx context.Context, tx pgx.Tx, r *controlplane.BudgetReport, ids []int64) (map[budgetAccount]knownAccount, error) {
	accounts := make([][16]byte, len(r.Accounts))
	for i := range r.Accounts {
		accounts[i] = r.Accounts[i].ID
	}
	rows, _ := tx.Query(ctx, selectAccounts, r.Node, r.Former, ids, accounts)
	known := make(map[budgetAccount]knownAccount)
	var k budgetAccount
	var a knownAccount
	_, err := pgx.ForEachRow(rows, []any{&k.link, (*[16]byte)(&k.id), &a.node, &a.Granted, &a.Returned, &a.Spent}, func() error {
		known[k] = a
		return nil
	})
	return known, err
}

// placing works through the accounts of a report. Their budgets are locked.
type placing struct {
	node     string
	edges    int64
	links    map[controlplane.LinkName]*budgetLink
	known    map[budgetAccount]knownAccount
	frozen   bool  // nothing is granted
	believes bool  // PostgreSQL may have forgotten grants, and believes what edges claim
	excess   int64 // clicks that were claimed otherwise
	changed  []budgetAccount
	recalled []int64 // links of which other edges hold clicks that visitors wait for
	grants   []api.EdgeGrant
}

// placeAll locks the budgets of a report, and places its accounts.
func (p *placing) placeAll(ctx context.Context, tx pgx.Tx, r *controlplane.BudgetReport) (err error) {
	var limited []int64
	if p.links, limited, err = findBudgets(ctx, tx, r.Accounts); err != nil {
		return err
	}
	ids := make([]int64, 0, len(p.links))
	byID := make(map[int64]*budgetLink, len(p.links))
	for _, l := range p.links {
		ids = append(ids, l.id)
		byID[l.id] = l
	}
	slices.Sort(ids)
	if err := lockBudgetsOf(ctx, tx, p.node, ids, byID); err != nil {
		return err
	}
	// PostgreSQL may have forgotten accounts that have taken the counted clicks.
	if !p.believes && len(limited) > 0 {
		if err := raiseBasesOf(ctx, tx, limited, byID); err != nil {
			return err
		}
	}
	if p.known, err = accountsOf(ctx, tx, r, ids); err != nil {
		return err
	}
	for i := range r.Accounts {
		p.grants = append(p.grants, p.place(&r.Accounts[i]))
	}
	return p.save(ctx, tx)
}

// place merges one account with its row, and grants the clicks that it asks for. If the
// answer with the last grant was lost, place only repeats that grant.
func (p *placing) place(a *controlplane.BudgetAccount) api.EdgeGrant {
	l := p.links[controlplane.LinkName{Domain: a.Domain, Code: a.Code}]
	if l == nil {
		return api.EdgeGrant{Granted: a.Granted, State: controlplane.BudgetGone}
	}
	k := budgetAccount{l.id, a.ID}
	before := p.known[k]
	claimed := a.Account
	// A claim of clicks that were all given back is no claim: their account has no row.
	if excess := claimed.Granted - before.Granted; excess > 0 && claimed.Used() > 0 && !p.believes {
		p.excess += excess
		claimed = claimed.Within(before.Granted)
	}
	after := knownAccount{before.Merge(claimed), cmp.Or(before.node, p.node)}
	after.Spent = min(after.Spent, after.Used())
	l.used += after.Used() - before.Used()
	l.spent += after.Spent - before.Spent
	grant := api.EdgeGrant{State: controlplane.BudgetNone}
	if l.limit != nil {
		pool := budget.Pool{Limit: *l.limit, Used: l.base + l.used, Edges: p.edges}
		if l.burned {
			pool.Limit = 0
		}
		if !p.frozen && after.Granted == a.Granted {
			n := min(pool.Grant(a.Want, a.Waiting), budget.MaxLimit-after.Granted)
			after.Granted += n
			l.used += n
			pool.Used += n
		}
		switch {
		case p.frozen:
			grant.State = controlplane.BudgetHeld
		case pool.Left() > 0:
			grant.State = controlplane.BudgetOpen
		case l.base+l.spent-after.Spent+after.Used() >= pool.Limit: // which is 0 if the budget is burned
			grant.State = controlplane.BudgetUsed
		default:
			grant.State = controlplane.BudgetHeld
			if a.Waiting > 0 && after.Granted == a.Granted { // and get nothing
				p.recalled = append(p.recalled, l.id)
			}
		}
	}
	grant.Granted = after.Granted
	if after.Account != before.Account {
		p.known[k] = after
		p.changed = append(p.changed, k)
	}
	return grant
}

// save writes the accounts that have changed, and which clicks are recalled.
func (p *placing) save(ctx context.Context, tx pgx.Tx) error {
	if len(p.recalled) > 0 {
		if _, err := tx.Exec(ctx, recallClicks, p.recalled); err != nil {
			return err
		}
	}
	if len(p.changed) == 0 {
		return nil
	}
	slices.SortFunc(p.changed, func(a, b budgetAccount) int {
		return cmp.Or(cmp.Compare(a.link, b.link), bytes.Compare(a.id[:], b.id[:]))
	})
	p.changed = slices.Compact(p.changed)
	n := len(p.changed)
	nodes, links, accounts := make([]string, n), make([]int64, n), make([][16]byte, n)
	granted, returned, spent := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, k := range p.changed {
		a := p.known[k]
		nodes[i], links[i], accounts[i], granted[i], returned[i], spent[i] = a.node, k.link, k.id, a.Granted, a.Returned, a.Spent
	}
	return scoped.Exec(ctx, tx, saveAccounts, nodes, links, accounts, granted, returned, spent)
}

// completeBudgets notes that an edge has reported all its accounts in this epoch. Clicks
// on a disk that the edge has lost can no longer be spent. completeBudgets reports
// whether budgets end, because accounts of an awaited edge are lost: it has another disk
// than the one that PostgreSQL remembers.
func completeBudgets(ctx context.Context, tx pgx.Tx, r *controlplane.BudgetReport) (ended bool, err error) {
	replaced := false
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM budget_node WHERE node = $1 AND disk <> $2)`, r.Node, r.Disk).Scan(&replaced)
	if err != nil {
		return false, err
	}
	if replaced {
		if _, err = tx.Exec(ctx, spendLost, r.Node); err == nil {
			err = tx.QueryRow(ctx, `SELECT budget_give_up($1)`, r.Node).Scan(&ended)
		}
	} else {
		_, err = tx.Exec(ctx, `DELETE FROM budget_awaited WHERE node = $1`, r.Node)
	}
	if err != nil {
		return false, err
	}
	// The report also covers the accounts that are awaited under a former name.
	_, err = tx.Exec(ctx, `
		WITH same AS (DELETE FROM budget_node WHERE node = ANY ($1) AND node <> $2 AND disk = $3 RETURNING node)
		DELETE FROM budget_awaited a USING same s WHERE a.node = s.node`, r.Former, r.Node, r.Disk)
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO budget_node (node, disk, seen_at) VALUES ($1, $2, now())
		ON CONFLICT (node) DO UPDATE SET disk = excluded.disk, seen_at = now()`, r.Node, r.Disk)
	return ended, err
}

const selectLinkBudget = `
		SELECT (l.rules ->> 'max_clicks')::bigint, coalesce(b.base, 0), a.used, a.spent
		FROM link l LEFT JOIN budget b ON b.link_id = l.id,
		     LATERAL (SELECT coalesce(sum(granted - returned), 0)::bigint AS used, coalesce(sum(spent), 0)::bigint AS spent
		              FROM budget_account WHERE link_id = l.id) a
		WHERE l.id = $1 AND l.rules ->> 'max_clicks_mode' = 'exact' AND `

func (db *BudgetStore) LinkBudget(ctx context.Context, ws waypost.WorkspaceID, link int64) (b api.Budget, err error) {
	var base int64
	as := scoped.Operator.SharedBy(ws)
	err = db.pool.QueryRowIn(ctx, as, selectLinkBudget+scoped.OfWorkspace("l.workspace_id", "$2"), []any{link, ws},
		&b.Limit, &base, &b.Granted, &b.Spent)
	if err = scoped.IfNoRow(err, waypost.Errorf(waypost.ENotFound, "the link has no budget of exact clicks")); err != nil {
		return b, scoped.Classify("read a budget", err)
	}
	b.Granted += base
	b.Spent += base
	b.AtMost = new(max(b.Limit, b.Granted))
	return b, nil
}

// countFrozen looks at a bounded number of rows, because every control plane is asked
// for them several times a minute.
const countFrozen = `SELECT CASE WHEN budget_frozen() THEN (SELECT count(*) FROM (SELECT FROM budget LIMIT 100000) b) ELSE 0 END`

// FrozenBudgets returns the number of budgets that grant nothing before edges have
// reported, up to 100,000.
func (db *BudgetStore) FrozenBudgets(ctx context.Context) (n int64, err error) {
	err = db.pool.QueryRowIn(ctx, scoped.Operator, countFrozen, nil, &n)
	return n, scoped.Classify("count the frozen budgets", err)
}
