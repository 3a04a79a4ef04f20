package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"waypost/internal/config"
	"waypost/internal/dev"
	"waypost/migrations"
)

// databaseSettings are the settings of commands that go to the database themselves.
var databaseSettings = []string{"control.database_url", "dev.data_dir"}

// databaseURL returns the settings, and the database of the control plane, or else of the
// development system.
func (p *program) databaseURL() (cfg config.Config, url string, err error) {
	if cfg, err = p.settings(nil); err != nil {
		return cfg, "", err
	}
	if url := cfg.Control.DatabaseURL.Reveal(); url != "" {
		return cfg, url, nil
	}
	state, err := dev.ReadState(cfg.Dev.DataDir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := p.noSystem(cfg); err != nil {
			return cfg, "", &usageError{err}
		}
		return cfg, "", &usageError{errors.New("no database: set WAYPOST_CONTROL_DATABASE_URL or --database-url-file, or start `waypost dev`")}
	}
	return cfg, state.DatabaseURL, err
}

// withRemedy adds a remedy to the error of a database that cannot be reached.
func withRemedy(err error) error {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return fmt.Errorf("%w: is PostgreSQL running there, and is the database URL right?", err)
	}
	return err
}

func (p serverCommands) migrateCommand() *cobra.Command {
	var printRoles bool
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database up to this version's schema",
		Long: `Bring the database up to this version's schema. Several may run at once; one that
is up to date is left as it is. A newer schema than this program's is refused.

The login needs the roles that transactions take on. With CREATEROLE, or as superuser,
the migration makes them. For any other login a superuser makes them beforehand, by
what --print-roles prints.`,
		Example: `  WAYPOST_CONTROL_DATABASE_URL=postgres://waypost@db/waypost waypost migrate
  waypost migrate --database-url-file /run/secrets/database-url
  waypost migrate --print-roles --database-url-file … | sudo -u postgres psql`,
		RunE: func(c *cobra.Command, _ []string) error {
			_, url, err := p.databaseURL()
			if err != nil {
				return err
			}
			if printRoles {
				login, err := migrations.Login(url)
				if err != nil {
					return err
				}
				script, err := migrations.Roles(login)
				if err != nil {
					return err
				}
				return p.print(strings.TrimSuffix(script, "\n"), map[string]string{"sql": script})
			}
			if err := migrations.Up(c.Context(), url); err != nil {
				return withRemedy(fmt.Errorf("migrate the database: %w", err))
			}
			return p.print(fmt.Sprintf("the database has schema version %d", migrations.Newest), map[string]int{"schema_version": migrations.Newest})
		},
	}
	c.Flags().BoolVar(&printRoles, "print-roles", false, "print the SQL by which a superuser makes the roles, and change nothing")
	return p.bind(c, databaseSettings...)
}
