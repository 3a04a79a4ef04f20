package tenancy_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

// credential is somebody who asks.
type credential struct {
	name   string
	text   string // "": none
	header string // Waypost-Workspace
	ws     waypost.WorkspaceID
	scopes []controlplane.Scope // what it may do, for any reason
	user   int64                // who has signed in, or owns the key
	signed bool                 // it is a session
	good   bool
	status int // of a bad one's answers; default 401
}

// can reports whether a credential allows one of the scopes.
func (c *credential) can(anyOf ...controlplane.Scope) bool {
	return slices.ContainsFunc(anyOf, controlplane.Actor{Scopes: c.scopes}.Can)
}

// roles lists what users of a role may do, word for word and not as the product has it.
var roles = map[string][]controlplane.Scope{
	"viewer": {read, analytics}, "member": {read, write, analytics}, "admin": {admin},
}

var slugs = map[waypost.WorkspaceID]string{own: "default", other: "other", victim: "victim"}

// credentials makes one of every kind, in two workspaces: keys of each scope, of none, of
// some and of all; keys with everything whose owners are of each role; sessions of each
// role. And such as are none any more, or never were.
func credentials(w *world) []credential {
	var all []credential
	for _, ws := range []waypost.WorkspaceID{own, other} {
		for _, scopes := range [][]controlplane.Scope{{}, {read}, {write}, {analytics}, {read, write}, {admin}, controlplane.Scopes()} {
			all = append(all, credential{
				name: fmt.Sprint(slugs[ws], " key ", scopes), text: w.key(ws, 0, scopes...), ws: ws, scopes: scopes,
				good: true,
			})
		}
		for _, role := range []string{"viewer", "member", "admin"} {
			user := w.user(ws, role)
			all = append(
				all,
				credential{
					name: slugs[ws] + " key of a " + role, text: w.key(ws, user, controlplane.Scopes()...), ws: ws, scopes: roles[role],
					user: user, good: true,
				},
				credential{
					name: slugs[ws] + " session of a " + role, text: w.session(user), ws: ws, scopes: roles[role], user: user,
					signed: true, good: true,
				})
		}
		reader := w.user(ws, "admin")
		all = append(all, credential{
			name: slugs[ws] + " key to read of an admin", text: w.key(ws, reader, read), ws: ws,
			scopes: []controlplane.Scope{read}, user: reader, good: true,
		})

		expired, revoked, left, disabled, ended := w.key(ws, 0, admin), w.key(ws, 0, admin), w.user(ws, "admin"), w.user(ws, "admin"),
			w.session(w.user(ws, "admin"))
		bad := []credential{
			{name: "an expired key", text: expired},
			{name: "a revoked key", text: revoked},
			{name: "a key whose owner has left", text: w.key(ws, left, admin)},
			{name: "a session of who has left", text: w.session(left)},
			{name: "a key whose owner is disabled", text: w.key(ws, disabled, admin)},
			{name: "a session of who is disabled", text: w.session(disabled)},
			{name: "a session that has expired", text: ended},
			{name: "a key that asks for the victim's workspace", text: w.key(ws, 0, admin), header: "victim", status: 403},
			{name: "a session that asks for the victim's workspace", text: w.session(w.user(ws, "admin")), header: "victim", status: 403},
		}
		for _, c := range bad {
			c.name = slugs[ws] + ": " + c.name
			c.ws = ws
			all = append(all, c)
		}
		for text, table := range map[string]string{
			expired: "api_key SET expires_at", ended: "user_session SET expires_at",
			revoked: "api_key SET revoked_at",
		} {
			w.exec(`UPDATE `+table+` = now() - interval '1 second' WHERE hash = $1`, hashOf(text))
		}
		w.exec(`DELETE FROM membership WHERE user_id = $1`, left)
		w.exec(`UPDATE app_user SET disabled_at = now() WHERE id = $1`, disabled)
	}
	all = append(
		all,
		credential{name: "nobody", ws: own},
		credential{name: "an invented key", text: "wp_live_0000000000000000000000000000000000", ws: own},
		credential{name: "a key of a workspace that is deleted", text: w.key(gone, 0, admin), ws: own},
		credential{name: "a session of a workspace that is deleted", text: w.session(w.user(gone, "admin")), ws: own})
	w.exec(`UPDATE workspace SET deleted_at = now() WHERE slug = 'gone'`)
	return all
}

func hashOf(text string) []byte {
	hash := controlplane.HashKey(text)
	return hash[:]
}

// key makes a key of a workspace, with an owner unless that is 0.
func (w *world) key(ws waypost.WorkspaceID, owner int64, scopes ...controlplane.Scope) string {
	w.t.Helper()
	text := controlplane.NewKey()
	w.exec(`INSERT INTO api_key (workspace_id, name, prefix, hash, scopes, created_by) VALUES ($1, 'k', $2, $3, $4, nullif($5::bigint, 0))`,
		ws, text[:controlplane.KeyDisplay], hashOf(text), scopes, owner)
	return text
}

// keyID makes a key that somebody may manage, and returns its id.
func (w *world) keyID(c *credential) int64 {
	w.t.Helper()
	text := w.key(c.ws, c.user, read)
	return w.number(`SELECT id FROM api_key WHERE hash = $1`, hashOf(text))
}

// user makes a user of a workspace.
func (w *world) user(ws waypost.WorkspaceID, role string) int64 {
	w.t.Helper()
	w.users++
	return w.number(`
		WITH u AS (INSERT INTO app_user (home_id, email, name) VALUES ($1, $2, $3) RETURNING id)
		INSERT INTO membership (workspace_id, user_id, role) SELECT $1, id, $4 FROM u RETURNING user_id`,
		ws, fmt.Sprintf("user%d@%s.example", w.users, names[ws]), names[ws], role)
}

// session begins a session. Its text has the form that sign-in makes: a prefix, 160
// random bits and a checksum.
func (w *world) session(user int64) string {
	w.t.Helper()
	var b [20]byte
	_, err := rand.Read(b[:])
	require.NoError(w.t, err)
	secret := new(big.Int).SetBytes(b[:]).Text(62)
	text := "wp_sess_" + strings.Repeat("0", 27-len(secret)) + secret
	sum := big.NewInt(int64(crc32.ChecksumIEEE([]byte(text)))).Text(62)
	text += strings.Repeat("0", 6-len(sum)) + sum
	w.exec(`INSERT INTO user_session (user_id, hash, expires_at) VALUES ($1, $2, $3)`, user, hashOf(text), time.Now().Add(time.Hour))
	return text
}

// fresh is text that nothing else has.
func (w *world) fresh() string {
	w.links++
	return fmt.Sprintf("mine-%d-%s", w.links, hex.EncodeToString([]byte{byte(w.links)}))
}
