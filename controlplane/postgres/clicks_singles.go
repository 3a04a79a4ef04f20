package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost"
)

// singlesAtOnce bounds the rows that one statement deletes.
const singlesAtOnce = 20_000

// selectDetached lists the months that were taken out of click_event and are not dropped
// yet, because they could not be exported, or somebody reads them.
const selectDetached = `
SELECT c.relname FROM pg_class c JOIN pg_class parent ON parent.oid = 'click_event'::regclass AND parent.relnamespace = c.relnamespace
WHERE c.relkind = 'r' AND NOT c.relispartition AND c.relname ~ '^click_event_[0-9]{4}_(0[1-9]|1[0-2])$' ORDER BY 1`

// undefinedTable is PostgreSQL's code for a table that is not there.
const undefinedTable = "42P01"

// deleteSingles deletes the single clicks of links of a workspace, and gives how many there were.
// What is gone when it fails stays gone, so that another try comes farther. Months that were taken out come
// last: one that is taken out meanwhile is among them.
func (db *DB) deleteSingles(ctx context.Context, as scope, ws waypost.WorkspaceID, links []int64) (gone int64, err error) {
	if gone, err = db.deleteSinglesOf(ctx, as, "click_event", ws, links); err != nil {
		return gone, err
	}
	var months []string
	if err := db.queryIn(ctx, as, selectDetached, nil, collect(&months)); err != nil {
		return gone, err
	}
	for _, month := range months {
		n, err := db.deleteSinglesOf(ctx, as, pgx.Identifier{month}.Sanitize(), ws, links)
		gone += n
		if err != nil && pgCode(err) != undefinedTable { // it was dropped
			return gone, err
		}
	}
	return gone, nil
}

// deleteSinglesOf deletes those in a table, the oldest of a link first, in steps that end within
// a statement's time however many there are. A step ends with the time of the last of the link's
// first clicks; each partition is read by its index, in order.
func (db *DB) deleteSinglesOf(ctx context.Context, as scope, table string, ws waypost.WorkspaceID, links []int64) (gone int64, err error) {
	var clicked []int64
	if err := db.queryIn(ctx, as, `
		SELECT id FROM unnest($2::bigint[]) id WHERE EXISTS (SELECT FROM `+table+` WHERE `+ofWorkspace("workspace_id", "$1")+` AND link_id = id)`,
		[]any{ws, links}, collect(&clicked)); err != nil {
		return 0, err
	}
	own := ` FROM ` + table + ` WHERE ` + ofWorkspace("workspace_id", "$1") + ` AND link_id = $2`
	for _, link := range clicked {
		for {
			var end *time.Time
			if err := db.queryRowIn(ctx, as, `SELECT max(at) FROM (SELECT at`+own+` ORDER BY at LIMIT $3) first`, []any{ws, link, singlesAtOnce}, &end); err != nil {
				return gone, err
			}
			if end == nil {
				break
			}
			var n int64
			if err := db.queryRowIn(ctx, as, `WITH gone AS (DELETE`+own+` AND at <= $3 RETURNING clicks) SELECT coalesce(sum(clicks), 0)::bigint FROM gone`,
				[]any{ws, link, *end}, &n); err != nil {
				return gone, err
			}
			gone += n
		}
	}
	return gone, nil
}
