package blocks_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/blocks"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver/pgservertest"
	"waypost/keyrange"
	"waypost/migrations"
	"waypost/replication"
	"waypost/rules"
)

var cluster = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

var (
	actor    = controlplane.Actor{Workspace: waypost.DefaultWorkspace}
	operator = controlplane.Actor{Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
)

// system is a control plane.
type system struct {
	*controlplane.Services
	Blocks *blocks.Blocks
	set    *replication.BlockSet
	db     *postgres.DB
	hand   *pgx.Conn
	url    string
}

// start starts a control plane on a database of its own.
func start(t *testing.T) *system {
	t.Helper()
	s := &system{url: cluster.Database(t)}
	s = s.another(t)
	byHand, err := pgx.ParseConfig(s.url)
	require.NoError(t, err)
	byHand.User = "postgres"
	s.hand, err = pgx.ConnectConfig(t.Context(), byHand)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.hand.Close(context.Background())) })
	return s
}

// another starts another control plane on the same database.
func (s *system) another(t *testing.T) *system {
	t.Helper()
	other := s.unloaded(t)
	require.NoError(t, other.Blocks.Load(t.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { other.Blocks.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return other
}

// unloaded returns another control plane, which reads and writes no statements of the
// database unless it is told to.
func (s *system) unloaded(t *testing.T) *system {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: s.url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	signer, err := replication.NewSigner([32]byte{1}, replication.Cluster{2}, 2)
	require.NoError(t, err)
	other := &system{url: s.url, db: db, set: &replication.BlockSet{}}
	other.Services = controlplane.New(controlplane.Config{
		Store: db, Blocks: other.set, Patience: time.Minute,
		Minter: keys.NewMinter(keys.MinterConfig{
			Store: db, Coder: keyrange.NewCoder(space, [32]byte{}), Region: "eu", Node: fmt.Sprintf("%p", other), Size: 100, Patience: time.Minute,
		}),
	})
	t.Cleanup(func() { _ = other.Close(context.Background()) }) // the database may be away
	other.Blocks = blocks.New(blocks.Config{
		Store: db, Set: other.set, Signer: signer, Domains: other.Domains, Logger: slog.New(slog.DiscardHandler),
	})
	return other
}

// answers returns the status of the answer to a visit.
func (s *system) answers(t *testing.T, host, path string) int {
	t.Helper()
	v := waypost.ParseVisit([]byte("/" + path))
	res, err := s.Links.Resolve(t.Context(), host, &v, &rules.Request{})
	require.NoError(t, err)
	return res.Status
}

// wish returns a request for a link with a custom code.
func wish(code string, change ...func(*controlplane.NewLink)) controlplane.NewLink {
	n := controlplane.NewLink{OriginalURL: "https://example.com/a", CustomCode: code}
	for _, f := range change {
		f(&n)
	}
	return n
}
