// Package access_test shows the commands for people, workspaces and keys against a
// control plane that runs as a process. It has no code of its own.
package access_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
	"waypost/test/devtest"
)

var databases = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(databases.Main(m)) }

// shell runs commands as one person does, with a home of the own.
type shell struct {
	t    *testing.T
	home string
	env  []string
}

func newShell(t *testing.T, env ...string) *shell {
	home := t.TempDir()
	return &shell{t: t, home: home, env: append([]string{
		"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, "config"), "WAYPOST_DATA_DIR=" + filepath.Join(home, "none"),
	}, env...)}
}

func (s *shell) run(code int, args ...string) devtest.Result {
	s.t.Helper()
	r := devtest.Run(s.t, s.env, args...)
	require.Equal(s.t, code, r.Code, "waypost %s: %s%s", strings.Join(args, " "), r.Stdout, r.Stderr)
	return r
}

func (s *shell) json(into any, args ...string) {
	s.t.Helper()
	r := s.run(0, append(args, "--output=json")...)
	require.NoError(s.t, json.Unmarshal([]byte(r.Stdout), into), r.Stdout)
}

func (s *shell) file(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.home, name)
	require.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestAnInstallationIsOpenedByItsFirstAdministratorAndNobodyElse(t *testing.T) {
	database := databases.Database(t)
	control, err := devtest.StartControl(t, devtest.ControlConfig{
		Database: database, DataDir: filepath.Join(t.TempDir(), "data"), Region: "eu-west-1", Node: "one",
		Env: []string{"WAYPOST_CONTROL_ANONYMOUS_WORKSPACE=false"},
	})
	require.NoError(t, err)
	ready, err := control.Ready()
	require.NoError(t, err)
	require.True(t, ready, control.Output())
	res, err := http.Post(control.API+"/api/v1/urls", "application/json", strings.NewReader(`{"original_url": "https://example.com/"}`))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusUnauthorized, res.StatusCode)

	require.Contains(t, control.Output(), "waypost admin create")

	const first, second = "correct horse battery", "another horse battery"
	atDatabase := newShell(t, "WAYPOST_CONTROL_DATABASE_URL="+database)
	word := atDatabase.file("password", first+"\n")
	create := []string{"admin", "create", "--email=Root@example.com"}
	require.Contains(t, atDatabase.run(1, append(create, "--password-file", atDatabase.file("short", "short"))...).Stderr,
		"at least 12 characters")
	require.Contains(t, atDatabase.run(0, append(create, "--password-file", word)...).Stdout, "waypost login --email root@example.com")
	again := atDatabase.run(1, append(create, "--password-file", word)...)
	require.Contains(t, again.Stderr, "has an administrator already")
	require.Contains(t, again.Stderr, "--force")

	root := newShell(t)
	require.Contains(t, root.run(1, "whoami").Stderr, "waypost login")
	login := func(s *shell, code int, email, password string, more ...string) devtest.Result {
		t.Helper()
		return s.run(code, append([]string{"login", "--api", control.API, "--email", email, "--password-file", s.file("login", password)},
			more...)...)
	}
	require.Contains(t, login(root, 1, "root@example.com", "wrong horse battery").Stderr, "the address or the password is wrong")
	require.NotContains(t, login(root, 0, "root@example.com", first).Stdout, "wp_sess_")
	kept := filepath.Join(root.home, "config", "waypost", "credentials.json")
	info, err := os.Stat(kept)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Contains(t, root.run(0, "whoami").Stdout, "root@example.com")
	sessions := root.run(0, "sessions", "list").Stdout
	require.Regexp(t, `(?m)^\d+ .* 127\.0\.0\.1 +\(this one\) waypost-cli$`, sessions)
	root.run(0, "sessions", "end", "--others")
	require.Equal(t, sessions, root.run(0, "sessions", "list").Stdout)
	require.Contains(t, root.run(1, "sessions", "end", "999999").Stderr, "no session 999999")
	require.Contains(t, root.run(64, "sessions", "end").Stderr, "--others")

	var made struct {
		Workspace struct{ Slug string }
		Admin     struct{ Invitation struct{ Token string } }
	}
	root.json(&made, "workspaces", "create", "blue", "--admin", "ann@example.com")
	require.Equal(t, "blue", made.Workspace.Slug)
	ann := newShell(t)
	accept := []string{"accept", made.Admin.Invitation.Token, "--api", control.API, "--password-file", ann.file("own", first)}
	require.Contains(t, ann.run(0, accept...).Stdout, "waypost login --api "+control.API+" --email ann@example.com")
	require.Contains(t, ann.run(1, accept...).Stderr, "was used")
	login(ann, 0, "ann@example.com", first)
	ann.run(0, "password", "--current-password-file", ann.file("old", first), "--password-file", ann.file("new", second))
	login(ann, 1, "ann@example.com", first)
	require.Contains(t, ann.run(0, "workspaces", "set", "--dedupe", "--events=sampled", "--events-sample=5").Stdout, "1 of 5")
	require.Contains(t, ann.run(1, "workspaces", "list").Stderr, "(403)")

	require.Contains(t, ann.run(0, "users", "add", "bob@example.com", "--role=viewer").Stdout, "invitation: wp_invt_")
	require.Contains(t, ann.run(1, "users", "add", "x@example.com", "--password-file", ann.file("theirs", first)).Stderr, "only operators")
	require.Contains(t, ann.run(0, "users", "invite", "bob@example.com").Stdout, "wp_invt_")
	require.Contains(t, root.run(0, "users", "invite", "bob@example.com", "--all").Stdout, "wp_invt_")
	require.Contains(t, root.run(0, "users", "set", "bob@example.com", "--all", "--disable").Stdout, "disabled")
	require.Contains(t, root.run(0, "users", "set", "bob@example.com", "--all", "--enable").Stdout, "invited")
	require.Contains(t, root.run(0, "users", "list", "--all").Stdout, "blue (viewer)")
	require.Contains(t, ann.run(1, "users", "list", "--all").Stderr, "(403)")
	require.Regexp(t, `ann@example.com +admin +active`, ann.run(0, "users", "list").Stdout)
	require.Regexp(t, `bob@example.com +viewer +invited`, ann.run(0, "users", "list").Stdout)
	require.Contains(t, root.run(64, "users", "set", "bob@example.com", "--all", "--role=admin").Stderr, "--all")
	require.Contains(t, ann.run(0, "users", "set", "bob@example.com", "--role=member").Stdout, "member")
	require.Contains(t, ann.run(0, "__complete", "users", "set", "").Stdout, "bob@example.com")
	require.Contains(t, ann.run(1, "users", "set", "ann@example.com", "--role=viewer").Stderr, "last administrator")
	require.Contains(t, ann.run(1, "users", "remove", "carl@example.com", "--yes").Stderr, "waypost users list")

	key := strings.TrimSpace(ann.run(0, "keys", "create", "--name=ci").Stdout)
	machine := newShell(t, "WAYPOST_API="+control.API, "WAYPOST_API_KEY="+key)
	machine.run(0, "links", "create", "https://example.com/")
	require.Contains(t, machine.run(0, "whoami").Stdout, "API key ci")
	require.Contains(t, machine.run(1, "keys", "list").Stderr, "(403)")
	fresh := strings.TrimSpace(ann.run(0, "keys", "rotate", "ci").Stdout)
	require.NotEqual(t, key, fresh)
	require.Contains(t, machine.run(1, "links", "list").Stderr, "not valid")
	var keys struct {
		Keys []struct{ ID int64 }
	}
	ann.json(&keys, "keys", "list")
	require.Len(t, keys.Keys, 1)
	require.Contains(t, ann.run(0, "keys", "list").Stdout, fresh[:12])
	ann.run(0, "keys", "revoke", "ci", "--yes")

	require.Contains(t, root.run(0, "audit", "--all").Stdout, "keys.rotate")
	require.NotContains(t, root.run(0, "audit").Stdout, "keys.rotate")
	require.Contains(t, root.run(64, "workspaces", "delete", "blue").Stderr, "--yes")
	require.Contains(t, root.run(0, "workspaces", "delete", "blue", "--yes").Stdout, "closing")
	require.Contains(t, ann.run(1, "whoami").Stderr, "waypost login")

	root.run(0, "logout")
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.NotContains(t, string(text), "wp_sess_")

	// A link made at the database signs in once, and is not asked for with a password.
	var link struct{ URL string }
	atDatabase.json(&link, "admin", "sign-in", "--email=Root@example.com", "--api", control.API)
	_, token, ok := strings.Cut(link.URL, control.API+"/console/sign-in#")
	require.True(t, ok, link.URL)
	for _, status := range []int{http.StatusCreated, http.StatusUnauthorized} {
		res, err := http.Post(control.API+"/api/v1/session", "application/json", strings.NewReader(`{"sign_in_token": "`+token+`"}`))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, status, res.StatusCode)
	}
	require.NotContains(t, control.Output(), token)
	require.Contains(t, atDatabase.run(1, "admin", "sign-in", "--email=nobody@example.com", "--api", control.API).Stderr, "no account")
	require.Contains(t, atDatabase.run(64, "admin", "sign-in", "--email=root@example.com").Stderr, "--api")

	// A lost password is replaced at the database, and ends what was begun with it.
	login(root, 0, "root@example.com", first)
	atDatabase.run(0, append(create, "--force", "--password-file", atDatabase.file("password", second))...)
	require.Contains(t, root.run(1, "whoami").Stderr, "waypost login")
	login(root, 1, "root@example.com", first)
	login(root, 0, "root@example.com", second)
	for _, secret := range []string{first, second, key, fresh, "wp_sess_", "wp_invt_"} {
		require.False(t, bytes.Contains([]byte(control.Output()), []byte(secret)))
	}
}
