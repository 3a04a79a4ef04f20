package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// database is a connection, and the environment that leads a child to the same database.
type database struct {
	conn  *pgx.Conn
	cfg   *pgx.ConnConfig
	env   []string
	major int
}

// closeGrace bounds the end of a connection.
const closeGrace = 5 * time.Second

// variables holds the variables of libpq by the parameters of a URL that they stand for.
// Other parameters, such as time limits of requests, are not meant for backups.
var variables = map[string]string{
	"sslmode": "PGSSLMODE", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "sslrootcert": "PGSSLROOTCERT",
	"sslnegotiation": "PGSSLNEGOTIATION", "channel_binding": "PGCHANNELBINDING", "passfile": "PGPASSFILE",
	"connect_timeout": "PGCONNECT_TIMEOUT", "options": "PGOPTIONS", "krbsrvname": "PGKRBSRVNAME",
}

// connect opens a connection without time limits for statements.
func connect(ctx context.Context, cfg Config) (*database, error) {
	u, err := url.Parse(cfg.DatabaseURL)
	if err != nil {
		return nil, errors.New("the database URL cannot be read; it looks like postgres://user@host/name")
	}
	cc, err := pgx.ParseConfig(cfg.DatabaseURL)
	if err != nil {
		return nil, errors.New("the database URL cannot be read; it looks like postgres://user@host/name")
	}
	for _, fallback := range cc.Fallbacks {
		if fallback.Host != cc.Host || fallback.Port != cc.Port {
			return nil, errors.New("the database URL names several servers: name one, because the dump has to be of the same server as its manifest")
		}
	}
	for _, limit := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		cc.RuntimeParams[limit] = "0"
	}
	db := &database{cfg: cc}
	// In the environment no other user of the machine sees the password.
	for _, v := range cfg.Environ {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "WAYPOST_") {
			db.env = append(db.env, v)
		}
	}
	db.env = append(db.env, "PGHOST="+cc.Host, "PGPORT="+strconv.Itoa(int(cc.Port)), "PGUSER="+cc.User, "PGDATABASE="+cc.Database,
		"PGAPPNAME=waypost backup", "LC_ALL=C")
	if cc.Password != "" {
		db.env = append(db.env, "PGPASSWORD="+cc.Password)
	}
	for name, variable := range variables {
		if value := u.Query().Get(name); value != "" {
			db.env = append(db.env, variable+"="+value)
		}
	}
	if db.conn, err = pgx.ConnectConfig(ctx, cc); err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if err := db.conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer / 10000`).Scan(&db.major); err != nil {
		db.close()
		return nil, fmt.Errorf("read the version of PostgreSQL: %w", err)
	}
	return db, nil
}

func (db *database) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_ = db.conn.Close(ctx) // its transaction ends with the connection in any case
}

// command prepares a program of PostgreSQL's, without a shell and without a password in
// its arguments. When ctx ends, the program is asked to end. When this process ends, the
// program ends.
func (db *database) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = db.env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = closeGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // Ctrl-C comes through ctx alone
	return cmd
}

// run waits for a program, and adds its last output to its error.
func run(cmd *exec.Cmd) error {
	// The kernel ends the child with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	said := &lastWords{}
	cmd.Stderr = said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, said.text())
	}
	return nil
}

// maxWords bounds the part of a program's messages that is kept, in bytes.
const maxWords = 2 << 10

// lastWords keeps the last bytes that are written to it.
type lastWords struct{ kept []byte }

func (w *lastWords) Write(p []byte) (int, error) {
	w.kept = append(w.kept, p...)
	if over := len(w.kept) - maxWords; over > 0 {
		w.kept = append(w.kept[:0], w.kept[over:]...)
	}
	return len(p), nil
}

func (w *lastWords) text() string {
	return strings.ToValidUTF8(string(bytes.TrimSpace(w.kept)), "?")
}

// tick separates two reports of progress.
const tick = 500 * time.Millisecond

// ticking calls report now and then, until stop is called, which calls it once more.
func ticking(report func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(tick)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				report()
			case <-done:
				report()
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
