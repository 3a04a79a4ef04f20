package imports

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"waypost"
	"waypost/api"
)

// How workers take turns.
const (
	lookEvery = time.Second     // for work of other control planes
	turn      = 2 * time.Second // with one import, before the next has its turn
	afterFail = 2 * time.Second

	// readers read and check, each one import to its end. The imports of a workspace have
	// one of them, so that no workspace keeps the others waiting.
	readers = 2
)

// Run works on imports until ctx ends: some workers read and check, and one creates and
// deletes links, so that neither waits for the other.
func (s *Imports) Run(ctx context.Context) {
	var group sync.WaitGroup
	for range readers {
		group.Go(func() { s.workOn(ctx, []string{api.ImportReading, api.ImportChecking}) })
	}
	group.Go(func() { s.workOn(ctx, []string{api.ImportRunning, api.ImportUndoing}) })
	group.Wait()
}

func (s *Imports) workOn(ctx context.Context, states []string) {
	for ctx.Err() == nil {
		found, err := s.workOnce(ctx, states)
		pause := lookEvery
		switch {
		case err != nil && ctx.Err() == nil:
			s.Logger.WarnContext(ctx, "cannot work on an import, will try again", "error", err)
			pause = afterFail
		case found:
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-time.After(pause):
		}
	}
}

// workOnce works on one import for a turn, or to its end.
func (s *Imports) workOnce(ctx context.Context, states []string) (found bool, err error) {
	worker := s.Node + "/" + rand.Text()[:8]
	i, found, err := s.Store.ClaimImport(ctx, worker, states)
	if err != nil || !found {
		return found, err
	}
	w := &work{Imports: s, i: &i, worker: worker, rows: cursor{s: s, i: &i}, until: time.Now().Add(turn)}
	err = w.proceed(ctx)
	var end *stop
	if i.State == api.ImportChecking && err != nil && ctx.Err() == nil { // else the check goes on elsewhere
		i.Next, i.Checked = 0, nil
	}
	switch {
	case waypost.CodeOf(err) == waypost.EStale: // somebody stopped it, or another control plane has it
	case errors.As(err, &end):
		i.Problem = end.why
		err = s.Store.SaveImport(ctx, &i, worker, end.state)
	case err != nil && ctx.Err() == nil && waypost.CodeOf(err) != waypost.EUnavailable:
		s.Logger.ErrorContext(ctx, "cannot go on with an import", "import", i.ID, "state", i.State, "error", err)
		i.Problem = "a fault of Waypost: ask the operator to look in the log"
		err = s.Store.SaveImport(ctx, &i, worker, stateAfterFault[i.State])
	}
	if waypost.CodeOf(err) == waypost.EStale {
		err = nil
	}
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterFail)
	defer cancel()
	_ = s.Store.ReleaseImport(release, &i, worker) // else the lease ends in time
	return true, err
}

// stateAfterFault is the state in which an import waits for people.
var stateAfterFault = map[string]string{
	api.ImportReading: api.ImportFailed, api.ImportChecking: api.ImportReady,
	api.ImportRunning: api.ImportStopped, api.ImportUndoing: api.ImportDone,
}

// stop ends the work on an import in a state, with words for its owner.
type stop struct{ state, why string }

func (e *stop) Error() string { return e.why }

// work is the work of one turn.
type work struct {
	*Imports
	i      *Import
	worker string
	rows   cursor
	until  time.Time
	pace   pace
}

// recoverTo makes a panic an error, so that no file ends a control plane.
func recoverTo(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("panic: %v\n%s", fault, debug.Stack())
	}
}

// proceed does what the state of the import asks for.
func (w *work) proceed(ctx context.Context) (err error) {
	defer recoverTo(&err)
	if w.i.State == api.ImportReading {
		return w.read(ctx)
	}
	may, err := w.Store.MayStill(ctx, w.i.By)
	switch {
	case err != nil:
		return err
	case !may:
		return &stop{stateAfterFault[w.i.State], w.i.By.Title() + " began this and may not import any more: let somebody else go on"}
	}
	switch w.i.State {
	case api.ImportChecking:
		return w.check(ctx)
	case api.ImportRunning:
		return w.run(ctx)
	default:
		return w.undo(ctx)
	}
}

// pace decides how many rows are created at once. The creates of others wait for the
// transaction under way, so that transactions are short, and have pauses between them,
// while others create links.
type pace struct {
	last    uint64       // sequence of the last transaction
	foreign [2]time.Time // when others were seen to commit, at the last and the time before
	began   time.Time    // of the step under way
	rows    int          // of a step that takes neither long nor no time
}

const (
	allRows   = pieceRows
	firstRows = 100
	fewRows   = 50
	slowStep  = 200 * time.Millisecond
	foreignIn = 3 * time.Second // in which others are to be seen twice, because keys are leased now and then
)

// noteCommit notes a transaction, and whether others have committed since the last.
func (p *pace) noteCommit(seq uint64, now time.Time) {
	if p.last != 0 && seq > p.last+1 {
		p.foreign = [2]time.Time{now, p.foreign[0]}
	}
	p.last = seq
}

// isShared reports whether others create links at this time.
func (p *pace) isShared(now time.Time) bool { return now.Sub(p.foreign[1]) < foreignIn }

// beginStep returns the number of rows for a step, at most most unless that is 0. Before,
// it pauses so that others commit: a transaction that begins right away would come before
// the transactions that wait.
func (p *pace) beginStep(ctx context.Context, most int) int {
	now := time.Now()
	switch took := now.Sub(p.began); {
	case p.rows == 0:
		p.rows = firstRows
	case took > slowStep:
		p.rows = max(fewRows, p.rows/2)
	case took < slowStep/4:
		p.rows = min(allRows, 2*p.rows)
	}
	n := p.rows
	if p.isShared(now) {
		n = fewRows
		select {
		case <-ctx.Done():
		case <-time.After(now.Sub(p.began)):
		}
	}
	if most > 0 {
		n = min(n, most)
	}
	p.began = time.Now()
	return n
}

// meter measures the speed of an import, in rows a second.
type meter struct {
	began time.Time
	rows  int64
}

func (m *meter) add(rows int64, i *Import) {
	if m.began.IsZero() {
		m.began = time.Now()
	}
	m.rows += rows
	if took := time.Since(m.began).Seconds(); took > 0.2 {
		i.Speed = float64(m.rows) / took
	}
}
