package analytics

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
	"waypost/controlplane/rollup"
	"waypost/internal/failpoint"
)

// keptQuestion is a question about a group of links, or about the groups of a table. Its
// answer is counted in the background and kept, because there are very many links.
type keptQuestion struct {
	By      controlplane.GroupBy `json:"by,omitzero"`
	Tags    []string             `json:"tags,omitzero"` // sorted
	Domain  waypost.DomainID     `json:"domain,omitzero"`
	Creator string               `json:"creator,omitzero"`
}

func (q *keptQuestion) encode() (text []byte, key [32]byte, err error) {
	text, err = json.Marshal(q)
	return text, sha256.Sum256(text), err
}

var errCounting = waypost.Errorf(waypost.ECounting,
	"the clicks of very many links are being counted in the background, which may take minutes: ask again later")

// ask notes that the question is asked about the days from first on. It returns the id of
// a question with a kept answer, and otherwise 0.
func (q *keptQuestion) ask(ctx context.Context, pool *scoped.Pool, ws waypost.WorkspaceID, first int32) (id int64, err error) {
	_, key, err := q.encode()
	if err != nil {
		return 0, err
	}
	own := scoped.OfWorkspace("workspace_id", "$1") + ` AND key = $2`
	err = pool.QueryIn(ctx, scoped.TenantOf(ws), `
		WITH asked AS (
			UPDATE stats_question SET asked_at = now(), first_day = least(first_day, date '1970-01-01' + $3::integer),
				begun_at = CASE WHEN first_day <= date '1970-01-01' + $3::integer THEN begun_at END
			WHERE `+own+` AND (asked_at < now() - interval '5 s' OR first_day > date '1970-01-01' + $3::integer))
		SELECT id FROM stats_question WHERE `+own, []any{ws, key[:], first}, scoped.RowInto(&id))
	return id, scoped.Classify("find a question about many links", err)
}

// keptOfWorkspace bounds the questions of a workspace. The ones asked longest ago go.
const keptOfWorkspace = 100

// keep stores the question, so that it is counted in the background. It returns
// errCounting.
func (q *keptQuestion) keep(ctx context.Context, pool *scoped.Pool, ws waypost.WorkspaceID, first int32) error {
	text, key, err := q.encode()
	if err != nil {
		return err
	}
	if _, err = pool.ExecIn(ctx, scoped.TenantOf(ws), `
		WITH old AS (DELETE FROM stats_question WHERE id IN (
			SELECT id FROM stats_question WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` ORDER BY asked_at DESC, id OFFSET $5))
		INSERT INTO stats_question (workspace_id, key, question, first_day)
		VALUES ($1, $2, $3, date '1970-01-01' + $4::integer) ON CONFLICT DO NOTHING`, ws, key[:], text, first, keptOfWorkspace-1); err != nil {
		return scoped.Classify("keep a question about many links", err)
	}
	return errCounting
}

// keptAnswer holds all of an answer but its days.
type keptAnswer struct {
	clicks, bots int64
	links        []int64
	table        []byte
	kept         controlplane.Kept
}

// keptReader reads the kept answer to a question, at the moment of its transaction.
type keptReader struct {
	db        *Store
	tx        pgx.Tx
	workspace waypost.WorkspaceID
	question  int64
}

// answer reads all but the days. It returns errCounting unless the days from first on
// were counted.
func (r *keptReader) answer(ctx context.Context, first int32) (a keptAnswer, err error) {
	var from int32
	var until *time.Time
	var links []byte
	err = r.tx.QueryRow(ctx, `
		SELECT first_day - date '1970-01-01', counted_at, complete_until, behind, clicks, bot_clicks, links, days,
			EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND (classid, objid) = ($3::oid, $4::oid) AND granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
		FROM stats_answer WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND question_id = $2`,
		r.workspace, r.question, uint32(keptLocks), uint32(r.question)).Scan(
		&from, &a.kept.At, &until, &a.kept.Complete.Behind, &a.clicks, &a.bots, &links, &a.table, &a.kept.Rebuilding)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && from > first {
		return a, errCounting
	}
	a.kept.Complete.Until = scoped.UTC(until)
	a.links = unpackLinks(links)
	return a, err
}

// rows reads the answer to a question about a table.
func (r *keptReader) rows(ctx context.Context, first, end int32) (c controlplane.GroupsCounted, err error) {
	a, err := r.answer(ctx, 2*first-end)
	if err != nil {
		return c, err
	}
	var t groupTable
	if err := json.Unmarshal(a.table, &t); err != nil {
		return c, err
	}
	c = t.rows(first, end)
	c.Kept = &a.kept
	return c, nil
}

// group reads the answer to a question about a group.
func (r *keptReader) group(
	ctx context.Context, s *controlplane.Span, n *controlplane.NameQuery, top int, c *controlplane.GroupCounted,
) (best []rollup.LinkCount, err error) {
	first, end := s.Days()
	a, err := r.answer(ctx, first)
	if err != nil {
		return nil, err
	}
	t := &topCount{
		tx: r.tx, workspace: r.workspace, first: first, end: end, folded: make(map[int64]rollup.Count), parts: make(map[int64]rollup.Count),
		allParts: true, partly: true,
	}
	if c.Counted, err = counted(s, n, func(first, end int32) (map[int32]*rollup.Day, error) {
		days, err := r.days(ctx, first, end)
		all := make(map[int32]*rollup.Day)
		for n, d := range days {
			all[n] = &d.Day
			d.top.Cut(max(linksInHand/int(t.end-t.first), 100))
			t.sum.AddDay(d.top)
		}
		return all, err
	}); err != nil {
		return nil, err
	}
	c.Links, c.Clicks, c.Bots, c.Kept = int64(len(a.links)), a.clicks, a.bots, &a.kept
	if top == 0 {
		return nil, nil
	}
	// Since the answer was counted, another link may have got more clicks than these.
	best, _, err = t.top(ctx, top, r.db.pool.Log)
	return best, err
}

// keptDay is a day of a kept answer.
type keptDay struct {
	rollup.Day
	top *rollup.Top
}

// days reads the days [first, end) that have clicks.
func (r *keptReader) days(ctx context.Context, first, end int32) (map[int32]*keptDay, error) {
	days := make(map[int32]*keptDay)
	var n int32
	var s storedDay
	var packed []byte
	rows, _ := r.tx.Query(ctx, `
		SELECT day - date '1970-01-01', clicks, bot_clicks, quarters, breakdown, visitors, top FROM stats_answer_day
		WHERE `+ofDays+` AND question_id = $4`, r.workspace, first, end, r.question)
	_, err := pgx.ForEachRow(rows, []any{&n, &s.clicks, &s.bots, &s.quarters, &s.breakdown, &s.visitors, &packed}, func() error {
		top, why := unpackTop(packed)
		if why != nil {
			r.db.pool.Log.Error(unreadableTop, "workspace", r.workspace, "error", why)
		}
		days[n] = &keptDay{Day: *r.db.readDay(&s), top: top}
		return nil
	})
	return days, err
}

const (
	keptLocks = 7309 // the first key of the locks, the question is the second

	// keptLimit, in milliseconds, is for one statement over all links of the largest
	// workspace.
	keptLimit = "1800000"
)

// selectAsked selects the questions that were asked since their newest count began. That
// count rests for 19 times as long as it took, so that each question takes a twentieth of
// a processor at most.
const selectAsked = `
SELECT q.id, q.workspace_id FROM stats_question q LEFT JOIN stats_answer a ON a.question_id = q.id
WHERE q.begun_at IS NULL OR q.asked_at > q.begun_at AND now() - q.begun_at > greatest(20 * a.took, interval '10 s')
ORDER BY a.counted_at NULLS FIRST, q.id LIMIT 100`

// KeptAnswers is the age at which a question goes that is no longer asked.
const KeptAnswers = 30 * 24 * time.Hour

// KeepAnswers counts the questions that are due, each in one transaction, and drops those
// that are no longer asked.
func (r *Roller) KeepAnswers(ctx context.Context) error {
	if _, err := r.db.pool.ExecIn(ctx, scoped.Operator, `DELETE FROM stats_question WHERE asked_at < now() - $1::interval`, KeptAnswers); err != nil {
		return scoped.Classify("drop questions about many links", err)
	}
	var asked []Place
	if err := r.db.pool.QueryIn(ctx, scoped.Operator, selectAsked, nil, collectPlaces(&asked)); err != nil {
		return scoped.Classify("look for questions about many links", err)
	}
	var errs []error
	for _, q := range asked {
		errs = append(errs, scoped.Classify("count the clicks of many links", r.countQuestion(ctx, waypost.WorkspaceID(q.Link), q.Workspace)))
	}
	return errors.Join(errs...)
}

// keeping is the count of a question.
type keeping struct {
	*groupReader
	question int64
	first    int32 // day
	answer   keptAnswer
}

// countQuestion counts a question, unless another control plane does.
func (r *Roller) countQuestion(ctx context.Context, ws waypost.WorkspaceID, question int64) error {
	db := r.db
	as := scoped.Tenant(strconv.FormatInt(int64(ws), 10)).LookingUp()
	if _, err := db.pool.ExecIn(ctx, as, `UPDATE stats_question SET begun_at = now() WHERE id = $1`, question); err != nil {
		return err
	}
	k := &keeping{groupReader: &groupReader{db: db, workspace: ws, left: -1}, question: question}
	var err error
	if k.answer.kept.Complete, err = db.cfg.Complete(ctx); err != nil {
		return err
	}
	return db.pool.Transact(ctx, as, as.SnapshotOptions(), func(tx pgx.Tx) error {
		k.tx = tx
		var mine bool
		if err := tx.QueryRow(ctx, `
			SELECT pg_try_advisory_xact_lock($1, $2), set_config('statement_timeout', $3, true),
				set_config('idle_in_transaction_session_timeout', $3, true)`, keptLocks, int32(question), keptLimit,
		).Scan(&mine, nil, nil); err != nil || !mine {
			return err
		}
		failpoint.Hit("keep answers: begun")
		if err := k.count(ctx); err != nil {
			return err
		}
		failpoint.Hit("keep answers: counted")
		var until *time.Time
		if at := k.answer.kept.Complete.Until; !at.IsZero() {
			until = &at
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO stats_answer (question_id, workspace_id, counted_at, took, first_day, complete_until, behind,
				clicks, bot_clicks, links, days)
			VALUES ($2, $1, now(), clock_timestamp() - now(), date '1970-01-01' + $3::integer, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (question_id) DO UPDATE SET counted_at = EXCLUDED.counted_at, took = EXCLUDED.took, first_day = EXCLUDED.first_day,
				complete_until = EXCLUDED.complete_until, behind = EXCLUDED.behind, clicks = EXCLUDED.clicks, bot_clicks = EXCLUDED.bot_clicks,
				links = EXCLUDED.links, days = EXCLUDED.days`,
			ws, question, k.first, until, append([]string{}, k.answer.kept.Complete.Behind...), int64(k.total.Clicks), int64(k.total.Bots),
			packLinks(k.ids), k.answer.table)
		return err
	})
}

// count counts what has changed since the question was counted.
func (k *keeping) count(ctx context.Context) error {
	var text, old []byte
	var q keptQuestion
	if err := k.tx.QueryRow(ctx, `
		SELECT q.question, q.first_day - date '1970-01-01', a.links FROM stats_question q LEFT JOIN stats_answer a ON a.question_id = q.id
		WHERE q.id = $1`, k.question).Scan(&text, &k.first, &old); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &q); err != nil {
		return err
	}
	if q.By != "" {
		today := int32(k.db.cfg.Now().Unix() / (24 * 60 * 60))
		t, err := readGroupTable(ctx, k.tx, k.workspace, q.By, k.first, today+1, nil, nil)
		if err != nil {
			return err
		}
		k.answer.table, err = json.Marshal(t)
		return err
	}
	r, err := k.db.readGroup(ctx, k.tx, k.workspace, &controlplane.LinkGroup{Tags: q.Tags, Domain: q.Domain, Creator: q.Creator}, -1)
	if err != nil {
		return err
	}
	k.groupReader = r
	return k.countGroup(ctx, unpackLinks(old))
}

// countGroup counts the days of a group again on which the workspace has got clicks, or
// links have left the group that had clicks then. To the other days it adds the clicks of
// links that have come.
func (k *keeping) countGroup(ctx context.Context, old []int64) error {
	clicks := make(map[int32]int64) // of the workspace
	left := k.over(without(old, k.ids))
	gone, err := left.days(ctx, k.first, foreverDay)
	if err != nil {
		return err
	}
	due, end := int32(foreverDay), k.first
	last := k.first
	rows, _ := k.tx.Query(ctx, `
		SELECT coalesce(w.day, d.day) - date '1970-01-01', coalesce(w.clicks, 0), d.workspace_clicks IS DISTINCT FROM w.clicks
		FROM (SELECT day, least(sum(clicks), 9223372036854775807)::bigint AS clicks FROM (
				SELECT day, clicks FROM click_workspace_day WHERE `+ofDays+`
				UNION ALL SELECT day, clicks FROM click_workspace_part WHERE `+ofDays+`) b GROUP BY day) w
		FULL JOIN (SELECT day, workspace_clicks FROM stats_answer_day WHERE question_id = $4 AND `+ofDays+`) d ON d.day = w.day`,
		k.workspace, k.first, foreverDay, k.question)
	var day int32
	var n int64
	var changed bool
	if _, err := pgx.ForEachRow(rows, []any{&day, &n, &changed}, func() error {
		clicks[day] = n
		last = max(last, day+1)
		if changed || gone[day] != nil {
			due, end = min(due, day), max(end, day+1)
		}
		return nil
	}); err != nil {
		return err
	}
	if due >= end {
		due, end = k.first, k.first
		_, err = k.days(ctx, due, end) // for the total
	}
	for at := due; at < end && err == nil; at += daysAtOnce {
		err = k.storeDays(ctx, k.groupReader, at, min(at+daysAtOnce, end), clicks, false)
	}
	come := k.over(without(k.ids, old))
	for at := k.first; at < last && err == nil && len(come.ids) > 0; at += daysAtOnce {
		if to := min(at+daysAtOnce, last); to <= due || at >= end {
			err = k.storeDays(ctx, come, at, to, clicks, true)
		} else {
			err = errors.Join(k.storeDays(ctx, come, at, min(to, due), clicks, true), k.storeDays(ctx, come, max(at, end), to, clicks, true))
		}
	}
	return err
}

// foreverDay is a day after all days.
const foreverDay = 1 << 21

// over returns a reader of other links.
func (k *keeping) over(ids []int64) *groupReader {
	return &groupReader{
		db: k.db, tx: k.tx, workspace: k.workspace, ids: ids, left: -1, totalled: true, counted: func(map[linkDay]rollup.Count) {},
	}
}

// storeDays stores the days [first, end) as a reader counts them; more: added to the
// stored ones.
func (k *keeping) storeDays(ctx context.Context, r *groupReader, first, end int32, clicks map[int32]int64, more bool) error {
	if first >= end {
		return nil
	}
	all := make(map[int32]*keptDay)
	if more {
		var err error
		stored := &keptReader{db: k.db, tx: k.tx, workspace: k.workspace, question: k.question}
		if all, err = stored.days(ctx, first, end); err != nil {
			return err
		}
	}
	of := func(n int32) *keptDay {
		if all[n] == nil {
			all[n] = &keptDay{top: &rollup.Top{}}
		}
		return all[n]
	}
	r.counted = func(step map[linkDay]rollup.Count) {
		counts := make(map[int32][]rollup.LinkCount)
		for at, c := range step {
			counts[at.day] = append(counts[at.day], rollup.LinkCount{Link: at.link, Count: c})
		}
		for n, links := range counts {
			of(n).top.Set(links...)
		}
	}
	days, err := r.days(ctx, first, end)
	if err != nil {
		return err
	}
	var b pgx.Batch
	if !more {
		b.Queue(`DELETE FROM stats_answer_day WHERE `+ofDays+` AND question_id = $4`, k.workspace, first, end, k.question)
	}
	for n := first; n < end; n++ {
		if days[n] == nil && (more || clicks[n] == 0) {
			continue
		}
		d := of(n)
		if days[n] != nil {
			d.Merge(days[n])
		}
		total := d.Total()
		b.Queue(`
			INSERT INTO stats_answer_day (question_id, workspace_id, day, workspace_clicks, clicks, bot_clicks, quarters, breakdown, visitors, top)
			VALUES ($2, $1, date '1970-01-01' + $3::integer, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT (question_id, day) DO UPDATE SET workspace_clicks = EXCLUDED.workspace_clicks, clicks = EXCLUDED.clicks,
				bot_clicks = EXCLUDED.bot_clicks, quarters = EXCLUDED.quarters, breakdown = EXCLUDED.breakdown, visitors = EXCLUDED.visitors,
				top = EXCLUDED.top`,
			k.workspace, k.question, n, clicks[n], int64(total.Clicks), int64(total.Bots),
			d.Quarters.Append(nil), d.Breakdown.Append(nil), d.Visitors.Append(nil), d.top.Append(nil))
	}
	return k.tx.SendBatch(ctx, &b).Close()
}

// without returns the links of all that are not in others. Both are in order.
func without(all, others []int64) (rest []int64) {
	for _, id := range all {
		if _, found := slices.BinarySearch(others, id); !found {
			rest = append(rest, id)
		}
	}
	return rest
}

// packLinks packs links, which are in order.
func packLinks(ids []int64) []byte {
	packed, last := []byte{}, int64(0)
	for _, id := range ids {
		packed, last = binary.AppendUvarint(packed, uint64(id-last)), id
	}
	return packed
}

func unpackLinks(packed []byte) (ids []int64) {
	for last := int64(0); len(packed) > 0; {
		step, n := binary.Uvarint(packed)
		last, packed = last+int64(step), packed[max(n, 1):]
		ids = append(ids, last)
	}
	return ids
}
