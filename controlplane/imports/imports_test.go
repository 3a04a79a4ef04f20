package imports_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/imports"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver/pgservertest"
	"waypost/keyrange"
	"waypost/migrations"
)

var cluster = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

var owner = controlplane.Actor{
	Workspace: waypost.DefaultWorkspace, UserID: 7, Name: "Ada",
	Scopes: []controlplane.Scope{controlplane.ScopeLinksRead, controlplane.ScopeLinksWrite},
}

// system is a control plane without a worker.
type system struct {
	*imports.Imports
	core *controlplane.Services
	db   *postgres.DB
	hand *pgx.Conn
	kill func(point string) // is called at points of the work of a worker

	refuse  func([]controlplane.NewLink) error // as a database that refuses a row
	checked sync.Map                           // the links of each controlplane.Checked
}

func start(t *testing.T) *system {
	t.Helper()
	url := cluster.Database(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	require.NoError(t, db.EnsureRanges(t.Context(), []waypost.Region{"eu"}))
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	minter := keys.NewMinter(keys.MinterConfig{
		Store: db, Coder: keyrange.NewCoder(space, [32]byte{}), Region: "eu", Node: "test/1", Patience: time.Minute,
		Logger: slog.New(slog.DiscardHandler),
	})
	core := controlplane.New(controlplane.Config{Store: db, Minter: minter, Patience: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { require.NoError(t, core.Close(context.Background())) })
	s := &system{core: core, db: db, kill: func(string) {}, refuse: func([]controlplane.NewLink) error { return nil }}
	s.Imports = imports.New(imports.Config{
		Store: killedStore{db, s}, Links: killedLinks{core.Links, s}, Link: httpapi.NewLinkOf(time.Now), Node: "test", Logger: slog.Default(),
	})
	byHand, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	byHand.User = "postgres"
	s.hand, err = pgx.ConnectConfig(t.Context(), byHand)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.hand.Close(context.Background())) })
	s.exec(t, `INSERT INTO app_user (id, email, name) OVERRIDING SYSTEM VALUE VALUES ($1, 'ada@example.com', 'Ada')`, owner.UserID)
	s.exec(t, `INSERT INTO membership (workspace_id, user_id, role) VALUES ($1, $2, 'member')`, owner.Workspace, owner.UserID)
	return s
}

// exec runs a statement by hand.
func (s *system) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := s.hand.Exec(t.Context(), sql, args...)
	require.NoError(t, err, sql)
}

type killedStore struct {
	imports.Store
	s *system
}

func (k killedStore) AddRows(ctx context.Context, i *imports.Import, worker string, p imports.Piece) error {
	k.s.kill("before rows")
	err := k.Store.AddRows(ctx, i, worker, p)
	k.s.kill("after rows")
	return err
}

func (k killedStore) Part(ctx context.Context, i *imports.Import, worker string, n int) ([]byte, error) {
	content, err := k.Store.Part(ctx, i, worker, n)
	k.s.kill("after part")
	return content, err
}

func (k killedStore) MissingParts(ctx context.Context, ws waypost.WorkspaceID, id string, n int) ([]int, error) {
	missing, err := k.Store.MissingParts(ctx, ws, id, n)
	k.s.kill("after missing")
	return missing, err
}

func (k killedStore) UndoImport(
	ctx context.Context, i *imports.Import, worker string, step *imports.UndoStep, removed func(int) ([]byte, error),
) (waypost.Position, error) {
	k.s.kill("before undo")
	at, err := k.Store.UndoImport(ctx, i, worker, step, removed)
	k.s.kill("after undo")
	return at, err
}

type killedLinks struct {
	*controlplane.Links
	s *system
}

func (k killedLinks) Check(ctx context.Context, by controlplane.Actor, ns []controlplane.NewLink) (*controlplane.Checked, error) {
	c, err := k.Links.Check(ctx, by, ns)
	if k.s.checked.Store(c, ns); err != nil {
		k.s.kill("after refused check")
	}
	return c, err
}

func (k killedLinks) CreateImported(
	ctx context.Context, c *controlplane.Checked, key *controlplane.Idempotency,
) ([]controlplane.Outcome, error) {
	k.s.kill("before links")
	ns, _ := k.s.checked.LoadAndDelete(c)
	if err := k.s.refuse(ns.([]controlplane.NewLink)); err != nil {
		k.s.kill("after links")
		return nil, err
	}
	all, err := k.Links.CreateImported(ctx, c, key)
	k.s.kill("after links")
	return all, err
}

// work runs workers until an import is in a state.
func (s *system) work(t *testing.T, id string, state string) imports.Import {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	var i imports.Import
	require.Eventually(t, func() bool {
		var err error
		i, err = s.db.Import(t.Context(), owner.Workspace, id)
		require.NoError(t, err)
		return i.State == state || i.State == api.ImportFailed
	}, 5*time.Minute, 4*time.Millisecond)
	cancel()
	<-done
	require.Equal(t, state, i.State, i.Problem)
	return i
}

// workKilled runs workers that are killed at the nth passing of a point, and reports
// whether there was one before the import was in the state.
func (s *system) workKilled(t *testing.T, id, state, point string, nth int) (killed bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done, dead := make(chan struct{}), make(chan struct{})
	s.kill = func(at string) {
		if at != point {
			return
		}
		if nth--; nth == 0 {
			killed = true
			cancel()
			close(dead)
		}
	}
	go func() { defer close(done); s.Run(ctx) }()
	for killedOrThere := false; !killedOrThere; {
		select {
		case <-dead:
			killedOrThere = true
		case <-time.After(5 * time.Millisecond):
			i, err := s.db.Import(t.Context(), owner.Workspace, id)
			require.NoError(t, err)
			killedOrThere = i.State == state
		}
	}
	cancel()
	<-done
	s.kill = func(string) {}
	return killed
}

// send makes an import of a file, and sends the file in parts of a size, the last first.
func (s *system) send(t *testing.T, file string, size int, set imports.Settings) imports.Import {
	t.Helper()
	set.Name, set.TimeZone = "links.csv", "UTC"
	i, err := s.Begin(t.Context(), owner, set)
	require.NoError(t, err)
	n := (len(file) + size - 1) / size
	for part := n; part > 0; part-- {
		require.NoError(t, s.PutPart(t.Context(), owner, i.ID, part, []byte(file[(part-1)*size:min(len(file), part*size)])))
	}
	i, err = s.Read(t.Context(), owner, i.ID, n, "")
	require.NoError(t, err)
	return i
}

// run imports a file.
func (s *system) run(t *testing.T, file string, set imports.Settings) imports.Import {
	t.Helper()
	i := s.send(t, file, 1<<20, set)
	i = s.work(t, i.ID, api.ImportReady)
	require.Empty(t, i.Open())
	_, err := s.Start(t.Context(), owner, i.ID, false)
	require.NoError(t, err)
	return s.work(t, i.ID, api.ImportDone)
}

// links returns the live links of the workspace as text.
func (s *system) links(t *testing.T) string {
	t.Helper()
	var text string
	require.NoError(t, s.hand.QueryRow(t.Context(), `
		SELECT coalesce(string_agg(concat_ws(' ', CASE WHEN custom THEN code END, original_url, title, created_by, created_at::date, aliases),
			E'\n' ORDER BY original_url, code), '') FROM link WHERE deleted_at IS NULL`).Scan(&text))
	return text
}

func (s *system) number(t *testing.T, sql string) (n int) {
	t.Helper()
	require.NoError(t, s.hand.QueryRow(t.Context(), sql).Scan(&n), sql)
	return n
}

// file makes a file of rows, of which some are refused, some have codes and some the code
// of an earlier row.
func file(rows int) string {
	var b strings.Builder
	b.WriteString("original_url,custom_code,title,created_at,aliases\n")
	for n := range rows {
		code, alias := "", ""
		switch {
		case n%7 == 1:
			code = fmt.Sprintf("code-%d", n)
		case n%700 == 2 && n > 700:
			code = fmt.Sprintf("code-%d", (n-700)/7*7+1)
		case n%500 == 3:
			code, alias = fmt.Sprintf("own-%d", n), fmt.Sprintf("alias-%d", n)
		}
		target := fmt.Sprintf("https://example.com/%d", n)
		if n%100 == 99 {
			target = "nonsense:"
		}
		fmt.Fprintf(&b, "%s,%s,Title %d,2021-03-%02d,%s\n", target, code, n, n%28+1, alias)
	}
	return b.String()
}

func TestImports_MakeTheSameLinksWhereverAWorkerIsKilled(t *testing.T) {
	rows, long := 1400, os.Getenv("TEST_LONG") != ""
	if long {
		rows = 2600
	}
	whole := start(t)
	done := whole.run(t, file(rows), imports.Settings{KeepCodes: true})
	want := whole.links(t)
	require.NotZero(t, done.Counts.Created)
	require.NotZero(t, done.Counts.Refused)
	require.EqualValues(t, rows, done.Counts.Created+done.Counts.Refused)
	require.Contains(t, want, "alias-3")
	require.Contains(t, want, "2021-03-01")
	require.Contains(t, want, "import links.csv, line 2")

	for n, point := range []string{"before rows", "after rows", "before links", "after links"} {
		first := 1 + n%2 // and in make test-long both the first and the second time
		if long {
			first = 1
		}
		for nth := first; ; nth++ {
			s := start(t)
			i := s.send(t, file(rows), 10_000, imports.Settings{KeepCodes: true})
			killed := s.workKilled(t, i.ID, api.ImportReady, point, nth)
			s.work(t, i.ID, api.ImportReady)
			_, err := s.Start(t.Context(), owner, i.ID, false)
			require.NoError(t, err)
			if !killed {
				killed = s.workKilled(t, i.ID, api.ImportDone, point, nth)
			}
			i = s.work(t, i.ID, api.ImportDone)
			require.Equal(t, done.Counts, i.Counts, "%s %d", point, nth)
			require.Equal(t, want, s.links(t), "%s %d", point, nth)
			require.True(t, killed || nth > 1, point)
			if !killed || !long || nth == 2 {
				break
			}
		}
	}
}

func TestImports_ASecondRunWithDedupeMakesNoLinks(t *testing.T) {
	s := start(t)
	first := s.run(t, file(1500), imports.Settings{KeepCodes: true, Dedupe: true})
	before := s.links(t)
	second := s.run(t, file(1500), imports.Settings{KeepCodes: true, Dedupe: true})
	require.NotZero(t, first.Counts.Created)
	require.Zero(t, second.Counts.Created)
	require.Equal(t, first.Counts.Created+first.Counts.Found, second.Counts.Found)
	require.Equal(t, before, s.links(t))
}

func TestImports_HashesOfPasswordsBecomeThePasswordsOfLinks(t *testing.T) {
	s := start(t)
	const hash = "$2b$12$N9qo8uLOickgx2ZMRZoMyef5xcSVz6tDlwsebqZ59QrUm.lPYTRCO"
	rows := "original_url;custom_code;password_hash\nhttps://example.com/a;;\nhttps://example.com/a;;" + hash + "\n" +
		"https://example.com/b;coded;$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b27dWRJJTmaapiSYWvCxBpYtqY\n" +
		strings.Repeat("https://example.com/c;;"+hash+"\n", 30) + "https://example.com/d;;" + strings.Replace(hash, "12", "14", 1) + "\n" +
		strings.Repeat("https://example.com/e;;\n", 1000) + "https://example.com/e;;" + hash + "\n" // in another step
	i := s.work(t, s.send(t, rows, 1<<20, imports.Settings{KeepCodes: true, Dedupe: true}).ID, api.ImportReady)
	_, err := s.Start(t.Context(), owner, i.ID, true)
	require.NoError(t, err)
	tried := s.work(t, i.ID, api.ImportReady)
	i = s.run(t, rows, imports.Settings{KeepCodes: true, Dedupe: true})
	require.Equal(t, i.Counts, *tried.Checked)
	require.EqualValues(t, 6, i.Counts.Created, "a link without the password is another one")
	require.EqualValues(t, 29+999, i.Counts.Found)
	require.Contains(t, i.Counts.Refusals[0].Reason, "has the cost 14")
	again := s.run(t, rows, imports.Settings{KeepCodes: true, Dedupe: true})
	require.Zero(t, again.Counts.Created)
	require.Equal(t, 4, s.number(t, `SELECT count(*) FROM link WHERE get_byte(programme, 1) & 8 > 0`))
	require.Equal(t, 4, s.number(t, `SELECT count(DISTINCT substr(programme, 1, 200)) FROM link WHERE get_byte(programme, 1) & 8 > 0`))

	_, sample, err := s.Find(t.Context(), owner, i.ID)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(sample[1].Cells, sample[2].Cells), "$")
	require.NoError(t, s.WriteRefused(t.Context(), owner, i.ID, io.Discard))
}

func TestImports_UndoDeletesWhatNobodyChangedAndTheNextImportTakesTheCodes(t *testing.T) {
	s := start(t)
	const rows = 1200
	i := s.run(t, file(rows), imports.Settings{KeepCodes: true})
	_, _, err := s.core.Links.Change(t.Context(), owner, "", "code-8", controlplane.LinkChange{Details: func(d *waypost.Details) { d.Title = "mine" }})
	require.NoError(t, err)
	_, err = s.core.Links.Remove(t.Context(), owner, "", "code-15")
	require.NoError(t, err)
	before := s.number(t, `SELECT seq FROM changelog_head`)

	_, err = s.Undo(t.Context(), owner, i.ID)
	require.NoError(t, err)
	undone := s.work(t, i.ID, api.ImportUndone)
	require.Zero(t, s.number(t, fmt.Sprintf(`SELECT count(*) FROM changelog WHERE seq > %d AND kind > 0 AND state = 0`, before)), "no link is served again")
	require.EqualValues(t, undone.Counts.Removed, s.number(t, `SELECT count(*) FROM link_change WHERE actor ? 'undo' AND what = 'deleted'`))
	require.Equal(t, 1, s.number(t, `SELECT count(*) FROM link_change c JOIN link l ON l.id = c.link_id WHERE l.code = 'own-3'
		AND (before, after, actor ->> 'name') = ('{"aliases": ["go.example.com/alias-3"]}', '{"aliases": null}', 'Ada')`))
	require.EqualValues(t, 2, undone.Counts.Kept)
	require.Equal(t, i.Counts.Created-2, undone.Counts.Removed)
	require.Equal(t, 1, strings.Count(s.links(t), "\n")+1)
	require.Zero(t, s.number(t, `SELECT count(*) FROM link_alias`))

	mended := strings.ReplaceAll(file(rows), "Title", "Mended")
	tried := s.work(t, s.send(t, mended, 1<<20, imports.Settings{KeepCodes: true}).ID, api.ImportReady)
	_, err = s.Start(t.Context(), owner, tried.ID, true)
	require.NoError(t, err)
	require.Equal(t, i.Counts.Created-2, s.work(t, tried.ID, api.ImportReady).Checked.Created, "a dry run knows")
	again := s.run(t, mended, imports.Settings{KeepCodes: true})
	require.Equal(t, i.Counts.Created-2, again.Counts.Created, "of the others, one is the owner's and one was deleted by hand")
	require.Contains(t, s.links(t), "own-3 https://example.com/3 Mended 3 import links.csv, line 5 2021-03-04 {1/alias-3}")
	require.Contains(t, s.links(t), "code-1 https://example.com/1 Mended")
	require.Contains(t, s.links(t), "code-8 https://example.com/8 mine")
	require.EqualValues(t, 2, s.number(t, `SELECT count(*) FROM audit WHERE action = 'imports.run'`))
	require.EqualValues(t, 1, s.number(t, `SELECT count(*) FROM audit WHERE action = 'imports.undo'`))
}

func TestImports_UndoGoesOnWhereAWorkerWasKilled(t *testing.T) {
	for nth := 1; nth < 4; nth++ {
		for n, point := range []string{"before undo", "after undo"} {
			if os.Getenv("TEST_LONG") == "" && nth != 2-n {
				continue
			}
			s := start(t)
			i := s.run(t, file(1200), imports.Settings{KeepCodes: true})
			_, err := s.Undo(t.Context(), owner, i.ID)
			require.NoError(t, err)
			require.True(t, s.workKilled(t, i.ID, api.ImportUndone, point, nth))
			require.NotEmpty(t, s.links(t))
			require.Equal(t, i.Counts.Created, s.work(t, i.ID, api.ImportUndone).Counts.Removed)
			require.Empty(t, s.links(t))
		}
	}
}

func TestImports_UndoGoesOnAfterAFault(t *testing.T) {
	s := start(t)
	i := s.run(t, file(700), imports.Settings{KeepCodes: true})
	_, err := s.Undo(t.Context(), owner, i.ID)
	require.NoError(t, err)
	nth := 0
	s.kill = func(at string) {
		if at == "before undo" {
			if nth++; nth == 3 {
				panic("a fault of a test")
			}
		}
	}
	i = s.work(t, i.ID, api.ImportDone)
	require.Contains(t, i.Problem, "a fault of Waypost")
	require.NotZero(t, i.Counts.Removed)
	_, err = s.Start(t.Context(), owner, i.ID, false)
	require.Error(t, err, "links that the undo deleted are not made again")
	_, err = s.Undo(t.Context(), owner, i.ID)
	require.NoError(t, err)
	i = s.work(t, i.ID, api.ImportUndone)
	require.Equal(t, i.Counts.Created, i.Counts.Removed)
	require.Empty(t, s.links(t))
}

func TestImports_AreStoppedAndResumed(t *testing.T) {
	s := start(t)
	i := s.work(t, s.send(t, file(2600), 1<<20, imports.Settings{KeepCodes: true}).ID, api.ImportReady)
	_, err := s.Start(t.Context(), owner, i.ID, false)
	require.NoError(t, err)
	steps := 0
	s.kill = func(point string) {
		if steps++; steps == 4 { // behind the second step
			_, err := s.Stop(t.Context(), owner, i.ID)
			require.NoError(t, err)
		}
	}
	stopped := s.work(t, i.ID, api.ImportStopped)
	s.kill = func(string) {}
	require.NotZero(t, stopped.Counts.Created)
	require.NotZero(t, stopped.Rows-stopped.Next)
	require.EqualValues(t, stopped.Counts.Created, s.number(t, `SELECT count(*) FROM link`))
	_, err = s.Start(t.Context(), owner, i.ID, false)
	require.NoError(t, err)
	done := s.work(t, i.ID, api.ImportDone)
	require.EqualValues(t, 2600, done.Counts.Created+done.Counts.Refused)
	require.EqualValues(t, done.Counts.Created, s.number(t, `SELECT count(*) FROM link`))
}

func TestImports_BoundWhatIsSent(t *testing.T) {
	s := start(t)
	requireCode := func(code waypost.ErrorCode, err error, words string) {
		t.Helper()
		require.ErrorContains(t, err, words)
		require.Equal(t, code, waypost.CodeOf(err))
	}
	i, err := s.Begin(t.Context(), owner, imports.Settings{Name: "many", TimeZone: "UTC"})
	require.NoError(t, err)
	require.NoError(t, s.PutPart(t.Context(), owner, i.ID, 2, []byte("b")))
	require.NoError(t, s.PutPart(t.Context(), owner, i.ID, 2, []byte("b")), "the same again")
	requireCode(waypost.EConflict, s.PutPart(t.Context(), owner, i.ID, 2, []byte("c")), "another content")
	_, err = s.Read(t.Context(), owner, i.ID, 4, "")
	requireCode(waypost.EConflict, err, "missing: 1, 3, 4")
	s.exec(t, `UPDATE import SET sent_bytes = $2 WHERE id = $1`, i.ID, api.MaxImportFile)
	requireCode(waypost.ETooLarge, s.PutPart(t.Context(), owner, i.ID, 3, []byte("d")), "at most 1 GiB")
	stranger, reader := controlplane.Actor{Workspace: 99, Scopes: owner.Scopes}, controlplane.Actor{Workspace: 1, Scopes: owner.Scopes[:1]}
	requireCode(waypost.ENotFound, s.PutPart(t.Context(), stranger, i.ID, 1, nil), "no such import")
	requireCode(waypost.EForbidden, s.PutPart(t.Context(), reader, i.ID, 1, nil), "links:write")

	other, err := s.Begin(t.Context(), owner, imports.Settings{Name: "other", TimeZone: "UTC"})
	require.NoError(t, err)
	s.exec(t, `UPDATE import SET stored = $1 / 2`, imports.MaxStoredOfOne)
	requireCode(waypost.ETooLarge, s.PutPart(t.Context(), owner, other.ID, 3, []byte("d")), "delete imports")
	_, err = s.hand.Exec(t.Context(), `UPDATE import SET stored = 0`)
	require.NoError(t, err)
	for range imports.MaxImports - 2 {
		_, err = s.Begin(t.Context(), owner, imports.Settings{Name: "one more", TimeZone: "UTC"})
		require.NoError(t, err)
	}
	_, err = s.Begin(t.Context(), owner, imports.Settings{Name: "one too many", TimeZone: "UTC"})
	requireCode(waypost.EConflict, err, "delete one first")
	_, err = s.hand.Exec(t.Context(), `UPDATE import SET state = 'ready' WHERE id = (SELECT max(id) FROM import WHERE id <> $1)`, i.ID)
	require.NoError(t, err)
	_, err = s.Begin(t.Context(), owner, imports.Settings{Name: "in place of one without links", TimeZone: "UTC"})
	require.NoError(t, err)
	_, err = s.Begin(t.Context(), owner, imports.Settings{Name: "one too many", TimeZone: "UTC"})
	requireCode(waypost.EConflict, err, "delete one first")

	_, err = s.hand.Exec(t.Context(), `UPDATE import SET updated_at = now() - interval '8 days' WHERE id = $1`, i.ID)
	require.NoError(t, err)
	require.NoError(t, s.db.MaintainOnce(t.Context()))
	_, _, err = s.Find(t.Context(), owner, i.ID)
	requireCode(waypost.ENotFound, err, "no such import")
	require.Zero(t, s.number(t, `SELECT count(*) FROM import_part`))
}

func TestImports_FilesThatAreNoTextFailWithWords(t *testing.T) {
	s := start(t)
	var bomb bytes.Buffer
	packer := gzip.NewWriter(&bomb)
	_, err := packer.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, packer.Close())
	for name, file := range map[string]string{"a zip bomb": bomb.String(), "no rows": "original_url\n", "nothing": " "} {
		i := s.send(t, file, 1000, imports.Settings{})
		i = s.work(t, i.ID, api.ImportFailed)
		require.NotEmpty(t, i.Problem, name)
		require.NotContains(t, i.Problem, "fault of Waypost", name)
	}
}

func TestImports_PartsMayComeInAnyOrder(t *testing.T) {
	s := start(t)
	text, parts := file(220), 2000
	if os.Getenv("TEST_LONG") != "" {
		parts = 10_000 // the most
	}
	size := len(text)/parts + 1
	i, err := s.Begin(t.Context(), owner, imports.Settings{Name: "links.csv", TimeZone: "UTC"})
	require.NoError(t, err)
	for k := range parts {
		n := k * 7919 % parts
		require.NoError(t, s.PutPart(t.Context(), owner, i.ID, n+1, []byte(text[min(len(text), n*size):min(len(text), (n+1)*size)])))
	}
	i, err = s.Read(t.Context(), owner, i.ID, parts, "")
	require.NoError(t, err)
	_, err = s.Read(t.Context(), owner, i.ID, parts, "")
	require.NoError(t, err, "asked again")
	whole := s.send(t, text, 1<<20, imports.Settings{})
	for _, id := range []string{i.ID, whole.ID} {
		got := s.work(t, id, api.ImportReady)
		require.EqualValues(t, 220, got.Rows)
		require.EqualValues(t, len(text), got.Bytes)
	}
	require.Equal(t, 1, s.number(t, `SELECT count(DISTINCT content) FROM import_rows`))
}

func TestImports_RefusedRowsAreAFileToMend(t *testing.T) {
	s := start(t)
	i := s.run(t, file(1300), imports.Settings{KeepCodes: true})
	var b bytes.Buffer
	require.NoError(t, s.WriteRefused(t.Context(), owner, i.ID, &b))
	require.EqualValues(t, i.Counts.Refused, strings.Count(b.String(), "\n")-1)
	require.Contains(t, b.String(), "Title 99,")

	mended := s.run(t, strings.ReplaceAll(b.String(), "nonsense:", "https://example.com/mended"), imports.Settings{KeepCodes: true})
	require.EqualValues(t, 13, mended.Counts.Created)
}

func TestImports_ADryRunCountsWhatARunMakes(t *testing.T) {
	s := start(t)
	clashes := "https://example.com/a,,A,,own-3\nhttps://example.com/b,,B,,alias-503\nhttps://example.com/c,alias-3,C,,\n" +
		"https://example.com/d,,D,,near\nhttps://example.com/e,near,E,,\nhttps://example.com/f,far,F,,near\nhttps://example.com/g,,G,,far\n"
	i := s.send(t, file(2600)+clashes, 1<<20, imports.Settings{KeepCodes: true})
	i = s.work(t, i.ID, api.ImportReady)
	_, err := s.Start(t.Context(), owner, i.ID, true)
	require.NoError(t, err)
	i = s.work(t, i.ID, api.ImportReady)
	require.Zero(t, s.number(t, `SELECT count(*) FROM link`))
	checked := *i.Checked
	var refused bytes.Buffer
	require.NoError(t, s.WriteRefused(t.Context(), owner, i.ID, &refused))
	refusedRows, err := csv.NewReader(&refused).ReadAll()
	require.NoError(t, err)
	require.Len(t, refusedRows, 1+int(checked.Refused), "with a header")

	reader := controlplane.Actor{Workspace: owner.Workspace, Scopes: owner.Scopes[:1]}
	require.Error(t, s.WriteRefused(t.Context(), reader, i.ID, &refused), "rows may hold passwords")
	columns := map[string]string{"original_url": "original_url", "custom_code": "", "title": "title", "created_at": "", "aliases": ""}
	_, err = s.Change(t.Context(), owner, i.ID, &api.ImportChange{Mapping: &api.ImportMapping{Columns: columns, Dates: "iso", Tags: ","}})
	require.NoError(t, err)
	_, err = s.Start(t.Context(), owner, i.ID, true)
	require.NoError(t, err)
	i = s.work(t, i.ID, api.ImportReady)
	require.NotZero(t, i.Checked.NewCodes, "printed codes that lead nowhere")

	_, err = s.Change(t.Context(), owner, i.ID, &api.ImportChange{Mapping: (*api.ImportMapping)(&i.Suggested)})
	require.NoError(t, err)
	_, err = s.Start(t.Context(), owner, i.ID, false)
	require.NoError(t, err)
	i = s.work(t, i.ID, api.ImportDone)
	require.Equal(t, checked, i.Counts)
	var refusedByRun bytes.Buffer
	require.NoError(t, s.WriteRefused(t.Context(), owner, i.ID, &refusedByRun))
	rowsOfRun, err := csv.NewReader(&refusedByRun).ReadAll()
	require.NoError(t, err)
	require.Equal(t, refusedRows, rowsOfRun)
}
