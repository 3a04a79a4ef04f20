package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/replication/replicationtest"
)

// part says what a fault strikes, in the order in which parts are healed. Of two faults
// at a time each strikes another.
type part int

const (
	database part = iota
	controls
	edges
)

// fault is something that happens to a part. strike returns what heals it, which returns
// once what was struck runs again.
type fault struct {
	name   string
	part   part
	on     []string // candidates; none: there is one only
	short  bool     // it belongs to the short form
	none   bool     // nothing is struck
	strike func(s *system, on string) (heal func())
}

// steady lists the edges that keep their disks, of which all clicks must be counted.
var steady = []string{"us-1", "us-2", "eu-1", "ap-1"}

var planes = []string{"control-1", "control-2"}

// faults lists all faults. What the disks, clocks, attackers and operators do is tested
// elsewhere, see docs/reliability.md.
func faults() []fault {
	return []fault{
		{name: "an edge is killed", part: edges, on: steady, strike: (*system).killEdge},
		{name: "an edge is cut off, killed and started again", part: edges, on: steady, short: true, strike: (*system).restartCutOff},
		{name: "an edge is stopped and started", part: edges, on: steady, strike: (*system).restartEdge},
		{name: "an edge is frozen", part: edges, on: steady, strike: (*system).freezeEdge},
		{name: "an edge loses its disk", part: edges, on: []string{"eu-2"}, short: true, strike: (*system).wipeEdge},
		{name: "an edge is cut off", part: edges, on: steady, strike: wired((*wire).Cut)},
		{name: "an edge is heard and hears nothing", part: edges, on: steady, strike: wired((*wire).Deafen)},
		{name: "an edge neither hears nor is heard", part: edges, on: steady, short: true, strike: wired((*wire).Silence)},
		{
			name: "an edge has a slow wire", part: edges, on: steady,
			strike: degraded(replicationtest.Quality{Delay: 100 * time.Millisecond, Rate: 16 << 10}),
		},
		{
			name: "connections of an edge break anywhere", part: edges, on: steady, short: true,
			strike: degraded(replicationtest.Quality{CutAfter: 8 << 10}),
		},
		{name: "connections of visitors break anywhere", part: edges, on: steady, strike: (*system).breakVisitors},
		{name: "a region is cut off", part: edges, strike: (*system).cutRegion},
		{name: "the relay is killed", part: edges, on: []string{"ap-relay"}, strike: (*system).killEdge},
		{name: "the relay is frozen", part: edges, on: []string{"ap-relay"}, strike: (*system).freezeEdge},
		{name: "the relay is cut off", part: edges, on: []string{"ap-relay"}, strike: wired((*wire).Cut)},
		{name: "a control plane is killed", part: controls, on: planes, short: true, strike: (*system).killControl},
		{name: "a control plane is stopped and started", part: controls, on: planes, strike: (*system).rollControl},
		{name: "a control plane is frozen", part: controls, on: planes, strike: (*system).freezeControl},
		{name: "both control planes are killed", part: controls, strike: (*system).killControls},
		{name: "connections of clients break anywhere", part: controls, on: planes, strike: clientsOf(replicationtest.Quality{CutAfter: 2 << 10})},
		{name: "a control plane does not reach PostgreSQL", part: database, on: planes, strike: databaseOf((*wire).Cut)},
		{name: "a control plane hears nothing of PostgreSQL", part: database, on: planes, strike: databaseOf((*wire).Deafen)},
		{name: "connections to PostgreSQL break anywhere", part: database, on: planes, strike: databaseOf(func(w *wire) {
			w.Degrade(replicationtest.Quality{CutAfter: 64 << 10})
		})},
		{name: "PostgreSQL is killed", part: database, short: true, strike: (*system).killDatabase},
		{name: "PostgreSQL is frozen", part: database, strike: (*system).freezeDatabase},
		{name: "the standby is cut off", part: database, strike: (*system).cutStandby},
		{name: "PostgreSQL is lost, and the standby is promoted", part: database, short: true, strike: (*system).promote},
		{name: "PostgreSQL is lost, and a standby that was cut off is promoted", part: database, strike: (*system).promoteLate},
	}
}

// step is an entry of the schedule.
type step struct {
	fault fault
	on    string
	after time.Duration // since the step before was over, or for a second fault since the first was struck
	hold  time.Duration
	and   *step // a second fault, at the same time
}

func (s *step) String() string {
	text := s.fault.name
	if s.on != "" {
		text += ": " + s.on
	}
	text += fmt.Sprintf(" (after %.1f s, for %.1f s)", s.after.Seconds(), s.hold.Seconds())
	if s.and != nil {
		text += ", and " + s.and.String()
	}
	return text
}

// plan makes the schedule of a seed: the faults of the short form once, or rounds of all
// faults for a time. It depends on nothing but its arguments.
func plan(seed uint64, long time.Duration) (steps []*step) {
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(f fault, least, most time.Duration) *step {
		s := &step{fault: f, after: 200*time.Millisecond + time.Duration(r.Int64N(int64(time.Second)))}
		s.hold = least + time.Duration(r.Int64N(int64(most-least)))
		if len(f.on) > 0 {
			s.on = f.on[r.IntN(len(f.on))]
		}
		return s
	}
	all := faults()
	if long == 0 {
		for _, n := range r.Perm(len(all)) {
			if all[n].short {
				steps = append(steps, pick(all[n], time.Second, 2*time.Second))
			}
		}
		return steps
	}
	quiet := fault{name: "no fault", none: true, strike: func(*system, string) func() { return func() {} }}
	var takes time.Duration
	for takes < long {
		// Long enough for the judge to tell that a change takes too long.
		s := pick(quiet, 14*time.Second, 16*time.Second)
		steps = append(steps, s)
		takes += s.after + s.hold
		for _, n := range r.Perm(len(all)) {
			s := pick(all[n], 2*time.Second, 8*time.Second)
			if other := all[r.IntN(len(all))]; r.IntN(3) == 0 && other.part != s.fault.part {
				s.and = pick(other, 2*time.Second, 6*time.Second)
			}
			steps = append(steps, s)
			takes += s.after + s.hold
		}
	}
	return steps
}

// struck is a fault that is not healed yet.
type struck struct {
	fault
	Fault
	heal func()
}

func (s *system) strike(f fault, on string) *struck {
	s.t.Helper()
	began := s.recorder.Now()
	return &struck{f, Fault{Name: f.name, On: on, Struck: began, None: f.none}, f.strike(s, on)}
}

// run strikes and heals the faults of a step, and waits until every part is right again.
func (s *system) run(st *step) {
	s.t.Helper()
	pause(st.after)
	s.t.Logf("%7.1f s: %s", s.recorder.Now().Seconds(), st)
	all := []*struck{s.strike(st.fault, st.on)}
	if st.and != nil {
		pause(st.and.after)
		all = append(all, s.strike(st.and.fault, st.and.on))
		pause(st.and.hold)
	}
	pause(st.hold)
	// A control plane needs PostgreSQL to start, and an edge without a disk a control plane.
	slices.SortFunc(all, func(a, b *struck) int { return int(a.part) - int(b.part) })
	for _, f := range all {
		f.heal()
		f.Healed = s.recorder.Now()
	}
	s.whole()
	for _, f := range all {
		f.Whole = s.recorder.Now()
		s.recorder.Struck(f.Fault)
	}
}

// pause lets a fault last.
func pause(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// back starts an edge and returns once visitors get what it had.
func (s *system) back(e *edge) {
	s.t.Helper()
	s.startEdge(e)
	s.eventually(e.node+" serves", func(ctx context.Context) error {
		saw, err := s.ask(ctx, e, "stable-0")
		if err == nil && saw != target("stable-0", 0) {
			err = fmt.Errorf("it answers %q", saw)
		}
		return err
	})
}

func (s *system) killEdge(on string) func() {
	e := s.byName(on)
	away, crash := s.recorder.Begin(Away, on), s.recorder.Begin(Crash, on)
	e.process.Load().Kill()
	s.look(on, e.process.Load().Output())
	return func() { s.back(e); crash(); away() }
}

// restartCutOff has an edge start with what its disk has.
func (s *system) restartCutOff(on string) func() {
	mend := wired((*wire).Cut)(s, on)
	s.killEdge(on)()
	return mend
}

func (s *system) restartEdge(on string) func() {
	e := s.byName(on)
	away := s.recorder.Begin(Away, on)
	require.NoError(s.t, e.process.Load().Stop())
	s.look(on, e.process.Load().Output())
	return func() { s.back(e); away() }
}

func (s *system) wipeEdge(on string) func() {
	e := s.byName(on)
	away, wipe := s.recorder.Begin(Away, on), s.recorder.Begin(Wipe, on)
	e.process.Load().Kill()
	s.look(on, e.process.Load().Output())
	require.NoError(s.t, os.RemoveAll(e.dir))
	return func() { s.back(e); wipe(); away() }
}

// freeze stops a process, and returns what lets it run on.
func (s *system) freeze(pid int) func() {
	s.t.Helper()
	require.NoError(s.t, syscall.Kill(pid, syscall.SIGSTOP))
	return func() { require.NoError(s.t, syscall.Kill(pid, syscall.SIGCONT)) }
}

func (s *system) freezeEdge(on string) func() {
	away := s.recorder.Begin(Away, on)
	thaw := s.freeze(s.byName(on).process.Load().PID())
	return func() { thaw(); away() }
}

// wired does something to the wires between an edge and its sources.
func wired(do func(*wire)) func(*system, string) func() {
	return func(s *system, on string) func() {
		e := s.byName(on)
		for _, w := range e.sources {
			do(w)
		}
		return func() {
			for _, w := range e.sources {
				w.Mend()
			}
		}
	}
}

func degraded(q replicationtest.Quality) func(*system, string) func() {
	return wired(func(w *wire) { w.Degrade(q) })
}

func (s *system) breakVisitors(on string) func() {
	w := s.byName(on).visitors
	away := s.recorder.Begin(Away, on)
	w.Degrade(replicationtest.Quality{CutAfter: 1 << 10})
	return func() { w.Mend(); away() }
}

func (s *system) cutRegion(string) func() {
	one, two := wired((*wire).Cut)(s, "eu-1"), wired((*wire).Cut)(s, "eu-2")
	return func() { one(); two() }
}

// plane finds a control plane.
func (s *system) plane(node string) *control {
	return s.controls[slices.IndexFunc(s.controls, func(c *control) bool { return c.node == node })]
}

func (s *system) killControl(on string) func() {
	c := s.plane(on)
	c.process.Load().Kill()
	s.look(on, c.process.Load().Output())
	return func() { s.startControl(c) }
}

func (s *system) killControls(string) func() {
	one, two := s.killControl("control-1"), s.killControl("control-2")
	return func() { one(); two() }
}

func (s *system) rollControl(on string) func() {
	c := s.plane(on)
	if err := c.process.Load().Stop(); err != nil {
		// Without PostgreSQL it cannot give back its keys, and says so.
		require.ErrorContains(s.t, err, "give back leased keys")
	}
	s.look(on, c.process.Load().Output())
	return func() { s.startControl(c) }
}

func (s *system) freezeControl(on string) func() {
	return s.freeze(s.plane(on).process.Load().PID())
}

// clientsOf does something to the wire between clients and a control plane.
func clientsOf(q replicationtest.Quality) func(*system, string) func() {
	return func(s *system, on string) func() {
		w := s.plane(on).clients
		w.Degrade(q)
		return w.Mend
	}
}

// databaseOf does something to the wire between a control plane and PostgreSQL.
func databaseOf(do func(*wire)) func(*system, string) func() {
	return func(s *system, on string) func() {
		w := s.plane(on).database
		do(w)
		return w.Mend
	}
}

func (s *system) killDatabase(string) func() {
	dir := filepath.Dir(s.dataOf())
	s.killPostgres(s.primary.Load())
	return func() { s.primary.Store(s.startPostgres(dir)) }
}

// dataOf returns the directory of the primary's files.
func (s *system) dataOf() string {
	var dir string
	require.NoError(s.t, byHand(context.Background(), s.primary.Load(), func(conn *pgx.Conn) error {
		return conn.QueryRow(context.Background(), `SELECT current_setting('data_directory')`).Scan(&dir)
	}))
	return dir
}

func (s *system) freezeDatabase(string) func() {
	server := s.primary.Load()
	signal(server, syscall.SIGSTOP)
	return func() { signal(server, syscall.SIGCONT) }
}

func (s *system) cutStandby(string) func() {
	s.replication.Cut()
	return s.replication.Mend
}

// promote kills the primary and promotes the standby; healed is a new standby.
func (s *system) promote(string) func() {
	over := s.recorder.Begin(Failover, "")
	old, oldDir := s.primary.Load(), filepath.Dir(s.dataOf())
	s.killPostgres(old)
	s.eventually("the standby is promoted", func(ctx context.Context) error {
		return byHand(ctx, s.standby, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SELECT pg_promote() WHERE pg_is_in_recovery()`)
			return err
		})
	})
	s.primary.Store(s.standby)
	over()
	return func() {
		require.True(s.t, strings.HasPrefix(oldDir, s.dir))
		require.NoError(s.t, os.RemoveAll(oldDir))
		s.startStandby()
	}
}

// promoteLate promotes a standby that was cut off from the primary before that was lost.
func (s *system) promoteLate(on string) func() {
	s.replication.Cut()
	pause(6 * time.Second) // longer than any statement may take
	heal := s.promote(on)
	s.replication.Mend()
	return heal
}

// each does something for all edges at once.
func (s *system) each(do func(*edge)) {
	var work sync.WaitGroup
	for _, e := range s.edges {
		work.Go(func() { do(e) })
	}
	work.Wait()
}

func TestPlan_DependsOnTheSeedAlone(t *testing.T) {
	text := func(steps []*step) (lines []string) {
		for _, s := range steps {
			lines = append(lines, s.String())
		}
		return lines
	}
	for _, long := range []time.Duration{0, 20 * time.Minute} {
		one := text(plan(7, long))
		require.Equal(t, one, text(plan(7, long)))
		require.NotEqual(t, one, text(plan(8, long)))
	}
	all := text(plan(7, 20*time.Minute))
	for _, f := range faults() {
		require.True(t, slices.ContainsFunc(all, func(line string) bool { return strings.HasPrefix(line, f.name) }), f.name)
	}
}
