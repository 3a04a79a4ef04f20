package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"waypost/internal/pgserver"
)

// live has everything run, be killed and started again until end.
func (w *world) live(edges, controls, postgres *turns) {
	visits, stopVisits := context.WithCancel(w.t.Context())
	lives, stopLives := context.WithCancel(w.t.Context())
	w.stopVisits, w.stopLives = stopVisits, stopLives
	w.t.Cleanup(w.end)
	for _, s := range w.edges {
		w.lives.Go(func() { w.keepEdge(lives, s, edges) })
		for range clients {
			w.visits.Go(func() { w.visitors.visit(visits, s.now.Load) })
		}
	}
	w.lives.Go(func() { w.keepControl(lives, controls) })
	w.lives.Go(func() { w.keepPostgres(lives, postgres) })
}

// end ends the visits and then everybody but PostgreSQL.
func (w *world) end() {
	w.stopVisits()
	w.visits.Wait()
	w.stopLives()
	w.lives.Wait()
}

// keepEdge has an edge in a slot, one life after the other.
func (w *world) keepEdge(ctx context.Context, s *slot, at *turns) {
	for ctx.Err() == nil && !w.failed() {
		p := w.turn(at)
		s.proxy.cutOff.Store(p.way.cutOff)
		e := w.startEdge(s, p.way.limits+w.killAt(p))
		if e == nil {
			at.killed(p.name)
			continue
		}
		s.now.Store(&life{edge: e, name: fmt.Sprintf("%s, life %d", s.node, s.count), busy: p.way.busy})
		by := p.name
		select {
		case <-e.Exited():
		case <-ctx.Done():
			by = ""
		case <-time.After(w.lifetime(p.way.longest)):
			by = ""
		}
		e.Kill()
		s.now.Store(nil)
		at.killed(by)
		if !e.Killed() {
			w.fail("%s ended by itself:\n%s", s.node, e.Output())
		}
		w.lookAt(s.node, e.Output())
	}
}

// keepControl has one control plane, one after the other. One that finds no PostgreSQL
// when it starts may give up.
func (w *world) keepControl(ctx context.Context, at *turns) {
	var postgres []string
	for i, p := range postgresPlaces {
		postgres = append(postgres, p.name+"!"+w.pidFile(i))
	}
	for n := 0; ctx.Err() == nil && !w.failed(); n++ {
		p := w.turn(at)
		c := w.startControl(fmt.Sprintf("control-%d", n), strings.Join(postgres, ";")+w.killAt(p))
		if c == nil {
			continue
		}
		by := p.name
		select {
		case <-c.Exited():
		case <-ctx.Done():
			by = ""
		case <-time.After(w.lifetime(p.way.longest)):
			by = ""
		}
		c.Kill()
		at.killed(by)
		if !c.Killed() {
			w.fail("%s ended by itself:\n%s", c.Node, c.Output())
		}
		w.lookAt(c.Node, c.Output())
	}
}

// keepPostgres has PostgreSQL killed by a control plane, and starts it again.
func (w *world) keepPostgres(ctx context.Context, at *turns) {
	for !w.failed() {
		server, rest := w.server, time.Duration(w.patience())*700*time.Millisecond // in which clicks are counted
		switch {
		case w.idle(at):
			rest = 4 * longestLife
		case len(at.missing()) == 0:
			rest = 3 * time.Second
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest + rand.N(rest)):
		}
		name := at.next().name
		n := 0
		for postgresPlaces[n].name != name {
			n++
		}
		if err := w.arm(n, server); err != nil {
			w.fail("%w", err)
			return
		}
		by := name
		select {
		case <-server.Done():
		case <-ctx.Done():
			by = ""
		case <-time.After(w.lifetime(longestLife)):
			by = ""
		}
		if err := os.Remove(w.pidFile(n)); err == nil { // no one reached the place
			by = ""
			_ = unix.Kill(server.PID(), unix.SIGKILL) // its children see that
		} else if !errors.Is(err, fs.ErrNotExist) {
			w.fail("%w", err)
		}
		if !endedWithin(server, 10*time.Second) { // the process that reached the place was killed before it could kill
			by = ""
			_ = unix.Kill(server.PID(), unix.SIGKILL)
		}
		<-server.Done()
		at.killed(by)
		if err := w.startPostgresAgain(ctx); err != nil {
			w.fail("start PostgreSQL again: %w", err)
		}
	}
}

// endedWithin reports whether a PostgreSQL ends in time.
func endedWithin(s *pgserver.Server, limit time.Duration) bool {
	select {
	case <-s.Done():
		return true
	case <-time.After(limit):
		return false
	}
}

// startPostgresAgain leaves a PostgreSQL to the processes that remain at the end, too.
func (w *world) startPostgresAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	return w.startPostgres(ctx)
}
