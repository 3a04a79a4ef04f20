package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

func (p domainsCommands) addCommand() *cobra.Command {
	var n api.NewDomain
	c := &cobra.Command{
		Use:   "add HOST",
		Short: "Add a domain of your own for short links",
		Long: `Add a domain for short links of your workspace. It is pending until the TXT record that
is shown stands in DNS and ` + "`waypost domains verify`" + ` has seen it. Point the name itself at
the edges (a CNAME, or their addresses) before or after. A domain that an operator adds
is served at once.`,
		Example: `  waypost domains add go.example.org
  waypost domains add go.example.org --root https://example.org/ --not-found https://example.org/lost`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			n.Host = args[0]
			d, err := client.Send[api.Domain](ctx, server, http.MethodPost, api.PathDomains, n)
			return describeDomain(&d), d, err
		}),
	}
	c.Flags().StringVar(&n.RootURL, "root", "", "URL for visitors of the root")
	c.Flags().StringVar(&n.NotFoundURL, "not-found", "", "URL for visitors of unknown codes")
	c.Flags().StringVar(&n.Case, "case", "", "sensitive (default), or insensitive: links are found by their codes in any case")
	c.Flags().BoolVar(&n.ExactPaths, "exact-paths", false, "answer 404 to a path with a slash or punctuation behind a code")
	c.Flags().BoolVar(&n.Shared, "shared", false, "for links of all workspaces; the default workspace alone may add such")
	return c
}

func (p domainsCommands) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify DOMAIN",
		Short: "Look for the proof of a domain now",
		Long: `Look for the TXT record that proves a domain, given by its host or its id. With the record
the domain is served at once. Resolvers remember for a while that a record is missing, an
hour in many zones: it may take that long until a new record is seen.`,
		Example: `  waypost domains verify go.example.org`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			id, err := domainID(ctx, server, args[0], false)
			if err != nil {
				return "", nil, err
			}
			d, err := client.Send[api.Domain](ctx, server, http.MethodPost, client.Path(api.PathDomains, id, "verify"), nil)
			return describeDomain(&d), d, err
		}),
	}
}

func (p domainsCommands) statusCommand() *cobra.Command {
	var everyone bool
	c := &cobra.Command{
		Use:     "status DOMAIN",
		Short:   "Show whether a domain is served, and the record that proves it",
		Example: `  waypost domains status go.example.org`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			d, err := findDomain(ctx, server, args[0], everyone)
			return describeDomain(&d), d, err
		}),
	}
	c.Flags().BoolVar(&everyone, "all", false, "a domain of any workspace; for operators")
	return c
}

// describeDomain lays out a domain for people, with its owner's next steps.
func describeDomain(d *api.Domain) string {
	var b strings.Builder
	field := fieldsTo(&b, 12)
	field("domain", d.Host)
	field("id", strconv.FormatUint(uint64(d.ID), 10))
	field("state", d.State)
	field("certificate", d.Certificate.State)
	field("valid until", instant(d.Certificate.Until))
	field("failed", d.Certificate.Error)
	field("root", d.RootURL)
	field("not found", d.NotFoundURL)
	field("maintenance", d.MaintenanceURL)
	if p := d.Proof; p != nil {
		field("TXT record", p.RecordName)
		field("its text", p.RecordValue)
		field("looked for", instant(p.CheckedAt))
		field("missing since", instant(p.UnprovedSince))
		field("suspended at", instant(p.SuspendedAt))
	}
	if d.State == "pending" || d.State == "suspended" {
		_, _ = fmt.Fprintf(&b, "\nIt is not served. Add the TXT record to DNS, then run `waypost domains verify %s`.\n", printable(d.Host))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (p domainsCommands) approveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "approve DOMAIN",
		Short: "Serve a domain of any workspace without a proof, as an operator",
		Long: `Serve a domain of any workspace, given by its host or its id, without a proof. That is for
names that public DNS does not know, such as those of an intranet. Waypost does not look
for the record of an approved domain again.`,
		Example: `  waypost domains list --all
  waypost domains approve go.corp.example`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			id, err := domainID(ctx, server, args[0], true)
			if err != nil {
				return "", nil, err
			}
			d, err := client.Send[api.Domain](ctx, server, http.MethodPost, client.Path(api.PathAllDomains, id, "approve"), nil)
			return describeDomain(&d), d, err
		}),
	}
}

func (p domainsCommands) removeCommand() *cobra.Command {
	var force, everyone bool
	c := &cobra.Command{
		Use:   "remove DOMAIN",
		Short: "Remove a domain",
		Long: `Remove a domain, given by its host or its id. It must have no links, but with --force they
are deleted with it, once the host was typed, or with --yes. Its host is then free for another domain, of any workspace.`,
		Example: `  waypost domains remove go.example.org
  waypost domains remove go.example.org --force
  waypost domains remove --all 17`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			id, err := domainID(ctx, server, args[0], everyone)
			if err == nil && force {
				question := fmt.Sprintf("The links of %s go with it, and visitors get 404. Type %s to go on: ", printable(args[0]), printable(args[0]))
				err = p.confirm(question, args[0])
			}
			if err != nil {
				return "", nil, err
			}
			path := client.Path(domainsPath(everyone), id) + "?force=" + strconv.FormatBool(force)
			if err = server.Delete(ctx, path); !force && statusOf(err) == http.StatusConflict {
				err = fmt.Errorf("%w (--force)", err)
			}
			return "removed " + args[0], map[string]string{"removed": args[0]}, err
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "delete the domain's links with it")
	c.Flags().BoolVar(&everyone, "all", false, "a domain of any workspace; for operators")
	c.Flags().BoolVar(&p.yes, "yes", false, "with --force: do not ask")
	return c
}
