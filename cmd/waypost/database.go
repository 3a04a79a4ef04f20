package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"waypost/cmd/waypost/internal/config"
	"waypost/cmd/waypost/internal/dev"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/migrations"
)

// databaseSettings are those of commands that go to the database themselves.
var databaseSettings = []string{"control.database_url", "control.database_url_file", "dev.data_dir"}

// databaseURL is that of the control plane, or else of the development system.
func databaseURL(cfg config.Config) (string, error) {
	if url := cfg.Control.DatabaseURL.Reveal(); url != "" {
		return url, nil
	}
	state, err := dev.ReadState(cfg.Dev.DataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &usageError{errors.New("no database: set WAYPOST_CONTROL_DATABASE_URL or --database-url-file, or start `waypost dev`")}
	}
	return state.DatabaseURL, err
}

// whatToDo adds advice to an error of a database that cannot be reached.
func whatToDo(err error) error {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return fmt.Errorf("%w: is PostgreSQL running there, and is the database URL right?", err)
	}
	return err
}

func (p *program) migrateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database up to this version's schema",
		Long: `Bring the database up to this version's schema. Several may run at once; one that
is up to date is left as it is. A newer schema than this program's is refused.`,
		Example: `  WAYPOST_CONTROL_DATABASE_URL=postgres://waypost@db/waypost waypost migrate
  waypost migrate --database-url-file /run/secrets/database-url`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := p.settings(nil)
			if err != nil {
				return err
			}
			url, err := databaseURL(cfg)
			if err != nil {
				return err
			}
			if err := migrations.Up(c.Context(), url); err != nil {
				return whatToDo(fmt.Errorf("migrate the database: %w", err))
			}
			return p.print(fmt.Sprintf("the database has schema version %d", migrations.Newest), map[string]int{"schema_version": migrations.Newest})
		},
	}
	return p.bind(c, databaseSettings...)
}

func (p *program) keysCommand() *cobra.Command {
	return group("keys", "Manage API keys", p.keysCreateCommand())
}

func (p *program) keysCreateCommand() *cobra.Command {
	var name, workspace string
	var scopes []string
	c := &cobra.Command{
		Use:   "create",
		Short: "Make an API key and show it, once",
		Long: `Make an API key, directly in the control plane's database, and show it. Only its
hash is kept, so it cannot be shown again.`,
		Example: `  waypost keys create --name ci --scopes links:read,links:write
  waypost keys create --name ops --scopes admin --output json`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			wanted, err := parseScopes(scopes)
			if err != nil {
				return &usageError{fmt.Errorf("--scopes: %w", err)}
			}
			if name == "" {
				return &usageError{errors.New("--name is missing: it tells keys apart later")}
			}
			cfg, err := p.settings(nil)
			if err != nil {
				return err
			}
			url, err := databaseURL(cfg)
			if err != nil {
				return err
			}
			db, err := postgres.Open(c.Context(), postgres.Config{URL: url, Visitor: true})
			if err != nil {
				return whatToDo(err)
			}
			defer db.Close()
			key, err := db.CreateKey(c.Context(), workspace, name, wanted)
			if err != nil {
				return err
			}
			return p.print(key, map[string]any{"key": key, "name": name, "workspace": workspace, "scopes": wanted})
		},
	}
	c.Flags().StringVar(&name, "name", "", "what the key is for")
	c.Flags().StringVar(&workspace, "workspace", "default", "slug of the workspace that the key acts in")
	c.Flags().StringSliceVar(&scopes, "scopes", []string{"links:read", "links:write"}, "what the key allows: links:read, links:write, analytics:read, admin")
	return p.bind(c, databaseSettings...)
}

func parseScopes(texts []string) ([]controlplane.Scope, error) {
	known := []controlplane.Scope{
		controlplane.ScopeLinksRead, controlplane.ScopeLinksWrite, controlplane.ScopeAnalytics, controlplane.ScopeAdmin,
	}
	var scopes []controlplane.Scope
	for _, text := range texts {
		if !slices.Contains(known, controlplane.Scope(text)) {
			return nil, fmt.Errorf("%q is none of %v", text, known)
		}
		scopes = append(scopes, controlplane.Scope(text))
	}
	return scopes, nil
}
