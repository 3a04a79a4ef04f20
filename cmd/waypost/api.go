package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/client"
	"waypost/internal/config"
	"waypost/internal/credentials"
	"waypost/internal/dev"
)

// asksAsAdmin ends the help of commands that need the scope admin.
const asksAsAdmin = `It asks the API of --api or WAYPOST_API with the key in WAYPOST_API_KEY, which needs
the scope admin, or else the development system that runs in --data-dir.`

// apiSettings are the settings of commands that ask the API.
var apiSettings = []string{"client", "dev.data_dir"}

// api connects to the API that the settings name, or else to the development system's, or
// else to the server of the last login. A flag overrides a variable. A key in the
// settings overrides the token of a login.
func (p *program) api() (*client.Client, error) {
	cfg, err := p.settings(nil)
	if err != nil {
		return nil, err
	}
	base, key, err := p.server(cfg)
	if err != nil {
		return nil, err
	}
	workspace := cfg.Client.Workspace
	if key == "" {
		login, found, err := p.login(base)
		if err != nil {
			return nil, err
		}
		if found {
			key = config.Secret(login.Token)
			if workspace == "" {
				workspace = login.Workspace
			}
		}
	}
	c, err := newClient(base, key.Reveal())
	if err != nil {
		return nil, &usageError{err}
	}
	c.Slug = workspace
	return c, nil
}

// withAPI connects to the API for as long as do takes.
func (p *program) withAPI(do func(*client.Client) error) error {
	server, err := p.api()
	if err != nil {
		return err
	}
	defer server.Close()
	return do(server)
}

// asking returns a function that runs a command: it asks the API, and prints the answer,
// as a text for people or a value in JSON. After an error, nothing is printed.
func (p *program) asking(
	ask func(ctx context.Context, server *client.Client, args []string) (text string, value any, err error),
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return p.withAPI(func(server *client.Client) error {
			text, value, err := ask(c.Context(), server, args)
			if err != nil {
				return err
			}
			return p.print(text, value)
		})
	}
}

// optional returns the value of a flag, or nil if the flag is not given.
func optional[T any](c *cobra.Command, flag string, value *T) *T {
	if c.Flags().Changed(flag) {
		return value
	}
	return nil
}

// newClient returns a client of the API that names itself as this program.
func newClient(base, key string) (*client.Client, error) {
	c, err := client.New(base, key)
	if err == nil {
		c.UserAgent = "waypost-cli"
	}
	return c, err
}

// server returns the address of the API, and the key if one is given.
func (p *program) server(cfg config.Config) (base string, key config.Secret, err error) {
	base, key = cfg.Client.API, cfg.Client.APIKey
	if base != "" {
		return base, key, nil
	}
	state, err := dev.ReadState(cfg.Dev.DataDir)
	if err == nil {
		if key == "" {
			key = config.Secret(state.APIKey)
		}
		return state.API, key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	if err := p.noSystem(cfg); err != nil {
		return "", "", err
	}
	store, err := p.logins()
	if err != nil || store.Current != "" {
		return store.Current, key, err
	}
	return "", "", errors.New("no API to talk to: start `waypost dev` (give its --data-dir here, if it has one), set WAYPOST_API or --api, or run `waypost login`")
}

// login returns the login that is kept for a server.
func (p *program) login(base string) (login credentials.Login, found bool, err error) {
	store, err := p.logins()
	login, found = store.Servers[credentials.Server(base)]
	return login, found, err
}

// logins returns all logins that are kept.
func (p *program) logins() (store credentials.Store, err error) {
	if file, none := credentials.File(p.getenv); none == nil { // without a place nothing is kept
		store, err = credentials.Read(file)
	}
	return store, err
}

// completions offers names that the API knows while an argument is typed. It fails
// silently and soon, because the shell waits.
func (p *program) completions(names func(context.Context, *client.Client) ([]string, error)) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 2*time.Second)
		defer cancel()
		var found []string
		err := p.withAPI(func(server *client.Client) error {
			all, err := names(ctx, server)
			for _, name := range all {
				if strings.HasPrefix(name, typed) {
					found = append(found, printable(name))
				}
			}
			return err
		})
		if several := strings.Contains(c.Use, "..."); err != nil || len(args) > 0 && !several {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
