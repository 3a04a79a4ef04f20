package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
	"waypost/controlplane/postgres/scoped"
)

func (db *FleetStore) CreateEnrolment(ctx context.Context, by controlplane.Actor, e api.Enrolment, hash [32]byte) error {
	return db.pool.Within(ctx, scoped.Operator, "make an enrolment token", func(tx pgx.Tx) error {
		var open int
		if err := tx.QueryRow(ctx, `
			WITH old AS (DELETE FROM node_enrolment WHERE expires_at < now() - interval '30 days')
			SELECT count(*) FROM node_enrolment WHERE used_at IS NULL AND expires_at > now()`).Scan(&open); err != nil {
			return err
		}
		if open >= fleet.MaxEnrolments {
			return waypost.Errorf(waypost.EConflict, "%d enrolment tokens are open already: they end by themselves", open)
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO node_enrolment (hash, region, role, node, label, created_by, expires_at) VALUES ($1, $2, $3, nullif($4, ''), $5, $6, $7)`,
			hash[:], e.Region, e.Role, e.Node, e.Label, by.Label(), e.ExpiresAt)
		if err != nil {
			return err
		}
		return auditNode(ctx, tx, by, "edges.enrol", e.Node, map[string]any{
			"region": e.Region, "role": e.Role, "label": e.Label,
			"expires_at": e.ExpiresAt,
		})
	})
}

// auditNode notes an act about a node. The node's name may not be known yet.
func auditNode(ctx context.Context, tx pgx.Tx, by controlplane.Actor, action, node string, detail map[string]any) error {
	return scoped.NoteAct(ctx, tx, by, action, cmp.Or(node, "any"), detail)
}

const selectNode = `SELECT c.id, c.node, c.region, c.role, c.former, c.hash, c.revoked_at IS NOT NULL, c.replaced FROM node_credential c`

func scanNode(row pgx.CollectableRow) (n fleet.StoredNode, err error) {
	var hash []byte
	err = row.Scan(&n.Credential, &n.Name, &n.Region, &n.Role, &n.Former, &hash, &n.Revoked, &n.Replaced)
	copy(n.Hash[:], hash)
	return n, err
}

// nodes runs a query of selectNode.
func (db *FleetStore) nodes(ctx context.Context, doing, condition string, args ...any) (all []fleet.StoredNode, err error) {
	err = db.pool.QueryIn(ctx, scoped.Operator, selectNode+" WHERE "+condition, args, scoped.CollectWith(&all, scanNode))
	return all, scoped.Classify(doing, err)
}

func nodesIn(ctx context.Context, tx pgx.Tx, condition string, args ...any) ([]fleet.StoredNode, error) {
	rows, _ := tx.Query(ctx, selectNode+" WHERE "+condition, args...)
	return pgx.CollectRows(rows, scanNode)
}

func (db *FleetStore) Node(ctx context.Context, hash [32]byte) (n fleet.StoredNode, found bool, err error) {
	all, err := db.nodes(ctx, "look up a credential of an edge", "c.hash = $1", hash[:])
	if err != nil || len(all) == 0 {
		return n, false, err
	}
	return all[0], true, nil
}

func (db *FleetStore) RevokedNodes(ctx context.Context, ids []int64) ([]fleet.StoredNode, error) {
	return db.nodes(ctx, "look for revoked credentials of edges", "c.id = ANY ($1) AND c.revoked_at IS NOT NULL", ids)
}

func (db *FleetStore) NodeNamed(ctx context.Context, name string) (taken bool, err error) {
	err = db.pool.QueryRowIn(ctx, scoped.Operator, `SELECT EXISTS (SELECT FROM node_credential WHERE node = $1)`, []any{name}, &taken)
	return taken, scoped.Classify("look up the name of an edge", err)
}

func (db *FleetStore) NoteNodesSeen(ctx context.Context, seen map[int64]time.Time) error {
	ids, at := make([]int64, 0, len(seen)), make([]time.Time, 0, len(seen))
	for id, t := range seen {
		ids, at = append(ids, id), append(at, t)
	}
	// Take rows in one order, so that several instances do not deadlock.
	_, err := db.pool.ExecIn(ctx, scoped.Operator, `
		WITH s AS (SELECT * FROM unnest($1::bigint[], $2::timestamptz[]) AS s (id, at)),
		     l AS (SELECT c.id FROM node_credential c JOIN s USING (id) ORDER BY c.id FOR NO KEY UPDATE OF c)
		UPDATE node_credential c SET last_seen_at = greatest(c.last_seen_at, s.at) FROM s JOIN l USING (id) WHERE c.id = s.id`, ids, at)
	return scoped.Classify("note when edges were seen", err)
}

func (db *FleetStore) RevokeNode(ctx context.Context, by controlplane.Actor, node string) error {
	return db.pool.Within(ctx, scoped.Operator, "revoke the credential of an edge", func(tx pgx.Tx) error {
		var known bool
		var revoked, tokens int
		// Wait for an enrolment of that name that is under way, so that its credential is
		// seen.
		if err := lockNode(ctx, tx, node); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `
			WITH r AS (UPDATE node_credential SET revoked_at = now() WHERE node = $1 AND revoked_at IS NULL RETURNING 1),
			     t AS (UPDATE node_enrolment SET expires_at = now() WHERE node = $1 AND used_at IS NULL AND expires_at > now() RETURNING 1)
			SELECT EXISTS (SELECT FROM node_credential WHERE node = $1), (SELECT count(*) FROM r), (SELECT count(*) FROM t)`, node).
			Scan(&known, &revoked, &tokens)
		if err != nil {
			return err
		}
		// A later epoch must not wait for an edge without a valid credential: the clicks
		// granted to it count as used. In an epoch that waits already, grants may be
		// forgotten, and an operator decides.
		if known {
			if _, err := tx.Exec(ctx, `
				DELETE FROM budget_node n WHERE node = $1 AND NOT EXISTS (SELECT FROM budget_awaited a WHERE a.node = n.node)`, node); err != nil {
				return err
			}
		}
		switch {
		case revoked+tokens > 0:
			return auditNode(ctx, tx, by, "edges.revoke", node, map[string]any{"credentials": revoked, "tokens": tokens})
		case !known:
			return waypost.Errorf(waypost.ENotFound, "no edge of that name has a credential")
		}
		return nil // it is revoked already
	})
}

func (db *FleetStore) NodeCredentials(ctx context.Context) (all []api.NodeCredential, err error) {
	err = db.pool.QueryIn(ctx, scoped.Operator, `
		SELECT DISTINCT ON (node) node, region, role, CASE WHEN revoked_at IS NULL THEN 'good' ELSE 'revoked' END AS state, former,
		       created_at, last_seen_at, revoked_at FROM node_credential ORDER BY node, id DESC`,
		nil, scoped.CollectWith(&all, pgx.RowToStructByName[api.NodeCredential]))
	return all, scoped.Classify("list credentials of edges", err)
}

// enrolment is a token as it is stored.
type enrolment struct {
	id         int64
	region     waypost.Region
	role       fleet.NodeRole
	node       string
	by         string
	expired    bool
	credential int64 // 0: it is not used
}

func (db *FleetStore) Enrol(ctx context.Context, token [32]byte, n fleet.EnrolNode) (made fleet.Node, err error) {
	err = db.pool.Within(ctx, scoped.Operator, "enrol an edge", func(tx pgx.Tx) error {
		if err := lockNode(ctx, tx, n.Node); err != nil {
			return err
		}
		var e enrolment
		err := tx.QueryRow(ctx, `
			SELECT id, region, role, coalesce(node, ''), created_by, expires_at <= now(), coalesce(credential, 0) FROM node_enrolment
				WHERE hash = $1 FOR UPDATE`, token[:]).
			Scan(&e.id, &e.region, &e.role, &e.node, &e.by, &e.expired, &e.credential)
		if err = scoped.IfNoRow(err, waypost.Errorf(waypost.EUnauthorized, "the enrolment token is not valid")); err != nil {
			return err
		}
		if e.credential != 0 {
			made, err = enrolledBefore(ctx, tx, &e, &n)
			return err
		}
		if err := e.suits(&n); err != nil {
			return err
		}
		made, err = enrol(ctx, tx, &e, &n)
		return err
	})
	return made, err
}

// lockNode lets enrolments and revocations of a name come one after the other. It comes
// before any row.
func lockNode(ctx context.Context, tx pgx.Tx, node string) error {
	return scoped.Exec(ctx, tx, `SELECT pg_advisory_xact_lock(7307, hashtext($1))`, node)
}

// suits returns an error if a token is not valid for a node.
func (e *enrolment) suits(n *fleet.EnrolNode) error {
	switch {
	case e.expired:
		return waypost.Errorf(waypost.EGone, "the enrolment token has expired: make another with `waypost edges enrol`")
	case e.region != n.Region:
		return waypost.Errorf(waypost.EInvalid, "the enrolment token is for region %s: start this edge with --region %s, or make another token", e.region, e.region)
	case e.node != "" && e.node != n.Node:
		return waypost.Errorf(waypost.EInvalid, "the enrolment token is for node %s: start this edge with --node %s, or make another token", e.node, e.node)
	}
	return nil
}

// enrolledBefore answers a token that was used: it repeats the answer, which may have
// been lost, to the node that used it, and refuses all others.
func enrolledBefore(ctx context.Context, tx pgx.Tx, e *enrolment, n *fleet.EnrolNode) (none fleet.Node, err error) {
	used, err := nodesIn(ctx, tx, "c.id = $1", e.credential)
	if err != nil {
		return none, err
	}
	switch {
	case len(used) != 1 || used[0].Hash != n.Hash || used[0].Name != n.Node || used[0].Region != n.Region:
		return none, waypost.Errorf(waypost.EGone, "the enrolment token was used already: make another with `waypost edges enrol`")
	case used[0].Revoked:
		return none, waypost.Errorf(waypost.EForbidden, "what the enrolment token was exchanged for is revoked: make another with `waypost edges enrol --node %s`", n.Node)
	}
	return used[0].Node, nil
}

// enrol makes the credential, in place of any that the node has.
func enrol(ctx context.Context, tx pgx.Tx, e *enrolment, n *fleet.EnrolNode) (made fleet.Node, err error) {
	made = fleet.Node{Name: n.Node, Region: e.region, Role: e.role, Former: []string{}}
	previous := int64(0)
	if n.Previous != nil {
		before, err := nodesIn(ctx, tx, "c.hash = $1", n.Previous[:])
		if err != nil {
			return made, err
		}
		if len(before) == 1 {
			previous, made.Former = before[0].Credential, formerNames(&before[0].Node, n.Node)
			if before[0].Name == n.Node && !before[0].Revoked {
				e.node = n.Node // it is the same edge
			}
		}
	}
	named, err := nodesIn(ctx, tx, "c.node = $1", n.Node)
	if err != nil {
		return made, err
	}
	var control bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM control_node WHERE starts_with(lower(node), lower($1) || '/'))`, n.Node).Scan(&control); err != nil {
		return made, err
	}
	if control { // gossip would take them for one node
		return made, waypost.Errorf(waypost.EConflict, "%s is, or was within 8 days, the name of a control plane: choose another with --node", n.Node)
	}
	if len(named) > 0 && e.node == "" {
		return made, waypost.Errorf(waypost.EConflict,
			"there is, or was, an edge %s: choose another name with --node, or make a token that lets this one take its place with `waypost edges enrol --region %s --node %s`", n.Node, e.region, n.Node)
	}
	for i := range named { // all of the names of a node stay its
		made.Former = append(made.Former, formerNames(&named[i].Node, n.Node)...)
	}
	free, err := unclaimed(ctx, tx, n.Former, n.Node)
	if err != nil {
		return made, err
	}
	made.Former = append(made.Former, free...)
	if _, err := tx.Exec(ctx, `
		UPDATE node_credential SET revoked_at = now(), replaced = true WHERE (node = $1 OR id = $2)
			AND revoked_at IS NULL`, n.Node, previous); err != nil {
		return made, err
	}
	err = tx.QueryRow(ctx, `
		INSERT INTO node_credential (node, region, role, hash, former)
		VALUES ($1, $2, $3, $4, ARRAY(SELECT DISTINCT f FROM unnest($5::text[]) f ORDER BY f)) RETURNING id, former`,
		n.Node, made.Region, made.Role, n.Hash[:], made.Former).Scan(&made.Credential, &made.Former)
	if scoped.PgCode(err) == "23505" {
		return made, waypost.Errorf(waypost.EConflict, "the credential is in use: make a new one")
	}
	if err != nil {
		return made, err
	}
	if _, err := tx.Exec(ctx, `UPDATE node_enrolment SET used_at = now(), credential = $2 WHERE id = $1`, e.id, made.Credential); err != nil {
		return made, err
	}
	// It may serve before its first report.
	if _, err := tx.Exec(ctx, `INSERT INTO edge_boot (node, boot, region) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		n.Node, make([]byte, len(waypost.BootID{})), made.Region); err != nil {
		return made, err
	}
	by := controlplane.Actor{Workspace: waypost.DefaultWorkspace, Name: "node " + n.Node + ", with a token of " + e.by}
	return made, auditNode(ctx, tx, by, "edges.enrolled", n.Node, map[string]any{
		"region": made.Region, "role": made.Role,
		"replaces": len(named) > 0 || previous != 0,
	})
}

// unclaimed returns the names that no node has or has had, without the name of the node
// that is to be enrolled.
func unclaimed(ctx context.Context, tx pgx.Tx, names []string, node string) (free []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	rows, _ := tx.Query(ctx, `
		SELECT DISTINCT f FROM unnest($1::text[]) f
		WHERE f <> $2 AND NOT EXISTS (SELECT FROM node_credential c WHERE c.node = f OR f = ANY (c.former))`, names, node)
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// formerNames returns the names that a node had, except its present one.
func formerNames(n *fleet.Node, now string) (names []string) {
	for _, name := range append([]string{n.Name}, n.Former...) {
		if name != now {
			names = append(names, name)
		}
	}
	return names
}
