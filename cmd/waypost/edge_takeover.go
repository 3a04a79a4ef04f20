package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"waypost/edge/clicks"
	"waypost/edge/handover"
	"waypost/edge/replica"
	"waypost/internal/config"
	"waypost/internal/node"
	"waypost/internal/systemd"
)

// dataFormats names how an edge keeps its data: a process takes over only from one that
// keeps them alike, so that either can go on if the other fails.
func dataFormats() string {
	return fmt.Sprintf("replica %d, clicks %s", replica.Format, clicks.Format())
}

// claimEdge asks the edge that runs in the data directory, if one does, to give way.
func claimEdge(ctx context.Context, cfg config.Edge, log *slog.Logger) (*handover.Succession, error) {
	s, err := handover.Claim(ctx, handover.ClaimConfig{Dir: cfg.DataDir, Version: productVersion(), Formats: dataFormats(), Logger: log})
	if errors.Is(err, handover.ErrNobody) {
		log.Debug("nothing to take over", "reason", err)
		return nil, nil //nolint:nilnil // a start like any other
	}
	if err == nil {
		log.Info("taking over", "from", s.PID, "version", s.Version)
	}
	return s, err
}

// openListener opens a listener; the flag names its setting in errors.
type openListener func(ctx context.Context, addr, flag string) (net.Listener, error)

// listenerOf gives how an edge opens its listeners: what its predecessor, if it has
// one, listens on as well it gets from there, with the connections that wait.
func listenerOf(s *handover.Succession) openListener {
	if s == nil {
		return node.Listen
	}
	return func(ctx context.Context, addr, flag string) (net.Listener, error) {
		name := listenerName(flag, addr)
		f := s.Take(name)
		if f == nil {
			return node.Listen(ctx, addr, flag)
		}
		ln, err := net.FileListener(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("take over %s: %w", name, err)
		}
		return ln, nil
	}
}

// listenerName is what a successor asks for: the address as it is configured, which
// need not be the one that the listener has.
func listenerName(flag, addr string) string { return flag + " " + addr }

// namedListener is a listener that a successor asks for by name.
type namedListener struct {
	name string
	net.Listener
}

// named gives all listeners of an edge to its successor.
func (m *moreListeners) named(cfg config.Edge, tls config.TLS, ln, admin net.Listener) []namedListener {
	all := []namedListener{{listenerName("--addr", cfg.Addr), ln}, {listenerName("--admin-addr", cfg.AdminAddr), admin}}
	for i, addr := range cfg.Listen {
		all = append(all, namedListener{listenerName("--listen", addr), m.plain[i]})
	}
	for i, addr := range tls.Addr {
		all = append(all, namedListener{listenerName("--tls-addr", addr), m.tls[i]})
	}
	if m.peer != nil {
		all = append(all, namedListener{listenerName("--peer-addr", cfg.PeerAddr), m.peer})
	}
	return all
}

// predecessorTime is how long a predecessor may take to end its answering, beside the
// time that requests under way have. One that hangs answers nothing either, and must
// not keep its successor from taking changes, a takedown among them.
const predecessorTime = 6 * time.Second

// succeed is what is left to do when this edge serves in the place of another: to
// follow once that one answers nothing more, so that a visitor never sees a link in an
// older state than before, and to take over the rest when it has ended. An edge that
// has taken nobody's place does only the latter.
func (e *edgeNode) succeed(ctx context.Context, peers *edgeGossip) {
	if s := e.succession; s != nil {
		limited, cancel := context.WithTimeout(ctx, e.cfg.ShutdownTimeout+predecessorTime)
		if err := s.Drained(limited); err != nil && ctx.Err() == nil {
			e.log.Error("the end of the predecessor's answers is not known; this edge follows the stream all the same", "from", s.PID, "error", err)
		}
		cancel()
		e.following.resume()
		if err := s.Ended(ctx); err != nil {
			if ctx.Err() == nil {
				e.log.Error("the end of the predecessor is not known: its clicks wait for the next start", "error", err)
			}
			return
		}
		if err := e.store.inherit(); err != nil {
			e.log.Warn("not all is tidy after the takeover", "error", err)
		}
		e.clicks.adopt()
		e.log.Info("the takeover is complete", "from", s.PID)
	}
	peers.start()
}

// giveWay serves successors, until one has taken over: then leave ends this process's
// part. That this edge cannot be taken over is no reason not to run it.
func (e *edgeNode) giveWay(ctx context.Context, leave context.CancelFunc) {
	select {
	case <-e.store.opened:
	case <-ctx.Done():
		return
	}
	departure, err := handover.Serve(ctx, handover.Config{
		Dir: e.cfg.DataDir, Incumbent: &incumbent{e}, Version: productVersion(), Formats: dataFormats(),
		Timeout: e.cfg.TakeoverTimeout, Logger: e.log,
	})
	if err != nil {
		e.log.Error("this edge cannot be taken over: its next restart refuses requests for a moment", "error", err)
	}
	if departure == nil {
		return
	}
	if err := systemd.HandOver(ctx, departure.PID); err != nil {
		e.log.Error("the service manager does not know of the successor", "error", err)
	}
	e.departure.Store(departure)
	leave()
}

// incumbent is an edge as its successor sees it.
type incumbent struct{ *edgeNode }

// Release implements [handover.Incumbent].
func (e *incumbent) Release(ctx context.Context) ([]handover.File, error) {
	if err := e.following.hold(ctx); err != nil {
		e.follow()
		return nil, err
	}
	e.freshness.give(e.store, e.log)
	if err := e.store.detach(ctx); err != nil {
		e.follow()
		return nil, err
	}
	files := []handover.File{{Name: lockFile, Conn: e.store.dir.Lock()}}
	if e.store.frozen.Load() != nil {
		files = append(files, handover.File{Name: replicaFile, Conn: e.store.dir.Lock()})
	}
	if j := e.clicks.journal.Load(); j != nil {
		files = append(files, handover.File{Name: clickFile, Conn: j.Lock()})
	}
	for _, l := range e.listeners {
		c, ok := l.Listener.(syscall.Conn)
		if !ok {
			e.log.Error("a listener cannot be handed over; the successor opens its own", "listener", l.name)
			continue
		}
		files = append(files, handover.File{Name: l.name, Conn: c})
	}
	return files, nil
}

// follow goes on as before.
func (e *incumbent) follow() {
	e.freshness.takeBack()
	e.following.resume()
}

// Resume implements [handover.Incumbent].
func (e *incumbent) Resume(ctx context.Context, _ error) {
	e.store.attach(ctx)
	e.clicks.adopt()
	e.follow()
}

// Spawn implements [handover.Incumbent].
func (e *incumbent) Spawn() (*handover.Spawned, error) {
	// A process that dies with its parent is supervised by that one. A successor would
	// be the child of this process, which is about to end.
	if diesWithParent {
		return nil, errors.New("it is kept by another process, such as `waypost dev`: send that one SIGHUP")
	}
	cmd, err := successorCommand(os.Args)
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a successor: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }() // ends with this process at the latest
	return &handover.Spawned{PID: cmd.Process.Pid, Done: done, Kill: cmd.Process.Kill}, nil
}

// diesWithParent says whether the kernel ends this process when its parent ends. Only the
// first thread knows, which nothing but the initialisation is sure to run on.
var diesWithParent = func() bool {
	var sig int32
	_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&sig)), 0)
	return errno == 0 && sig != 0
}()

// successorCommand runs this program again, as it is on the disk now, to take this
// process's place.
func successorCommand(args []string) (*exec.Cmd, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		if path, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	rest := slices.Clone(args[1:])
	if !slices.Contains(rest, "--takeover") {
		rest = append(rest, "--takeover")
	}
	cmd := exec.Command(path, rest...) //nolint:noctx // it outlives this process
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd, nil
}
