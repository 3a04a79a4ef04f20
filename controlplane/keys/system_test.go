package keys_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/keys"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver/pgservertest"
	"waypost/keyrange"
	"waypost/migrations"
)

var cluster = &pgservertest.Cluster{Prepare: migrations.Up}

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

var (
	actor    = controlplane.Actor{Workspace: waypost.DefaultWorkspace}
	operator = controlplane.Actor{Workspace: waypost.DefaultWorkspace, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
)

// system is a control plane's keys over a database of its own.
type system struct {
	*keys.Ranges
	db     *postgres.DB
	hand   *pgx.Conn
	minter *keys.Minter
	links  *controlplane.Links
}

func start(t *testing.T) *system {
	t.Helper()
	url := cluster.Database(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	s := &system{db: db}
	s.minter = keys.NewMinter(keys.MinterConfig{
		Store: db, Coder: newCoder(t), Region: "eu", Node: "test/1", Size: 100, Patience: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	s.Ranges = keys.NewRanges(keys.Config{Store: db, Minter: s.minter, Patience: time.Minute})
	services := controlplane.New(controlplane.Config{Store: db, Minter: s.minter, Patience: time.Minute})
	t.Cleanup(func() { require.NoError(t, services.Close(context.Background())) })
	s.links = services.Links
	byHand, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	byHand.User = "postgres"
	s.hand, err = pgx.ConnectConfig(t.Context(), byHand)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.hand.Close(context.Background())) })
	return s
}

// create creates a link with a custom code, or with a minted one for "".
func (s *system) create(t *testing.T, code string) (waypost.Link, error) {
	t.Helper()
	l, _, err := s.links.Create(t.Context(), actor, controlplane.NewLink{OriginalURL: "https://example.com/", CustomCode: code})
	return l, err
}

func newCoder(t *testing.T) *keyrange.Coder {
	t.Helper()
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	return keyrange.NewCoder(space, [32]byte{})
}
