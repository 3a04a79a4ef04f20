package postgres_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/replication"
)

// memory is a postgres.Memory that survives the process it stands for.
type memory struct {
	mu       sync.Mutex
	document []byte
	aside    [][]byte
}

func (m *memory) Load() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.document, nil
}

func (m *memory) Save(document []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.document = document
	return nil
}

func (m *memory) SetAside() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.aside, m.document = append(m.aside, m.document), nil
	return nil
}

func (m *memory) copy() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memory{document: m.document}
}

var clusterConfig = postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"}

// startNode starts a control plane's use of the database.
func startNode(t *testing.T, url string, m postgres.Memory) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url, Memory: m, HearTimeout: waitLimit, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, err = db.EnsureCluster(t.Context(), clusterConfig)
	require.NoError(t, err)
	return db
}

// otherIdentity makes the database look like one that was restored into a PostgreSQL of
// another identity.
const otherIdentity = `UPDATE changelog_epoch SET system_identifier = system_identifier + 1`

func TestAnotherIdentityOfPostgreSQLOpensAnEpochAndEndsAllLeases(t *testing.T) {
	url, m := cluster.Database(t), &memory{}
	db := startNode(t, url, m)
	old, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.NoError(t, err)
	free, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.NoError(t, err)
	require.NoError(t, db.ReturnLease(t.Context(), free, free.Lo))
	at := insert(t, db, links(1)...)
	db.Close()

	exec(t, psql(t, url), otherIdentity)
	db = startNode(t, url, m)
	defer db.Close()
	head, err := db.Head(t.Context())
	require.NoError(t, err)
	require.Greater(t, head.Position.Epoch.Ordinal, at.Epoch.Ordinal)
	require.NotEqual(t, at.Epoch.ID, head.Position.Epoch.ID)
	_, err = db.Read(t.Context(), at, 10)
	require.ErrorIs(t, err, replication.ErrOtherHistory)

	_, _, err = db.InsertLinks(t.Context(), old.Epoch, insertions(links(2)...))
	require.ErrorIs(t, err, controlplane.ErrEpoch)
	fresh, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.NoError(t, err)
	require.Equal(t, old.Prefix, fresh.Prefix)
	// A minute at 10,000 a second, and room for twenty leases that grew twice.
	require.GreaterOrEqual(t, fresh.Lo, free.Hi+600_000+20*4*100)
	require.Less(t, fresh.Lo, free.Hi+9_000_000, "failovers are cheap: less than a hundredth of a prefix")
	newFollow(t, db)
}

func TestHistory_AnotherSecretOpensNoEpoch(t *testing.T) {
	url := cluster.Database(t)
	startNode(t, url, &memory{}).Close()
	hand := psql(t, url)
	exec(t, hand, otherIdentity)
	_, err := postgres.Open(t.Context(), postgres.Config{URL: url, Memory: &memory{}, Secret: &[32]byte{1}})
	require.ErrorContains(t, err, "the cluster secret is not the one")
	require.EqualValues(t, 1, number(t, hand, `SELECT count(*) FROM changelog_epoch`))
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url, Memory: &memory{}, Secret: &[32]byte{}})
	require.NoError(t, err)
	db.Close()
	require.EqualValues(t, 2, number(t, hand, `SELECT count(*) FROM changelog_epoch`))
}

func TestHistory_IssuesNoKeyWithoutAHighWaterMarkUntilAnOperatorSaysSo(t *testing.T) {
	url := cluster.Database(t)
	db := startNode(t, url, &memory{})
	old, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.NoError(t, err)
	db.Close()

	exec(t, psql(t, url), otherIdentity)
	fresh := &memory{}
	db = startNode(t, url, fresh) // the machine with the high-water mark is gone as well
	_, err = db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
	require.NoError(t, db.WatchOnce(t.Context()))
	db.Close()
	// Restored a second time: what looked at it meanwhile knows no more than the backup.
	exec(t, psql(t, url), `UPDATE key_state SET held = '', held_since = NULL, gap = 0`)
	exec(t, psql(t, url), otherIdentity)
	db = startNode(t, url, fresh)
	defer db.Close()
	_, err = db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
	require.ErrorContains(t, err, "waypost ranges resume")
	insert(t, db, links(1)...) // custom codes need no key
	space, err := db.KeySpace(t.Context())
	require.NoError(t, err)
	require.Contains(t, space.Held, "no control plane remembers")
	require.False(t, space.HeldSince.IsZero())
	require.Positive(t, space.ResumeGap)

	dry, err := db.ChangeRanges(t.Context(), operator, resume(nil, true))
	require.NoError(t, err)
	require.Equal(t, space.ResumeGap, *dry[0].Step.Gap)
	_, err = db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.Error(t, err, "a dry run changes nothing")

	_, err = db.ChangeRanges(t.Context(), operator, resume(nil, false))
	require.NoError(t, err)
	entries, err := db.Audit(t.Context(), waypost.DefaultWorkspace, 0, 10)
	require.NoError(t, err)
	require.Len(t, entries, 1, "what was only tried is not in the audit log")
	require.Contains(t, string(entries[0].Detail), fmt.Sprintf(`"gap": %d`, space.ResumeGap), "what was done, not only what was asked for")
	after, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, after.Lo, old.Hi+space.ResumeGap)
	other, err := db.TakeLease(t.Context(), "us", "n/3", 100, nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, other.Lo, space.ResumeGap, "a prefix that looks unused may have been used as well")
	_, err = db.ChangeRanges(t.Context(), operator, resume(nil, false))
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
}

func resume(gap *int64, dry bool) api.RangeChange {
	return api.RangeChange{Steps: []api.RangeStep{{Action: keys.ResumeKeys, Gap: gap}}, DryRun: dry}
}

var operator = controlplane.Actor{
	Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeAdmin},
	KeyID: 7, Name: "ops",
}

// sinceThen replaces the time of the document's last look.
func (m *memory) sinceThen(at []byte) {
	text, _, _ := bytes.Cut(m.document, []byte{'\n'})
	m.document = postgres.Sealed(regexpAt.ReplaceAll(text, at))
}

var regexpAt = regexp.MustCompile(`"at":[0-9.e+]+`)

const (
	waitLimit = time.Minute
	pause     = 20 * time.Millisecond
)

func TestABackupThatIsTooOldWaitsForTheOperatorsGap(t *testing.T) {
	url, m := cluster.Database(t), &memory{}
	db := startNode(t, url, m)
	_, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.NoError(t, err)
	db.Close()
	hand := psql(t, url)
	exec(t, hand, otherIdentity)
	// Everything that shows the time of the last look is a month old.
	m.sinceThen([]byte(`"at":1000`))
	exec(t, hand, `UPDATE changelog_epoch SET opened_at = opened_at - interval '31 days'`)
	exec(t, hand, `UPDATE control_node SET seen_at = seen_at - interval '31 days'`)
	exec(t, hand, `ALTER TABLE changelog NO FORCE ROW LEVEL SECURITY`)
	exec(t, hand, `UPDATE changelog SET at = at - interval '31 days'`)
	exec(t, hand, `ALTER TABLE changelog FORCE ROW LEVEL SECURITY`)

	db = startNode(t, url, m)
	defer db.Close()
	_, err = db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
	_, err = db.ChangeRanges(t.Context(), operator, resume(nil, false))
	require.ErrorContains(t, err, "say by how many counters")
	for _, bad := range []int64{-1, 1 << 40} {
		_, err = db.ChangeRanges(t.Context(), operator, resume(&bad, false))
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	}
	gap := int64(5_000_000)
	_, err = db.ChangeRanges(t.Context(), operator, resume(&gap, false))
	require.NoError(t, err)
	fresh, err := db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, fresh.Lo, 100+gap)
}

// A control plane remembers the keys that it issued after the backup was made.
func TestHistory_IssuesNothingBelowWhatControlPlanesRemember(t *testing.T) {
	url := cluster.Database(t)
	m, m2 := &memory{}, &memory{}
	db, db2 := startNode(t, url, m), startNode(t, url, m2)
	_, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.NoError(t, err)
	require.NoError(t, db.WatchOnce(t.Context()))
	hand := psql(t, url)
	backup := dump(t, hand)

	// Far ahead of any gap: a part of the range goes to another region, and a new
	// prefix is used.
	space, err := db.KeySpace(t.Context())
	require.NoError(t, err)
	r := space.Ranges[0]
	_, err = db.ChangeRanges(t.Context(), operator, api.RangeChange{Steps: []api.RangeStep{
		{Action: keys.MoveRange, Range: r.ID, Region: "us", At: 500_000_000},
		{Action: keys.AssignPrefix, Region: "ap", Prefix: "zz"},
	}})
	require.NoError(t, err)
	far, err := db2.TakeLease(t.Context(), "us", "n/2", 100, nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, far.Lo, int64(500_000_000))
	third, err := db2.TakeLease(t.Context(), "ap", "n/2", 100, nil)
	require.NoError(t, err)
	require.Equal(t, 3843, third.Prefix)
	db2.Close()

	restore(t, hand, backup)
	exec(t, hand, otherIdentity)
	exec(t, hand, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	require.Eventually(t, func() bool { return db.WatchOnce(t.Context()) == nil }, waitLimit, pause,
		"the first control plane, which did not lease those keys")
	early, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.NoError(t, err)
	require.Equal(t, r.Ordinal, early.Prefix)

	db2 = startNode(t, url, m2) // the other one comes when the epoch is open already
	defer db2.Close()
	defer db.Close()
	_, _, err = db.InsertLinks(t.Context(), early.Epoch, []controlplane.Insertion{{Link: link("some-code"), Lease: early.ID}})
	require.NoError(t, err, "nobody remembers these counters")
	next, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.NoError(t, err)
	require.True(t, next.Prefix != r.Ordinal || next.Lo >= far.Hi, "%+v", next)
	_, err = db.ChangeRanges(t.Context(), operator, api.RangeChange{Steps: []api.RangeStep{
		{Action: keys.AssignPrefix, Region: "ap", Prefix: "zz"},
	}})
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err), "a prefix that the lost history used is not free")

	// A control plane that comes too late takes back what was leased below its memory.
	exec(t, hand, fmt.Sprintf(`SELECT key_remember('[{"prefix": %d, "region": "eu", "lo": 0, "hi": 900000000, "next": %d}]')`,
		next.Prefix, next.Lo+1))
	_, _, err = db.InsertLinks(t.Context(), next.Epoch, []controlplane.Insertion{{Link: link("other-code"), Lease: next.ID}})
	fenced := &controlplane.FencedError{}
	require.ErrorAs(t, err, &fenced)
	require.Equal(t, []int64{next.ID}, fenced.Leases)
}

// dump and restore take the tables about keys back in time, as a backup would.
func dump(t *testing.T, hand *pgx.Conn) (tables map[string]string) {
	t.Helper()
	tables = make(map[string]string)
	for _, table := range []string{"key_lease", "key_range"} {
		var rows string
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT coalesce(jsonb_agg(to_jsonb(x)), '[]')::text FROM `+table+` x`).Scan(&rows))
		tables[table] = rows
	}
	return tables
}

func restore(t *testing.T, hand *pgx.Conn, tables map[string]string) {
	t.Helper()
	for _, table := range []string{"key_lease", "key_range"} {
		exec(t, hand, `DELETE FROM `+table)
	}
	for _, table := range []string{"key_range", "key_lease"} {
		_, err := hand.Exec(t.Context(), `INSERT INTO `+table+` OVERRIDING SYSTEM VALUE SELECT * FROM jsonb_populate_recordset(NULL::`+table+`, $1::text::jsonb)`, tables[table])
		require.NoError(t, err)
	}
}

func TestARollbackThatWasWrittenOverIsNoticed(t *testing.T) {
	url, m := cluster.Database(t), &memory{}
	db := startNode(t, url, m)
	insert(t, db, links(1)...)
	require.NoError(t, db.WatchOnce(t.Context()))
	head, err := db.Head(t.Context())
	require.NoError(t, err)
	db.Close()

	hand := psql(t, url) // others have written as many transactions since the rollback, and more
	exec(t, hand, `ALTER TABLE changelog NO FORCE ROW LEVEL SECURITY`)
	exec(t, hand, `UPDATE changelog SET stamp = stamp + 1 WHERE seq = (SELECT seq FROM changelog_head)`)
	exec(t, hand, `ALTER TABLE changelog FORCE ROW LEVEL SECURITY`)
	exec(t, hand, `UPDATE link SET title = 'x'`)
	db = startNode(t, url, m)
	defer db.Close()
	now, err := db.Head(t.Context())
	require.NoError(t, err)
	require.Greater(t, now.Position.Epoch.Ordinal, head.Position.Epoch.Ordinal)
}

func TestADirectoryOfAnotherClusterIsRefused(t *testing.T) {
	m := &memory{}
	startNode(t, cluster.Database(t), m).Close()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: cluster.Database(t), Memory: m.copy()})
	if err == nil {
		defer db.Close()
	}
	require.ErrorContains(t, err, "another cluster", "a database that was set up anew would issue every key again")
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
}

func TestAMemoryThatCannotBeReadIsSetAside(t *testing.T) {
	good := &memory{}
	url := cluster.Database(t)
	startNode(t, url, good).Close()
	for _, document := range []string{
		"", "{", "[]", `{"version":9}`, `{"version":1,"cluster":"x","position":"y"}`, string(good.document[:len(good.document)/2]),
		strings.Replace(string(good.document), `"version":1`, `"version": 1`, 1),
		memoryOf(1e300, 1, "eu"), memoryOf(-1, 1, "eu"), memoryOf(1, 62*62*62, "eu"), memoryOf(1, 1, "E u"),
	} {
		m := &memory{document: []byte(document)}
		db := startNode(t, url, m)
		db.Close()
		require.Equal(t, [][]byte{[]byte(document)}, m.aside)
		require.NotEmpty(t, m.document, "from now on it is remembered again")
	}
}

func memoryOf(at float64, prefix int, region string) string {
	return string(postgres.Sealed(fmt.Appendf(nil, `{"version":1,"cluster":"a","position":"1-00000000000000000000000000000000-1-0000000000000001","at":%g,"epoch":1,"ranges":[{"prefix":%d,"region":%q,"lo":0,"hi":2,"next":1}]}`, at, prefix, region)))
}

func FuzzAMemoryIsReadOrSetAside(f *testing.F) {
	f.Add([]byte(`{"version":1,"cluster":"a","position":"1-00000000000000000000000000000000-1-0000000000000001","at":1,"epoch":1,"ranges":[{"prefix":1,"region":"eu","lo":0,"hi":2,"next":1}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		m := &memory{document: postgres.Sealed(document)}
		_, err := postgres.Open(t.Context(), postgres.Config{URL: "postgres://nobody@127.0.0.1:1/none", Memory: m})
		require.Error(t, err)
		require.LessOrEqual(t, len(m.aside), 1)
	})
}

func TestACommandThatOnlyLooksInOpensNoEpoch(t *testing.T) {
	url, m := cluster.Database(t), &memory{}
	db := startNode(t, url, m)
	_, err := db.TakeLease(t.Context(), "eu", "n/1", 100, nil)
	require.NoError(t, err)
	db.Close()
	exec(t, psql(t, url), otherIdentity)
	visitor, err := postgres.Open(t.Context(), postgres.Config{URL: url, ReadOnly: true})
	require.NoError(t, err)
	_, err = visitor.CreateKey(t.Context(), "default", "test", []string{"admin"})
	require.NoError(t, err)
	visitor.Close()
	db = startNode(t, url, m)
	defer db.Close()
	_, err = db.TakeLease(t.Context(), "eu", "n/2", 100, nil)
	require.NoError(t, err, "the control plane remembers")
}
