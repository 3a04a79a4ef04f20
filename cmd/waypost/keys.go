package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/api"
	"waypost/client"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/internal/config"
)

// keysCommands makes the commands for API keys.
type keysCommands struct{ *program }

func (p keysCommands) command() *cobra.Command {
	c := group("keys", "Manage API keys", p.listCommand(), p.createCommand(), p.rotateCommand(), p.revokeCommand())
	c.Long = `Manage API keys: all of the workspace with the scope admin, and the own ones for
everybody else who has signed in. It asks the API as ` + "`waypost links`" + ` does.`
	for _, sub := range c.Commands() {
		p.bind(sub, "client")
		if sub.Name() == "create" {
			p.bind(sub, databaseSettings...)
		} else {
			p.bind(sub, "dev.data_dir")
		}
	}
	return c
}

func (p keysCommands) listCommand() *cobra.Command {
	var page pageFlags
	return page.bind(&cobra.Command{
		Use:   "list",
		Short: "List API keys, newest first: scopes, owner, last use",
		Example: `  waypost keys list
  waypost keys list --output json`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			all, err := client.Get[api.APIKeyPage](ctx, server, api.PathAPIKeys+page.query())
			return keyTable(all.Keys, p.width()) + page.more(all.Next), all, err
		}),
	})
}

func keyTable(keys []api.APIKey, width int) string {
	return tableOf("ID\tNAME\tKEY\tSCOPES\tOWNER\tEXPIRES\tLAST USED", keys, width, func(k *api.APIKey) []any {
		return []any{
			k.ID, k.Name, k.Prefix + "…", strings.Join(k.Scopes, ","), cmp.Or(k.OwnerEmail, "-"), momentText(k.ExpiresAt), momentText(k.LastUsedAt),
		}
	})
}

func momentText(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.Local().Format(time.DateTime)
}

func (p keysCommands) createCommand() *cobra.Command {
	var n api.NewAPIKey
	var expiry config.Duration
	c := &cobra.Command{
		Use:   "create",
		Short: "Make an API key and show it, once",
		Long: `Make an API key and show it. Only its hash is kept, so it cannot be shown again. It
belongs to who has signed in, does no more than its owner may, and ends with the
owner's membership.

Where the control plane's database is configured (control.database_url) and no API is,
or with --database-url, the key is made there directly and has no owner: that needs no
other key.`,
		Example: `  waypost keys create --name ci --scopes links:read,links:write --expires-in 90d
  waypost keys create --name ops --scopes admin --output json
  waypost keys create --name ops --scopes admin --database-url-file /etc/waypost/secrets/database-url`,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, scope := range n.Scopes {
				if !slices.Contains(controlplane.Scopes(), controlplane.Scope(scope)) {
					return &usageError{fmt.Errorf("--scopes: %q is none of %v", scope, controlplane.Scopes())}
				}
			}
			if n.Name == "" {
				return &usageError{errors.New("--name is missing: it identifies the key later")}
			}
			expires := time.Duration(expiry)
			if c.Flags().Changed("expires-in") && expires < time.Second {
				return &usageError{fmt.Errorf("--expires-in: %s is less than a second", expires)}
			}
			if expires != 0 {
				n.ExpiresInSeconds = new(int64(expires / time.Second))
			}
			cfg, err := p.settings(nil)
			if err != nil {
				return err
			}
			if cfg.Client.API == "" && cfg.Control.DatabaseURL.Reveal() != "" {
				if n.ExpiresInSeconds != nil || n.Description != "" {
					return &usageError{errors.New("--expires-in and --description are for keys made through the API: give --api")}
				}
				return p.createKeyDirectly(c.Context(), cfg, n.Name, n.Scopes)
			}
			return p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
				k, err := client.Send[api.APIKey](ctx, server, http.MethodPost, api.PathAPIKeys, n)
				return k.Key, k, err
			})(c, nil)
		},
	}
	c.Flags().StringVar(&n.Name, "name", "", "purpose of the key")
	c.Flags().StringVar(&n.Description, "description", "", "more about it")
	c.Flags().StringSliceVar(&n.Scopes, "scopes", []string{"links:read", "links:write"}, "scopes of the key: links:read, links:write, analytics:read, admin")
	c.Flags().Var(&expiry, "expires-in", "time until the key expires, such as 12h, 90d or 52w; default: never")
	completeWith(c, "scopes", "links:read", "links:write", "analytics:read", "admin")
	return c
}

// createKeyDirectly makes a key in the database itself.
func (p keysCommands) createKeyDirectly(ctx context.Context, cfg config.Config, name string, scopes []string) error {
	workspace := cmp.Or(cfg.Client.Workspace, waypost.DefaultSlug)
	db, err := postgres.Open(ctx, postgres.Config{URL: cfg.Control.DatabaseURL.Reveal(), ReadOnly: true})
	if err != nil {
		return withRemedy(err)
	}
	defer db.Close()
	key, err := db.CreateKey(ctx, workspace, name, scopes)
	if err != nil {
		return err
	}
	return p.print(key, map[string]any{"key": key, "name": name, "workspace": workspace, "scopes": scopes})
}

func (p keysCommands) rotateCommand() *cobra.Command {
	var given config.Duration
	c := &cobra.Command{
		Use:   "rotate KEY",
		Short: "Make an API key that takes another's place, and show it, once",
		Long: `Make a key with the name, scopes and owner of another, given by its id or name, and
show it. The old one ends after --grace, or at once; revoking it then is not needed.`,
		Example: `  waypost keys rotate 12 --grace 24h
  waypost keys rotate ci`,
		ValidArgsFunction: p.completions(keyNames),
		PreRunE: func(*cobra.Command, []string) error {
			grace := time.Duration(given)
			if grace < 0 || grace > controlplane.MaxGrace || grace%time.Second != 0 {
				return &usageError{fmt.Errorf("--grace: %s is not between 0 and %s, in whole seconds", grace, controlplane.MaxGrace)}
			}
			return nil
		},
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			id, err := keyID(ctx, server, args[0])
			if err != nil {
				return "", nil, err
			}
			path := client.Path(api.PathAPIKeys, id, "rotate") + "?grace=" + strconv.Itoa(int(time.Duration(given)/time.Second))
			k, err := client.Send[api.APIKey](ctx, server, http.MethodPost, path, nil)
			return k.Key, k, err
		}),
	}
	c.Flags().Var(&given, "grace", "for how long the old key goes on, up to 7d")
	return c
}

func (p keysCommands) revokeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "revoke KEY...",
		Short: "Revoke API keys, on all control planes within a second",
		Long: `Revoke API keys, given by their ids or names, on all control planes within a second. On
a terminal it asks first; elsewhere it needs --yes. It says when one of them is the key
that it uses itself, which is revoked last.`,
		Example: `  waypost keys revoke 12
  waypost keys revoke ci --yes`,
		ValidArgsFunction: p.completions(keyNames),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withAPI(func(server *client.Client) error { return p.revoke(c.Context(), server, args) })
		},
	}
	c.Flags().BoolVar(&p.yes, "yes", false, "do not ask")
	return c
}

// revoke revokes keys, the command's own key last.
func (p keysCommands) revoke(ctx context.Context, server *client.Client, names []string) error {
	me, err := client.Get[api.Me](ctx, server, api.PathMe)
	if err != nil {
		return err
	}
	type target struct {
		id   int64
		name string
	}
	var others, own []target
	for _, name := range names {
		id, err := keyID(ctx, server, name)
		if err != nil {
			return fmt.Errorf("revoke %s: %w (nothing was revoked)", printable(name), err)
		}
		if me.Key == nil || me.Key.ID != id {
			others = append(others, target{id, name})
			continue
		}
		own = append(own, target{id, name})
		if _, err := fmt.Fprintf(p.stderr, "waypost: %s is the key that this command uses\n", printable(name)); err != nil {
			return err
		}
	}
	list := strings.Join(names, ", ")
	if err := p.confirm("Revoke "+printable(list)+"? This cannot be undone. Type y to go on: ", "y"); err != nil {
		return err
	}
	for i, k := range append(others, own...) {
		if err := server.Delete(ctx, client.Path(api.PathAPIKeys, k.id)); err != nil {
			return fmt.Errorf("revoke %s: %w (revoked before: %d of %d)", printable(k.name), err, i, len(names))
		}
	}
	return p.print("revoked "+printable(list), map[string][]string{"revoked": names})
}

// keyID finds a key by its name, which must be the only such one, or takes a number
// for the id itself.
func keyID(ctx context.Context, server *client.Client, name string) (int64, error) {
	if id, err := strconv.ParseInt(name, 10, 64); err == nil {
		return id, nil
	}
	var found []string
	var id int64
	err := everyPage(ctx, server, api.PathAPIKeys, func(page *api.APIKeyPage) string {
		for i := range page.Keys {
			if k := &page.Keys[i]; k.Name == name {
				id = k.ID
				found = append(found, strconv.FormatInt(k.ID, 10))
			}
		}
		return page.Next
	})
	switch {
	case err != nil:
		return 0, err
	case len(found) == 0:
		return 0, fmt.Errorf("there is no key %q here: see `waypost keys list`", name)
	case len(found) == 1:
		return id, nil
	}
	return 0, fmt.Errorf("%d keys are named %q: say which one by its id: %s", len(found), name, strings.Join(found, ", "))
}

func keyNames(ctx context.Context, server *client.Client) (names []string, err error) {
	page, err := client.Get[api.APIKeyPage](ctx, server, api.PathAPIKeys+largestPage)
	for i := range page.Keys {
		names = append(names, strconv.FormatInt(page.Keys[i].ID, 10), page.Keys[i].Name)
	}
	return names, err
}
