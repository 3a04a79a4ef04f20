// Package pgserver runs a private PostgreSQL server as a supervised child: for
// the development system and for tests. It makes the database cluster once,
// starts it on a unix socket only, and stops it with its parent.
//
// It is not for production, where PostgreSQL has an operator of its own, and it
// knows nothing of Waypost's schema. It needs Linux.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Role owns the database of the same name. It is no superuser, but may make the roles
// that its transactions take on.
const Role = "waypost"

// superuser is the role that the cluster is made with.
const superuser = "postgres"

// Config says where a server lives. Zero fields but Dir mean the default.
type Config struct {
	// Dir belongs to the server alone: the cluster, its socket and its lock. It is
	// made when missing. As root it is given to an unprivileged user.
	Dir string

	// Settings are added to the server's own, by name, and win over them.
	Settings map[string]string

	// Locale is one of ICU's, such as "tr-TR", for a cluster that is made. Default: the
	// letters of all languages, in the order of bytes.
	Locale string

	// Output gets the server's log as it comes; default: nowhere.
	Output io.Writer

	// Logger reports recoveries, such as an orphan that was stopped first.
	Logger *slog.Logger
}

// Server is a running PostgreSQL. Its methods may be called by many goroutines.
type Server struct {
	data      string
	socketDir string
	cmd       *exec.Cmd
	tail      *tail
	done      chan struct{} // closed when the process is gone and the lock is free
	exit      error         // why it ended; written before done is closed
}

// ErrInUse says that another living process supervises a server in the directory.
var ErrInUse = errors.New("another process runs the PostgreSQL of this directory")

// Start makes the cluster if it is missing, stops processes of a killed predecessor, and
// returns once the database [Role] can be used. The server dies with the calling process,
// however the process ends. ctx bounds the start only.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Output == nil {
		cfg.Output = io.Discard
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("directory of PostgreSQL: %w", err)
	}
	// A symbolic link would hide orphans: /proc has the resolved path.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of PostgreSQL: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("directory of PostgreSQL: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, cfg, dir, lock)
	if err != nil {
		return nil, errors.Join(err, unlock(lock))
	}
	if err := s.prepare(ctx); err != nil {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
		defer cancel()
		return nil, errors.Join(err, s.Stop(stopCtx))
	}
	return s, nil
}

// start takes ownership of lock only when it succeeds.
func start(ctx context.Context, cfg Config, dir string, lock *os.File) (*Server, error) {
	data := filepath.Join(dir, "data")
	bin, err := chooseBinaries(ctx, data)
	if err != nil {
		return nil, err
	}
	who, err := chooseAccount(dir)
	if err != nil {
		return nil, err
	}
	if err := who.give(dir); err != nil {
		return nil, err
	}
	if err := makeCluster(ctx, bin, who, data, cfg); err != nil {
		return nil, err
	}
	sockets, err := who.socketDir(dir)
	if err != nil {
		return nil, err
	}
	if err := clearOrphans(ctx, data, sockets, cfg.Logger); err != nil {
		return nil, err
	}
	s := &Server{data: data, socketDir: sockets, tail: &tail{}, done: make(chan struct{})}
	// Not bound to ctx: that ends with the start, the server does not.
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), bin.path("postgres"), arguments(data, sockets, cfg.Settings)...)
	who.become(s.cmd)
	// Orphaned backends may hold the pipe open when the postmaster is killed.
	s.cmd.WaitDelay = time.Second
	s.cmd.Stderr = io.MultiWriter(s.tail, cfg.Output)
	// SIGINT asks PostgreSQL for a fast, clean shutdown. Its own process group
	// keeps a Ctrl-C at the terminal away from it: the supervisor decides.
	s.cmd.SysProcAttr.Pdeathsig = syscall.SIGINT
	s.cmd.SysProcAttr.Setpgid = true
	started := make(chan error)
	go s.supervise(lock, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return s, nil
}

// supervise starts the child and waits for it on one locked thread, because the
// kernel sends the parent-death signal when the thread that forked ends.
func (s *Server) supervise(lock *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := s.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	s.exit = s.cmd.Wait()
	// Empty after a clean end, and made again by the next start. It matters where
	// it had to be outside of the server's own directory.
	if err := os.Remove(s.socketDir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		s.exit = errors.Join(s.exit, err)
	}
	s.exit = errors.Join(s.exit, unlock(lock))
	close(s.done)
}

// URL connects as [Role] to its database, without a password, because the socket's
// directory guards the database.
func (s *Server) URL() string { return s.url(Role, Role) }

// DatabaseURL connects as [Role] to another database of this server.
func (s *Server) DatabaseURL(name string) string { return s.url(Role, name) }

func (s *Server) url(role, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + database}
	u.RawQuery = url.Values{"host": {s.socketDir}}.Encode()
	return u.String()
}

// PID is the process id of the postmaster.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done is closed when the server has ended, for whatever reason. The directory
// can then be started again.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says how the server ended, and nil when that was in order. It waits for
// the end.
func (s *Server) Err() error {
	<-s.done
	if s.exit == nil {
		return nil
	}
	return fmt.Errorf("PostgreSQL: %w: %s", s.exit, reason(s.tail.bytes()))
}

// killGrace limits the time that a server takes after it was told to abort.
const killGrace = 3 * time.Second

// Stop shuts the server down cleanly and waits for its end. When ctx ends first
// it is aborted, which loses nothing that was committed, and in the end killed.
// Stopping a server that has ended is no error.
func (s *Server) Stop(ctx context.Context) error {
	for _, step := range []struct {
		signal unix.Signal
		until  <-chan struct{}
		within time.Duration
	}{
		{unix.SIGINT, ctx.Done(), 0},
		{unix.SIGQUIT, nil, killGrace},
		{unix.SIGKILL, nil, killGrace},
	} {
		var limit <-chan time.Time
		if step.within > 0 {
			limit = time.After(step.within)
		}
		// Through os.Process, which never signals a reused process id.
		if err := s.cmd.Process.Signal(step.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop PostgreSQL: %w", err)
		}
		select {
		case <-s.done:
			return nil
		case <-step.until:
		case <-limit:
		}
	}
	return fmt.Errorf("stop PostgreSQL: process %d does not end", s.PID())
}

// lockDir makes sure that one process supervises the directory. The kernel frees
// the lock when that process ends, so whatever still runs then is an orphan.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "supervisor.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the directory of PostgreSQL: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// unlock lets another process, or this one, supervise the directory. To close the file
// would not do: a child that this process is just starting has it open, too, until it
// is another program.
func unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}
