package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"waypost/client"
)

// domainsCommands makes the commands for domains.
type domainsCommands struct{ *program }

func (p domainsCommands) command() *cobra.Command {
	c := group("domains", "Add, show, change and remove the domains of short links", p.listCommand(), p.addCommand(), p.setCommand(), p.removeCommand())
	c.Long = `Show the domains that links can have, and say where each leads visitors who follow
no link: those of its root, and those of a code that is not known.

It asks the API of --api or WAYPOST_API with the key in WAYPOST_API_KEY, which needs
the scope admin, or else the development system that runs in --data-dir.`
	for _, sub := range c.Commands() {
		p.bind(sub, "client", "dev.data_dir")
	}
	return c
}

func (p domainsCommands) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the domains that links can have",
		Example: `  waypost domains list
  waypost domains list --output json`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := p.api()
			if err != nil {
				return err
			}
			defer api.Close()
			domains, err := api.Domains.List(c.Context())
			if err != nil {
				return err
			}
			return p.print(domainTable(domains), map[string][]client.Domain{"domains": domains})
		},
	}
}

func domainTable(domains []client.Domain) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	// Writing into memory does not fail.
	_, _ = fmt.Fprintln(w, "ID\tHOST\tSHARED\tROOT\tNOT FOUND")
	for i := range domains {
		d := &domains[i]
		shared := "no"
		if d.Shared {
			shared = "yes"
		}
		_, _ = fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", d.ID, printable(d.Host), shared,
			printable(orNone(shortened(d.RootURL))), printable(orNone(shortened(d.NotFoundURL))))
	}
	_ = w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

func orNone(url string) string {
	if url == "" {
		return "-"
	}
	return url
}

func (p domainsCommands) setCommand() *cobra.Command {
	var root, notFound string
	c := &cobra.Command{
		Use:   "set DOMAIN",
		Short: "Say where a domain leads visitors who follow no link",
		Long: `Set the targets of a domain, given by its host or its id, for visitors who follow no
link. Targets without a flag do not change. An empty URL removes a target: the root then
names the service, and unknown codes answer 404. Edges follow within milliseconds. Only
the default workspace may change the shared domain.`,
		Example: `  waypost domains set go.example.com --root https://example.com/ --not-found https://example.com/lost
  waypost domains set 1 --not-found ""`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			var change client.DomainChange
			if c.Flags().Changed("root") {
				change.RootURL = &root
			}
			if c.Flags().Changed("not-found") {
				change.NotFoundURL = &notFound
			}
			if change == (client.DomainChange{}) {
				return &usageError{errors.New("nothing to change: give --root, --not-found or both")}
			}
			api, err := p.api()
			if err != nil {
				return err
			}
			defer api.Close()
			id, err := domainID(c.Context(), api, args[0])
			if err != nil {
				return err
			}
			d, err := api.Domains.Change(c.Context(), id, change)
			if err != nil {
				return err
			}
			return p.print(domainTable([]client.Domain{d}), d)
		},
	}
	c.Flags().StringVar(&root, "root", "", `URL for visitors of the root; "" for none`)
	c.Flags().StringVar(&notFound, "not-found", "", `URL for visitors of unknown codes; "" for none`)
	return c
}

// domainID finds a domain by its host, or takes a number for the id itself.
func domainID(ctx context.Context, api *client.Client, name string) (uint32, error) {
	if id, err := strconv.ParseUint(name, 10, 31); err == nil {
		return uint32(id), nil
	}
	domains, err := api.Domains.List(ctx)
	if err != nil {
		return 0, err
	}
	for i := range domains {
		if strings.EqualFold(domains[i].Host, name) {
			return domains[i].ID, nil
		}
	}
	return 0, fmt.Errorf("there is no domain %q: see `waypost domains list`", name)
}
