package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// File is a socket, or a lock, that a successor receives. The open file itself is sent,
// so that both processes hold a lock, and connections that wait at a socket wait on.
type File struct {
	Name string
	syscall.Conn
}

// Incumbent is an edge that serves. Release and Resume are not called at the same
// time.
type Incumbent interface {
	// Release releases the files that only one process can hold, and goes on answering
	// without them. It returns the files that the successor needs. After an error all is as
	// before.
	Release(ctx context.Context) ([]File, error)

	// Resume takes back the files that Release released, because no successor serves: why
	// is the reason, and the successor has ended. It returns when that is done, however
	// long it takes, or ctx has ended.
	Resume(ctx context.Context, why error)

	// Spawn starts a successor, that is a process that calls Claim.
	Spawn() (*Spawned, error)
}

// Spawned is a successor that the incumbent has started itself.
type Spawned struct {
	PID  int
	Done <-chan error // gets how it ended
	Kill func() error
}

// Config of Serve. Zero fields mean the default.
type Config struct {
	Dir       string    // required: the data directory, in which the socket is
	Incumbent Incumbent // required
	Version   string    // of the program, for the other side's log

	// Formats names how this program keeps its data. A successor that says anything
	// else is refused: what it writes could not be read again after a failure.
	Formats string

	// Timeout bounds the time until a successor is ready. Default: 30 s.
	Timeout time.Duration

	Logger *slog.Logger // default: discarded
}

// graceful bounds the time that a failed successor may take to end without being killed.
const graceful = 2 * time.Second

// Serve waits for a successor until one serves, which the Departure stands for, or
// until ctx ends: then both are nil.
func Serve(ctx context.Context, cfg Config) (*Departure, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	ln, err := listen(ctx, cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &server{
		cfg: cfg, busy: make(chan struct{}, 1), restarts: make(chan struct{}, 1), talks: make(chan struct{}, maxTalks),
		departed: make(chan struct{}),
	}
	talking, hangUp := context.WithCancel(ctx)
	defer hangUp()
	s.work.Go(func() { s.accept(talking, ln) })
	select {
	case <-ctx.Done():
	case <-s.departed:
	}
	hangUp()
	err = ln.Close()
	s.work.Wait()
	return s.departure, err
}

// maxTalks bounds the conversations at once. More wait.
const maxTalks = 8

type server struct {
	cfg      Config
	busy     chan struct{} // has a token while there is a successor
	restarts chan struct{} // has a token while somebody waits for one that was started here
	talks    chan struct{} // has a token for each conversation
	work     sync.WaitGroup

	departure *Departure    // written before departed is closed
	departed  chan struct{} // closed when a successor serves
}

func (s *server) accept(ctx context.Context, ln *net.UnixListener) {
	for {
		c, err := ln.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				_ = c.Close() // the other side will find the process that serves
			}
			return
		}
		if err != nil {
			// For want of descriptors, for example.
			s.cfg.Logger.Warn("a successor cannot be heard", slog.Any("error", err))
			select {
			case <-time.After(time.Second):
				continue
			case <-ctx.Done():
				return
			}
		}
		s.talks <- struct{}{}
		s.work.Go(func() {
			defer func() { <-s.talks }()
			s.talk(ctx, conn{c})
		})
	}
}

// talk holds one conversation.
func (s *server) talk(ctx context.Context, c conn) {
	keep := false
	defer func() {
		if !keep {
			_ = c.Close() // the other side knows, or has gone
		}
	}()
	p, err := c.identify()
	if err != nil {
		s.cfg.Logger.Warn("a process at the takeover socket is not known", slog.Any("error", err))
		return
	}
	defer func() { _ = p.close() }()
	// Its id may have become another process's meanwhile, which must not be killed for
	// it. Then it was gone before.
	if gone, err := c.hungUp(); gone || err != nil {
		s.cfg.Logger.Warn("a process at the takeover socket has gone", slog.Int("pid", p.pid), slog.Any("error", err))
		return
	}
	m, files, err := c.receive(ctx, time.Now().Add(5*time.Second))
	closeAll(files)
	if err == nil {
		err = s.judge(m, p)
	}
	if err != nil {
		s.refuse(c, p, err)
		return
	}
	if m.Kind == restart {
		s.restart(ctx, c, p)
		return
	}
	keep = s.handOver(ctx, c, p, m)
}

// judge says why a process gets nothing here.
func (s *server) judge(m message, p peer) error {
	uid := os.Geteuid()
	switch {
	case m.Kind != claim && m.Kind != restart:
		return fmt.Errorf("%w: %q", errMessage, m.Kind)
	case m.Protocol != protocol:
		return fmt.Errorf("it speaks version %d of the takeover, and that program version %d: stop the one, and start the other", protocol, m.Protocol)
	case p.uid != uid && (p.uid != 0 || m.Kind == claim):
		return fmt.Errorf("it runs as user %d, and that process as user %d", uid, p.uid)
	case m.Kind == claim && m.Formats != s.cfg.Formats:
		return fmt.Errorf("it keeps its data as %q, and that program as %q: stop the one, and start the other", s.cfg.Formats, m.Formats)
	}
	return nil
}

func (s *server) refuse(c conn, p peer, why error) {
	s.cfg.Logger.Warn("a takeover is refused", slog.Int("pid", p.pid), slog.Any("reason", why))
	_ = c.send(s.say(refused, why), nil) // it may have gone
}

// say is a message of this process.
func (s *server) say(k kind, why error) message {
	m := message{Kind: k, Protocol: protocol, PID: os.Getpid(), Version: s.cfg.Version}
	if why != nil {
		m.Reason = why.Error()
	}
	return m
}

var errBusy = errors.New("another takeover is under way")

// handOver hands everything to a successor, or takes everything back when that fails. It
// reports whether the successor serves.
func (s *server) handOver(ctx context.Context, c conn, p peer, m message) bool {
	select {
	case s.busy <- struct{}{}:
	default:
		s.refuse(c, p, errBusy)
		return false
	}
	free := sync.OnceFunc(func() { <-s.busy })
	defer free()
	select {
	case <-s.departed:
		s.refuse(c, p, errors.New("a successor serves already"))
		return false
	default:
	}
	log := s.cfg.Logger.With(slog.Int("successor", p.pid), slog.String("version", m.Version))
	log.Info("a successor takes over")
	deadline := time.Now().Add(s.cfg.Timeout)
	limited, cancel := context.WithDeadline(ctx, deadline)
	files, err := s.cfg.Incumbent.Release(limited)
	cancel()
	if err != nil {
		free() // the other side may ask again
		s.refuse(c, p, err)
		return false
	}
	if err = s.give(c, files); err == nil {
		if err = awaitReady(ctx, c, deadline); err == nil {
			err = c.send(s.say(yours, nil), nil)
		}
	}
	if err == nil {
		log.Info("the successor serves")
		s.departure = &Departure{c: c, PID: p.pid, say: s.say}
		close(s.departed)
		return true
	}
	if ctx.Err() != nil {
		err = errors.New("this edge is stopping")
	}
	s.takeBack(ctx, c, p, err, log)
	return false
}

// give sends the estate.
func (s *server) give(c conn, files []File) (err error) {
	m := s.say(estate, nil)
	var copies []*os.File
	defer func() { closeAll(copies) }()
	for _, f := range files {
		own, err := duplicate(f)
		if err != nil {
			return fmt.Errorf("hand over %s: %w", f.Name, err)
		}
		copies = append(copies, own)
		m.Files = append(m.Files, f.Name)
	}
	return c.send(m, copies)
}

func awaitReady(ctx context.Context, c conn, deadline time.Time) error {
	m, files, err := c.receive(ctx, deadline)
	closeAll(files)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("it was not ready in time")
	case errors.Is(err, errClosed):
		return errors.New("it has ended before it was ready")
	case err == nil && m.Kind != ready:
		err = fmt.Errorf("%w: %q", errMessage, m.Kind)
	}
	return err
}

// takeBack goes on as before, once the successor has ended: it may have the store
// open, and what is in the directory is its, until then.
func (s *server) takeBack(ctx context.Context, c conn, p peer, why error, log *slog.Logger) {
	log.Error("the takeover has failed; this edge goes on", slog.Any("error", why))
	_ = c.send(s.say(back, why), nil) // it may have gone
	_ = c.Close()
	if ctx.Err() != nil {
		return
	}
	patient, cancel := context.WithTimeout(ctx, graceful)
	defer cancel()
	if p.await(patient) != nil && ctx.Err() == nil {
		log.Error("the successor does not end, and is killed")
		if err := p.kill(); err != nil {
			log.Error("the successor cannot be killed", slog.Any("error", err))
		}
		if err := p.await(ctx); err != nil && ctx.Err() == nil {
			log.Error("the end of the successor cannot be waited for", slog.Any("error", err))
		}
	}
	if ctx.Err() == nil {
		s.cfg.Incumbent.Resume(ctx, why)
	}
}

// restart starts a successor for a caller that waits for the outcome.
func (s *server) restart(ctx context.Context, c conn, p peer) {
	pid, err := s.spawn(ctx)
	if err != nil {
		s.refuse(c, p, err)
		return
	}
	m := s.say(done, nil)
	m.PID = pid
	_ = c.send(m, nil) // it has become so, whether the message arrives or not
}

// spawn starts a successor, and returns its process id when it serves. Once the caller
// has that, or the error, another may be asked for.
func (s *server) spawn(ctx context.Context) (pid int, err error) {
	select {
	case s.restarts <- struct{}{}:
	default:
		return 0, errBusy
	}
	defer func() { <-s.restarts }()
	select {
	case <-s.departed:
		return s.departure.PID, nil
	default:
	}
	child, err := s.cfg.Incumbent.Spawn()
	if err != nil {
		return 0, err
	}
	select {
	case <-s.departed:
		return s.departure.PID, nil
	case err := <-child.Done:
		if err != nil {
			return 0, fmt.Errorf("the successor ended: %w", err)
		}
		return 0, errors.New("the successor ended")
	case <-time.After(s.cfg.Timeout + 2*graceful):
		err = errors.New("the successor has not taken over in time")
	case <-ctx.Done():
		err = errors.New("the edge is stopping")
	}
	select {
	case <-s.departed: // both at once: it serves
		return s.departure.PID, nil
	default:
		return 0, errors.Join(err, child.Kill())
	}
}

// Departure is an incumbent's time after its successor serves.
type Departure struct {
	PID int // of the successor

	c   conn
	say func(kind, error) message
}

// Drained reports to the successor that this process answers nothing more.
func (d *Departure) Drained() error { return d.c.send(d.say(drained, nil), nil) }

// Close ends the conversation.
func (d *Departure) Close() error { return d.c.Close() }
