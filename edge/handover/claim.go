package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoIncumbent says that no process serves whose place could be taken: the caller
// starts as always.
var ErrNoIncumbent = errors.New("no edge runs in this directory, or it is of a version that cannot be taken over")

// ClaimConfig of Claim. The fields are as in [Config].
type ClaimConfig struct {
	Dir     string
	Version string
	Formats string
	Logger  *slog.Logger // default: discarded
}

// Succession is the successor's side of a takeover.
type Succession struct {
	PID     int    // of the incumbent
	Version string // of its program

	c     conn
	peer  peer
	cfg   ClaimConfig
	files map[string]*os.File
	alone bool // the incumbent has ended
}

// Claim asks the process that serves in a data directory to give way. It has let go
// of its store when Claim returns, and goes on answering until Ready. The error wraps
// ErrNoIncumbent when there is no such process, or none any more.
func Claim(ctx context.Context, cfg ClaimConfig) (_ *Succession, err error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := dial(ctx, cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	s := &Succession{c: c, cfg: cfg}
	if s.peer, err = c.identify(); err != nil {
		return nil, errors.Join(fmt.Errorf("take over: %w", err), c.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("take over from process %d: %w", s.peer.pid, err), s.Close())
		}
	}()
	if uid := os.Geteuid(); s.peer.uid != uid {
		return nil, fmt.Errorf("it runs as user %d, and this process as user %d: be that user", s.peer.uid, uid)
	}
	if err := c.send(s.say(claim), nil); err != nil {
		return nil, s.orEnded(ctx, err)
	}
	m, files, err := c.receive(ctx, time.Time{}) // its Release has a limit
	if err != nil {
		return nil, s.orEnded(ctx, err)
	}
	s.PID, s.Version = s.peer.pid, m.Version
	if m.Kind != estate || m.Protocol != protocol {
		closeAll(files)
		return nil, unexpected(m)
	}
	s.files = make(map[string]*os.File, len(files))
	for i, f := range files {
		if other := s.files[m.Files[i]]; other != nil {
			closeAll([]*os.File{other})
		}
		s.files[m.Files[i]] = f
	}
	return s, nil
}

func (s *Succession) say(k kind) message {
	return message{Kind: k, Protocol: protocol, PID: os.Getpid(), Version: s.cfg.Version, Formats: s.cfg.Formats}
}

// unexpected is the error of an answer that is not the one that was hoped for.
func unexpected(m message) error {
	if m.Kind == refused || m.Kind == back {
		return fmt.Errorf("it (waypost %s) does not give way: %s", m.Version, m.Reason)
	}
	return fmt.Errorf("%w: %q of version %d, waypost %s", errMessage, m.Kind, m.Protocol, m.Version)
}

// orEnded judges an error of the conversation: when the other side has ended, it is
// ErrNoIncumbent.
func (s *Succession) orEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	patient, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if s.peer.await(patient) != nil {
		return err
	}
	s.alone = true
	return fmt.Errorf("it has ended: %w", ErrNoIncumbent)
}

// Take returns a file that the incumbent has handed over, once; nil when there is none
// of that name. It is then the caller's.
func (s *Succession) Take(name string) *os.File {
	f := s.files[name]
	delete(s.files, name)
	return f
}

// Ready says that this process can serve, and returns when it is to do so: the
// incumbent accepts nothing more, or has ended. After an error the incumbent goes on,
// and waits for the end of this process.
func (s *Succession) Ready(ctx context.Context) error {
	err := s.c.send(s.say(ready), nil)
	var m message
	if err == nil || errors.Is(err, unix.EPIPE) { // it has hung up, and may have said why
		var files []*os.File
		m, files, err = s.c.receive(ctx, time.Time{})
		closeAll(files)
	}
	if err == nil && m.Kind != yours {
		err = unexpected(m)
	} else if err != nil {
		// An incumbent that takes its word back says so. One that has ended has left
		// everything to this process.
		if err = s.orEnded(ctx, err); errors.Is(err, ErrNoIncumbent) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("take over from process %d: %w", s.peer.pid, err)
	}
	return nil
}

// Drained waits until the incumbent answers nothing more.
func (s *Succession) Drained(ctx context.Context) error {
	for !s.alone {
		m, files, err := s.c.receive(ctx, time.Time{})
		closeAll(files)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return s.Ended(ctx)
		}
		if m.Kind == drained {
			return nil
		}
	}
	return nil
}

// Ended waits until the incumbent's process has ended.
func (s *Succession) Ended(ctx context.Context) error { return s.peer.await(ctx) }

// Close ends the conversation, and closes what was not taken. It is called once.
func (s *Succession) Close() error {
	for _, f := range s.files {
		closeAll([]*os.File{f})
	}
	return errors.Join(s.c.Close(), s.peer.close())
}

// Restart asks the process that serves in a data directory to start a successor, and
// waits until that serves. It returns its process id.
func Restart(ctx context.Context, cfg ClaimConfig) (pid int, err error) {
	c, err := dial(ctx, cfg.Dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.send(message{Kind: restart, Protocol: protocol, PID: os.Getpid(), Version: cfg.Version}, nil); err != nil {
		return 0, err
	}
	m, files, err := c.receive(ctx, time.Time{})
	closeAll(files)
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err != nil:
		return 0, fmt.Errorf("the edge did not say what came of it: %w", err)
	case m.Kind != done:
		return 0, fmt.Errorf("the edge (waypost %s) goes on as it was: %s", m.Version, m.Reason)
	}
	return m.PID, nil
}
