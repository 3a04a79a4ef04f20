package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"waypost/controlplane/postgres/scoped"
)

// Notifier carries hints of commits between control planes.
type Notifier struct{ pool *pool }

const (
	hintChannel = "waypost_moved"
	hintName    = "waypost hints" // application_name of the connection

	// hintGap is the least time between two messages. Followers of a busy changelog poll as
	// often.
	hintGap = 10 * time.Millisecond
	// hintLife is the life of a connection, as of those in the pool, because the URL may
	// lead to another server by then.
	hintLife  = time.Hour
	hintRetry = 2 * time.Second
)

var errPooler = errors.New("between here and PostgreSQL is a pooler, which may lose notifications")

// Notify carries hints between control planes until ctx ends: commits of this process
// wake the followers of the others, and theirs wake the followers of this one. It listens
// on a connection of its own. No writer's transaction notifies, because transactions that
// notify wait for one lock of the whole server. Hints may be lost: followers poll as
// well.
func (db *Notifier) Notify(ctx context.Context) {
	self := rand.Text()
	var running sync.WaitGroup
	running.Go(func() { db.tell(ctx, self) })
	db.pool.RunEvery(ctx, hintRetry, "hear of commits of other control planes", func(ctx context.Context) error {
		return db.hear(ctx, self)
	})
	running.Wait()
}

// tell notifies the others of commits.
func (db *Notifier) tell(ctx context.Context, self string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-db.pool.news:
		}
		// A hint need not survive anything, and the next commit sends another.
		round, cancel := context.WithTimeout(ctx, roundTimeout)
		_, _ = db.pool.ExecIn(round, scoped.Stream, `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`, hintChannel, self)
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-time.After(hintGap):
		}
	}
}

// hear wakes the followers at messages of others, until the connection fails or is old.
func (db *Notifier) hear(ctx context.Context, self string) error {
	conn, err := db.listen(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // nothing is lost with it
	}()
	db.pool.changed.wake() // by what came before
	old, cancel := context.WithTimeout(ctx, hintLife)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(old)
		switch {
		case old.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("wait for a notification: %w", err)
		case n.Payload != self:
			db.pool.changed.wake()
		}
	}
}

func (db *Notifier) listen(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	cc := db.pool.Config().ConnConfig
	cc.RuntimeParams["application_name"] = hintName
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, err
	}
	var pid uint32
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid)
	if err == nil && pid != conn.PgConn().PID() {
		err = errPooler
	}
	if err == nil {
		_, err = conn.Exec(ctx, `LISTEN `+hintChannel)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
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
