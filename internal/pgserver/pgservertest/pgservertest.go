// Package pgservertest makes for each test a PostgreSQL database of its own: one
// server per test process, started when the first test asks, and one copy of a
// prepared template per test. It is not for anything but tests.
package pgservertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost/internal/pgserver"
)

// Cluster is the server of one test process. Zero is ready to use; a test package
// holds one and runs its tests through Main:
//
//	var cluster = &pgservertest.Cluster{Prepare: migrations.Up}
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
type Cluster struct {
	// Prepare fills the template that each test's database is copied from.
	Prepare func(ctx context.Context, url string) error

	once   sync.Once
	err    error
	dir    string
	server *pgserver.Server
	names  atomic.Int64
}

const (
	template     = "template_test"
	startTimeout = 2 * time.Minute
)

// Main runs the tests and then stops the server and removes its directory. The
// answer is the exit code.
func (c *Cluster) Main(m *testing.M) int {
	code := m.Run()
	if err := c.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgservertest:", err)
		return 1
	}
	return code
}

// Database returns the URL of a new database, which is dropped when the test ends. It is
// [Patient].
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	server := c.Server(t)
	name := "test_" + strconv.FormatInt(c.names.Add(1), 10)
	if err := server.CreateDatabase(t.Context(), name, template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		if err := server.DropDatabase(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return Patient(server.DatabaseURL(name))
}

// timeouts are longer than a machine that has much else to do may stand still.
var timeouts = map[string]string{
	"connect_timeout":                     "60", // seconds; the others are milliseconds
	"statement_timeout":                   "60000",
	"lock_timeout":                        "60000",
	"idle_in_transaction_session_timeout": "60000",
}

// Patient returns a URL with timeouts by which no test ends that is only slow.
func Patient(address string) string {
	return withQuery(address, func(q url.Values) {
		for name, value := range timeouts {
			q.Set(name, value)
		}
	})
}

// Plain returns a URL without the timeouts that [Patient] has put there: clients have
// its own.
func Plain(address string) string {
	return withQuery(address, func(q url.Values) {
		for name := range timeouts {
			q.Del(name)
		}
	})
}

// foreign settings are as far from PostgreSQL's defaults as an operator's may be. With
// WAYPOST_TEST_POSTGRES=foreign all clusters have them, and make test runs stores on
// them.
var foreign = map[string]string{
	"TimeZone":                       "Asia/Kathmandu", // 5:45 hours ahead of UTC
	"DateStyle":                      "SQL, DMY",
	"IntervalStyle":                  "sql_standard",
	"bytea_output":                   "escape",
	"extra_float_digits":             "-15",
	"default_text_search_config":     "pg_catalog.turkish",
	"default_transaction_isolation":  "serializable",
	"default_transaction_deferrable": "on",
	"jit_above_cost":                 "10000",
	"work_mem":                       "64kB",
	"random_page_cost":               "10",
	"plan_cache_mode":                "force_generic_plan",
	"constraint_exclusion":           "off",
	"enable_partitionwise_join":      "on",
	"enable_partitionwise_aggregate": "on",
	"default_statistics_target":      "1",
	"default_toast_compression":      "lz4",
	"client_encoding":                "LATIN1",
}

// foreignLocale has other lower case than all other languages, and another order.
const foreignLocale = "tr-TR"

func withQuery(address string, change func(url.Values)) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	q := u.Query()
	change(q)
	u.RawQuery = q.Encode()
	return u.String()
}

// Server returns the one server and starts it at the first call. With -short it skips the
// test.
func (c *Cluster) Server(t testing.TB) *pgserver.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs PostgreSQL")
	}
	c.once.Do(func() { c.err = c.start() })
	if c.err != nil {
		t.Fatal(c.err)
	}
	return c.server
}

func (c *Cluster) start() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if c.dir, err = os.MkdirTemp("", "waypost-pg-"); err != nil {
		return fmt.Errorf("make a directory for PostgreSQL: %w", err)
	}
	cfg := pgserver.Config{
		Dir: filepath.Join(c.dir, "postgres"),
		// The data ends with the process, so nothing is worth an fsync.
		Settings: map[string]string{"fsync": "off", "full_page_writes": "off"},
	}
	if os.Getenv("WAYPOST_TEST_POSTGRES") == "foreign" {
		maps.Copy(cfg.Settings, foreign)
		cfg.Locale = foreignLocale
	}
	c.server, err = pgserver.Start(ctx, cfg)
	if err != nil {
		return err
	}
	if err := c.server.CreateDatabase(ctx, template, ""); err != nil || c.Prepare == nil {
		return err
	}
	if err := c.Prepare(ctx, Patient(c.server.DatabaseURL(template))); err != nil {
		return fmt.Errorf("prepare the template database: %w", err)
	}
	return nil
}

func (c *Cluster) stop() error {
	var err error
	if c.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		err = c.server.Stop(ctx)
	}
	if c.dir != "" {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	return err
}
