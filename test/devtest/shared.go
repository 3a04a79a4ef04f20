package devtest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is a system that several tests of a package use, in turn or at once. It starts
// when the first test asks for it and stops in [Cleanup], in order. Tests must neither
// kill nor stop its processes, and must expect links and other leftovers of other tests.
type Shared struct {
	Config Config

	once   sync.Once
	system *System
}

// all lists the shared systems that have started.
var all struct {
	sync.Mutex
	systems []*System
}

// For returns the system for one test.
func (s *Shared) For(t testing.TB) *System {
	t.Helper()
	Binary(t)
	s.once.Do(func() {
		system := Start(&lasting{TB: t}, s.Config)
		all.Lock()
		defer all.Unlock()
		all.systems = append(all.systems, system)
		s.system = system
	})
	if s.system == nil {
		t.Fatal("the shared system did not start for an earlier test")
	}
	own := *s.system
	own.t = t
	return &own
}

// stopShared stops the shared systems.
func stopShared() error {
	all.Lock()
	defer all.Unlock()
	for _, s := range all.systems {
		l := s.t.(*lasting)
		l.TB = nil
		if err := l.endSystem(s.Stop); err != nil {
			return err
		}
	}
	return nil
}

// lasting stands for the process of the tests where a system outlives the test that
// starts it. Without a test it reports failures by panicking, to end.
type lasting struct {
	testing.TB
	cleanups []func()
}

type failure string

func (l *lasting) Helper()          {}
func (l *lasting) Failed() bool     { return false }
func (l *lasting) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

func (l *lasting) TempDir() string {
	dir, err := os.MkdirTemp("", "waypost-shared-")
	if err != nil {
		l.Fatal(err)
	}
	// PostgreSQL may be another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (l *lasting) Fatal(args ...any) {
	if l.TB != nil {
		l.TB.Fatal(args...)
	}
	panic(failure(fmt.Sprint(args...)))
}

func (l *lasting) Fatalf(format string, args ...any) { l.Fatal(fmt.Sprintf(format, args...)) }

// endSystem runs f and the cleanups, and returns the failure of f.
func (l *lasting) endSystem(f func()) (err error) {
	defer func() {
		if why, failed := recover().(failure); failed {
			err = fmt.Errorf("shared system: %s", string(why))
		}
		for i := len(l.cleanups) - 1; i >= 0; i-- {
			l.cleanups[i]()
		}
	}()
	f()
	return nil
}
