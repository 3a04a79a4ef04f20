package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
	"waypost/internal/failpoint"
)

// insertLinks stamps its links, see the trigger changelog_2_stamp_new. An unnest in the
// list of columns yields rows one by one; one in FROM would first gather them, array by
// array.
var insertLinks = insertRows + ` ON CONFLICT DO NOTHING` + returnRows

// insertFree inserts links with codes that should all be free, and fails if a code is
// taken. To look first, and to lock each code, would add a seventh to the cost of a link.
var insertFree = insertRows + returnRows

// insertCustom inserts links of which some have custom codes.
var insertCustom = insertRows + screenRows + ` ON CONFLICT DO NOTHING` + returnRows

const returnRows = ` RETURNING id, domain_id, code, created_at`

// newStamps returns random numbers.
func newStamps(n int) []int64 {
	random := make([]byte, 8*n)
	_, _ = rand.Read(random) // never fails
	stamps := make([]int64, n)
	for i := range stamps {
		stamps[i] = int64(binary.LittleEndian.Uint64(random[8*i:]))
	}
	return stamps
}

// workspaceList is the value of waypost.workspaces for a batch of links.
func workspaceList(links []controlplane.Insertion) string {
	ids := make([]int64, len(links))
	for i := range links {
		ids[i] = int64(links[i].Link.Workspace)
	}
	return scoped.WorkspaceList(ids)
}

// claimColumns holds the parallel arrays for key_claim.
type claimColumns struct {
	codes                []string
	prefixes             []int32
	counters, workspaces []int64
}

func (c *claimColumns) add(code waypost.Code, claim *controlplane.Counter, ws waypost.WorkspaceID) {
	c.codes, c.prefixes = append(c.codes, string(code)), append(c.prefixes, int32(claim.Prefix))
	c.counters, c.workspaces = append(c.counters, claim.N), append(c.workspaces, int64(ws))
}

func claimsOf(links []controlplane.Insertion) (c claimColumns, leases []int64) {
	for i := range links {
		x := &links[i]
		if x.Claim != nil {
			c.add(x.Link.Code, x.Claim, x.Link.Workspace) // of a counter, whose case counts
		}
		if x.Lease != 0 && (len(leases) == 0 || leases[len(leases)-1] != x.Lease) {
			leases = append(leases, x.Lease)
		}
	}
	slices.Sort(leases)
	return c, slices.Compact(leases)
}

// InsertLinks implements controlplane.LinkStore: one round trip, one transaction, unless
// links carry idempotency records or are to be the only ones of their targets. Epoch 0
// means any: no link of the batch has a minted code.
func (db *LinkStore) InsertLinks(
	ctx context.Context, epoch uint32, links []controlplane.Insertion,
) ([]controlplane.InsertResult, waypost.Position, error) {
	if slices.ContainsFunc(links, needsPrecheck) {
		return db.insertPrechecked(ctx, epoch, links)
	}
	in := newInserting(links)
	// A code that was minted is free, unless somebody chose it before its range was made.
	in.free = !slices.ContainsFunc(links, isCustom)
	at, err := in.send(ctx, db.pool, epoch)
	if in.free && scoped.PgCode(err) == scoped.UniqueViolation { // nothing was written
		in.free = false
		clear(in.placed)
		at, err = in.send(ctx, db.pool, epoch)
	}
	if err != nil {
		return nil, waypost.Position{}, scoped.Classify("insert links", err)
	}
	failpoint.Hit("insert links: committed")
	db.pool.noteCommit(at)
	var b pgx.Batch
	scoped.Tenant(workspaceList(links)).EnterBatch(&b)
	if in.queueTaken(&b) {
		_ = db.pool.SendBatch(ctx, &b).Close() // without an answer the codes are just taken
	}
	return in.placed, at, nil
}

func isCustom(x controlplane.Insertion) bool { return x.Link.Custom }

// send inserts the links in a transaction.
func (in *inserting) send(ctx context.Context, p *pool, epoch uint32) (waypost.Position, error) {
	var at begun
	var b pgx.Batch
	scoped.Tenant(workspaceList(in.links)).EnterBatch(&b)
	b.Queue(selectBegin, int32(epoch)).QueryRow(at.scan)
	in.queue(&b, &at)
	failpoint.Hit("insert links: begun")
	err := p.SendBatch(ctx, &b).Close()
	return at.position(), err
}

// TryLinks implements controlplane.LinkStore. It looks for the codes as the system,
// because a tenant sees no codes of others. Only claims of counters need a turn at the
// head of the changelog; they are rolled back.
func (db *LinkStore) TryLinks(ctx context.Context, links []controlplane.Insertion) ([]controlplane.InsertResult, error) {
	in := newInserting(links)
	as := scoped.Tenant(workspaceList(links)).SharedBy(links[0].Link.Workspace)
	leave, err := db.pool.Share(ctx, as)
	if err != nil {
		return nil, err
	}
	defer leave()
	tx, err := db.pool.BeginTx(ctx, as.TxOptions())
	if err != nil {
		return nil, scoped.Classify("try links", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it may hold the head of the changelog
	var at begun
	var b pgx.Batch
	claims, _ := claimsOf(links)
	if len(claims.codes) > 0 {
		b.Queue(selectBegin, int32(0)).QueryRow(at.scan)
		in.queueClaims(&b, &claims)
	}
	in.queueFree(&b)
	as.EnterBatch(&b)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return nil, scoped.Classify("try links", err)
	}
	var taken pgx.Batch
	if in.queueTaken(&taken) {
		if err := tx.SendBatch(ctx, &taken).Close(); err != nil {
			return nil, scoped.Classify("try links", err)
		}
	}
	if err := in.tryReleased(ctx, tx); err != nil {
		return nil, scoped.Classify("try links", err)
	}
	return in.placed, nil
}

// queueFree asks which custom codes no link has, and none had.
func (in *inserting) queueFree(b *pgx.Batch) {
	var c codeList
	for i := range in.links {
		c.addCode(in.links[i].Link.Domain, in.links[i].Link.Key())
	}
	var i int
	scoped.Operator.EnterBatch(b)
	b.Queue(`
		SELECT n.i - 1 FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY n (domain, code, i)
		WHERE NOT EXISTS (SELECT FROM link l WHERE l.domain_id = n.domain AND l.code = n.code)
		  AND NOT EXISTS (SELECT FROM retired_code r WHERE r.domain_id = n.domain AND r.code = n.code)`, c.domains, c.codes).
		Query(scoped.ForEach([]any{&i}, func() error {
			if in.placed[i] == controlplane.Taken {
				in.placed[i] = controlplane.Placed
			}
			return nil
		}))
}

// inserting is the insertion of some links.
type inserting struct {
	links  []controlplane.Insertion
	placed []controlplane.InsertResult
	index  map[controlplane.LinkName]int
	free   bool // the codes are expected to be
	stamps []int64
}

func newInserting(links []controlplane.Insertion) *inserting {
	in := &inserting{
		links: links, stamps: newStamps(len(links)), placed: make([]controlplane.InsertResult, len(links)),
		index: make(map[controlplane.LinkName]int, len(links)),
	}
	for i := range links {
		in.index[controlplane.LinkName{Domain: links[i].Link.Domain, Code: links[i].Link.Key()}] = i
	}
	return in
}

// foldedDomains is the value of waypost.folded: the domains that ignore case.
func foldedDomains(links []controlplane.Insertion) string {
	var ids []string
	for i := range links {
		if id := strconv.Itoa(int(links[i].Link.Domain)); links[i].IgnoresCase && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, ",")
}

// queue adds the statements to a transaction that holds the head of the changelog. When
// they run, at has the transaction's position.
func (in *inserting) queue(b *pgx.Batch, at *begun) {
	claims, leases := claimsOf(in.links)
	// Use the first plan: planning the INSERT again takes as long as five links.
	b.Queue(`SELECT key_check_leases($1), set_config('plan_cache_mode', 'force_generic_plan', true), set_config('waypost.folded', $2, true)`,
		leases, foldedDomains(in.links))
	if len(claims.codes) > 0 {
		in.queueClaims(b, &claims)
	}
	insert := insertLinks
	switch {
	case in.free:
		insert = insertFree
	case slices.ContainsFunc(in.links, isCustom):
		insert = insertCustom
	}
	b.Queue(insert, insertArgs(in.links, in.stamps)...).Query(scoped.Each(func(rows pgx.Rows) error {
		return in.readPlaced(rows, at.position())
	}))
}

// queueClaims takes the counters of custom codes.
func (in *inserting) queueClaims(b *pgx.Batch, claims *claimColumns) {
	var code waypost.Code
	b.Queue(`SELECT key_claim($1, $2, $3, $4)`, claims.codes, claims.prefixes, claims.counters,
		claims.workspaces).Query(scoped.ForEach([]any{&code}, func() error {
		for i := range in.links {
			if x := &in.links[i]; x.Claim != nil && x.Link.Code == code {
				in.placed[i] = controlplane.Issuable
			}
		}
		return nil
	}))
}

// queueTaken asks which of the taken custom codes belong to deleted links. It returns
// false when no code is taken.
func (in *inserting) queueTaken(b *pgx.Batch) bool {
	var taken, domains []int32
	var workspaces []int64
	var codes []string
	for i, p := range in.placed {
		if l := in.links[i].Link; p == controlplane.Taken && l.Custom {
			taken, domains = append(taken, int32(i)), append(domains, int32(l.Domain))
			workspaces, codes = append(workspaces, int64(l.Workspace)), append(codes, string(l.Key()))
		}
	}
	if len(taken) == 0 {
		return false
	}
	var i int32
	var typed *waypost.Code
	var there, restorable, alias bool
	b.Queue(`
		SELECT n.i, coalesce(l.typed_code, l.code), l.deleted_at IS NULL AND l.id IS NOT NULL, coalesce(l.deleted_at > now() - $5::interval
			AND (l.expires_at IS NULL OR l.expires_at > now() OR link_outlives_expiry(l.programme)), false),
			link_code_fate(n.w, n.d, n.c) = 'alias'
		FROM unnest($1::integer[], $2::bigint[], $3::integer[], $4::text[]) n (i, w, d, c)
		LEFT JOIN link l ON l.domain_id = n.d AND l.code = n.c AND l.workspace_id = n.w
		WHERE l.id IS NOT NULL OR link_code_fate(n.w, n.d, n.c) <> ''`,
		taken, workspaces, domains, codes, controlplane.RestorableFor).
		Query(scoped.ForEach([]any{&i, &typed, &there, &restorable, &alias}, func() error {
			if to := in.links[i].TakenBy; to != nil && typed != nil {
				*to = *typed
			}
			switch {
			case alias:
				in.placed[i] = controlplane.Aliased
			case restorable:
				in.placed[i] = controlplane.Restorable
			case !there:
				in.placed[i] = controlplane.Retired
			}
			return nil
		}))
	return true
}

// readPlaced reads a link that the transaction at a position has placed.
func (in *inserting) readPlaced(row pgx.Row, at waypost.Position) error {
	var id int64
	var k controlplane.LinkName
	var created time.Time
	if err := row.Scan(&id, &k.Domain, &k.Code, &created); err != nil {
		return err
	}
	i, ok := in.index[k]
	if !ok {
		return errors.New("the database returned a link that was not sent")
	}
	in.placed[i] = controlplane.Placed
	l := in.links[i].Link
	l.ID, l.CreatedAt, l.UpdatedAt = id, created.UTC(), created.UTC()
	l.Revision, l.Stamp = waypost.Revision{Epoch: at.Epoch.Ordinal, Seq: at.Seq}, uint64(in.stamps[i])
	return nil
}
