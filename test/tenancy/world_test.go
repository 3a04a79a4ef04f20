package tenancy_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	"waypost/controlplane/httpapi/httpapitest"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/internal/dnstest"
	"waypost/keyrange"
)

// The workspaces: actors are of the first two, and the third is their victim.
const (
	own    = waypost.DefaultWorkspace
	other  = waypost.WorkspaceID(20)
	victim = waypost.WorkspaceID(30)
	gone   = waypost.WorkspaceID(40)
	spare  = waypost.WorkspaceID(50) // of no user, for operators
)

// marker is in everything of the victim's that an answer could show.
const marker = "v1ct1m"

// victimAlias is an alias of the victim's link, with the title marker.
const victimAlias = "theirs-too"

// domainOf is the domain of a workspace.
func domainOf(ws waypost.WorkspaceID) waypost.DomainID { return waypost.DomainID(100 + ws) }

// world is an installation with three workspaces, as the control plane wires it.
type world struct {
	t       *testing.T
	db      *postgres.DB
	hand    *pgx.Conn
	service *controlplane.Services
	api     httpapi.Services
	dns     *dnstest.Server
	url     string
	links   int
	users   int
	days    int

	minted                string // a generated code
	signIn                string // a body that signs in
	victimCode, victimKey string
	victimUser, victimKID int64
	hidden                []string // more that no answer may show
}

func newWorld(t *testing.T) *world {
	t.Helper()
	url := databases.Database(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	require.NoError(t, db.EnsureRanges(t.Context(), []waypost.Region{"eu"}))
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	minter := keys.NewMinter(keys.MinterConfig{
		Store: db, Coder: keyrange.NewCoder(space, [32]byte{}), Region: "eu", Node: "test/1", Size: 1000, Patience: time.Minute,
	})
	require.NoError(t, db.Beat(t.Context(), "test/1", "eu", nil))
	w := &world{t: t, db: db, dns: dnstest.Start(t)}
	w.service = controlplane.New(controlplane.Config{
		Store: db, Minter: minter, Patience: time.Minute, Resolver: w.dns.Resolver(),
	})
	t.Cleanup(func() { require.NoError(t, w.service.Close(context.Background())) })
	w.api = httpapitest.Services(t, db, minter, w.service)
	digests := controlplane.NewDigestCheck(db, slog.New(slog.DiscardHandler), nil)
	checking, enough := context.WithCancel(context.Background())
	var check sync.WaitGroup
	check.Go(func() { digests.Run(checking) })
	t.Cleanup(func() { enough(); check.Wait() })
	w.api.Digests = digests
	stopping := make(chan struct{}) // a live stream ends after its first news
	close(stopping)
	server := httptest.NewServer(httpapi.New(httpapi.Config{
		Services: w.api, Stopping: stopping,
		BaseURL: "https://go.example.com", RequestTimeout: time.Minute,
	}))
	t.Cleanup(server.Close)
	w.url = server.URL

	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	cfg.User = "postgres" // whom no row-level security binds
	w.hand, err = pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.hand.Close(context.Background())) })
	w.people()
	return w
}

// people makes the workspaces, and what the victim has.
func (w *world) people() {
	w.exec(`INSERT INTO workspace (id, name, slug) VALUES (20, 'Other', 'other'), (30, '` + marker + `', 'victim'), (40, 'Gone', 'gone'), (50, 'Spare', 'spare')`)
	w.exec(`ALTER TABLE workspace ALTER COLUMN id RESTART WITH 1000`)
	w.exec(`ALTER TABLE domain ALTER COLUMN id RESTART WITH 1000`)
	for _, ws := range []waypost.WorkspaceID{own, other, victim} {
		w.exec(`INSERT INTO domain (id, workspace_id, host) VALUES ($1, $2, $3)`, domainOf(ws), ws, hostOf(ws))
		w.exec(`INSERT INTO domain_proof (domain_id, workspace_id, host, proved_at) VALUES ($1, $2, $3, now())`, domainOf(ws), ws, hostOf(ws))
	}
	by := controlplane.Actor{Workspace: victim, Name: marker, KeyID: 1, Scopes: []controlplane.Scope{admin}}
	once := true
	l, _, err := w.service.Links.Create(w.t.Context(), by, controlplane.NewLink{
		OriginalURL: "https://example.com/" + marker, CustomCode: "theirs-1", CreatedBy: marker,
		Details: waypost.Details{Title: marker, Description: marker, Tags: []string{marker}},
	})
	require.NoError(w.t, err)
	w.victimCode = string(l.Code)
	_, _, err = w.service.Links.AddAlias(w.t.Context(), by, "", w.victimCode, controlplane.NewAlias{Code: victimAlias, Title: marker})
	require.NoError(w.t, err)
	yes := true // which the history has
	_, _, err = w.service.Links.Change(w.t.Context(), by, "", w.victimCode, controlplane.LinkChange{ForwardQuery: &yes})
	require.NoError(w.t, err)
	root := "https://example.com/" + marker
	_, _, err = w.service.Domains.ChangeDomain(w.t.Context(), by, domainOf(victim),
		api.DomainChange{RootURL: &root}) // which the audit log has
	require.NoError(w.t, err)
	w.victimUser = w.user(victim, "admin")
	key := w.key(victim, w.victimUser, admin)
	w.victimKID = w.number(`SELECT id FROM api_key WHERE hash = $1`, hashOf(key))
	keys, err := w.api.Keys.ReserveKeys(w.t.Context(), by, "shop", 1)
	require.NoError(w.t, err)
	w.victimKey = string(keys[0])

	// Others ask for the same target, once, and under the same key.
	twin, _, err := w.service.Links.Create(w.t.Context(), by, controlplane.NewLink{OriginalURL: sameTarget, Dedupe: &once})
	require.NoError(w.t, err)
	status, text := w.do(http.MethodPost, request{path: "/api/v1/urls", body: sameBody, once: sameKey}, &credential{text: key})
	require.Equal(w.t, http.StatusCreated, status, text)
	var answered waypost.Code
	require.NoError(w.t, w.hand.QueryRow(w.t.Context(), `SELECT code FROM link WHERE workspace_id = 30 ORDER BY id DESC LIMIT 1`).Scan(&answered))
	w.hidden = []string{marker, string(twin.Code), string(answered), key}

	for _, sql := range []string{
		`INSERT INTO link_click (link_id, workspace_id, clicks, last_accessed_at) VALUES ($1, 30, 987654321, now())`,
		`INSERT INTO click_pack (workspace_id, area, links, days, clicks, bot_clicks, newest, details)
			SELECT 30, (click_areas($1))[1], ARRAY[$1::bigint], '{today}', '{987654321}', '{0}', '{now}', '{""}'`,
		`INSERT INTO click_day VALUES ($1, current_date, 30, 987654321, 0, '', '', '')`,
		`INSERT INTO click_workspace_part SELECT workspace_id, day, clicks, bot_clicks, quarters, breakdown, visitors FROM click_day WHERE link_id = $1`,
		`INSERT INTO click_workspace_day SELECT workspace_id, day, clicks, bot_clicks, quarters, breakdown, visitors FROM click_day WHERE link_id = $1`,
		`INSERT INTO click_event VALUES (now(), 30, $1, 987654321, false, '', '', '', '', '', '')`,
		`INSERT INTO click_set_aside (workspace_id, link_id, day, what, reason, body) VALUES (30, $1, current_date, 'part', '', '')`,
		`INSERT INTO budget (workspace_id, link_id) VALUES (30, $1)`,
		`INSERT INTO budget_account (workspace_id, link_id, node, id, granted, returned, spent) VALUES (30, $1, 'edge', gen_random_uuid(), 3, 1, 1)`,
		`INSERT INTO stats_view (workspace_id, name, query, link_id, secret) VALUES (30, '` + marker + `', '', $1, sha256('')) `,
		`INSERT INTO stats_question (workspace_id, key, question, first_day) SELECT 30, sha256(''), '{"creator": "` + marker + `"}', current_date WHERE $1 > 0`,
		`INSERT INTO stats_answer SELECT id, 30, now(), current_date, now(), '{}', 987654321, 0, int8send($1), NULL FROM stats_question`,
		`INSERT INTO stats_answer_day SELECT id, 30, current_date, 987654321, 1, 0, '', '', '', '' FROM stats_question WHERE $1 > 0`,
		`INSERT INTO unknown_address (workspace_id, domain_id, day, kind, path, people, bots, visitors)
			SELECT 30, 130, current_date, 0, '` + marker + `', 987654321, 0, ARRAY[1, 2, 3, 4, $1::bigint]`,
	} {
		w.exec(sql, l.ID)
	}
	w.hidden = append(w.hidden, "987654321")
	w.importOf(victim, "done")

	const password = "correct horse battery"
	_, err = w.service.Workspaces.AddMember(w.t.Context(), controlplane.Actor{Workspace: own, Scopes: []controlplane.Scope{admin}},
		api.NewMember{Email: "somebody@example.com", Role: "viewer", Password: password})
	require.NoError(w.t, err)
	w.signIn = fmt.Sprintf(`{"email": "somebody@example.com", "password": %q}`, password)
	m, _, err := w.service.Links.Create(w.t.Context(), controlplane.Actor{Workspace: own},
		controlplane.NewLink{OriginalURL: "https://example.com/"})
	require.NoError(w.t, err)
	w.minted = string(m.Code)
}

// What the victim asked for, and others ask for too.
const (
	sameTarget = "https://example.com/same"
	sameKey    = "the-same-key"
	sameBody   = `{"original_url": "https://example.com/answered"}`
)

var names = map[waypost.WorkspaceID]string{own: "own", other: "other", victim: marker, gone: "gone", spare: "spare"}

func hostOf(ws waypost.WorkspaceID) string { return fmt.Sprintf("ws%d.example", ws) }

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.hand.Exec(w.t.Context(), sql, args...)
	require.NoError(w.t, err, sql)
}

// number returns what a statement of one number says.
func (w *world) number(sql string, args ...any) (n int64) {
	w.t.Helper()
	require.NoError(w.t, w.hand.QueryRow(w.t.Context(), sql, args...).Scan(&n), sql)
	return n
}

// pendingDomain makes a domain that DNS proves, and the request to a path with its id.
func (w *world) pendingDomain(c *credential, format string) request {
	w.t.Helper()
	host := w.fresh() + ".example.net"
	id := w.number(`INSERT INTO domain (workspace_id, host) VALUES ($1, $2) RETURNING id`, c.ws, "pending-"+host)
	w.exec(`INSERT INTO domain_proof (domain_id, workspace_id, host) VALUES ($1, $2, $3)`, id, c.ws, host)
	var proof string
	require.NoError(w.t, w.hand.QueryRow(w.t.Context(), `SELECT proof FROM workspace WHERE id = $1`, c.ws).Scan(&proof))
	w.dns.SetTexts(controlplane.ProofName(host), proof)
	return request{path: fmt.Sprintf(format, id)}
}

// link makes a link of a workspace.
func (w *world) link(ws waypost.WorkspaceID) string {
	w.t.Helper()
	l, _, err := w.service.Links.Create(w.t.Context(), controlplane.Actor{Workspace: ws}, controlplane.NewLink{
		OriginalURL: "https://example.com/", CustomCode: w.fresh(),
	})
	require.NoError(w.t, err)
	return string(l.Code)
}

// victimImport is the id of an import of the victim's.
const victimImport = "theimportofthevictim"

// importOf makes an import of a workspace in a state, with a part of its file, and
// returns its id.
func (w *world) importOf(ws waypost.WorkspaceID, state string) string {
	w.t.Helper()
	id, name := victimImport, marker
	if ws != victim {
		id, name = w.fresh()+"-is-an-import", "own"
	}
	w.exec(`INSERT INTO import (id, workspace_id, state, parts, sent, sent_bytes, document)
		VALUES ($1, $2, $3, 1, 1, 3, jsonb_build_object('name', $4::text))`, id, ws, state, name)
	w.exec(`INSERT INTO import_part VALUES ($1, 1, $2, 3, sha256('a,b'), 'a,b')`, id, ws)
	w.exec(`INSERT INTO import_rows VALUES ($1, false, 0, $2, '')`, id, ws)
	return id
}

// do sends a request and returns the status and the text of the answer, with its headers.
func (w *world) do(method string, r request, c *credential) (int, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+r.path, strings.NewReader(r.body))
	require.NoError(w.t, err)
	for name, value := range map[string]string{"Idempotency-Key": r.once, "Waypost-Workspace": c.header} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.text != "" {
		req.Header.Set("Authorization", "Bearer "+c.text)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(w.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return res.StatusCode, fmt.Sprint(res.Header) + string(text)
}

// requireNothingOf sees that an answer shows nothing of the victim's.
func (w *world) requireNothingOf(text, route, by string) {
	w.t.Helper()
	for _, hidden := range w.hidden {
		require.NotContains(w.t, text, hidden, "%s by %s shows what is the victim's", route, by)
	}
}

// belongings is a fingerprint of all rows of a workspace, by table, and those tables in
// which it has none.
func (w *world) belongings(ws waypost.WorkspaceID) (prints map[string]string, bare []string) {
	w.t.Helper()
	rows, err := w.hand.Query(w.t.Context(), `
		SELECT c.relname::text, a.attname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace AND NOT c.relispartition
		  AND (a.attname IN ('workspace_id', 'home_id') OR c.relname = 'workspace' AND a.attname = 'id') AND NOT a.attisdropped`)
	require.NoError(w.t, err)
	var table, column string
	tables := map[string]string{}
	_, err = pgx.ForEachRow(rows, []any{&table, &column}, func() error { tables[table] = column; return nil })
	require.NoError(w.t, err)
	prints = map[string]string{}
	for table, column := range tables {
		var text *string
		require.NoError(w.t, w.hand.QueryRow(w.t.Context(), fmt.Sprintf(`SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM %s r WHERE %s = $1`,
			pgx.Identifier{table}.Sanitize(), pgx.Identifier{column}.Sanitize()), ws).Scan(&text))
		if text == nil {
			bare = append(bare, table)
			continue
		}
		sum := md5.Sum([]byte(*text))
		prints[table] = hex.EncodeToString(sum[:])
	}
	return prints, bare
}
