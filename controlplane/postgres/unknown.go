package postgres

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
)

// UnknownStore keeps the addresses that visitors asked for and that name no link. It
// implements controlplane.UnknownStore.
type UnknownStore struct{ pool *pool }

// Addresses that are kept of a domain and day. When there are maxUnknown, all but the
// first keptOfDay go: those that the most visitors asked for, then those with the most
// visits. Among addresses of as few visitors chance decides, because an attacker makes as
// many visits as he likes.
const (
	keptOfDay  = 2000
	maxUnknown = 2500
)

const (
	// unknownLock is the advisory lock under which reports are counted, one after the other.
	unknownLock = 7309

	noteUnknownReport = `
		INSERT INTO unknown_report AS r (node, boot, seq) VALUES ($1, $2, $3)
		ON CONFLICT (node, boot) DO UPDATE SET seq = excluded.seq, received_at = now() WHERE r.seq < excluded.seq`

	// A clock may be wrong, and a report late.
	addUnknown = `
		INSERT INTO unknown_address AS u (domain_id, day, kind, path, workspace_id, people, bots, visitors)
		SELECT n.domain_id, '1970-01-01'::date + n.day, n.kind, n.path, coalesce(d.workspace_id, $8), n.people, n.bots, n.visitors::bigint[]
		FROM unnest($1::integer[], $2::integer[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[])
		     AS n (domain_id, day, kind, path, people, bots, visitors)
		     JOIN domain d ON d.id = n.domain_id AND NOT d.retired
		WHERE '1970-01-01'::date + n.day BETWEEN (now() - $9::interval)::date - 1 AND now()::date + 1
		ON CONFLICT (domain_id, day, path, kind) DO UPDATE SET people = u.people + excluded.people, bots = u.bots + excluded.bots,
			visitors = ARRAY(SELECT v FROM unnest(u.visitors || excluded.visitors) WITH ORDINALITY AS a (v, n) GROUP BY v ORDER BY min(n) LIMIT $10)`

	trimUnknown = `
		DELETE FROM unknown_address u USING (
			SELECT domain_id, day, path, kind, row_number() OVER (PARTITION BY domain_id, day ORDER BY
				cardinality(visitors) DESC, CASE WHEN cardinality(visitors) = $5 THEN people END DESC, random()) AS place
			FROM unknown_address WHERE (domain_id, day) IN (
				SELECT domain_id, day FROM unknown_address
				WHERE (domain_id, day) IN (SELECT domain_id, '1970-01-01'::date + day FROM unnest($1::integer[], $2::integer[]) AS n (domain_id, day))
				GROUP BY 1, 2 HAVING count(*) >= $3)) s
		WHERE s.place > $4 AND u.domain_id = s.domain_id AND u.day = s.day AND u.path = s.path AND u.kind = s.kind`
)

func (db *UnknownStore) CountUnknown(ctx context.Context, r *controlplane.UnknownReport) error {
	var domains, days []int32
	var kinds []int16
	var paths, visitors []string
	var people, bots []int64
	for _, a := range r.Addresses {
		domains, days, kinds = append(domains, int32(a.Domain)), append(days, a.Day), append(kinds, int16(a.Kind))
		paths, people, bots = append(paths, a.Path), append(people, a.People), append(bots, a.Bots)
		numbers := make([]string, len(a.Visitors))
		for i, v := range a.Visitors {
			numbers[i] = strconv.FormatInt(int64(v), 10)
		}
		visitors = append(visitors, "{"+strings.Join(numbers, ",")+"}")
	}
	return db.pool.Within(ctx, scoped.Ingest, "count unknown addresses", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, 1)`, unknownLock); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, noteUnknownReport, r.Node, r.Boot, r.Seq)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, addUnknown, domains, days, kinds, paths, people, bots, visitors,
			waypost.DefaultWorkspace, keptUnknown, waypost.UnknownVisitors); err != nil {
			return err
		}
		return scoped.Exec(ctx, tx, trimUnknown, domains, days, maxUnknown, keptOfDay, waypost.UnknownVisitors)
	})
}

func (db *UnknownStore) Unknown(ctx context.Context, q *controlplane.UnknownQuery) (all []api.UnknownAddress, err error) {
	err = db.pool.QueryIn(ctx, scoped.TenantOf(q.Workspace), `
		SELECT u.path, u.kind, sum(u.people)::bigint, sum(u.bots)::bigint, array_agg(u.day ORDER BY u.day),
		       array_agg(u.people ORDER BY u.day), array_agg(u.bots ORDER BY u.day)
		FROM unknown_address u
		WHERE `+scoped.OfWorkspace("u.workspace_id", "$1")+` AND u.domain_id = $2 AND u.day BETWEEN $3 AND $4 AND cardinality(u.visitors) >= $5
		      AND NOT EXISTS (SELECT FROM link l WHERE l.domain_id = $2 AND l.code = u.path AND l.deleted_at IS NULL)
		      AND NOT EXISTS (SELECT FROM link_alias a WHERE a.domain_id = $2 AND a.code = u.path)
		      AND NOT EXISTS (SELECT FROM generate_series(1, cardinality(string_to_array(u.path, '/')) - 1) n
		            JOIN link l ON l.domain_id = $2 AND l.code = array_to_string((string_to_array(u.path, '/'))[:n], '/')
		            WHERE l.forward_path AND l.deleted_at IS NULL)
		GROUP BY u.path, u.kind ORDER BY 3 DESC, 1 LIMIT $6`,
		[]any{q.Workspace, q.Domain, q.From, q.To, waypost.UnknownVisitors, q.Limit},
		scoped.CollectWith(&all, func(row pgx.CollectableRow) (a api.UnknownAddress, err error) {
			var days []time.Time
			var people, bots []int64
			var kind waypost.UnknownKind
			if err = row.Scan(&a.Path, &kind, &a.People, &a.Bots, &days, &people, &bots); err != nil {
				return a, err
			}
			a.Pattern = kind == waypost.LedByPattern
			for i, day := range days {
				a.Days = append(a.Days, api.UnknownDay{Day: day.Format(time.DateOnly), People: people[i], Bots: bots[i]})
			}
			return a, nil
		}))
	return all, scoped.Classify("read unknown addresses", err)
}

// forgetUnknown removes old days, and addresses of a day that is over that too few
// visitors asked for.
func (db *UnknownStore) forgetUnknown(ctx context.Context) error {
	for _, sql := range []string{
		`DELETE FROM unknown_address WHERE day < (now() - $1::interval)::date
			OR day < (now() - $2::interval)::date AND cardinality(visitors) < ` + strconv.Itoa(waypost.UnknownVisitors),
		`DELETE FROM unknown_report WHERE received_at < now() - $2::interval AND $1::interval IS NOT NULL`,
	} {
		if _, err := db.pool.ExecIn(ctx, scoped.Ingest, sql, controlplane.UnknownDays*24*time.Hour, keptUnknown); err != nil {
			return scoped.Classify("forget unknown addresses", err)
		}
	}
	return nil
}
