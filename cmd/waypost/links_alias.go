package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

func (p linksCommands) aliasCommand() *cobra.Command {
	c := group("alias", "Add, list and remove further addresses of a link",
		p.addAliasCommand(), p.listAliasesCommand(), p.removeAliasCommand())
	c.Long = `Work with the aliases of a link: up to 16 further addresses, with codes of their own, which
lead where the link leads. One change of the link changes all, and its click budget, its
password and its splits are those of all. Statistics count the addresses together, and apart
with --by codes, so that scans of a printed code and clicks in a mail are told apart.`
	return c
}

func (p linksCommands) addAliasCommand() *cobra.Command {
	var w writeFlags
	var n client.NewAlias
	var domain string
	c := &cobra.Command{
		Use:   "add CODE ALIAS",
		Short: "Add an alias to a link, and print its short URL",
		Example: `  waypost links alias add spring-sale spring-box --title "box in shops" --printed-on 2026-03-31 --batch 7
  waypost links alias add spring-sale go.example.com/s`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			return p.withAPI(func(server *client.Client) error {
				var code string
				w.Domain, code = linkName(w.Domain, args[0])
				n.Domain, n.ShortCode = linkName(domain, args[1])
				link, receipt, err := server.Links.AddAlias(c.Context(), code, n, w.Write)
				if err != nil {
					return err
				}
				added := link.Aliases[len(link.Aliases)-1]
				for _, a := range link.Aliases {
					if receipt.Found && a.ShortCode == n.ShortCode {
						added = a
					}
				}
				if receipt.Found {
					_, err = fmt.Fprintln(p.stderr, "waypost: found: the link has the alias already")
				}
				return errors.Join(err, p.tell(&w, added.ShortURL, receipt, nil), p.print(added.ShortURL, link), w.missed())
			})
		},
	}
	c.Flags().StringVar(&n.Title, "title", "", "what the alias is for")
	c.Flags().StringVar(&n.PrintedOn, "printed-on", "", "day on which it was printed (2026-03-31), for statistics")
	c.Flags().StringVar(&n.Batch, "batch", "", "batch of the print, likewise")
	c.Flags().StringVar(&domain, "alias-domain", "", "host of the alias' domain (default the shared one)")
	w.bind(c, c.Flags())
	return c
}

func (p linksCommands) listAliasesCommand() *cobra.Command {
	var domain string
	c := &cobra.Command{
		Use:     "list CODE",
		Short:   "List the aliases of a link",
		Example: `  waypost links alias list spring-sale`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			host, code := linkName(domain, args[0])
			link, err := server.Links.Find(ctx, host, code)
			text := tableOf("ALIAS\tCREATED\tPRINTED\tBATCH\tTITLE", link.Aliases, p.width(), func(a *api.Alias) []any {
				return []any{a.ShortURL, a.CreatedAt.Format(time.DateTime), a.PrintedOn, a.Batch, shortened(a.Title)}
			})
			if len(link.Aliases) == 0 {
				text = "no aliases"
			}
			return text, map[string]any{"aliases": append([]api.Alias{}, link.Aliases...)}, err
		}),
	}
	c.Flags().StringVar(&domain, "domain", "", "host of the link's domain (default the shared one)")
	return c
}

func (p linksCommands) removeAliasCommand() *cobra.Command {
	var w writeFlags
	var domain string
	c := &cobra.Command{
		Use:   "remove CODE ALIAS",
		Short: "Remove an alias of a link",
		Long: `Remove an alias of a link. Edges then answer 404 at its address, its code never names a link
again, and its clicks stay among those of the link. On a terminal the command asks; elsewhere
it needs --yes.`,
		Example: `  waypost links alias remove spring-sale spring-box --yes`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			question := fmt.Sprintf("Remove the alias %s? Its code is lost for good. Type y to go on: ", printable(args[1]))
			if err := p.confirm(question, "y"); err != nil {
				return err
			}
			return p.withAPI(func(server *client.Client) error {
				var code string
				w.Domain, code = linkName(w.Domain, args[0])
				host, alias := linkName(domain, args[1])
				link, receipt, err := server.Links.RemoveAlias(c.Context(), code, host, alias, w.Write)
				if err != nil {
					return err
				}
				return errors.Join(p.tell(&w, args[1], receipt, nil), p.print("removed "+printable(args[1]), link), w.missed())
			})
		},
	}
	c.Flags().BoolVar(&p.yes, "yes", false, "do not ask")
	c.Flags().StringVar(&domain, "alias-domain", "", "host of the alias' domain (default the shared one)")
	w.bind(c, c.Flags())
	return c
}

// aliasText names the aliases of a link.
func aliasText(l *client.Link) string {
	var urls []string
	for _, a := range l.Aliases {
		urls = append(urls, a.ShortURL)
	}
	return strings.Join(urls, ", ")
}
