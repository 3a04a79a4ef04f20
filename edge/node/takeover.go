package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"waypost/edge/blocks"
	"waypost/edge/budgets"
	"waypost/edge/clicks"
	"waypost/edge/handover"
	"waypost/edge/replica"
	"waypost/internal/services"
	"waypost/internal/systemd"
)

// dataFormats names the formats of an edge's data. A process takes over only from one
// with the same formats, so that either can continue if the other fails.
func dataFormats() string {
	return fmt.Sprintf("replica %d, clicks %s, budgets %d, blocks %d", replica.Format, clicks.Format(), budgets.Format, blocks.Format)
}

// claim asks the edge that runs in the data directory, if one does, to give way.
func claim(ctx context.Context, cfg *Config, log *slog.Logger) (*handover.Succession, error) {
	s, err := handover.Claim(ctx, handover.ClaimConfig{Dir: cfg.DataDir, Version: cfg.Version, Formats: dataFormats(), Logger: log})
	if errors.Is(err, handover.ErrNoIncumbent) {
		log.Debug("nothing to take over", "reason", err)
		return nil, nil //nolint:nilnil // a start like any other
	}
	if err == nil {
		log.Info("taking over", "from", s.PID, "version", s.Version)
	}
	return s, err
}

// predecessorTime bounds the end of a predecessor's answers, in addition to the time for
// requests under way. A predecessor that hangs answers nothing either, and must not keep
// its successor from taking changes such as a takedown.
const predecessorTime = 6 * time.Second

// succeed completes a takeover. It follows the stream once the predecessor answers
// nothing more, so that a client never sees a link in an older state than before, and
// takes over the rest when the predecessor has ended. Without a predecessor it only joins
// the gossip.
func (e *edge) succeed(ctx context.Context) {
	if s := e.succession; s != nil {
		limited, cancel := context.WithTimeout(ctx, e.cfg.ShutdownTimeout+predecessorTime)
		if err := s.Drained(limited); err != nil && ctx.Err() == nil {
			e.log.Error("cannot tell whether the predecessor still answers; following the stream", "from", s.PID, "error", err)
		}
		cancel()
		e.following.resume()
		if err := s.Ended(ctx); err != nil {
			if ctx.Err() == nil {
				e.log.Error("cannot tell whether the predecessor has ended: its clicks wait for the next start", "error", err)
			}
			return
		}
		if err := e.store.inherit(); err != nil {
			e.log.Warn("cannot tidy up after the takeover", "error", err)
		}
		e.clicks.adopt()
		e.budgets.adopt()
		e.blocks.Adopt()
		e.log.Info("the takeover is complete", "from", s.PID)
	}
	e.gossip.start()
}

// giveWay answers successors, and returns [services.ErrStop] when one has taken over. An
// edge that cannot be taken over runs nevertheless.
func (e *edge) giveWay(ctx context.Context) error {
	select {
	case <-e.store.opened:
	case <-ctx.Done():
		return nil
	}
	departure, err := handover.Serve(ctx, handover.Config{
		Dir: e.cfg.DataDir, Incumbent: incumbent{e}, Version: e.cfg.Version, Formats: dataFormats(),
		Timeout: e.cfg.TakeoverTimeout, Logger: e.log,
	})
	if err != nil {
		e.log.Error("cannot be taken over: the next restart refuses requests for a moment", "error", err)
	}
	if departure == nil {
		return nil
	}
	if err := systemd.HandOver(ctx, departure.PID); err != nil {
		e.log.Error("cannot notify the service manager of the successor", "error", err)
	}
	e.departure = departure
	close(e.departed)
	return services.ErrStop
}

// hasDeparted reports whether a successor serves in this edge's place.
func (e *edge) hasDeparted() bool {
	select {
	case <-e.departed:
		return true
	default:
		return false
	}
}

// incumbent is the side of an edge that its successor sees.
type incumbent struct{ *edge }

// Release implements [handover.Incumbent].
func (e incumbent) Release(ctx context.Context) ([]handover.File, error) {
	if err := e.following.hold(ctx); err != nil {
		e.follow()
		return nil, err
	}
	e.freshness.give(e.store, e.log)
	e.blocks.Keep() // the successor has them before its first answer
	if err := e.store.detach(ctx); err != nil {
		e.follow()
		return nil, err
	}
	files := []handover.File{{Name: lockFile, Conn: e.store.dir.Lock()}}
	if e.store.frozen() != nil {
		files = append(files, handover.File{Name: replicaFile, Conn: e.store.dir.Lock()})
	}
	if j := e.clicks.journal.Load(); j != nil {
		files = append(files, handover.File{Name: clickFile, Conn: j.Lock()})
	}
	for _, l := range e.listeners.all {
		c, ok := l.Listener.(syscall.Conn)
		if !ok {
			e.log.Error("cannot hand over a listener; the successor opens its own", "listener", l.name)
			continue
		}
		files = append(files, handover.File{Name: l.name, Conn: c})
	}
	return files, nil
}

// follow continues as before the takeover.
func (e incumbent) follow() {
	e.freshness.takeBack()
	e.following.resume()
}

// Resume implements [handover.Incumbent].
func (e incumbent) Resume(ctx context.Context, _ error) {
	e.store.attach(ctx)
	e.clicks.adopt()
	e.budgets.adopt()
	e.follow()
}

// Spawn implements [handover.Incumbent].
func (e incumbent) Spawn() (*handover.Spawned, error) {
	if err := mayEnd(os.Getpid(), diesWithParent); err != nil {
		return nil, err
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

// mayEnd refuses the end of a process that its successor, a child, would not outlive.
func mayEnd(pid int, diesWithParent bool) error {
	switch {
	case diesWithParent: // the parent is its supervisor
		return errors.New("it is kept by another process, such as `waypost dev`: send that one SIGHUP")
	case pid == 1:
		return errors.New("a container ends with its first process, which this edge is: restart the container, one replica of several at a time")
	}
	return nil
}

// diesWithParent reports whether the kernel ends this process when its parent ends. The
// kernel answers for the first thread only, and only initialisation is sure to run there.
var diesWithParent = func() bool {
	var sig int32
	_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&sig)), 0)
	return errno == 0 && sig != 0
}()

// successorCommand runs the program that is on the disk now, to take this process's
// place.
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
