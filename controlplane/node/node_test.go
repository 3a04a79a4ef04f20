package node_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/api/clickbatch"
	"waypost/controlplane"
	"waypost/controlplane/node"
	"waypost/controlplane/postgres"
	"waypost/internal/admin"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
)

const waitLimit = time.Minute

var cluster = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// running is a control plane that lets everybody in.
type running struct {
	*http.Client
	url   string
	fleet string // HOST:PORT for edges; "": url
	key   string // of requests; "": none
}

func runConfig(database string) node.Config {
	return node.Config{
		Region: "eu", Addr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", BaseURL: "https://go.example.com",
		MaxConnections: 100, MaxConnectionsPerAddress: 100, ShutdownTimeout: waitLimit,
		CodeLength: 7, LeaseSize: 100, SigningGeneration: 1, Anonymous: true,
		Database: postgres.Config{URL: database},
	}
}

// run runs a control plane until the end of the test.
func run(t *testing.T, database string, change func(*node.Config)) *running {
	t.Helper()
	cfg := runConfig(database)
	cfg.DataDir = t.TempDir()
	if change != nil {
		change(&cfg)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-done) })
	var at admin.Status
	require.Eventually(t, func() (ok bool) {
		var err error
		at, err = admin.ReadStatus(cfg.DataDir)
		return err == nil
	}, waitLimit, 10*time.Millisecond)
	return &running{Client: http.DefaultClient, url: "http://" + at.Addr, fleet: at.Fleet}
}

// post sends a body, and returns the status and the body of the answer.
func (r *running) post(t *testing.T, path string, body any) (int, []byte) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, bytes.NewReader(text))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if r.key != "" {
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	res, err := r.Do(req)
	require.NoError(t, err)
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, answer
}

// exec runs a statement as a superuser.
func exec(t *testing.T, url, statement string, args ...any) {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	cfg.User = "postgres"
	hand, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	_, err = hand.Exec(t.Context(), statement, args...)
	require.NoError(t, err)
	require.NoError(t, hand.Close(t.Context()))
}

// TestNode_LifetimesAreByPostgreSQLsClock stands for a control plane whose clock is an
// hour behind by a database whose clock is an hour ahead.
func TestNode_LifetimesAreByPostgreSQLsClock(t *testing.T) {
	url := cluster.Database(t)
	exec(t, url, `CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
		RETURN pg_catalog.clock_timestamp() + interval '1 hour'`)
	exec(t, url, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`)
	r := run(t, url, nil)

	for name, life := range map[string]api.NewLink{
		"seconds": {ExpiresInSeconds: 2 * 3600},
		"hours":   {ExpiresInHours: 2},
	} {
		t.Run(name, func(t *testing.T) {
			life.OriginalURL = "https://example.com/"
			status, answer := r.post(t, "/api/v1/urls", life)
			require.Equal(t, 201, status, "%s", answer)
			var made api.Link
			require.NoError(t, json.Unmarshal(answer, &made))
			require.WithinDuration(t, time.Now().Add(3*time.Hour), *made.ExpiresAt, time.Minute)
		})
	}
	t.Run("an expiry that has passed", func(t *testing.T) {
		status, answer := r.post(t, "/api/v1/urls", api.NewLink{
			OriginalURL: "https://example.com/", ExpiresAt: time.Now().Add(30 * time.Minute),
		})
		require.Equal(t, 422, status, "%s", answer)
		require.Contains(t, string(answer), "expires_at must be in the future")
	})
}

// A workspace that is not the operator's asks.
func TestNode_NamesOfItsCertificateAreNoDomains(t *testing.T) {
	s := httptest.NewTLSServer(nil) // has a certificate for example.com
	t.Cleanup(s.Close)
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	files := node.TLS{CertFile: filepath.Join(t.TempDir(), "cert.pem"), KeyFile: filepath.Join(t.TempDir(), "key.pem")}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(files.CertFile, chain, 0o600))
	require.NoError(t, os.WriteFile(files.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))

	url := cluster.Database(t)
	r := run(t, url, func(c *node.Config) { c.TLS = files })
	r.Client, r.url = s.Client(), "https"+r.url[len("http"):]
	r.key = controlplane.NewKey()
	hash := controlplane.HashKey(r.key)
	exec(t, url, `WITH w AS (INSERT INTO workspace (slug, name) VALUES ('tenant', 'A tenant') RETURNING id)
		INSERT INTO api_key (workspace_id, name, prefix, hash, scopes) SELECT id, 'k', $1, $2, '{admin}' FROM w`,
		r.key[:controlplane.KeyDisplay], hash[:])
	status, answer := r.post(t, "/api/v1/domains", api.NewDomain{Host: "example.com"})
	require.Equal(t, 409, status, "%s", answer)
	status, answer = r.post(t, "/api/v1/domains", api.NewDomain{Host: "example.org"})
	require.Equal(t, 201, status, "%s", answer)
}

// An edge has seen the epoch of a primary that was promoted in place of this one.
func TestNode_TakesNoClicksOfANewerHistory(t *testing.T) {
	url := cluster.Database(t)
	token := strings.Repeat("e", 32)
	r := run(t, url, func(c *node.Config) { c.EdgeToken = token })
	var id [16]byte
	var own waypost.Position
	hand, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = hand.Exec(t.Context(), `SET ROLE waypost_operator`)
	require.NoError(t, err)
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT c.id, h.epoch, e.id FROM cluster c, changelog_head h JOIN changelog_epoch e ON e.ordinal = h.epoch`).
		Scan(&id, &own.Epoch.Ordinal, (*[16]byte)(&own.Epoch.ID)))
	require.NoError(t, hand.Close(t.Context()))
	promoted := waypost.Position{Epoch: waypost.Epoch{Ordinal: own.Epoch.Ordinal + 1}}
	for name, c := range map[string]struct {
		cluster, position string
		want              int
	}{
		"of this history":    {hex.EncodeToString(id[:]), own.String(), http.StatusUnsupportedMediaType}, // is read
		"of an older one":    {hex.EncodeToString(id[:]), waypost.Position{}.String(), http.StatusUnsupportedMediaType},
		"of a newer one":     {hex.EncodeToString(id[:]), promoted.String(), http.StatusServiceUnavailable},
		"of an unknown one":  {hex.EncodeToString(id[:]), "", http.StatusServiceUnavailable},
		"of another cluster": {strings.Repeat("0", 32), own.String(), http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+clickbatch.Path, http.NoBody)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+token)
			req.Header.Set(clickbatch.HeaderCluster, c.cluster)
			req.Header.Set(clickbatch.HeaderPosition, c.position)
			res, err := r.Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, c.want, res.StatusCode)
		})
	}
}
