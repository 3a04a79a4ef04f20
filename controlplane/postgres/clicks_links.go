package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
)

// target is the link that clicks are of. No link has the id 0.
type target struct{ link, workspace int64 }

// findLinks looks codes up, all at once, each by the index: as a join the
// planner would rather read all links. Links that were deleted are found, too: their edges
// did redirect.
const findLinks = `
SELECT s.place - 1, l.id, l.workspace_id
FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS s (domain_id, code, place)
CROSS JOIN LATERAL (SELECT id, workspace_id FROM link WHERE domain_id = s.domain_id AND code = s.code LIMIT 1) l`

// planLookups is for transactions with large arrays: more time, and nothing is compiled
// that runs for less time than that takes.
const planLookups = `SELECT set_config('statement_timeout', $1, true), set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true)`

// targetsOf gives the target of each of the batch's links, zero where a code names none. Most
// are remembered. Ids are given away again only by a database that was restored from a backup,
// and then the highest first: so the highest that was remembered is looked up again, and when it
// is another's, nothing that is remembered counts.
func (db *DB) targetsOf(ctx context.Context, b *waypost.ClickBatch) ([]target, error) {
	targets := make([]target, len(b.Links))
	now := time.Now()
	asked, newest := db.links.find(b.Links, targets, now)
	var remembered target
	if newest >= 0 {
		remembered = targets[newest]
		asked = append(asked, newest)
	}
	if err := db.findTargets(ctx, b, asked, targets); err != nil {
		return nil, err
	}
	if newest >= 0 && targets[newest] != remembered {
		db.links.forget()
		clear(targets)
		asked, _ = db.links.find(b.Links, targets, now)
		if err := db.findTargets(ctx, b, asked, targets); err != nil {
			return nil, err
		}
	}
	db.links.remember(b.Links, targets, asked, now)
	return targets, nil
}

// findTargets looks some of the batch's links up, in the order of the index, so that each of its
// pages is read once.
func (db *DB) findTargets(ctx context.Context, b *waypost.ClickBatch, asked []int, targets []target) error {
	if len(asked) == 0 {
		return nil
	}
	slices.SortFunc(asked, func(i, j int) int {
		return cmp.Or(cmp.Compare(b.Links[i].Domain, b.Links[j].Domain), cmp.Compare(b.Links[i].Code, b.Links[j].Code))
	})
	domains, codes := make([]int64, len(asked)), make([]string, len(asked))
	for k, i := range asked {
		domains[k], codes[k] = int64(b.Links[i].Domain), string(b.Links[i].Code)
		targets[i] = target{}
	}
	var q pgx.Batch
	ingest.first(&q)
	q.Queue(planLookups, ingestTimeLimit)
	q.Queue(findLinks, domains, codes).Query(func(rows pgx.Rows) error {
		var place int64
		var t target
		for rows.Next() {
			if err := rows.Scan(&place, &t.link, &t.workspace); err != nil {
				return err
			}
			targets[asked[place]] = t
		}
		return rows.Err()
	})
	return classify("find the links of clicks", db.pool.SendBatch(ctx, &q).Close())
}
