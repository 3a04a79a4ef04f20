package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

// domainsCommands makes the commands for domains.
type domainsCommands struct{ *program }

func (p domainsCommands) command() *cobra.Command {
	c := group("domains", "Add, prove, show, change and remove the domains of short links", p.listCommand(), p.addCommand(),
		p.verifyCommand(), p.statusCommand(), p.setCommand(), p.removeCommand(), p.approveCommand())
	c.Long = `Show the domains that links can have, and say where each leads visitors who follow
no link: those of its root, and those of a code that is not known.

A domain of a workspace is pending, and not served, until its owner has proved it by a
TXT record in DNS:

  waypost domains add go.example.org       names the record and its text
  waypost domains verify go.example.org    looks for it; from then on the domain is served

The record has to stay, because Waypost looks for it daily.

` + asksAsAdmin
	return p.bindAll(c)
}

func (p domainsCommands) listCommand() *cobra.Command {
	var everyone bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the domains that links can have",
		Example: `  waypost domains list
  waypost domains list --all
  waypost domains list --output json`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			domains, err := listDomains(ctx, server, everyone)
			return domainTable(domains, p.width()), map[string][]api.Domain{"domains": domains}, err
		}),
	}
	c.Flags().BoolVar(&everyone, "all", false, "list the domains of all workspaces; for operators")
	return c
}

// domainsPath returns the path of the domains of the workspace, or of all workspaces.
func domainsPath(everyone bool) string {
	if everyone {
		return api.PathAllDomains
	}
	return api.PathDomains
}

func listDomains(ctx context.Context, server *client.Client, everyone bool) ([]api.Domain, error) {
	all, err := client.Get[api.DomainList](ctx, server, domainsPath(everyone))
	return all.Domains, err
}

func domainTable(domains []api.Domain, width int) string {
	return tableOf("ID\tHOST\tOWNER\tSTATE\tCERTIFICATE\tROOT\tNOT FOUND", domains, width, func(d *api.Domain) []any {
		owner := "own"
		switch {
		case d.Shared:
			owner = "shared"
		case d.WorkspaceID != 0:
			owner = fmt.Sprintf("workspace %d", d.WorkspaceID)
		}
		state := d.State
		if d.Proof != nil && d.Proof.SuspendedAt != nil {
			state += ", record missing"
		}
		if d.MaintenanceURL != "" {
			state += ", maintenance"
		}
		if d.Case == "insensitive" {
			state += ", ignores case"
		}
		if d.CaseSwitching {
			state += ", switching"
		}
		if d.ExactPaths {
			state += ", exact paths"
		}
		return []any{d.ID, d.Host, owner, state, d.Certificate.State, cmp.Or(shortened(d.RootURL), "-"), cmp.Or(shortened(d.NotFoundURL), "-")}
	})
}

func (p domainsCommands) setCommand() *cobra.Command {
	var root, notFound, maintenance, codeCase string
	var exact bool
	var change api.DomainChange
	c := &cobra.Command{
		Use:   "set DOMAIN",
		Short: "Say where a domain leads visitors in place of its links, and how it reads addresses",
		Long: `Change a domain, given by its host or its id. Fields without a flag do not change. An
empty URL removes a target: the root then names the service, unknown codes answer 404,
and maintenance ends. During maintenance, visitors of the root and of all links go to the
target of --maintenance, and no click is counted. With --exact-paths, a slash or
punctuation behind a code is not forgiven. Edges follow within milliseconds. Only the
default workspace may change the shared domain.

With --case insensitive, links are found by their codes in any case. That is refused
with a list if codes differ in case alone. Until all links have been switched, new ones
are refused; visitors notice nothing.`,
		Example: `  waypost domains set go.example.com --root https://example.com/ --not-found https://example.com/lost
  waypost domains set 1 --not-found ""
  waypost domains set go.example.com --maintenance https://status.example.com/
  waypost domains set go.example.com --exact-paths
  waypost domains set go.example.com --case insensitive`,
		PreRunE: func(c *cobra.Command, _ []string) error {
			change = api.DomainChange{
				RootURL: optional(c, "root", &root), NotFoundURL: optional(c, "not-found", &notFound),
				MaintenanceURL: optional(c, "maintenance", &maintenance), ExactPaths: optional(c, "exact-paths", &exact),
			}
			if codeCase != "" {
				change.Case = &codeCase
			}
			if change == (api.DomainChange{}) {
				return &usageError{errors.New("nothing to change: give --root, --not-found, --maintenance, --case or --exact-paths")}
			}
			return nil
		},
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			id, err := domainID(ctx, server, args[0], false)
			if err != nil {
				return "", nil, err
			}
			d, err := client.Send[api.Domain](ctx, server, http.MethodPatch, client.Path(api.PathDomains, id), change)
			return domainTable([]api.Domain{d}, p.width()), d, err
		}),
	}
	c.Flags().StringVar(&root, "root", "", `URL for visitors of the root; "" for none`)
	c.Flags().StringVar(&notFound, "not-found", "", `URL for visitors of unknown codes; "" for none`)
	c.Flags().StringVar(&maintenance, "maintenance", "", `URL for visitors of the root and of all links; "" ends the maintenance`)
	c.Flags().StringVar(&codeCase, "case", "", "sensitive, or insensitive: links are found by their codes in any case")
	c.Flags().BoolVar(&exact, "exact-paths", false,
		"answer 404 to a path with a slash or punctuation behind a code; =false forgives them again")
	return c
}

// domainID finds a domain by its host, or takes a number for the id itself.
func domainID(ctx context.Context, server *client.Client, name string, everyone bool) (uint32, error) {
	if id, err := strconv.ParseUint(name, 10, 31); err == nil {
		return uint32(id), nil
	}
	d, err := findDomain(ctx, server, name, everyone)
	return d.ID, err
}

// findDomain finds a domain by its host or its id. Among the domains of all workspaces,
// several may have been promised one host; then it takes the id.
func findDomain(ctx context.Context, server *client.Client, name string, everyone bool) (api.Domain, error) {
	domains, err := listDomains(ctx, server, everyone)
	if err != nil {
		return api.Domain{}, err
	}
	var found []api.Domain
	for i := range domains {
		if strings.EqualFold(domains[i].Host, name) || strconv.FormatUint(uint64(domains[i].ID), 10) == name {
			found = append(found, domains[i])
		}
	}
	switch len(found) {
	case 0:
		return api.Domain{}, fmt.Errorf("there is no domain %q: see `waypost domains list`", name)
	case 1:
		return found[0], nil
	}
	return api.Domain{}, fmt.Errorf("several workspaces have added %q: give the id that `waypost domains list --all` shows", name)
}
