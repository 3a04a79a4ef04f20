package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/internal/linkfile"
)

// maxPasswords bounds the rows with passwords of a step, because each takes the work of a
// sign-in.
const maxPasswords = controlplane.MaxBulkPasswords

// batch is the rows of a step, and the links that they ask for.
type batch struct {
	rows    []linkfile.Row
	links   []controlplane.NewLink
	places  []int // of the links among the rows
	refused map[int]string
	news    []bool // by place: a row with a code gets another one
	checked *controlplane.Checked
}

// makeBatch maps rows to links, up to the row with one password too many.
func (w *work) makeBatch(rows []linkfile.Row, mapper, suggested *linkfile.Mapper) (*batch, error) {
	b := &batch{rows: rows, refused: make(map[int]string), news: make([]bool, len(rows))}
	passwords := 0
	for n, row := range rows {
		l, err := mapper.Link(row)
		if err == nil && l.Password != "" {
			if passwords++; passwords > maxPasswords {
				b.rows = rows[:n]
				break
			}
		}
		if err != nil {
			b.refused[n] = err.Error() // in words for people
			continue
		}
		link, err := w.newLink(row.Line, &l)
		switch waypost.CodeOf(err) {
		case "":
		case waypost.EInternal, waypost.EUnavailable:
			return nil, err
		default:
			b.refused[n] = waypost.MessageOf(err)
			continue
		}
		if suggested != nil && l.CustomCode == "" {
			printed, err := suggested.Link(row)
			b.news[n] = err == nil && printed.CustomCode != ""
		}
		b.links, b.places = append(b.links, link), append(b.places, n)
	}
	return b, nil
}

func (w *work) newLink(line int, l *linkfile.Link) (n controlplane.NewLink, err error) {
	if n, err = w.Link(&l.NewLink); err != nil {
		return n, err
	}
	if n.Dedupe == nil {
		n.Dedupe = &w.i.Dedupe
	}
	if n.CreatedBy == "" {
		n.CreatedBy = fmt.Sprintf("import %s, line %d", w.i.Name, line)
	}
	n.Import = &controlplane.Imported{CreatedAt: l.CreatedAt, PasswordHash: l.PasswordHash}
	for _, a := range l.Aliases {
		n.Aliases = append(n.Aliases, controlplane.NewAlias{Domain: a.Domain, Code: a.ShortCode, Title: a.Title, Print: waypost.Print(a.Print)})
	}
	return n, nil
}

// settle returns the outcomes of all rows, and adds them to counts.
func (b *batch) settle(all []controlplane.Outcome, counts *Counts) *outcomes {
	o := &outcomes{Rows: len(b.rows), Refused: maps.Clone(b.refused)} // a step may be settled again
	for n := range all {
		place := b.places[n]
		switch x := &all[n]; {
		case x.Err != nil:
			o.Refused[place] = waypost.MessageOf(x.Err)
		case x.Found:
			counts.Found++
		default:
			counts.Created++
			o.Made = append(o.Made, x.Link.ID)
			if b.news[place] {
				counts.NewCodes++
			}
		}
	}
	counts.Refused += int64(len(o.Refused))
	if len(counts.Refusals) < maxRefusals {
		for _, place := range slices.Sorted(maps.Keys(o.Refused)) {
			counts.Refusals = append(counts.Refusals, api.ImportRefusal{Line: b.rows[place].Line, Reason: o.Refused[place]})
		}
		counts.Refusals = counts.Refusals[:min(len(counts.Refusals), maxRefusals)]
	}
	return o
}

// mappers returns the mapper of the import, and the suggested one, by which the rows with
// printed codes are known. Without a mapper the work ends in a state.
func (w *work) mappers(state string) (mapper, suggested *linkfile.Mapper, err error) {
	if mapper, err = w.i.mapper(); err != nil {
		return nil, nil, &stop{state, err.Error()}
	}
	printing := *w.i
	printing.KeepCodes = true
	if printing.Mapping = w.i.Suggested; printing.Mapping.Dates == "" {
		printing.Mapping.Dates = linkfile.ISO
	}
	if suggested, err = printing.mapper(); err != nil {
		return mapper, nil, nil //nolint:nilerr // then no column is known to hold codes
	}
	return mapper, suggested, nil
}

// run creates the links of rows, step by step, for a turn.
func (w *work) run(ctx context.Context) error {
	steps, err := newStepper(w)
	if err != nil {
		return err
	}
	var speed meter
	speed.add(0, w.i)
	defer func() { _, _ = steps.ahead() }()
	for w.i.Next < w.i.Rows {
		if ctx.Err() != nil || time.Now().After(w.until) {
			return ctx.Err()
		}
		most := w.pace.beginStep(ctx, w.i.Most)
		b, err := steps.nextStep(ctx, w.i.Next, most)
		if err == nil {
			speed.add(int64(len(b.rows)), w.i)
			if next := w.i.Next + int64(len(b.rows)); next < w.i.Rows && !b.hasPattern() {
				steps.makeAhead(ctx, next, most)
			}
			err = w.create(ctx, b)
		}
		code := waypost.CodeOf(err)
		switch {
		case err == nil:
			if w.i.Most *= 2; w.i.Most > allRows {
				w.i.Most = 0
			}
		case errors.Is(err, controlplane.ErrSwitching):
			return waypost.Errorf(waypost.EUnavailable, "%s", waypost.MessageOf(err)) // another turn will do
		case b == nil || code != waypost.EInvalid && code != waypost.EConflict:
		case len(b.rows) > 1: // to find the row that the database refuses, in this turn or a later one
			w.i.Most = len(b.rows) / 2
			err = w.Store.SaveImport(ctx, w.i, w.worker, api.ImportRunning)
		default:
			b.links, b.refused[0], w.i.Most = nil, waypost.MessageOf(err), 0
			err = w.create(ctx, b)
		}
		switch {
		case code == waypost.EExhausted:
			return &stop{api.ImportStopped, waypost.MessageOf(err)}
		case err != nil:
			return err
		}
	}
	w.i.Speed = 0
	return w.Store.SaveImport(ctx, w.i, w.worker, api.ImportDone)
}

// stepper makes the batches of a run, each while the one before it is written.
type stepper struct {
	work              // a copy, because the run changes its import
	mapper, suggested *linkfile.Mapper
	from              int64                  // row of the batch that is made ahead
	ahead             func() (*batch, error) // waits for that batch
}

func newStepper(w *work) (s *stepper, err error) {
	i := *w.i
	s = &stepper{work: *w, ahead: noBatch}
	s.i, s.rows.i = &i, &i
	s.mapper, s.suggested, err = s.mappers(api.ImportStopped)
	return s, err
}

func noBatch() (*batch, error) { return nil, nil }

// makeStep makes the batch of up to most rows from a row on.
func (s *stepper) makeStep(ctx context.Context, row int64, most int) (b *batch, err error) {
	defer recoverTo(&err)
	rows, err := s.rows.at(ctx, row, most)
	if err == nil {
		b, err = s.makeBatch(rows, s.mapper, s.suggested)
	}
	if err == nil && len(b.links) > 0 {
		b.checked, err = s.Links.Check(ctx, s.i.By, b.links)
	}
	return b, err
}

// makeAhead begins to make the batch that nextStep is asked for next.
func (s *stepper) makeAhead(ctx context.Context, row int64, most int) {
	var b *batch
	var err error
	made := make(chan struct{})
	go func() {
		defer close(made)
		b, err = s.makeStep(ctx, row, most)
	}()
	s.from, s.ahead = row, func() (*batch, error) { <-made; return b, err }
}

// nextStep returns the batch of up to most rows from a row on.
func (s *stepper) nextStep(ctx context.Context, row int64, most int) (*batch, error) {
	b, err := s.ahead()
	s.ahead = noBatch
	if s.from == row && (err != nil || b != nil && len(b.rows) <= most) {
		return b, err
	}
	return s.makeStep(ctx, row, most)
}

// hasPattern reports whether links of other rows may depend on a link.
func (b *batch) hasPattern() bool {
	return slices.ContainsFunc(b.links, func(n controlplane.NewLink) bool { return waypost.IsPattern(n.CustomCode) })
}

// create makes one step.
func (w *work) create(ctx context.Context, b *batch) error {
	next := *w.i
	step := &controlplane.ImportStep{ID: w.i.ID, Worker: w.worker, From: w.i.Next, To: w.i.Next + int64(len(b.rows))}
	note := func(all []controlplane.Outcome, at waypost.Position) (outcome []byte, err error) {
		next = *w.i
		next.Next = step.To
		o := b.settle(all, &next.Counts)
		o.Epoch, o.Seq = at.Epoch.Ordinal, at.Seq
		if step.Document, err = json.Marshal(&next); err != nil {
			return nil, err
		}
		return pack(o)
	}
	var all []controlplane.Outcome
	if len(b.links) > 0 {
		var err error
		all, err = w.Links.CreateImported(ctx, b.checked, &controlplane.Idempotency{
			Route: "import", Key: w.i.ID, Import: step,
			Respond: func(all []controlplane.Outcome, at waypost.Position) (r controlplane.Response, err error) {
				w.pace.noteCommit(at.Seq, time.Now())
				r.Body, err = note(all, at)
				return r, err
			},
		})
		if err != nil {
			return err
		}
	}
	if !step.Stored {
		outcome, err := note(all, waypost.Position{})
		if err == nil {
			err = w.Store.StepImport(ctx, w.i.Workspace, step, outcome)
		}
		if err != nil {
			return err
		}
	}
	*w.i = next
	return nil
}

// maxSeen bounds the codes and targets that a dry run holds in memory, at some 40 bytes.
const maxSeen = 2_000_000

// check counts what a run would do now, in one turn.
func (w *work) check(ctx context.Context) error {
	var speed meter
	var counts Counts
	saved := time.Now()
	err := w.tryAll(ctx, &counts, func(b *batch, _ *outcomes) error {
		speed.add(int64(len(b.rows)), w.i)
		if time.Since(saved) < time.Second {
			return nil
		}
		saved, w.i.Checked = time.Now(), &counts
		return w.Store.SaveImport(ctx, w.i, w.worker, api.ImportChecking)
	})
	if err != nil {
		return err
	}
	w.i.Next, w.i.Checked, w.i.Speed = 0, &counts, 0
	return w.Store.SaveImport(ctx, w.i, w.worker, api.ImportReady)
}

// tryAll adds the outcomes that all rows would have now to counts, and calls each with
// those of some rows after the other.
func (w *work) tryAll(ctx context.Context, counts *Counts, each func(*batch, *outcomes) error) error {
	mapper, suggested, err := w.mappers(api.ImportReady)
	if err != nil {
		return err
	}
	seen := &seenRows{seed: maphash.MakeSeed(), all: make(map[uint64]struct{})}
	for w.i.Next = 0; w.i.Next < w.i.Rows; {
		rows, err := w.rows.at(ctx, w.i.Next, allRows)
		if err != nil {
			return err
		}
		b, err := w.makeBatch(rows, mapper, suggested)
		if err != nil {
			return err
		}
		o, err := w.try(ctx, b, seen, counts)
		if err != nil {
			return err
		}
		w.i.Next += int64(len(b.rows))
		if err := each(b, o); err != nil {
			return err
		}
	}
	return nil
}

// try returns the outcomes that rows would have, and adds them to counts.
func (w *work) try(ctx context.Context, b *batch, seen *seenRows, counts *Counts) (*outcomes, error) {
	var all []controlplane.Outcome
	if len(b.links) > 0 {
		var err error
		if all, err = w.Links.DryRun(ctx, w.i.By, b.links); err != nil {
			return nil, err
		}
	}
	for n := range all {
		l := &all[n].Link
		if all[n].Err != nil || all[n].Found {
			continue
		}
		again, same := seen.of(l)
		i := slices.IndexFunc(l.Aliases, func(a waypost.Alias) bool { return seen.has(nameOf(a.Domain, a.Key())) })
		switch {
		case again && same && *b.links[n].Dedupe:
			all[n].Found = true
		case l.Custom && seen.has(aliasOf(l.Domain, l.Key())):
			all[n].Err = controlplane.PlacementError(l.Code, controlplane.Aliased)
		case i >= 0:
			all[n].Err = controlplane.PlacementError(l.Aliases[i].Code, controlplane.AliasTaken)
		case again && l.Custom:
			all[n].Err = controlplane.PlacementError(l.Code, controlplane.Taken)
		default:
			seen.add(l)
		}
	}
	return b.settle(all, counts), nil
}

// seenRows remembers the codes, aliases and targets of earlier rows.
type seenRows struct {
	seed maphash.Seed
	all  map[uint64]struct{}
}

func nameOf(domain waypost.DomainID, code waypost.Code) string { return fmt.Sprint(domain, "/", code) }

func aliasOf(domain waypost.DomainID, code waypost.Code) string { return nameOf(domain, code) + "\x00" }

// namesOf returns the name of the code of a link, "" of a generated one, and the name of
// its target under that code, or under any.
func namesOf(l *waypost.Link) (code, target string) {
	if l.Custom {
		code = nameOf(l.Domain, l.Key())
		return code, aliasOf(l.Domain, l.Key()) + l.OriginalURL
	}
	return "", aliasOf(l.Domain, "") + l.OriginalURL + string(l.Rules) // of a link with a password they are not empty
}

// of reports whether an earlier row had the code of a link, also as an alias, or the
// target of a link without a code, and whether both were the same.
func (s *seenRows) of(l *waypost.Link) (again, same bool) {
	code, target := namesOf(l)
	same = s.has(target)
	return same || l.Custom && s.has(code), same
}

func (s *seenRows) has(name string) bool {
	_, has := s.all[maphash.String(s.seed, name)]
	return has
}

// add notes the names of a link.
func (s *seenRows) add(l *waypost.Link) {
	code, target := namesOf(l)
	names := []string{target}
	if l.Custom {
		names = append(names, code)
	}
	for _, a := range l.Aliases {
		names = append(names, nameOf(a.Domain, a.Key()), aliasOf(a.Domain, a.Key()))
	}
	for _, name := range names {
		if len(s.all) < maxSeen {
			s.all[maphash.String(s.seed, name)] = struct{}{}
		}
	}
}

// undo deletes the links of outcomes, step by step, for a turn. Of a piece of outcomes,
// as many rows count as done as links were looked at, and all of them behind the last.
func (w *work) undo(ctx context.Context) error {
	var speed meter
	speed.add(0, w.i)
	var p Piece
	var o outcomes
	for {
		if ctx.Err() != nil || time.Now().After(w.until) {
			return ctx.Err()
		}
		if w.i.Next >= p.First+int64(o.Rows) {
			var found bool
			var err error
			if p, found, err = w.Store.RowsAt(ctx, w.i.Workspace, w.i.ID, true, w.i.Next); err != nil {
				return err
			}
			if o = (outcomes{}); found {
				if o, err = unpack[outcomes](p.Content); err != nil {
					return err
				}
			}
			if w.i.Next >= p.First+int64(o.Rows) {
				w.i.Speed = 0
				return w.Store.SaveImport(ctx, w.i, w.worker, api.ImportUndone)
			}
		}
		from := min(int(w.i.Next-p.First), len(o.Made))
		to := min(from+w.pace.beginStep(ctx, 0), len(o.Made))
		step := &UndoStep{Links: o.Made[from:to], Epoch: o.Epoch, Seq: o.Seq, To: p.First + int64(to)}
		if to == len(o.Made) {
			step.To = p.First + int64(o.Rows)
		}
		speed.add(step.To-w.i.Next, w.i)
		next := *w.i
		at, err := w.Store.UndoImport(ctx, w.i, w.worker, step, func(removed int) ([]byte, error) {
			next = *w.i
			next.Next = step.To
			next.Counts.Removed += int64(removed)
			next.Counts.Kept += int64(len(step.Links) - removed)
			return json.Marshal(&next)
		})
		if err != nil {
			return fmt.Errorf("undo: %w", err)
		}
		*w.i = next
		w.pace.noteCommit(at.Seq, time.Now())
	}
}
