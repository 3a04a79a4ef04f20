package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/internal/config"
	"waypost/internal/dev"
	"waypost/migrations"
)

func (p serverCommands) devCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole system on this machine, for development",
		Long: `Run a whole system on this machine: a private PostgreSQL, one control plane, and an
edge for each region, as processes of their own. One that dies is started again after a
second.

Everything is kept in the data directory and goes on from there at the next start.
While the system is ready, dev.json in that directory says where everything is.
Requests without an API key act as the default workspace. SIGHUP restarts the edges with
the program as it is on the disk by then, without losing a request, and stops everything
when it comes because the terminal that is its standard input was closed.`,
		Example: `  waypost dev
  waypost dev --data-dir /tmp/waypost --control-addr 127.0.0.1:9000
  waypost dev --edges us-east-1=127.0.0.1:8081,eu-west-1=127.0.0.1:8082,ap-south-1=127.0.0.1:8083`,
	}
	p.bind(c, "dev", "log")
	return p.node(c, dev.Plan, nil, p.runDev)
}

func (p serverCommands) runDev(ctx context.Context, cfg config.Config) error {
	p.warnOfVariables() // the processes get their own settings only
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if cfg.Log.Format == "auto" {
		cfg.Log.Format = "text" // of the children, whose output people read here
	}
	ctx, renew, stop := p.hangups(ctx)
	defer stop()
	return dev.Run(ctx, dev.Config{
		Settings:   cfg,
		Renew:      renew,
		Executable: executable,
		Environ:    p.environ,
		Stdout:     p.stdout,
		Stderr:     p.stderr,
		Color:      onTerminal(p.stderr) && p.getenv("NO_COLOR") == "",
		Database:   prepareDatabase,
		SignIn:     developerSignIn,
	})
}

// prepareDatabase migrates the database of a development system and lets its key
// act in the default workspace.
func prepareDatabase(ctx context.Context, url, key string) error {
	if err := migrations.Up(ctx, url); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	db, err := postgres.Open(ctx, postgres.Config{URL: url, ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.EnsureDeveloper(ctx, developer, "Developer"); err != nil {
		return err
	}
	return db.EnsureKey(ctx, waypost.DefaultWorkspace, "dev", key, []controlplane.Scope{controlplane.ScopeAdmin})
}

// developer is the address of the account that `waypost dev` signs in. The account has no
// password, and administers the default workspace.
const developer = "dev@localhost"

// developerSignIn makes a token that signs the developer in, once. It is valid for a day,
// because requests from this machine need no credential in any case.
func developerSignIn(ctx context.Context, url string) (string, error) {
	db, err := postgres.Open(ctx, postgres.Config{URL: url, ReadOnly: true})
	if err != nil {
		return "", err
	}
	defer db.Close()
	return signInToken(ctx, db, developer, maxSignInLink)
}
