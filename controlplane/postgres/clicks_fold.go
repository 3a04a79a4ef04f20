package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane/rollup"
	"waypost/internal/failpoint"
)

// takeParts removes the first rows of an area, and gives them: one at least, and no more
// once there are so many parts, or bytes of them.
const takeParts = `
DELETE FROM click_pack WHERE ctid = ANY (ARRAY(
	SELECT place FROM (
		SELECT place, sum(parts) OVER earlier - parts AS before, sum(size) OVER earlier - size AS bytes FROM (
			SELECT ctid AS place, area, cardinality(links) AS parts, pg_column_size(details) AS size FROM click_pack
			WHERE workspace_id = $1 AND area >= $2 AND area < $3
			ORDER BY area LIMIT $4) first
		WINDOW earlier AS (ORDER BY area, place)) sized
	WHERE before < $4 AND bytes < $5))
RETURNING area, links, days, clicks, bot_clicks, newest, details`

// linkDay names a day of a link, or of the workspace as link 0.
type linkDay struct {
	link int64
	day  int32
}

func (k linkDay) compare(o linkDay) int {
	return cmp.Or(cmp.Compare(k.link, o.link), cmp.Compare(k.day, o.day))
}

// linkSum is what parts add to a link's counters.
type linkSum struct {
	count rollup.Count
	last  time.Time
}

// brokenPiece is what could not be read.
type brokenPiece struct {
	linkDay
	what, reason string
	body         []byte
}

// folding is the parts of one round, added up.
type folding struct {
	workspace int64
	links     map[int64]*linkSum
	days      map[linkDay]*rollup.Day
	counted   *dayColumns // of links, with all their clicks
	broken    []brokenPiece
	kept      int // of broken, that are set aside
}

// foldArea folds the first parts of the area that f is at.
func (db *DB) foldArea(ctx context.Context, tx pgx.Tx, cfg RollerConfig, f *fold) error {
	in := &folding{workspace: f.at.workspace, links: make(map[int64]*linkSum), days: make(map[linkDay]*rollup.Day)}
	newest, err := in.take(ctx, tx, cfg, f)
	if err != nil {
		return err
	}
	// What the limits cut off comes next. Links that alone fill a round wait until the
	// others had their turn.
	switch {
	case newest == f.at.link && f.parts > 0:
		f.next = place{f.at.workspace, newest + 1}
	case f.parts > 0:
		f.next = place{f.at.workspace, newest}
	}
	if err := in.store(ctx, tx, linkRollups, in.days); err != nil {
		return err
	}
	failpoint.Hit("fold clicks: links")
	// The workspace's rows come last, since rollers in other areas of it wait for them.
	sums := make(map[linkDay]*rollup.Day)
	for k, day := range in.days {
		k.link = 0
		if sums[k] == nil {
			sums[k] = &rollup.Day{}
		}
		sums[k].Merge(day)
	}
	if err := in.store(ctx, tx, workspaceRollups, sums); err != nil {
		return err
	}
	if err := in.storeTops(ctx, tx, db.log); err != nil {
		return err
	}
	f.broken = len(in.broken)
	for _, b := range in.broken {
		db.log.Error("clicks cannot be told apart: what was kept of them is unreadable and was set aside; they stay counted",
			"what", b.what, "workspace", in.workspace, "link", b.link, "day", midnight(b.day).Format(time.DateOnly), "error", b.reason)
	}
	return nil
}

// take removes parts and adds them up. It gives the last area that it has met.
func (in *folding) take(ctx context.Context, tx pgx.Tx, cfg RollerConfig, f *fold) (newest int64, err error) {
	end := f.at.next().link
	if f.at.next().workspace != f.at.workspace {
		end = 1<<63 - 1
	}
	rows, err := tx.Query(ctx, takeParts, f.at.workspace, f.at.link, end, cfg.Parts, cfg.Bytes)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	bytes := 0
	for rows.Next() {
		var area int64
		var p pack
		if err := rows.Scan(&area, &p.links, &p.days, &p.clicks, &p.bots, &p.newest, &p.details); err != nil {
			return 0, err
		}
		newest = max(newest, area)
		f.parts += len(p.links)
		for i := range p.links {
			bytes += len(p.details[i])
			count := countOf(p.clicks[i], p.bots[i])
			f.clicks += count.Clicks
			in.add(linkDay{p.links[i], int32(p.days[i].Unix() / secondsOfDay)}, count, p.newest[i], p.details[i])
		}
	}
	f.full = f.parts >= cfg.Parts || bytes >= cfg.Bytes
	return newest, rows.Err()
}

func (in *folding) add(k linkDay, count rollup.Count, last time.Time, detail []byte) {
	sum := in.links[k.link]
	if sum == nil {
		sum = &linkSum{}
		in.links[k.link] = sum
	}
	sum.count.Add(count)
	if last.After(sum.last) {
		sum.last = last
	}
	day := in.days[k]
	if day == nil {
		day = &rollup.Day{}
		in.days[k] = day
	}
	if err := foldPart(day, detail, count, last.UTC().Hour()); err != nil {
		in.broken = append(in.broken, brokenPiece{linkDay: k, what: "part", reason: err.Error(), body: detail})
	}
}
