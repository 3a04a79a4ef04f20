package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
	"waypost/internal/failpoint"
)

// needsPrecheck reports whether a link depends on existing rows.
func needsPrecheck(x controlplane.Insertion) bool {
	return x.Idempotency != nil || x.Dedupe != nil || len(x.Link.Aliases) > 0
}

// insertPrechecked inserts links that carry an idempotency record, that are to be the
// only links to their targets, or that have aliases. It looks for existing rows under the
// head of the changelog, so the result holds until the commit. The check takes some more
// round trips, and the other links of the batch wait for them.
func (db *LinkStore) insertPrechecked(
	ctx context.Context, epoch uint32, links []controlplane.Insertion,
) (placed []controlplane.InsertResult, _ waypost.Position, err error) {
	wished := make([]waypost.Link, len(links))
	for i := range links {
		wished[i] = *links[i].Link
	}
	var at begun
	err = pgx.BeginTxFunc(ctx, db.pool, scoped.Tenant(workspaceList(links)).TxOptions(), func(tx pgx.Tx) error {
		check := newPrecheck(links)
		var b pgx.Batch
		b.Queue(selectBegin, int32(epoch)).QueryRow(at.scan)
		check.queue(&b)
		failpoint.Hit("insert links: begun")
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		if err := check.beginSteps(ctx, tx); err != nil {
			return err
		}
		check.resolve()
		if err := check.insert(ctx, tx, &at); err != nil {
			return err
		}
		placed = check.placed
		return check.storeResponses(ctx, tx, at.position())
	})
	if err != nil {
		for i := range links { // restore the links as the caller passed them, for another try
			*links[i].Link = wished[i]
		}
		return nil, waypost.Position{}, scoped.Classify("insert links", err)
	}
	failpoint.Hit("insert links: committed")
	db.pool.noteCommit(at.position())
	for i := range links {
		if r := links[i].Idempotency; r != nil && r.Import != nil {
			r.Import.Stored = true
		}
	}
	return placed, at.position(), nil
}

// precheck holds the existing rows for a batch of links.
type precheck struct {
	links      []controlplane.Insertion
	placed     []controlplane.InsertResult
	records    []*controlplane.IdempotencyRecord // each once, in order
	answered   map[controlplane.RequestID]bool
	duplicates map[controlplane.DedupeKey]waypost.Link
	first      map[controlplane.DedupeKey]int // the insertion that is to be the link of a target: the first that is live, if one is
	rest       []int                          // the insertions that are to be written
	repeated   map[int]int                    // insertions with the custom code of an earlier one that is written, and that one
}

func dedupeKeyOf(x *controlplane.Insertion) controlplane.DedupeKey {
	return controlplane.DedupeKey{Workspace: x.Link.Workspace, Domain: x.Link.Domain, Target: *x.Dedupe}
}

func newPrecheck(links []controlplane.Insertion) *precheck {
	k := &precheck{
		links: links, placed: make([]controlplane.InsertResult, len(links)), answered: make(map[controlplane.RequestID]bool),
		duplicates: make(map[controlplane.DedupeKey]waypost.Link), first: make(map[controlplane.DedupeKey]int), repeated: make(map[int]int),
	}
	for i := range links {
		if r := links[i].Idempotency; r != nil && !slices.Contains(k.records, r) {
			k.records = append(k.records, r)
		}
	}
	return k
}

// queue asks for earlier answers, and for live links of targets.
func (k *precheck) queue(b *pgx.Batch) {
	if slices.ContainsFunc(k.records, func(r *controlplane.IdempotencyRecord) bool { return r.Import == nil }) {
		var id controlplane.RequestID
		var workspaces []int64
		var routes, keys []string
		for _, r := range k.records {
			workspaces, routes, keys = append(workspaces, int64(r.ID.Workspace)), append(routes, r.ID.Route), append(keys, r.ID.Key)
		}
		b.Queue(`
			SELECT i.workspace_id, i.route, i.key FROM unnest($1::bigint[], $2::text[], $3::text[]) n (w, r, k)
			JOIN idempotency i ON `+scoped.OfWorkspace("i.workspace_id", "n.w")+` AND i.route = n.r AND i.key = n.k`, workspaces, routes,
			keys).Query(scoped.ForEach([]any{&id.Workspace, &id.Route, &id.Key}, func() error { k.answered[id] = true; return nil }))
	}
	var wanted []controlplane.DedupeKey
	for i := range k.links {
		if k.links[i].Dedupe != nil {
			wanted = append(wanted, dedupeKeyOf(&k.links[i]))
		}
	}
	if len(wanted) > 0 {
		queueDuplicates(b, wanted, k.duplicates)
	}
}

// selectDuplicates finds the live links for targets in the workspaces that the parameters
// name. It leaves out clicks that are not folded yet: a look for them takes longer the
// more of them there are, and all writes would wait for it.
var selectDuplicates = `
SELECT l.*, t.target FROM link_duplicates($1, $2, $3) t
JOIN LATERAL (` + selectLive + ` AND l.id = t.link_id) l ON true`

// selectUnfolded selects links without clicks that are not folded yet, and selectLive
// those that lead somewhere.
var selectUnfolded = scannedColumns + `
	FROM link l LEFT JOIN link_click c ON c.link_id = l.id CROSS JOIN (VALUES (0, 0, NULL::timestamptz)) p (clicks, bots, at)`

var selectLive = selectUnfolded + `
	WHERE l.deleted_at IS NULL AND l.active AND (l.expires_at IS NULL OR l.expires_at > clock_timestamp())`

func queueDuplicates(b *pgx.Batch, wanted []controlplane.DedupeKey, into map[controlplane.DedupeKey]waypost.Link) {
	var workspaces []int64
	var domains []int32
	var targets [][]byte
	for _, w := range wanted {
		workspaces, domains, targets = append(workspaces, int64(w.Workspace)), append(domains, int32(w.Domain)), append(targets, w.Target[:])
	}
	b.Queue(selectDuplicates, workspaces, domains, targets).Query(scoped.Each(func(rows pgx.Rows) error {
		var target []byte
		l, err := scanLink(rows, &target)
		if err == nil {
			into[controlplane.DedupeKey{Workspace: l.Workspace, Domain: l.Domain, Target: [32]byte(target)}] = l
		}
		return err
	}))
}

// resolve settles the links that need no writing.
func (k *precheck) resolve() {
	for i := range k.links {
		x := &k.links[i]
		if x.Idempotency != nil && k.answered[x.Idempotency.ID] {
			k.placed[i] = controlplane.Replayed
			continue
		}
		if x.Dedupe != nil {
			key := dedupeKeyOf(x)
			if l, ok := k.duplicates[key]; ok {
				*x.Link, k.placed[i] = l, controlplane.Found
				continue
			}
			if first, ok := k.first[key]; ok && !k.links[first].Disabled {
				k.placed[i] = controlplane.Found // the link of the first insertion, once it is there
				continue
			}
			k.first[key] = i
		}
		k.rest = append(k.rest, i)
	}
}

// insert writes the remaining links, and notes which link each target has.
func (k *precheck) insert(ctx context.Context, tx pgx.Tx, at *begun) error {
	if err := k.screenAliases(ctx, tx); err != nil || len(k.rest) == 0 {
		return err
	}
	links := make([]controlplane.Insertion, len(k.rest))
	for j, i := range k.rest {
		links[j] = k.links[i]
	}
	in := newInserting(links)
	var b pgx.Batch
	in.queue(&b, at)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	b = pgx.Batch{}
	if in.queueTaken(&b) {
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
	}
	if err := in.placeReleased(ctx, tx, at); err != nil {
		return err
	}
	var clash controlplane.ClashError
	for j, i := range k.rest {
		if k.placed[i] = in.placed[j]; k.placed[i] == controlplane.Taken && !k.links[i].Link.Custom {
			clash.Links = append(clash.Links, k.links[i].Link)
		}
	}
	if len(clash.Links) > 0 {
		return &clash
	}
	if err := in.addAliases(ctx, tx); err != nil {
		return err
	}
	k.settleRepeated()
	return k.noteDuplicates(ctx, tx)
}

// settleRepeated sets the outcomes of the links that ask for the code of an earlier link.
func (k *precheck) settleRepeated() {
	for i, first := range k.repeated {
		x, l := &k.links[i], k.links[first].Link
		switch k.placed[i] = k.placed[first]; {
		case k.placed[i] != controlplane.Placed:
		case x.AcceptExisting && x.Link.OriginalURL == l.OriginalURL:
			*x.Link, k.placed[i] = *l, controlplane.Found
		default:
			k.placed[i] = controlplane.Taken
		}
	}
}

// noteDuplicates stores the new links of targets, in place of links that are no longer
// live, and returns them to all requests for the same target.
func (k *precheck) noteDuplicates(ctx context.Context, tx pgx.Tx) error {
	if len(k.first) == 0 {
		return nil
	}
	var workspaces, links []int64
	var domains []int32
	var targets [][]byte
	for key, i := range k.first {
		workspaces, domains = append(workspaces, int64(key.Workspace)), append(domains, int32(key.Domain))
		targets, links = append(targets, key.Target[:]), append(links, k.links[i].Link.ID)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO link_dedupe (workspace_id, domain_id, target, link_id)
		SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bytea[], $4::bigint[])
		ON CONFLICT (workspace_id, domain_id, target) DO UPDATE SET link_id = excluded.link_id`, workspaces, domains, targets, links)
	for i := range k.links {
		if x := &k.links[i]; x.Dedupe != nil && k.placed[i] == controlplane.Found && x.Link.ID == 0 {
			*x.Link = *k.links[k.first[dedupeKeyOf(x)]].Link
		}
	}
	return err
}

// storeResponses writes the answers to the requests that placed or found a link.
func (k *precheck) storeResponses(ctx context.Context, tx pgx.Tx, at waypost.Position) error {
	var b pgx.Batch
	for _, r := range k.records {
		var placed []controlplane.InsertResult
		worth := false
		for i := range k.links {
			if k.links[i].Idempotency == r {
				placed = append(placed, k.placed[i])
				worth = worth || k.placed[i] == controlplane.Placed || k.placed[i] == controlplane.Found
			}
		}
		if !worth && r.Import == nil {
			continue
		}
		a, err := r.Respond(placed, at)
		if err != nil {
			return fmt.Errorf("make an answer to keep: %w", err)
		}
		if r.Import != nil {
			if err := storeStep(ctx, tx, r.ID.Workspace, r.Import, a.Body); err != nil {
				return err
			}
			continue
		}
		b.Queue(`INSERT INTO idempotency (workspace_id, route, key, request, status, header, body) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			r.ID.Workspace, r.ID.Route, r.ID.Key, r.Request[:], a.Status, a.Header, packed(a.Body))
	}
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, &b).Close()
}

// maxAnswer bounds an answer that was kept, in bytes: a thousand links with all that
// they may hold.
const maxAnswer = 64 << 20

// packer compresses answers; both halves may be used by many goroutines at once.
var packer = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	e, err1 := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	d, err2 := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxAnswer))
	if err := errors.Join(err1, err2); err != nil {
		panic("postgres: zstd: " + err.Error()) // the options above are wrong
	}
	return e, d
})

func packed(body []byte) []byte {
	e, _ := packer()
	return e.EncodeAll(body, nil)
}

func unpacked(body []byte) ([]byte, error) {
	_, d := packer()
	b, err := d.DecodeAll(body, nil)
	if err != nil {
		return nil, fmt.Errorf("a kept answer cannot be read: %w", err)
	}
	return b, nil
}

func (db *LinkStore) Response(
	ctx context.Context, id controlplane.RequestID,
) (a controlplane.Response, request [32]byte, found bool, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(id.Workspace), `
		SELECT request, status, header, body FROM idempotency WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND route = $2 AND key = $3`,
		[]any{id.Workspace, id.Route, id.Key}, scoped.Each(func(rows pgx.Rows) error {
			var hash, body []byte
			if err := rows.Scan(&hash, &a.Status, &a.Header, &body); err != nil {
				return err
			}
			request, found = [32]byte(hash), true
			a.Body, err = unpacked(body)
			return err
		}))
	return a, request, found, scoped.Classify("look for an answer", err)
}

const (
	keepAnswers   = 24 * time.Hour // for which responses to requests with an Idempotency-Key are kept
	answersAtOnce = 10_000         // responses that one statement deletes
)

// forgetAnswers removes the answers that were kept for long enough.
func (db *LinkStore) forgetAnswers(ctx context.Context) error {
	for {
		var gone int64
		err := db.pool.QueryRowIn(ctx, scoped.Operator, `
			WITH gone AS (DELETE FROM idempotency WHERE (workspace_id, route, key) IN (
				SELECT workspace_id, route, key FROM idempotency WHERE created_at < now() - $1::interval
				ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1)
			SELECT count(*) FROM gone`, []any{keepAnswers, answersAtOnce}, &gone)
		if err != nil {
			return scoped.Classify("forget answers", err)
		}
		if gone < answersAtOnce {
			return nil
		}
	}
}

// Duplicates implements controlplane.LinkStore. The position is read after the links.
func (db *LinkStore) Duplicates(
	ctx context.Context, ws waypost.WorkspaceID, wanted []controlplane.DedupeKey,
) (map[controlplane.DedupeKey]waypost.Link, waypost.Position, error) {
	found := make(map[controlplane.DedupeKey]waypost.Link)
	var at begun
	var b pgx.Batch
	as := scoped.TenantOf(ws)
	as.EnterBatch(&b)
	queueDuplicates(&b, wanted, found)
	b.Queue(selectPosition).QueryRow(at.scan)
	if err := db.pool.Send(ctx, as, &b); err != nil {
		return nil, waypost.Position{}, scoped.Classify("look for links of targets", err)
	}
	return found, at.position(), nil
}

func (db *LinkStore) Named(
	ctx context.Context, ws waypost.WorkspaceID, names []controlplane.LinkName,
) (map[controlplane.LinkName]waypost.Link, waypost.Position, error) {
	domains, codes := make([]int32, len(names)), make([]string, len(names))
	for i, n := range names {
		domains[i], codes[i] = int32(n.Domain), string(n.Code)
	}
	links := make(map[controlplane.LinkName]waypost.Link)
	var at begun
	var b pgx.Batch
	as := scoped.TenantOf(ws)
	as.EnterBatch(&b)
	b.Queue(`
		SELECT l.* FROM unnest($2::integer[], $3::text[]) n (domain, code)
		CROSS JOIN LATERAL (`+selectLive+` AND l.domain_id = n.domain AND l.code = n.code AND `+scoped.OfWorkspace("l.workspace_id", "$1")+` OFFSET 0) l`,
		ws, domains, codes).Query(scoped.Each(func(rows pgx.Rows) error {
		l, err := scanLink(rows)
		links[controlplane.LinkName{Domain: l.Domain, Code: l.Key()}] = l
		return err
	}))
	b.Queue(selectPosition).QueryRow(at.scan)
	if err := db.pool.Send(ctx, as, &b); err != nil {
		return nil, waypost.Position{}, scoped.Classify("look for links by name", err)
	}
	return links, at.position(), nil
}

func (db *LinkStore) DedupeByDefault(ctx context.Context, ws waypost.WorkspaceID) (dedupe bool, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(ws), `SELECT coalesce(settings -> 'dedupe' = 'true', false) FROM workspace
		WHERE `+scoped.OfWorkspace("id", "$1"),
		[]any{ws}, scoped.RowInto(&dedupe))
	return dedupe, scoped.Classify("read a workspace's settings", err)
}
