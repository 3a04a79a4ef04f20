package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
)

func (p serverCommands) adminCommand() *cobra.Command {
	return group("admin", "Make administrators and sign-in links at the database itself", p.adminCreateCommand(), p.adminSignInCommand())
}

func (p serverCommands) adminCreateCommand() *cobra.Command {
	n := postgres.NewAdministrator{}
	var file string
	c := &cobra.Command{
		Use:   "create",
		Short: "Make the first administrator",
		Long: `Make the first administrator of an installation, directly in the control plane's
database. Administrators of the workspace "default" are its operators: they make
workspaces, users and keys through the API, after ` + "`waypost login`" + `.

It works once: a workspace that has an administrator gets another one only with --force.
That also is the way back in when a password is lost: the account of an address that
there is gets the new password, is enabled, and its sessions end.

The password has at least 12 characters. It is typed on the terminal, or comes from
--password-file or standard input.`,
		Example: `  waypost admin create --email ann@example.com
  waypost admin create --email ann@example.com --database-url-file url.txt --password-file pass.txt
  waypost admin create --email bob@example.com --workspace marketing --force`,
		RunE: func(c *cobra.Command, _ []string) error {
			if n.Email == "" {
				return &usageError{errors.New("--email is missing: the administrator signs in with it")}
			}
			var err error
			if n.Email, err = controlplane.ParseEmail(n.Email); err != nil {
				return &usageError{fmt.Errorf("--email: %w", err)}
			}
			if n.Name == "" {
				n.Name, _, _ = strings.Cut(n.Email, "@")
			}
			if r := []rune(n.Name); len(r) > controlplane.MaxName {
				return &usageError{fmt.Errorf("--name: more than %d characters", controlplane.MaxName)}
			}
			_, url, err := p.databaseURL()
			if err != nil {
				return err
			}
			word, err := p.password(file, "Password of "+n.Email+": ", true)
			if err != nil {
				return err
			}
			if n.Hash, err = controlplane.HashPassword(word); err != nil {
				return err
			}
			db, err := postgres.Open(c.Context(), postgres.Config{URL: url, ReadOnly: true})
			if err != nil {
				return withRemedy(err)
			}
			defer db.Close()
			id, err := db.CreateAdministrator(c.Context(), n)
			if waypost.CodeOf(err) == waypost.EConflict {
				return fmt.Errorf("%w: sign in with `waypost login` and use `waypost users add`, or add --force", err)
			}
			if err != nil {
				return err
			}
			return p.print(fmt.Sprintf("%s is an administrator of the workspace %s: sign in with `waypost login --email %s`", n.Email, n.Workspace, n.Email),
				map[string]any{"id": id, "email": n.Email, "workspace": n.Workspace})
		},
	}
	c.Flags().StringVar(&n.Email, "email", "", "address to sign in with")
	c.Flags().StringVar(&n.Name, "name", "", "name, for people; default: the part before the @")
	c.Flags().StringVar(&n.Workspace, "workspace", waypost.DefaultSlug, "slug of the workspace")
	c.Flags().StringVar(&file, "password-file", "", `file that holds the password, "-" for standard input`)
	c.Flags().BoolVar(&n.Another, "force", false, "also when there is an administrator; an account that there is gets the password")
	return p.bind(c, databaseSettings...)
}
