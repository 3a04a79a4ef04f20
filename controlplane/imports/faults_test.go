package imports_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/imports"
	"waypost/internal/linkfile"
	"waypost/keyrange"
)

func TestImports_WaitWhileADomainIsSwitched(t *testing.T) {
	s := start(t)
	i := s.work(t, s.send(t, file(30), 1<<20, imports.Settings{KeepCodes: true}).ID, api.ImportReady)
	s.exec(t, `UPDATE domain SET case_switching = true`)
	_, err := s.Start(t.Context(), owner, i.ID, false)
	require.NoError(t, err)
	s.kill = func(at string) {
		if at == "after refused check" {
			s.kill = func(string) {}
			s.exec(t, `UPDATE domain SET case_switching = false`)
			_, err := s.Start(t.Context(), owner, i.ID, false) // wakes the workers
			require.NoError(t, err)
		}
	}
	i = s.work(t, i.ID, api.ImportDone)
	require.EqualValues(t, 30, i.Counts.Created)
	require.Zero(t, i.Counts.Refused)
}

// In each of its lives a worker has the time for one try.
func TestImports_FindTheRowThatTheDatabaseRefusesInAnyNumberOfTurns(t *testing.T) {
	s := start(t)
	s.refuse = func(ns []controlplane.NewLink) error {
		if slices.ContainsFunc(ns, func(n controlplane.NewLink) bool { return strings.HasSuffix(n.OriginalURL, "/77") }) {
			return waypost.Errorf(waypost.EInvalid, "the database refuses this value")
		}
		return nil
	}
	i := s.work(t, s.send(t, file(99), 1<<20, imports.Settings{KeepCodes: true}).ID, api.ImportReady)
	_, err := s.Start(t.Context(), owner, i.ID, false)
	require.NoError(t, err)
	lives := 0
	for s.workKilled(t, i.ID, api.ImportDone, "before links", 2) {
		lives++
		require.Less(t, lives, 30)
	}
	i = s.work(t, i.ID, api.ImportDone)
	require.EqualValues(t, 98, i.Counts.Created)
	require.Equal(t, []api.ImportRefusal{{Line: 79, Reason: "the database refuses this value"}}, i.Counts.Refusals)
	require.Zero(t, i.Most)
}

func TestImports_ARefusedRowKeepsItsCodeFromNoOtherRow(t *testing.T) {
	s := start(t)
	l, _, err := s.core.Links.Create(t.Context(), owner, controlplane.NewLink{OriginalURL: "https://example.com/"})
	require.NoError(t, err)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	coder := keyrange.NewCoder(space, [32]byte{})
	prefix, n, ok := coder.Decode(l.Code)
	require.True(t, ok)
	for alias, why := range map[string]string{string(l.Code): "taken", string(coder.Encode(prefix, n+1)): "is to be issued"} {
		for _, dedupe := range []bool{false, true} {
			code := fmt.Sprintf("own-%d-%s", len(alias)+len(why), map[bool]string{true: "found"}[dedupe])
			row := "https://example.com/a," + code
			i := s.work(t, s.send(t, "original_url,custom_code,aliases\n"+row+",free-"+code+";"+alias+"\n"+row+",free-"+code+"\n"+row+",\n", 1<<20,
				imports.Settings{KeepCodes: true, Dedupe: dedupe}).ID, api.ImportReady)
			mapping := i.Mapping
			mapping.Tags = ";"
			_, err = s.Change(t.Context(), owner, i.ID, &api.ImportChange{Mapping: (*api.ImportMapping)(&mapping)})
			require.NoError(t, err)
			_, err = s.Start(t.Context(), owner, i.ID, true)
			require.NoError(t, err)
			tried := s.work(t, i.ID, api.ImportReady)
			_, err = s.Start(t.Context(), owner, i.ID, false)
			require.NoError(t, err)
			i = s.work(t, i.ID, api.ImportDone)
			require.Equal(t, *tried.Checked, i.Counts, why)
			require.EqualValues(t, 1, i.Counts.Created, "%s: %v", why, i.Counts)
			require.EqualValues(t, map[bool]int{true: 1}[dedupe], i.Counts.Found, "%s: %v", why, i.Counts)
			require.Contains(t, s.links(t), "line 3 "+time.Now().UTC().Format(time.DateOnly)+" {1/free-"+code+"}")
		}
	}
}

func TestImports_StopWhenTheirOwnerMayNoLonger(t *testing.T) {
	s := start(t)
	i := s.run(t, file(10), imports.Settings{KeepCodes: true})
	ready := s.work(t, s.send(t, file(10), 1<<20, imports.Settings{}).ID, api.ImportReady)
	checked := s.work(t, s.send(t, file(10), 1<<20, imports.Settings{}).ID, api.ImportReady)
	s.exec(t, `UPDATE membership SET role = 'viewer'`)
	for _, begin := range []func() (imports.Import, error){
		func() (imports.Import, error) { return s.Undo(t.Context(), owner, i.ID) },
		func() (imports.Import, error) { return s.Start(t.Context(), owner, ready.ID, false) },
		func() (imports.Import, error) { return s.Start(t.Context(), owner, checked.ID, true) },
	} {
		_, err := begin() // its request was judged just before
		require.NoError(t, err)
	}
	for id, state := range map[string]string{i.ID: api.ImportDone, ready.ID: api.ImportStopped, checked.ID: api.ImportReady} {
		require.Equal(t, "Ada began this and may not import any more: let somebody else go on", s.work(t, id, state).Problem)
	}
	require.EqualValues(t, 10, s.number(t, `SELECT count(*) FROM link WHERE deleted_at IS NULL`))

	s.exec(t, `INSERT INTO api_key (id, workspace_id, name, prefix, hash, scopes) OVERRIDING SYSTEM VALUE
		VALUES (5, 1, 'key', 'wp', sha256(''), '{links:write}')`)
	user, key := controlplane.Actor{Workspace: 1, UserID: owner.UserID}, controlplane.Actor{Workspace: 1, KeyID: 5}
	both := controlplane.Actor{Workspace: 1, UserID: owner.UserID, KeyID: 5}
	for _, c := range []struct {
		after string
		by    controlplane.Actor
		may   bool
	}{
		{`SELECT`, controlplane.Actor{Workspace: 1}, true},
		{`UPDATE membership SET role = 'admin'`, user, true},
		{`SELECT`, key, true},
		{`SELECT`, both, true},
		{`SELECT`, controlplane.Actor{Workspace: 2, KeyID: 5}, false},
		{`UPDATE app_user SET disabled_at = now()`, both, false},
		{`UPDATE app_user SET disabled_at = NULL`, both, true},
		{`UPDATE api_key SET expires_at = now()`, key, false},
		{`UPDATE api_key SET expires_at = NULL, revoked_at = now()`, both, false},
		{`DELETE FROM membership`, user, false},
	} {
		s.exec(t, c.after)
		may, err := s.db.MayStill(t.Context(), c.by)
		require.NoError(t, err)
		require.Equal(t, c.may, may, "%s: %v", c.after, c.by)
	}
}

func TestImports_OfOneWorkspaceKeepNoOtherWaiting(t *testing.T) {
	s := start(t)
	s.exec(t, `INSERT INTO workspace (id, slug, name) OVERRIDING SYSTEM VALUE VALUES (2, 'two', 'Two')`)
	for _, ws := range []int{1, 1, 2} {
		s.exec(t, `INSERT INTO import (id, workspace_id, state, document) VALUES ($1, $2, 'reading', '{}')`, strings.ToLower(rand.Text()), ws)
	}
	claim := func() (i imports.Import, found bool) {
		i, found, err := s.db.ClaimImport(t.Context(), rand.Text(), []string{api.ImportReading})
		require.NoError(t, err)
		return i, found
	}
	first, _ := claim()
	second, _ := claim()
	require.Equal(t, waypost.WorkspaceID(3), first.Workspace+second.Workspace)
	_, found := claim()
	require.False(t, found, "the workspace has its turn")
	s.exec(t, `UPDATE import SET worker_until = now() - interval '1 second' WHERE workspace_id = 1`)
	_, found = claim()
	require.True(t, found)
}

func TestImports_CountPartsThatComeInBetween(t *testing.T) {
	s := start(t)
	i, err := s.Begin(t.Context(), owner, imports.Settings{Name: "late", TimeZone: "UTC"})
	require.NoError(t, err)
	require.NoError(t, s.PutPart(t.Context(), owner, i.ID, 1, []byte("a")))
	s.kill = func(string) { require.NoError(t, s.PutPart(t.Context(), owner, i.ID, 2, []byte("b"))) }
	_, err = s.Read(t.Context(), owner, i.ID, 1, "")
	require.ErrorContains(t, err, "1 parts more than 1")
	s.kill = func(string) {}

	// A part waits for large ones.
	tx, err := s.hand.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `UPDATE import SET sent_bytes = $2 WHERE id = $1`, i.ID, api.MaxImportFile)
	require.NoError(t, err)
	put := make(chan error, 1)
	go func() { put <- s.PutPart(t.Context(), owner, i.ID, 4, []byte("c")) }()
	require.Eventually(t, func() bool { return s.number(t, `SELECT count(*) FROM pg_locks WHERE NOT granted`) > 0 }, time.Minute, time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorContains(t, <-put, "at most 1 GiB")

	// A part waits until another import has taken the room, or not.
	other, err := s.Begin(t.Context(), owner, imports.Settings{Name: "other", TimeZone: "UTC"})
	require.NoError(t, err)
	tx, err = s.hand.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(7311, 1)`)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `UPDATE import SET stored = $2 WHERE id = $1`, i.ID, imports.MaxStoredOfOne)
	require.NoError(t, err)
	go func() { put <- s.PutPart(t.Context(), owner, other.ID, 1, []byte("d")) }()
	require.Eventually(t, func() bool { return s.number(t, `SELECT count(*) FROM pg_locks WHERE NOT granted`) > 0 }, time.Minute, time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorContains(t, <-put, "delete imports")
}

func TestImports_AreKeptNoLongerForARequestThatChangesNothing(t *testing.T) {
	s := start(t)
	i := s.work(t, s.send(t, file(10), 1<<20, imports.Settings{}).ID, api.ImportReady)
	s.exec(t, `UPDATE import SET updated_at = now() - interval '3 days'`)
	before, _, err := s.Find(t.Context(), owner, i.ID)
	require.NoError(t, err)
	for _, nothing := range []func() (imports.Import, error){
		func() (imports.Import, error) { return s.Stop(t.Context(), owner, i.ID) },
		func() (imports.Import, error) { return s.Read(t.Context(), owner, i.ID, i.FileParts, "") },
		func() (imports.Import, error) { return s.Change(t.Context(), owner, i.ID, &api.ImportChange{}) },
	} {
		after, err := nothing()
		require.NoError(t, err)
		require.Equal(t, before.UpdatedAt, after.UpdatedAt)
	}
	domain := "go.example.com"
	after, err := s.Change(t.Context(), owner, i.ID, &api.ImportChange{Domain: &domain})
	require.NoError(t, err)
	require.NotEqual(t, before.UpdatedAt, after.UpdatedAt)
}

// closed takes no byte.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("the disk of a test is full") }

func TestImports_FaultsAreLoggedAndRefuseNoRow(t *testing.T) {
	s := start(t)
	i := s.run(t, file(1300), imports.Settings{KeepCodes: true})
	var log bytes.Buffer
	s.Config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	require.Error(t, s.WriteRefused(t.Context(), owner, i.ID, closed{}))
	require.Contains(t, log.String(), "cannot write the refused rows of an import")
	require.Contains(t, log.String(), "the disk of a test is full")

	s.Config.Link = func(*api.NewLink) (controlplane.NewLink, error) {
		return controlplane.NewLink{}, errors.New("raw text")
	}
	i = s.work(t, s.send(t, file(10), 1<<20, imports.Settings{}).ID, api.ImportReady)
	for _, state := range []string{api.ImportReady, api.ImportStopped} {
		_, err := s.Start(t.Context(), owner, i.ID, state == api.ImportReady)
		require.NoError(t, err)
		got := s.work(t, i.ID, state)
		require.Contains(t, got.Problem, "a fault of Waypost")
		require.Zero(t, got.Counts.Refused)
	}
}

func TestImport_AnUnknownTimeZoneIsNamed(t *testing.T) {
	i := imports.Import{Settings: imports.Settings{TimeZone: "Mars/Base"}, Shape: linkfile.Shape{Layout: linkfile.Table, Columns: []string{"url"}}}
	i.Mapping.Columns = map[string]string{"url": "original_url"}
	require.Equal(t, []string{`time_zone: there is no time zone "Mars/Base"`}, i.Open())
	i.TimeZone = "Europe/Berlin"
	require.Empty(t, i.Open(), fmt.Sprint(i.Open()))
}
