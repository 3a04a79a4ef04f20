package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"waypost/edge/blocks"
	"waypost/edge/budgets"
	"waypost/edge/clicks"
	"waypost/edge/replica"
	"waypost/internal/atomicfile"
	"waypost/internal/datadir"
	"waypost/internal/restart"
	"waypost/internal/services"
	"waypost/internal/systemd"
)

// Files of the data directory.
const (
	formatsFile = "formats" // names of the formats of the other files
	outcomeFile = "restart" // outcome of the last start, or of a restart that was refused
)

// serving is the outcome of a start. Any other outcome is the reason of a refusal.
const serving = "serving"

// dataFormats names the formats of an edge's data.
func dataFormats() string {
	return fmt.Sprintf("replica %d, clicks %s, budgets %d, blocks %d", replica.Format, clicks.Format(), budgets.Format, blocks.Format)
}

// keepFormats writes the formats down, unless the file has them.
func keepFormats(path string) error {
	if kept, err := os.ReadFile(path); err == nil && string(kept) == dataFormats()+"\n" {
		return nil // without a write: a full disk must not keep an edge from starting
	}
	return atomicfile.Write(path, []byte(dataFormats()+"\n"), 0o600)
}

// checkFormats refuses a directory with data that a version with other formats has
// written, because a restart would lose some of the data.
func checkFormats(root string) error {
	kept, err := os.ReadFile(filepath.Join(root, formatsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if own := dataFormats() + "\n"; err == nil && string(kept) != own {
		err = fmt.Errorf("the data in %s has the formats %q, and this program writes %q", root, strings.TrimSpace(string(kept)), strings.TrimSpace(own))
	}
	return err
}

// awaitRestart waits for a request to restart, and returns [services.ErrStop] when the
// program on the disk accepts the configuration and the data. Otherwise this program
// continues.
func (e *edge) awaitRestart(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.cfg.Restarts:
		}
		err := restart.Check(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			e.log.Info("restarting, because the program on the disk accepts the configuration")
			e.restarting.Store(true)
			return services.ErrStop
		}
		e.log.Error("cannot restart; continuing as before", "error", err)
		e.keepOutcome(err.Error())
	}
}

// holdSockets keeps the listening sockets open for the next program.
func (e *edge) holdSockets() {
	for _, l := range e.listeners.all {
		if err := e.held.Add(l.name, l.Listener); err != nil {
			e.log.Error("cannot keep a socket open; the next program opens its own", "listener", l.name, "error", err)
		}
	}
}

// keepSockets leaves the listening sockets in the care of systemd, so that connections
// wait while the unit restarts, also after a crash. Sockets that no setting asks for any
// more go.
func (e *edge) keepSockets(ctx context.Context) {
	err := dropSockets(ctx)
	for _, l := range e.listeners.all {
		if socket, ok := l.Listener.(syscall.Conn); ok {
			err = errors.Join(err, systemd.KeepSocket(ctx, l.name, socket))
		}
	}
	if err != nil {
		e.log.Warn("cannot leave the sockets to the service manager; connections are refused while the unit restarts", "error", err)
	}
}

// dropSockets takes the listening sockets back from systemd: an edge that cannot start
// refuses connections, so that fronts and clients turn to other edges.
func dropSockets(ctx context.Context) (err error) {
	for _, name := range []string{redirectSocket, tlsSocket, adminSocket, relaySocket} {
		err = errors.Join(err, systemd.DropSockets(ctx, name))
	}
	return err
}

// keepOutcome writes down the outcome of a start or a restart, for [Restart].
func (e *edge) keepOutcome(outcome string) {
	if err := atomicfile.Write(e.store.dir.Path(outcomeFile), []byte(outcome+"\n"), 0o600); err != nil {
		e.log.Error("cannot write down the outcome of the restart", "error", err)
	}
}

// Restart makes the edge that runs in a data directory start the program on the disk in
// its place, and waits until that serves. It returns the id of the process, which stays
// the same.
func Restart(ctx context.Context, root string) (pid int, err error) {
	if pid, err = datadir.Holder(root); err != nil {
		return 0, err
	}
	path := filepath.Join(root, outcomeFile)
	before, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err := unix.Kill(pid, unix.SIGHUP); err != nil {
		return 0, fmt.Errorf("signal process %d: %w", pid, err)
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-poll.C:
		}
		now, err := os.Stat(path)
		switch {
		case err == nil && (before == nil || !os.SameFile(before, now) || !now.ModTime().Equal(before.ModTime())):
			text, err := os.ReadFile(path)
			if outcome := strings.TrimSpace(string(text)); err == nil && outcome != serving {
				err = fmt.Errorf("the edge continues as before: %s", outcome)
			}
			return pid, err
		case unix.Kill(pid, 0) != nil:
			return 0, fmt.Errorf("process %d has ended: its log has the reason", pid)
		}
	}
}
