package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Notifier carries hints of commits between control planes.
type Notifier struct{ pool *pool }

const (
	hintChannel = "waypost_moved"
	hintName    = "waypost hints" // application_name of the connection
	// hintHello asks the others to send something. Any other message means that the head
	// moved, or that its sender exists.
	hintHello = "hello"

	// hintGap is the least time between two messages, and between two hints to the
	// process's own followers. Followers of a busy changelog poll as often.
	hintGap = 10 * time.Millisecond
	// hintPresence is the interval of messages while there are no commits, by which dead
	// connections are noticed. A control plane that was silent for three times as long
	// counts as gone, and the only control plane sends no hints of commits.
	hintPresence = 30 * time.Second
	// hintLife is the life of a connection, as of those in the pool, because the URL may
	// lead to another server by then.
	hintLife = time.Hour

	hintRetry    = 250 * time.Millisecond // twice as long at every failure
	hintRetryMax = 30 * time.Second
)

var errPooler = errors.New("between here and PostgreSQL is a pooler, which may lose notifications")

// Notify carries hints between control planes until ctx ends: commits of this process
// wake the followers of the others, and theirs wake the followers of this one. It has a
// connection of its own. No writer's transaction notifies, because transactions that
// notify wait for one lock of the whole server. Hints may be lost: followers poll as
// well.
func (db *Notifier) Notify(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		begun := time.Now()
		err := db.serveConnection(ctx)
		if time.Since(begun) > hintRetryMax {
			failures = 0
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if failures++; failures == 1 {
			db.pool.Log.Info("polling for commits of other control planes, without hints for now", "error", err)
		}
		wait := min(hintRetry<<min(failures-1, 10), hintRetryMax)
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait/2)): // not all at the same moment
		}
	}
}

// serveConnection uses one connection until it fails or is old.
func (db *Notifier) serveConnection(ctx context.Context) error {
	conn, err := db.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // nothing is lost with it
	}()
	l := listener{pool: db.pool, conn: conn}
	if err := l.exec(ctx, `LISTEN `+hintChannel); err != nil {
		return err
	}
	l.hint() // of what came before
	if err := l.say(ctx, hintHello); err != nil {
		return err
	}
	for end := time.Now().Add(hintLife); ctx.Err() == nil && time.Now().Before(end); {
		if err := l.turn(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (db *Notifier) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	cc := db.pool.Config().ConnConfig
	cc.RuntimeParams["application_name"] = hintName
	cc.RuntimeParams["synchronous_commit"] = "off" // a hint need not survive anything
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, err
	}
	var pid uint32
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid)
	if err == nil && pid != conn.PgConn().PID() {
		err = errPooler
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// listener is a connection on which hints come and go.
type listener struct {
	*pool
	conn *pgx.Conn

	heard  time.Time // when another control plane last said something; zero: never
	said   time.Time
	hinted time.Time
	owed   bool // the followers have yet to be woken
}

// turn does the work that is due, or waits for work.
func (l *listener) turn(ctx context.Context) error {
	now := time.Now()
	company := now.Sub(l.heard) < 3*hintPresence
	due := l.said.Add(hintPresence)
	news := l.news.pending()
	if news && company {
		due = l.said.Add(hintGap)
	}
	if !due.After(now) {
		return l.say(ctx, "")
	}
	if l.owed {
		wake := l.hinted.Add(hintGap)
		if !wake.After(now) {
			l.hint()
			return nil
		}
		if wake.Before(due) {
			due = wake
		}
	}
	return l.wait(ctx, due, company && !news)
}

// wait ends at a message of another control plane, when due, or, if interruptible, at the
// next commit of this process.
func (l *listener) wait(ctx context.Context, due time.Time, interruptible bool) error {
	ctx, cancel := context.WithDeadline(ctx, due)
	defer cancel()
	if interruptible {
		if !l.news.interrupts(cancel) {
			return nil
		}
		defer l.news.interrupts(nil)
	}
	n, err := l.conn.WaitForNotification(ctx)
	switch {
	case n != nil && n.PID == l.conn.PgConn().PID(): // our own: to pass it on would never end
	case n != nil:
		l.heard, l.owed = time.Now(), true
		if n.Payload == hintHello {
			l.news.addHint()
		}
	}
	if err != nil && (ctx.Err() == nil || l.conn.IsClosed()) {
		return fmt.Errorf("wait for a notification: %w", err)
	}
	return nil
}

func (l *listener) hint() {
	l.owed, l.hinted = false, time.Now()
	l.changed.wake()
}

// say notifies all others that the head may have moved.
func (l *listener) say(ctx context.Context, word string) error {
	told := l.news.takeHints() // before the message, so that a later commit gets another message
	if err := l.exec(ctx, `NOTIFY `+hintChannel+`, '`+word+`'`); err != nil {
		if told {
			l.news.addHint()
		}
		return err
	}
	l.said = time.Now()
	return nil
}

func (l *listener) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	_, err := l.conn.Exec(ctx, sql)
	return err
}

// unsentHints says whether there are commits that others were not notified of. Adding one
// costs a writer only a lock that is never held for long.
type unsentHints struct {
	mu        sync.Mutex
	some      bool
	interrupt context.CancelFunc // of the goroutine that waits for one
}

func (n *unsentHints) addHint() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.some = true
	if n.interrupt != nil {
		n.interrupt()
		n.interrupt = nil
	}
}

func (n *unsentHints) pending() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.some
}

func (n *unsentHints) takeHints() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	some := n.some
	n.some = false
	return some
}

// interrupts sets the function to call at the next commit, and reports whether there is
// none yet.
func (n *unsentHints) interrupts(f context.CancelFunc) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.some && f != nil {
		return false
	}
	n.interrupt = f
	return true
}

// hint wakes all goroutines that wait for the head to move.
type hint struct {
	mu sync.Mutex
	ch chan struct{}
}

func newHint() *hint { return &hint{ch: make(chan struct{})} }

func (h *hint) wait() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ch
}

func (h *hint) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.ch)
	h.ch = make(chan struct{})
}
