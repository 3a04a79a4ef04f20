// Package accessapi_test shows what people, sessions and API keys may do, through the API
// of one or several control planes on one PostgreSQL. It has no code of its own.
package accessapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/httpapi/httpapitest"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/internal/logtest"
	"waypost/internal/pgserver/pgservertest"
	"waypost/keyrange"
	"waypost/migrations"
)

var cluster = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// plane is a control plane with its API on a real listener.
type plane struct {
	t          *testing.T
	database   string
	url        string
	db         *postgres.DB
	services   *controlplane.Services
	log        *logtest.Buffer
	operations map[string]map[string]any // of the document, by method and path
	schemas    map[string]any            // of the document, by name
	ahead      atomic.Int64              // by how much its clock is ahead, ns
}

// start brings up a control plane on a database of its own.
func start(t *testing.T, configure ...func(*httpapi.Config)) *plane {
	t.Helper()
	return startOn(t, cluster.Database(t), configure...)
}

// described is the document of the API, which is the same for all.
var described struct {
	sync.Once
	document map[string]any
}

// another brings up a further control plane on the same database.
func (p *plane) another() *plane { p.t.Helper(); return startOn(p.t, p.database) }

func startOn(t *testing.T, database string, configure ...func(*httpapi.Config)) *plane {
	t.Helper()
	p := &plane{t: t, database: database, log: &logtest.Buffer{}}
	log := slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	p.db, err = postgres.Open(t.Context(), postgres.Config{URL: database, Logger: log})
	require.NoError(t, err)
	t.Cleanup(p.db.Close)
	_, err = p.db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	now := func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }
	minter := keys.NewMinter(keys.MinterConfig{
		Store: p.db, Coder: keyrange.NewCoder(space, [32]byte{}), Region: "eu",
		Node: fmt.Sprintf("%p", p), Size: 100, Patience: time.Minute, Logger: log,
	})
	p.services = controlplane.New(controlplane.Config{
		Store: p.db, Minter: minter, Now: now, Patience: time.Minute, Logger: log,
	})
	t.Cleanup(func() { require.NoError(t, p.services.Close(context.Background())) })
	config := httpapi.Config{
		Services: httpapitest.Services(t, p.db, minter, p.services), BaseURL: "https://go.example.com", Logger: log, Now: now,
		RequestTimeout: time.Minute, // passwords take their time
	}
	for _, change := range configure {
		change(&config)
	}
	server := httptest.NewServer(httpapi.New(config))
	t.Cleanup(server.Close)
	p.url = server.URL
	p.operations = map[string]map[string]any{}
	described.Do(func() { described.document = p.do(call{path: "/openapi.json"}).json() })
	document := described.document
	p.schemas = document["components"].(map[string]any)["schemas"].(map[string]any)
	for path, item := range document["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			p.operations[strings.ToUpper(method)+" "+path] = operation.(map[string]any)
		}
	}
	return p
}

// call is a request.
type call struct {
	method     string // default GET, or POST with a body
	path       string
	body       any    // encoded as JSON; a string is sent as it is
	credential string // sent as Authorization: Bearer; "" for none
	header     map[string]string
}

// answer is a response that has been read to its end.
type answer struct {
	*http.Response
	t    *testing.T
	text string
}

func (a answer) json() map[string]any {
	a.t.Helper()
	var v map[string]any
	require.NoError(a.t, json.Unmarshal([]byte(a.text), &v), a.text)
	return v
}

// id returns the id in an answer as it stands in paths.
func (a answer) id() string {
	a.t.Helper()
	return strconv.Itoa(int(a.json()["id"].(float64)))
}

// do sends a request, and sees that its answer is as the document says.
func (p *plane) do(c call) answer {
	p.t.Helper()
	var body io.Reader = http.NoBody
	switch v := c.body.(type) {
	case nil:
	case string:
		body = strings.NewReader(v)
	default:
		text, err := json.Marshal(v)
		require.NoError(p.t, err)
		body = bytes.NewReader(text)
	}
	if c.method == "" && c.body != nil {
		c.method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(p.t.Context(), c.method, p.url+c.path, body)
	require.NoError(p.t, err)
	if c.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.credential != "" {
		req.Header.Set("Authorization", "Bearer "+c.credential)
	}
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(p.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(p.t, err)
	require.NoError(p.t, res.Body.Close())
	a := answer{Response: res, t: p.t, text: string(text)}
	if operation := p.operation(req.Method, req.URL.Path); operation != nil {
		p.requireDocumented(operation, a)
	}
	return a
}

// operation finds the document's words for a request.
func (p *plane) operation(method, path string) map[string]any {
	parts := strings.Split(path, "/")
	for name, operation := range p.operations {
		m, template, _ := strings.Cut(name, " ")
		steps := strings.Split(template, "/")
		if m != method || len(steps) != len(parts) {
			continue
		}
		fits := true
		for i := range steps {
			fits = fits && (steps[i] == parts[i] || strings.HasPrefix(steps[i], "{") && parts[1] != "")
		}
		if fits {
			return operation
		}
	}
	return nil
}

func (p *plane) requireDocumented(operation map[string]any, a answer) {
	t := p.t
	t.Helper()
	name := fmt.Sprint(operation["operationId"], " ", a.StatusCode)
	response, ok := operation["responses"].(map[string]any)[strconv.Itoa(a.StatusCode)].(map[string]any)
	require.True(t, ok, "%s is not documented: %s", name, a.text)
	if contentType := a.Header.Get("Content-Type"); contentType != "" {
		require.Contains(t, response["content"], contentType, name)
		content := response["content"].(map[string]any)[contentType].(map[string]any)
		var v any
		require.NoError(t, json.Unmarshal([]byte(a.text), &v), name)
		p.requireFits(content["schema"].(map[string]any), v, name)
	} else {
		require.NotContains(t, response, "content", name)
	}
	described, _ := response["headers"].(map[string]any)
	for _, header := range []string{"Set-Cookie", "WWW-Authenticate", "Retry-After", "Waypost-Position"} {
		if a.Header.Get(header) != "" {
			require.Contains(t, described, header, name)
		}
	}
}

// requireFits sees that a value has all fields that its schema requires, and none that
// it does not know.
func (p *plane) requireFits(schema map[string]any, value any, at string) {
	p.t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = p.schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
	}
	switch v := value.(type) {
	case map[string]any:
		properties, known := schema["properties"].(map[string]any)
		if !known {
			return
		}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			require.Contains(p.t, v, name, at)
		}
		for name, field := range v {
			require.Contains(p.t, properties, name, at)
			p.requireFits(properties[name].(map[string]any), field, at+"."+name)
		}
	case []any:
		for _, item := range v {
			p.requireFits(schema["items"].(map[string]any), item, at)
		}
	case string:
		if among, ok := schema["enum"].([]any); ok {
			require.Contains(p.t, among, value, at)
		}
	}
}

// want sends a request whose answer must have a status.
func (p *plane) want(status int, c call) answer {
	p.t.Helper()
	a := p.do(c)
	require.Equal(p.t, status, a.StatusCode, "%s %s: %s", c.method, c.path, a.text)
	if status >= 400 {
		require.Equal(p.t, "application/problem+json", a.Header.Get("Content-Type"))
	}
	return a
}

const password = "correct horse battery"

// hashed is the password as it may be stored by hand: what is compared with it takes
// little memory and time. Those that are set through the API take what they take.
var hashed = sync.OnceValues(func() (string, error) {
	return argon2id.CreateHash(password, &argon2id.Params{Memory: 8, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
})

// firstAdmin makes the operator of an installation, and returns the token of a session.
func (p *plane) firstAdmin() string {
	p.t.Helper()
	p.firstAdminWithoutSession()
	return p.signIn("root@example.com")
}

// firstAdminWithoutSession makes the operator, and returns what is stored of the
// password.
func (p *plane) firstAdminWithoutSession() (hash string) {
	p.t.Helper()
	hash, err := hashed()
	require.NoError(p.t, err)
	_, err = p.db.CreateAdministrator(p.t.Context(), postgres.NewAdministrator{
		Workspace: "default", Email: "root@example.com",
		Name: "Root", Hash: hash,
	})
	require.NoError(p.t, err)
	return hash
}

func (p *plane) signIn(email string) string {
	p.t.Helper()
	a := p.want(201, call{path: "/api/v1/session", body: map[string]any{"email": email, "password": password}})
	return a.json()["token"].(string)
}

// addUser makes a user of the workspace that a credential acts in, and returns its id.
func (p *plane) addUser(credential, email, role string) string {
	p.t.Helper()
	made := p.want(201, call{path: "/api/v1/users", credential: credential, body: map[string]any{"email": email, "role": role}})
	p.accept(200, invitationOf(made))
	return made.id()
}

// invitationOf returns the token of the invitation in an answer.
func invitationOf(a answer) string {
	a.t.Helper()
	return a.json()["invitation"].(map[string]any)["token"].(string)
}

// accept sets the password of an account that there is an invitation to.
func (p *plane) accept(status int, token string) answer {
	p.t.Helper()
	return p.want(status, call{path: "/api/v1/invitation", body: map[string]any{"token": token, "password": password}})
}

// addKey makes a key and returns its id and text.
func (p *plane) addKey(credential string, scopes ...string) (id, key string) {
	p.t.Helper()
	a := p.want(201, call{path: "/api/v1/keys", credential: credential, body: map[string]any{"name": "k", "scopes": scopes}})
	return a.id(), a.json()["key"].(string)
}

// tenant makes a workspace with an administrator, and returns its id and the token of
// that one's session.
func (p *plane) tenant(operator, slug string) (id, admin string) {
	p.t.Helper()
	id = p.want(201, call{path: "/api/admin/workspaces", credential: operator, body: map[string]any{"slug": slug}}).id()
	email := "admin@" + slug + ".example"
	p.want(201, call{path: "/api/admin/workspaces/" + id + "/users", credential: operator, body: map[string]any{"email": email, "role": "admin", "password": password}})
	return id, p.signIn(email)
}

// hand connects as an operator by hand would.
func (p *plane) hand() *pgx.Conn {
	p.t.Helper()
	cfg, err := pgx.ParseConfig(p.database)
	require.NoError(p.t, err)
	cfg.User = "postgres" // whom no row-level security binds
	conn, err := pgx.ConnectConfig(p.t.Context(), cfg)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { require.NoError(p.t, conn.Close(context.Background())) })
	return conn
}

// frozen is a clock that stands still, so that no one gets an attempt back while a test
// runs.
func frozen() time.Time { return time.Unix(1_800_000_000, 0) }

// later moves a control plane's clock.
func (p *plane) later(d time.Duration) { p.ahead.Add(int64(d)) }

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// idOf returns the id of a thing in a list as it stands in paths.
func idOf(thing map[string]any) string { return strconv.Itoa(int(thing["id"].(float64))) }
