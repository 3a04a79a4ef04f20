package postgres

import "context"

// forgottenAtOnce bounds one statement of forgetClickBatches.
const forgottenAtOnce = 10_000

// forgetClickBatches removes what is known of batches that were taken more than a
// day ago. Their clicks stay counted, and by the watermark they are still known as
// counted when they are sent again; only another batch under the same identity is
// then no longer told apart from them.
func (db *DB) forgetClickBatches(ctx context.Context) error {
	for {
		n, err := db.execIn(ctx, ingest, `
			DELETE FROM click_batch WHERE (node, boot, seq) IN (
				SELECT node, boot, seq FROM click_batch WHERE received_at < now() - interval '24 hours'
				ORDER BY received_at LIMIT $1 FOR UPDATE SKIP LOCKED)`, forgottenAtOnce)
		if err != nil {
			return classify("forget batches of clicks", err)
		}
		if n < forgottenAtOnce {
			return nil
		}
	}
}
