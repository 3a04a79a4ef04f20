package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres/scoped"
	"waypost/keyrange"
)

// ChangeRanges implements keys.RangeStore. Creates wait for it as long as for any
// other commit. A dry run does everything and rolls it back.
func (db *KeyRangeStore) ChangeRanges(ctx context.Context, by controlplane.Actor, c api.RangeChange) ([]api.StepDone, error) {
	var done []api.StepDone
	for _, step := range c.Steps {
		if step.Action != keys.ResumeKeys || c.DryRun {
			continue
		}
		if err := db.history.overrule(ctx, step.Gap); err != nil {
			return nil, err
		}
	}
	err := db.pool.change(ctx, "change ranges", func(tx pgx.Tx, _ uint32) error {
		before, err := keySpace(ctx, tx)
		if err != nil {
			return err
		}
		if c.Fingerprint != "" && c.Fingerprint != before.Fingerprint() {
			return waypost.Errorf(waypost.EConflict, "the ranges have changed since the plan was made: make a new one")
		}
		for i, step := range c.Steps {
			one, err := changeRange(ctx, tx, step)
			if err != nil {
				return named(err, i, len(c.Steps))
			}
			done = append(done, one)
			detail := map[string]any{"step": one.Step, "what": one.What, "fenced": one.Fenced}
			if err := scoped.NoteAct(ctx, tx, by, "ranges."+step.Action, subjectOf(&one), detail); err != nil {
				return err
			}
		}
		after, err := keySpace(ctx, tx)
		if err != nil {
			return err
		}
		show(done, after.Ranges)
		if c.DryRun {
			return errDryRun
		}
		return nil
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	if !c.DryRun {
		if err := db.history.WatchOnce(ctx); err != nil {
			db.pool.Log.Warn("cannot remember a change of the ranges yet, will try again", "error", err)
		}
	}
	return done, nil
}

// errDryRun rolls back the transaction of a dry run.
var errDryRun = waypost.Errorf(waypost.EInternal, "a dry run")

// named says which of several steps could not be done.
func named(err error, i, steps int) error {
	e, ok := errors.AsType[*waypost.Error](err)
	if !ok || steps == 1 {
		return err
	}
	return waypost.Errorf(e.Code, "step %d: %s", i+1, e.Message)
}

// subjectOf names the range that a step made or changed.
func subjectOf(done *api.StepDone) string {
	if len(done.Ranges) == 0 {
		return "key ranges"
	}
	return fmt.Sprintf("range %d", done.Ranges[0].ID)
}

// touched returns the ranges that a step has touched, which show fills in.
func touched(ids ...int64) []api.Range {
	all := make([]api.Range, len(ids))
	for i, id := range ids {
		all[i].ID = id
	}
	return all
}

// show fills in the final state of the touched ranges.
func show(done []api.StepDone, after []keys.Range) {
	for i := range done {
		for j := range done[i].Ranges {
			if k := slices.IndexFunc(after, func(r keys.Range) bool { return r.ID == done[i].Ranges[j].ID }); k >= 0 {
				done[i].Ranges[j] = after[k].Range
			}
		}
	}
}

func changeRange(ctx context.Context, tx pgx.Tx, s api.RangeStep) (api.StepDone, error) {
	switch s.Action {
	case keys.AssignPrefix:
		return stepAssign(ctx, tx, s)
	case keys.ResumeKeys:
		return stepResume(ctx, tx, s)
	case keys.SplitRange, keys.MoveRange, keys.DrainRange, keys.ReviveRange, keys.RetireRange:
	default:
		return api.StepDone{}, waypost.Errorf(waypost.EInvalid, "%q is nothing that can be done to a range", s.Action)
	}
	var r keys.Range
	err := tx.QueryRow(ctx, `SELECT id, prefix, lo, hi, next, region, state, generation FROM key_range WHERE id = $1`, s.Range).
		Scan(&r.ID, &r.Ordinal, &r.Lo, &r.Hi, &r.Next, &r.Region, &r.State, &r.Generation)
	if err = scoped.IfNoRow(err, waypost.Errorf(waypost.ENotFound, "there is no range %d", s.Range)); err != nil {
		return api.StepDone{}, err
	}
	if r.State == keys.RangeRetired {
		return api.StepDone{}, waypost.Errorf(waypost.EConflict, "range %d is retired, which cannot be undone", r.ID)
	}
	switch s.Action {
	case keys.SplitRange:
		return stepSplit(ctx, tx, s, r)
	case keys.MoveRange:
		return stepMove(ctx, tx, s, r)
	case keys.RetireRange:
		return stepRetire(ctx, tx, s, r)
	}
	return stepState(ctx, tx, s, r)
}

func stepAssign(ctx context.Context, tx pgx.Tx, s api.RangeStep) (done api.StepDone, err error) {
	if _, err := waypost.ParseRegion(s.Region); err != nil {
		return done, err
	}
	var wanted *int32
	if s.Prefix != "" {
		ordinal, err := prefixOrdinal(ctx, tx, s.Prefix)
		if err != nil {
			return done, err
		}
		wanted = &ordinal
	}
	note, err := firstRange(ctx, tx, s.Region)
	if err != nil {
		return done, err
	}
	id, err := assignPrefix(ctx, tx, waypost.Region(s.Region), wanted)
	if waypost.CodeOf(err) == waypost.EExhausted && wanted != nil {
		return done, waypost.Errorf(waypost.EConflict, "prefix %s is not free: a prefix that was ever used is never assigned again", s.Prefix)
	}
	if err != nil {
		return done, err
	}
	return api.StepDone{
		Step: s, What: fmt.Sprintf("region %s gets a new prefix as range %d%s", s.Region, id, note), Ranges: touched(id),
	}, nil
}

// firstRange is a remark on a region that never had a range, which may be a
// misspelt one: regions are declared nowhere else. It is "" for all others.
func firstRange(ctx context.Context, tx pgx.Tx, region string) (string, error) {
	var known bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM key_range WHERE region = $1)`, region).Scan(&known)
	if err != nil || known {
		return "", err
	}
	return fmt.Sprintf("; %s had no range before", region), nil
}

// prefixOrdinal reads a prefix as codes begin with it.
func prefixOrdinal(ctx context.Context, tx pgx.Tx, text string) (int32, error) {
	var codeLength, prefixLength int
	if err := tx.QueryRow(ctx, `SELECT code_length, prefix_length FROM cluster`).Scan(&codeLength, &prefixLength); err != nil {
		return 0, err
	}
	space, err := keyrange.NewSpace(codeLength, prefixLength)
	if err != nil {
		return 0, err
	}
	ordinal, _, ok := space.Split(waypost.Code(text + strings.Repeat("0", codeLength-prefixLength)))
	if !ok {
		return 0, waypost.Errorf(waypost.EInvalid, "%q is no prefix of this cluster: they have %d characters of 0-9A-Za-z", text, prefixLength)
	}
	return int32(ordinal), nil
}

// cut ends a range at a counter and makes the rest a range of its own.
func cut(ctx context.Context, tx pgx.Tx, r keys.Range, at int64, region string) (rest int64, err error) {
	if r.Next >= r.Hi {
		return 0, waypost.Errorf(waypost.EConflict, "range %d has nothing that is not leased", r.ID)
	}
	if at < r.Next || at <= r.Lo || at >= r.Hi {
		return 0, waypost.Errorf(waypost.EConflict, "range %d can be cut between counters %d and %d: what lies before is leased already",
			r.ID, max(r.Next, r.Lo+1), r.Hi-1)
	}
	if _, err := tx.Exec(ctx, `UPDATE key_range SET hi = $2 WHERE id = $1`, r.ID, at); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `
		INSERT INTO key_range (prefix, lo, hi, next, region, state) VALUES ($1, $2, $3, $2, $4, $5) RETURNING id`,
		r.Ordinal, at, r.Hi, region, r.State).Scan(&rest)
	return rest, err
}

func stepSplit(ctx context.Context, tx pgx.Tx, s api.RangeStep, r keys.Range) (done api.StepDone, err error) {
	if s.At == 0 {
		s.At = r.Next + (r.Hi-r.Next)/2
	}
	rest, err := cut(ctx, tx, r, s.At, r.Region)
	if err != nil {
		return done, err
	}
	return api.StepDone{
		Step: s, What: fmt.Sprintf("range %d ends at counter %d, what follows is range %d", r.ID, s.At, rest),
		Ranges: touched(r.ID, rest),
	}, nil
}

// stepMove assigns all of a range to a region, which fences its leases, or its counters
// from At on, which fences none and is refused if leases are in the way.
func stepMove(ctx context.Context, tx pgx.Tx, s api.RangeStep, r keys.Range) (done api.StepDone, err error) {
	if _, err := waypost.ParseRegion(s.Region); err != nil {
		return done, err
	}
	if s.Region == r.Region {
		return done, waypost.Errorf(waypost.EConflict, "range %d is region %s's already", r.ID, r.Region)
	}
	note, err := firstRange(ctx, tx, s.Region)
	if err != nil {
		return done, err
	}
	if s.Remainder && s.At == 0 {
		s.At = r.Next
	}
	fresh := s.At == r.Lo && r.Next == r.Lo
	if s.At != 0 && !fresh {
		rest, err := cut(ctx, tx, r, s.At, s.Region)
		if err != nil {
			return done, err
		}
		return api.StepDone{
			Step: s, What: fmt.Sprintf("%d counters of range %d go from region %s to %s as range %d%s", r.Hi-s.At, r.ID, r.Region, s.Region,
				rest, note),
			Ranges: touched(rest, r.ID),
		}, nil
	}
	tag, err := tx.Exec(ctx, `UPDATE key_lease SET state = 'burned' WHERE range_id = $1 AND state = 'held'`, r.ID)
	if err != nil {
		return done, err
	}
	if _, err := tx.Exec(ctx, `UPDATE key_lease SET region = $2, generation = $3 + 1 WHERE range_id = $1 AND state = 'free'
		AND generation = $3`, r.ID, s.Region, r.Generation); err != nil {
		return done, err
	}
	if _, err := tx.Exec(ctx, `UPDATE key_range SET region = $2, generation = generation + 1 WHERE id = $1`, r.ID, s.Region); err != nil {
		return done, err
	}
	return api.StepDone{
		Step: s, What: fmt.Sprintf("range %d goes from region %s to %s%s", r.ID, r.Region, s.Region, note),
		Ranges: touched(r.ID), Fenced: int(tag.RowsAffected()),
	}, nil
}

func stepState(ctx context.Context, tx pgx.Tx, s api.RangeStep, r keys.Range) (done api.StepDone, err error) {
	to, what := keys.RangeDraining, "nothing more is leased from range %d"
	if s.Action == keys.ReviveRange {
		to, what = keys.RangeLive, "range %d is live again"
	}
	if r.State == to {
		return done, waypost.Errorf(waypost.EConflict, "range %d is %s already", r.ID, to)
	}
	if _, err := tx.Exec(ctx, `UPDATE key_range SET state = $2 WHERE id = $1`, r.ID, to); err != nil {
		return done, err
	}
	return api.StepDone{Step: s, What: fmt.Sprintf(what, r.ID), Ranges: touched(r.ID)}, nil
}

func stepRetire(ctx context.Context, tx pgx.Tx, s api.RangeStep, r keys.Range) (done api.StepDone, err error) {
	if r.State == keys.RangeLive && !s.Force {
		return done, waypost.Errorf(waypost.EConflict, "range %d is live: drain it first, or retire it by force", r.ID)
	}
	var held int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM key_lease WHERE range_id = $1 AND state = 'held'`, r.ID).Scan(&held); err != nil {
		return done, err
	}
	if held > 0 && !s.Force {
		return done, waypost.Errorf(waypost.EConflict, "range %d has %d leases that are held: drain it and wait, or retire it by force",
			r.ID, held)
	}
	if _, err := tx.Exec(ctx, `UPDATE key_lease SET state = 'burned' WHERE range_id = $1 AND state IN ('held', 'free')`, r.ID); err != nil {
		return done, err
	}
	if _, err := tx.Exec(ctx, `UPDATE key_range SET state = 'retired', generation = generation + 1 WHERE id = $1`, r.ID); err != nil {
		return done, err
	}
	return api.StepDone{
		Step: s, What: fmt.Sprintf("range %d is retired, %d counters are never issued", r.ID, r.Hi-r.Next),
		Ranges: touched(r.ID), Fenced: held,
	}, nil
}

// stepResume is the operator's word that keys may be issued again.
func stepResume(ctx context.Context, tx pgx.Tx, s api.RangeStep) (done api.StepDone, err error) {
	var held string
	var gap, size int64
	if err := tx.QueryRow(ctx, `SELECT held, gap, key_prefix_size() FROM key_state`).Scan(&held, &gap, &size); err != nil {
		return done, err
	}
	if held == "" {
		return done, waypost.Errorf(waypost.EConflict, "nothing is held back: keys are being issued")
	}
	switch {
	case s.Gap != nil:
		gap = *s.Gap
	case gap > size/10:
		return done, waypost.Errorf(waypost.EConflict, "say by how many counters every prefix skips: the most keys that can have been issued in one prefix since the backup was made (%d by the peak rate, of %d in a prefix)", gap, size)
	}
	if gap < 0 || gap > size {
		return done, waypost.Errorf(waypost.EInvalid, "the gap must be 0 to %d", size)
	}
	if _, err := tx.Exec(ctx, `SELECT key_skip($1)`, gap); err != nil {
		return done, err
	}
	if _, err := tx.Exec(ctx, `UPDATE key_state SET held = '', held_since = NULL, gap = 0`); err != nil {
		return done, err
	}
	s.Gap = &gap
	return api.StepDone{Step: s, What: fmt.Sprintf("keys are issued again, and every prefix skips %d counters", gap), Ranges: touched()}, nil
}
