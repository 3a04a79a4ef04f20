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
// a question that is kept, and otherwise 0. It fails if the question cannot be answered.
func (q *keptQuestion) ask(ctx context.Context, pool *scoped.Pool, ws waypost.WorkspaceID, first int32) (id int64, err error) {
	_, key, err := q.encode()
	if err != nil {
		return 0, err
	}
	var fault *string
	own := scoped.OfWorkspace("workspace_id", "$1") + ` AND key = $2`
	err = pool.QueryIn(ctx, scoped.TenantOf(ws), `
		WITH asked AS (
			UPDATE stats_question SET asked_at = now(), first_day = least(first_day, date '1970-01-01' + $3::integer)
			WHERE `+own+` AND (asked_at < now() - interval '5 s' OR first_day > date '1970-01-01' + $3::integer))
		SELECT id, fault FROM stats_question WHERE `+own, []any{ws, key[:], first}, scoped.RowInto(&id, &fault))
	if err == nil && fault != nil {
		err = waypost.Errorf(waypost.EInvalid, "%s", *fault)
	}
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
	names        []byte // of a table
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
		SELECT first_day - date '1970-01-01', counted_at, complete_until, behind, clicks, bot_clicks, links, names,
			EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND (classid, objid) = ($3::oid, $4::oid) AND granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
		FROM stats_answer WHERE `+scoped.OfWorkspace("workspace_id", "$1")+` AND question_id = $2`,
		r.workspace, r.question, uint32(keptLocks), uint32(r.question)).Scan(
		&from, &a.kept.At, &until, &a.kept.Complete.Behind, &a.clicks, &a.bots, &links, &a.names, &a.kept.Rebuilding)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && from > first {
		return a, errCounting
	}
	a.kept.Complete.Until = scoped.UTC(until)
	a.links = unpackLinks(links)
	return a, err
}

// table reads the days [first, end) of the answer to a question about a table.
func (r *keptReader) table(ctx context.Context, first, end int32) (*groupTable, *controlplane.Kept, error) {
	a, err := r.answer(ctx, first)
	if err != nil {
		return nil, nil, err
	}
	t := &groupTable{days: make(map[int32]*namedClicks)}
	if err := json.Unmarshal(a.names, &t.links); err != nil {
		return nil, nil, err
	}
	var day int32
	var clicks int64
	var names []byte
	rows, _ := r.tx.Query(ctx, `
		SELECT day - date '1970-01-01', workspace_clicks, names FROM stats_answer_day
		WHERE `+ofDays+` AND question_id = $4`, r.workspace, first, end, r.question)
	_, err = pgx.ForEachRow(rows, []any{&day, &clicks, &names}, func() error {
		t.days[day] = &namedClicks{workspace: clicks}
		return json.Unmarshal(names, &t.days[day].names)
	})
	return t, &a.kept, err
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

// isDue is the condition of a question q, with its answer a, that was asked since its
// newest count began. That count rests for 19 times as long as it took, so that each
// question takes a twentieth of a processor at most, and as long as it took if earlier
// days are asked for.
const isDue = `(q.begun_at IS NULL OR q.asked_at > q.begun_at AND now() - q.begun_at >
	CASE WHEN a.first_day > q.first_day THEN greatest(2 * q.took, interval '0') ELSE greatest(20 * q.took, interval '10 s') END)`

// selectAsked selects one question of each workspace that has any that is due, so that no
// workspace keeps others waiting for more than one count.
const selectAsked = `
SELECT id, workspace_id FROM (
	SELECT DISTINCT ON (q.workspace_id) q.id, q.workspace_id, q.begun_at
	FROM stats_question q LEFT JOIN stats_answer a ON a.question_id = q.id
	WHERE ` + isDue + ` ORDER BY q.workspace_id, q.begun_at NULLS FIRST, q.id) q
ORDER BY begun_at NULLS FIRST, id`

// KeptAnswers is the age at which a question goes that is no longer asked.
const KeptAnswers = 30 * 24 * time.Hour

// KeepAnswers counts questions that are due, one of each workspace, each in one
// transaction. It drops the questions that are no longer asked, and answers without a
// question.
func (r *Roller) KeepAnswers(ctx context.Context) error {
	var drop pgx.Batch
	scoped.Operator.EnterBatch(&drop)
	drop.Queue(`DELETE FROM stats_question WHERE asked_at < now() - $1::interval`, KeptAnswers)
	drop.Queue(`
		WITH gone AS (DELETE FROM stats_answer a WHERE NOT EXISTS (SELECT FROM stats_question q WHERE q.id = a.question_id) RETURNING question_id)
		DELETE FROM stats_answer_day WHERE question_id IN (SELECT question_id FROM gone)`)
	if err := r.db.pool.Send(ctx, scoped.Operator, &drop); err != nil {
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

// countTime bounds a count, because PostgreSQL keeps all rows that others delete
// meanwhile.
const countTime = 30 * time.Minute

// countQuestion counts a question, unless another control plane does or has done so. It
// stores how long that took, also when it failed.
func (r *Roller) countQuestion(ctx context.Context, ws waypost.WorkspaceID, question int64) error {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	db, as := r.db, scoped.Tenant(strconv.FormatInt(int64(ws), 10)).LookingUp()
	began, err := db.pool.ExecIn(ctx, as, `
		UPDATE stats_question u SET begun_at = now() WHERE u.id = $1 AND EXISTS (
			SELECT FROM stats_question q LEFT JOIN stats_answer a ON a.question_id = q.id WHERE q.id = u.id AND `+isDue+`)`, question)
	if err != nil || began == 0 {
		return err
	}
	err = db.storeAnswer(ctx, as, ws, question)
	var fault *string
	if waypost.CodeOf(err) == waypost.EInvalid {
		fault, err = new(waypost.MessageOf(err)), nil
	}
	after, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	_, failed := db.pool.ExecIn(after, as, `UPDATE stats_question SET took = clock_timestamp() - begun_at, fault = $2 WHERE id = $1`, question, fault)
	return errors.Join(err, failed)
}

// storeAnswer counts a question and stores the answer.
func (db *Store) storeAnswer(ctx context.Context, as scoped.Scope, ws waypost.WorkspaceID, question int64) (err error) {
	k := &keeping{groupReader: &groupReader{db: db, workspace: ws, left: -1}, question: question}
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
			if errors.Is(err, pgx.ErrNoRows) {
				return nil // the question is gone
			}
			return err
		}
		failpoint.Hit("keep answers: counted")
		var until *time.Time
		if at := k.answer.kept.Complete.Until; !at.IsZero() {
			until = &at
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO stats_answer (question_id, workspace_id, counted_at, first_day, complete_until, behind, clicks, bot_clicks, links, names)
			VALUES ($2, $1, now(), date '1970-01-01' + $3::integer, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (question_id) DO UPDATE SET counted_at = EXCLUDED.counted_at, first_day = EXCLUDED.first_day,
				complete_until = EXCLUDED.complete_until, behind = EXCLUDED.behind, clicks = EXCLUDED.clicks, bot_clicks = EXCLUDED.bot_clicks,
				links = EXCLUDED.links, names = EXCLUDED.names`,
			ws, question, k.first, until, append([]string{}, k.answer.kept.Complete.Behind...), int64(k.total.Clicks), int64(k.total.Bots),
			packLinks(k.ids), k.answer.names)
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
		t, err := readGroupTable(ctx, k.tx, k.workspace, q.By, k.first, foreverDay, nil, nil)
		if err != nil {
			return err
		}
		return k.storeTable(ctx, t)
	}
	r, err := k.db.readGroup(ctx, k.tx, k.workspace, &controlplane.LinkGroup{Tags: q.Tags, Domain: q.Domain, Creator: q.Creator}, -1)
	if err != nil {
		return err
	}
	k.groupReader = r
	return k.countGroup(ctx, unpackLinks(old))
}

// storeTable stores a table.
func (k *keeping) storeTable(ctx context.Context, t *groupTable) (err error) {
	if k.answer.names, err = json.Marshal(t.links); err != nil {
		return err
	}
	if _, err := k.tx.Exec(ctx, `DELETE FROM stats_answer_day WHERE question_id = $1`, k.question); err != nil {
		return err
	}
	for n, d := range t.days {
		names, err := json.Marshal(d.names)
		if err != nil {
			return err
		}
		if _, err := k.tx.Exec(ctx, `
			INSERT INTO stats_answer_day (question_id, workspace_id, day, workspace_clicks, clicks, bot_clicks,
				quarters, breakdown, visitors, top, names)
			VALUES ($2, $1, date '1970-01-01' + $3::integer, $4, 0, 0, '', '', '', '', $5)`,
			k.workspace, k.question, n, d.workspace, names); err != nil {
			return err
		}
	}
	return nil
}

// selectChanged selects the days from $2 on that have clicks of the workspace, or had
// when they were counted, with these clicks, and whether they are to be counted again:
// because the clicks are not as many as then, because links with clicks, $4, have left
// the group, or because some of these were purged since, and none knows their days.
var selectChanged = `
SELECT coalesce(w.day, d.day) - date '1970-01-01', coalesce(w.clicks, 0), d.workspace_clicks IS DISTINCT FROM w.clicks
	OR coalesce(w.day, d.day) IN (
		SELECT day FROM click_day WHERE link_id = ANY ($4::bigint[]) AND ` + ofDays + `
		UNION ALL SELECT s.day FROM click_pack k CROSS JOIN LATERAL unnest(k.links, k.days) AS s (link_id, day)
		WHERE ` + scoped.OfWorkspace("k.workspace_id", "$1") + ` AND s.link_id = ANY ($4::bigint[]))
	OR (SELECT count(*) FROM link WHERE id = ANY ($4::bigint[])) < cardinality($4::bigint[])
FROM (SELECT day, least(sum(clicks), 9223372036854775807)::bigint AS clicks FROM (
		SELECT day, clicks FROM click_workspace_day WHERE ` + ofDays + `
		UNION ALL SELECT day, clicks FROM click_workspace_part WHERE ` + ofDays + `) b GROUP BY day) w
FULL JOIN (SELECT day, workspace_clicks FROM stats_answer_day WHERE question_id = $5 AND ` + ofDays + `) d ON d.day = w.day
ORDER BY 1`

// countGroup counts the days of a group again that have changed. To the other days it
// adds the clicks of links that have come.
func (k *keeping) countGroup(ctx context.Context, old []int64) error {
	clicks := make(map[int32]int64) // of the workspace
	var days []int32
	var due []bool
	var day int32
	var n int64
	var changed bool
	rows, _ := k.tx.Query(ctx, selectChanged, k.workspace, k.first, foreverDay, append([]int64{}, without(old, k.ids)...), k.question)
	if _, err := pgx.ForEachRow(rows, []any{&day, &n, &changed}, func() error {
		clicks[day] = n
		days, due = append(days, day), append(due, changed)
		return nil
	}); err != nil {
		return err
	}
	if _, err := k.days(ctx, k.first, k.first); err != nil { // for the total
		return err
	}
	come := k.over(without(k.ids, old))
	for from := 0; from < len(days); {
		to := from + 1 // the run of days that are next to one another, and counted alike
		for to < len(days) && due[to] == due[from] && days[to] == days[to-1]+1 && to-from < daysAtOnce {
			to++
		}
		r := k.groupReader
		if !due[from] {
			r = come
		}
		if len(r.ids) > 0 || due[from] {
			if err := k.storeDays(ctx, r, days[from], days[to-1]+1, clicks, !due[from]); err != nil {
				return err
			}
		}
		from = to
	}
	return nil
}

// foreverDay is a day after all days.
const foreverDay = 1 << 22

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
