package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
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
const insertLinks = insertRows + ` ON CONFLICT (domain_id, code) DO NOTHING` + returnRows

// insertFree is for links whose codes should all be free: it fails when one is not. To
// look first, and to take a code with a lock of its own, costs a seventh of what a link
// does.
const insertFree = insertRows + returnRows

const insertRows = `
INSERT INTO link (workspace_id, domain_id, code, custom, original_url, location, redirect_status,
                  title, description, tags, metadata, created_by, expires_at, forward_query, forward_path, active, rules, programme,
                  slot, rev_epoch, rev_seq, stamp)
SELECT w, d, c, cu, o, lo, s, t, de, CASE WHEN tg IS NULL THEN '{}' ELSE ARRAY(SELECT jsonb_array_elements_text(tg::jsonb)) END,
       m::jsonb, cb, e, fq, fp, ac, ru::jsonb, pr,
       sl, (SELECT current_setting('waypost.epoch')::integer), (SELECT set_config('waypost.stamped', current_setting('waypost.seq'),
       	true)::bigint), st
FROM (SELECT unnest($1::bigint[]), unnest($2::integer[]), unnest($3::text[]), unnest($4::boolean[]), unnest($5::text[]), unnest($6::text[]),
             unnest($7::smallint[]), unnest($8::text[]), unnest($9::text[]), unnest($10::text[]), unnest($11::text[]), unnest($12::text[]),
             unnest($13::timestamptz[]), unnest($14::boolean[]), unnest($15::boolean[]), unnest($16::boolean[]),
             unnest($17::text[]), unnest($18::bytea[]), unnest($19::smallint[]), unnest($20::bigint[]))
     AS n (w, d, c, cu, o, lo, s, t, de, tg, m, cb, e, fq, fp, ac, ru, pr, sl, st)
WHERE NOT (cu AND d = 1 AND c = ANY (string_to_array(coalesce(current_setting('waypost.refused', true), ''), ',')))`

const returnRows = ` RETURNING id, domain_id, code, created_at`

// linkColumns are the parallel arrays of insertLinks.
type linkColumns struct {
	workspaces                                  []int64
	domains                                     []int32
	codes, originals, titles, descriptions, bys []string
	customs                                     []bool
	locations, tags, metadata, rules            []*string
	programmes                                  [][]byte
	statuses                                    []int16
	expiries                                    []*time.Time
	forwardQueries, forwardPaths, actives       []bool
	slots                                       []int16
	stamps                                      []int64
}

func makeColumns(n int) *linkColumns {
	return &linkColumns{
		workspaces: make([]int64, 0, n), domains: make([]int32, 0, n), codes: make([]string, 0, n), customs: make([]bool, 0, n),
		originals: make([]string, 0, n), locations: make([]*string, 0, n), statuses: make([]int16, 0, n),
		titles: make([]string, 0, n), descriptions: make([]string, 0, n), tags: make([]*string, 0, n), metadata: make([]*string, 0, n),
		bys: make([]string, 0, n), expiries: make([]*time.Time, 0, n), forwardQueries: make([]bool, 0, n),
		forwardPaths: make([]bool, 0, n), actives: make([]bool, 0, n), rules: make([]*string, 0, n), programmes: make([][]byte, 0, n),
		slots: make([]int16, 0, n), stamps: make([]int64, 0, n),
	}
}

func columnsOf(links []controlplane.Insertion) (*linkColumns, error) {
	c := makeColumns(len(links))
	random := make([]byte, 8*len(links))
	_, _ = rand.Read(random) // never fails
	for i := range links {
		l := links[i].Link
		c.workspaces = append(c.workspaces, int64(l.Workspace))
		c.domains = append(c.domains, int32(l.Domain))
		c.codes = append(c.codes, string(l.Code))
		c.customs = append(c.customs, l.Custom)
		c.originals = append(c.originals, l.OriginalURL)
		var location, tags, metadata, rules *string
		if l.Location != l.OriginalURL {
			location = &l.Location
		}
		if len(l.Tags) > 0 {
			b, err := json.Marshal(l.Tags)
			if err != nil {
				return nil, err
			}
			s := string(b)
			tags = &s
		}
		if len(l.Metadata) > 0 {
			s := string(l.Metadata)
			metadata = &s
		}
		if len(l.Rules) > 0 {
			s := string(l.Rules)
			rules = &s
		}
		var expiry *time.Time
		if !l.ExpiresAt.IsZero() {
			expiry = &l.ExpiresAt
		}
		c.locations = append(c.locations, location)
		c.statuses = append(c.statuses, int16(l.RedirectStatus))
		c.titles = append(c.titles, l.Title)
		c.descriptions = append(c.descriptions, l.Description)
		c.tags = append(c.tags, tags)
		c.metadata = append(c.metadata, metadata)
		c.bys = append(c.bys, l.CreatedBy)
		c.expiries = append(c.expiries, expiry)
		c.forwardQueries = append(c.forwardQueries, l.Flags&waypost.ForwardQuery != 0)
		c.forwardPaths = append(c.forwardPaths, l.Flags&waypost.ForwardPath != 0)
		c.actives = append(c.actives, !links[i].Disabled)
		c.rules = append(c.rules, rules)
		c.programmes = append(c.programmes, l.Programme)
		c.slots = append(c.slots, int16(waypost.Slot(waypost.KindLink, l.Domain, []byte(l.Code))))
		c.stamps = append(c.stamps, int64(binary.LittleEndian.Uint64(random[8*i:])))
	}
	return c, nil
}

// workspaceList is the value of waypost.workspaces for a batch of links.
func workspaceList(links []controlplane.Insertion) string {
	ids := make([]int64, len(links))
	for i := range links {
		ids[i] = int64(links[i].Link.Workspace)
	}
	return scoped.WorkspaceList(ids)
}

// claimColumns are the parallel arrays of key_claim, and leases those of
// key_check_leases.
type claimColumns struct {
	codes                []string
	prefixes             []int32
	counters, workspaces []int64
}

func claimsOf(links []controlplane.Insertion) (c claimColumns, leases []int64) {
	for i := range links {
		x := &links[i]
		if x.Claim != nil {
			c.codes = append(c.codes, string(x.Link.Code))
			c.prefixes = append(c.prefixes, int32(x.Claim.Prefix))
			c.counters = append(c.counters, x.Claim.N)
			c.workspaces = append(c.workspaces, int64(x.Link.Workspace))
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
) ([]controlplane.Placement, waypost.Position, error) {
	if slices.ContainsFunc(links, needsLook) {
		return db.insertWithLook(ctx, epoch, links)
	}
	in, err := newInserting(links)
	if err != nil {
		return nil, waypost.Position{}, err
	}
	// A code that was minted is free, unless somebody chose it before its range was made.
	in.free = !slices.ContainsFunc(links, func(x controlplane.Insertion) bool { return x.Link.Custom })
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

// TryLinks implements controlplane.LinkStore. It is the transaction of InsertLinks,
// rolled back, because a tenant sees no codes of others.
func (db *LinkStore) TryLinks(ctx context.Context, links []controlplane.Insertion) ([]controlplane.Placement, error) {
	in, err := newInserting(links)
	if err != nil {
		return nil, err
	}
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
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it holds the head of the changelog
	var at begun
	var b pgx.Batch
	b.Queue(selectBegin, int32(0)).QueryRow(at.scan)
	in.queue(&b, &at)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return nil, scoped.Classify("try links", err)
	}
	var taken pgx.Batch
	if in.queueTaken(&taken) {
		if err := tx.SendBatch(ctx, &taken).Close(); err != nil {
			return nil, scoped.Classify("try links", err)
		}
	}
	return in.placed, nil
}

// inserting is the insertion of some links.
type inserting struct {
	links  []controlplane.Insertion
	placed []controlplane.Placement
	index  map[linkKey]int
	free   bool // the codes are expected to be
	*linkColumns
}

type linkKey struct {
	domain waypost.DomainID
	code   waypost.Code
}

func newInserting(links []controlplane.Insertion) (*inserting, error) {
	c, err := columnsOf(links)
	if err != nil {
		return nil, waypost.WrapError(waypost.EInvalid, "tags cannot be encoded", err)
	}
	in := &inserting{
		links: links, linkColumns: c, placed: make([]controlplane.Placement, len(links)),
		index: make(map[linkKey]int, len(links)),
	}
	for i := range links {
		in.index[linkKey{links[i].Link.Domain, links[i].Link.Code}] = i
	}
	return in, nil
}

// queue adds the statements to a transaction that holds the head of the changelog, whose
// position is in at once they are run.
func (in *inserting) queue(b *pgx.Batch, at *begun) {
	claims, leases := claimsOf(in.links)
	// Use the first plan: planning the INSERT again takes as long as five links.
	b.Queue(`SELECT key_check_leases($1), set_config('plan_cache_mode', 'force_generic_plan', true)`, leases)
	if len(claims.codes) > 0 {
		b.Queue(`SELECT key_claim($1, $2, $3, $4)`, claims.codes, claims.prefixes, claims.counters,
			claims.workspaces).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var code waypost.Code
				if err := rows.Scan(&code); err != nil {
					return err
				}
				if i, ok := in.index[linkKey{waypost.DefaultDomain, code}]; ok {
					in.placed[i] = controlplane.Issuable
				}
			}
			return rows.Err()
		})
	}
	c, insert := in.linkColumns, insertLinks
	if in.free {
		insert = insertFree
	}
	b.Queue(insert, c.workspaces, c.domains, c.codes, c.customs, c.originals, c.locations, c.statuses,
		c.titles, c.descriptions, c.tags, c.metadata, c.bys, c.expiries, c.forwardQueries, c.forwardPaths, c.actives, c.rules, c.programmes,
		c.slots, c.stamps).Query(func(rows pgx.Rows) error {
		return in.read(rows, at.position())
	})
}

// queueTaken asks which of the custom codes that are taken have been those of deleted
// links. It returns false when no code is taken.
func (in *inserting) queueTaken(b *pgx.Batch) bool {
	var taken []int32
	for i, p := range in.placed {
		if p == controlplane.Taken && in.customs[i] {
			taken = append(taken, int32(i))
		}
	}
	if len(taken) == 0 {
		return false
	}
	b.Queue(`
		SELECT n.i, coalesce(l.deleted_at > now() - $5::interval
			AND (l.expires_at IS NULL OR l.expires_at > now() OR link_outlives_expiry(l.programme)), false)
		FROM (SELECT i, ($2::bigint[])[i + 1] AS w, ($3::integer[])[i + 1] AS d, ($4::text[])[i + 1] AS c FROM unnest($1::integer[]) i) n
		LEFT JOIN link l ON l.domain_id = n.d AND l.code = n.c AND l.workspace_id = n.w AND l.deleted_at IS NOT NULL
		WHERE l.id IS NOT NULL OR link_code_retired(n.d, n.c)`,
		taken, in.workspaces, in.domains, in.codes, controlplane.RestorableFor).Query(func(rows pgx.Rows) error {
		var i int32
		var restorable bool
		_, err := pgx.ForEachRow(rows, []any{&i, &restorable}, func() error {
			if in.placed[i] = controlplane.Retired; restorable {
				in.placed[i] = controlplane.Restorable
			}
			return nil
		})
		return err
	})
	return true
}

// read takes what was placed in the transaction at a position.
func (in *inserting) read(rows pgx.Rows, at waypost.Position) error {
	revision := waypost.Revision{Epoch: at.Epoch.Ordinal, Seq: at.Seq}
	for rows.Next() {
		var id int64
		var k linkKey
		var created time.Time
		if err := rows.Scan(&id, &k.domain, &k.code, &created); err != nil {
			return err
		}
		i, ok := in.index[k]
		if !ok {
			return errors.New("the database returned a link that was not sent")
		}
		in.placed[i] = controlplane.Placed
		l := in.links[i].Link
		l.ID, l.CreatedAt, l.UpdatedAt = id, created.UTC(), created.UTC()
		l.Revision, l.Stamp = revision, uint64(in.stamps[i])
	}
	return rows.Err()
}
