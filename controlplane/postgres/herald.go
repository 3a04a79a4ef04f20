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

const (
	heraldChannel = "waypost_moved"
	heraldName    = "waypost hints" // application_name of the connection
	// heraldHello asks the others to say something. Any other word is that the head
	// moved, or that there is somebody at all.
	heraldHello = "hello"

	// heraldGap lies between two words to the others, and between two hints to the own
	// followers. Followers of a changelog that moves look as often by themselves.
	heraldGap = 10 * time.Millisecond
	// heraldPresence is the time between words when nothing happens, by which a
	// connection that is dead is noticed. Who was silent for three times as long is
	// gone, and who is alone tells nobody of commits.
	heraldPresence = 30 * time.Second
	// heraldLife is that of a connection, as of those in the pool: the URL may lead to
	// another server by then.
	heraldLife = time.Hour

	heraldRetry    = 250 * time.Millisecond // twice as long at every failure
	heraldRetryMax = 30 * time.Second
)

var errPooler = errors.New("between here and PostgreSQL is a pooler, which may lose notifications")

// Herald carries hints between control planes until ctx is over: commits of this process
// wake the followers of the others, and theirs those of this one. It has one connection of its own,
// and no transaction of a writer's ever notifies: all who do wait for one lock of the whole cluster.
// Hints may be lost. Followers poll as well, and without that connection they only poll.
func (db *DB) Herald(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		begun := time.Now()
		err := db.heraldOnce(ctx)
		if time.Since(begun) > heraldRetryMax {
			failures = 0
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if failures++; failures == 1 {
			db.log.Info("for now commits of other control planes are found by polling alone", "error", err)
		}
		wait := min(heraldRetry<<min(failures-1, 10), heraldRetryMax)
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait/2)): // not all at the same moment
		}
	}
}

// heraldOnce is the life of one connection.
func (db *DB) heraldOnce(ctx context.Context) error {
	conn, err := db.heraldConnect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // nothing is lost with it
	}()
	h := hearing{db: db, conn: conn}
	if err := h.exec(ctx, `LISTEN `+heraldChannel); err != nil {
		return err
	}
	h.hint() // of what came before
	if err := h.say(ctx, heraldHello); err != nil {
		return err
	}
	for end := time.Now().Add(heraldLife); ctx.Err() == nil && time.Now().Before(end); {
		if err := h.turn(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) heraldConnect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	cc := db.pool.Config().ConnConfig
	cc.RuntimeParams["application_name"] = heraldName
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

// hearing is a connection on which hints come and go.
type hearing struct {
	db   *DB
	conn *pgx.Conn

	heard  time.Time // when another control plane last said something; zero: never
	said   time.Time
	hinted time.Time
	owed   bool // the followers are to be woken
}

// turn does what is due, or waits for something to do.
func (h *hearing) turn(ctx context.Context) error {
	now := time.Now()
	company := now.Sub(h.heard) < 3*heraldPresence
	due := h.said.Add(heraldPresence)
	news := h.db.news.pending()
	if news && company {
		due = h.said.Add(heraldGap)
	}
	if !due.After(now) {
		return h.say(ctx, "")
	}
	if h.owed {
		wake := h.hinted.Add(heraldGap)
		if !wake.After(now) {
			h.hint()
			return nil
		}
		if wake.Before(due) {
			due = wake
		}
	}
	return h.wait(ctx, due, company && !news)
}

// wait ends at a word of another, when it is due or, if it may be interrupted, when
// there is news.
func (h *hearing) wait(ctx context.Context, due time.Time, interruptible bool) error {
	ctx, cancel := context.WithDeadline(ctx, due)
	defer cancel()
	if interruptible {
		if !h.db.news.interrupts(cancel) {
			return nil
		}
		defer h.db.news.interrupts(nil)
	}
	n, err := h.conn.WaitForNotification(ctx)
	switch {
	case n != nil && n.PID == h.conn.PgConn().PID(): // our own: to pass it on would never end
	case n != nil:
		h.heard, h.owed = time.Now(), true
		if n.Payload == heraldHello {
			h.db.news.tell()
		}
	}
	if err != nil && (ctx.Err() == nil || h.conn.IsClosed()) {
		return fmt.Errorf("wait for a notification: %w", err)
	}
	return nil
}

func (h *hearing) hint() {
	h.owed, h.hinted = false, time.Now()
	h.db.changed.tell()
}

// say tells all others that the head may have moved.
func (h *hearing) say(ctx context.Context, word string) error {
	told := h.db.news.take() // before the word, so that what is committed meanwhile gets another
	if err := h.exec(ctx, `NOTIFY `+heraldChannel+`, '`+word+`'`); err != nil {
		if told {
			h.db.news.tell()
		}
		return err
	}
	h.said = time.Now()
	return nil
}

func (h *hearing) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	_, err := h.conn.Exec(ctx, sql)
	return err
}

// news is whether there are commits of which the others were not told. Telling costs
// a writer no more than a lock that nobody holds for long.
type news struct {
	mu        sync.Mutex
	some      bool
	interrupt context.CancelFunc // of who waits for some
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.some = true
	if n.interrupt != nil {
		n.interrupt()
		n.interrupt = nil
	}
}

func (n *news) pending() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.some
}

func (n *news) take() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	some := n.some
	n.some = false
	return some
}

// interrupts sets what is called at the next news, and reports whether there is none yet.
func (n *news) interrupts(f context.CancelFunc) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.some && f != nil {
		return false
	}
	n.interrupt = f
	return true
}
