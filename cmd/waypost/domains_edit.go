package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"waypost/client"
)

func (p domainsCommands) addCommand() *cobra.Command {
	var n client.NewDomain
	c := &cobra.Command{
		Use:   "add HOST",
		Short: "Add a domain of your own for short links",
		Long: `Add a domain for short links of your workspace. Point its name at the edges (a CNAME, or
their addresses) before or after. Ownership of the name
is not checked; a name that is in use already cannot be added.`,
		Example: `  waypost domains add go.example.org
  waypost domains add go.example.org --root https://example.org/ --not-found https://example.org/lost`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := p.api()
			if err != nil {
				return err
			}
			defer api.Close()
			n.Host = args[0]
			d, err := api.Domains.Add(c.Context(), n)
			if err != nil {
				return err
			}
			return p.print(domainTable([]client.Domain{d}), d)
		},
	}
	c.Flags().StringVar(&n.RootURL, "root", "", "URL for visitors of the root")
	c.Flags().StringVar(&n.NotFoundURL, "not-found", "", "URL for visitors of unknown codes")
	c.Flags().BoolVar(&n.Shared, "shared", false, "for links of all workspaces; the default workspace alone may add such")
	return c
}

func (p domainsCommands) removeCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "remove DOMAIN",
		Short: "Remove a domain",
		Long: `Remove a domain, given by its host or its id. It must have no links, but with --force they
are deleted with it. Its host is then free for another domain, of anybody.`,
		Example: `  waypost domains remove go.example.org`,
		Args:    arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := p.api()
			if err != nil {
				return err
			}
			defer api.Close()
			id, err := domainID(c.Context(), api, args[0])
			if err != nil {
				return err
			}
			err = api.Domains.Remove(c.Context(), id, force)
			var problem *client.Problem
			if !force && errors.As(err, &problem) && problem.Status == http.StatusConflict {
				return fmt.Errorf("%w (--force)", err)
			}
			if err != nil {
				return err
			}
			return p.print("removed "+args[0], map[string]string{"removed": args[0]})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "delete the domain's links with it")
	return c
}
