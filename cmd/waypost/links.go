package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"waypost/cmd/waypost/internal/client"
	"waypost/cmd/waypost/internal/config"
	"waypost/cmd/waypost/internal/dev"
)

func (p *program) linksCommand() *cobra.Command {
	c := group("links", "Create, find, delete, import and export links",
		p.linksCreateCommand(), p.linksGetCommand(), p.linksListCommand(), p.linksDeleteCommand(),
		p.linksImportCommand(), p.linksExportCommand())
	c.Long = `Work with links through the API: the one of --api or WAYPOST_API with the key in
WAYPOST_API_KEY, or else the development system that runs in --data-dir.`
	for _, sub := range c.Commands() {
		p.bind(sub, "client", "dev.data_dir")
	}
	return c
}

// api connects to the API that the settings name, or else to the development
// system's.
func (p *program) api() (*client.Client, error) {
	cfg, err := p.settings(nil)
	if err != nil {
		return nil, err
	}
	base, key := cfg.Client.API, cfg.Client.APIKey
	if base == "" {
		state, err := dev.ReadState(cfg.Dev.DataDir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errors.New("no API to talk to: start `waypost dev` (give its --data-dir here, if it has one), or set WAYPOST_API or --api")
		}
		if err != nil {
			return nil, err
		}
		base = state.API
		if key == "" {
			key = config.Secret(state.APIKey)
		}
	}
	c, err := client.New(base, key.Reveal())
	if err != nil {
		return nil, &usageError{err}
	}
	return c, nil
}

func (p *program) linksCreateCommand() *cobra.Command {
	var n client.NewLink
	var expires time.Duration
	c := &cobra.Command{
		Use:   "create URL",
		Short: "Create a link and print its short URL",
		Example: `  waypost links create https://example.com/a/long/path
  waypost links create https://example.com --code spring-sale --title "Spring sale"
  waypost links create https://example.com --expires-in 48h --status 307
  waypost links create https://example.com/docs --code guide --forward-path --forward-query`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("expires-in") && expires < time.Second {
				return &usageError{fmt.Errorf("--expires-in: %s is less than a second", expires)}
			}
			api, err := p.api()
			if err != nil {
				return err
			}
			defer api.Close()
			n.OriginalURL, n.ExpiresInSeconds = args[0], int64(expires/time.Second)
			link, err := api.Create(c.Context(), n)
			if err != nil {
				return err
			}
			return p.print(link.ShortURL, link)
		},
	}
	c.Flags().StringVar(&n.CustomCode, "code", "", "code of your own instead of a generated one")
	c.Flags().StringVar(&n.Title, "title", "", "title, for people")
	c.Flags().DurationVar(&expires, "expires-in", 0, "time until the link expires, such as 48h")
	c.Flags().IntVar(&n.RedirectStatus, "status", 0, "status of the redirect: 301, 302, 307 or 308 (default 302)")
	c.Flags().BoolVar(&n.ForwardQuery, "forward-query", false, "add the query that a visitor brings to the target's")
	c.Flags().BoolVar(&n.ForwardPath, "forward-path", false, "add what follows the code in the path to the target's")
	return c
}

func (p *program) linksGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "get CODE",
		Short:   "Show a link",
		Example: `  waypost links get spring-sale --output json`,
		Args:    arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := p.api()
			if err != nil {
				return err
			}
			defer api.Close()
			link, err := api.Get(c.Context(), args[0])
			if err != nil {
				return err
			}
			return p.print(describe(link), link)
		},
	}
}

func describe(l client.Link) string {
	expires := "never"
	if l.ExpiresAt != nil {
		expires = l.ExpiresAt.Format(time.RFC3339)
	}
	return fmt.Sprintf("short URL  %s\ntarget     %s\nredirect   %d\nforwards   %s\ntitle      %s\nactive     %t\nclicks     %d\ncreated    %s\nexpires    %s",
		l.ShortURL, l.OriginalURL, l.RedirectStatus, forwards(l), printable(l.Title), l.Active, l.ClickCount, l.CreatedAt.Format(time.RFC3339), expires)
}

func forwards(l client.Link) string {
	switch {
	case l.ForwardQuery && l.ForwardPath:
		return "query and path"
	case l.ForwardQuery:
		return "query"
	case l.ForwardPath:
		return "path"
	}
	return "nothing"
}

func (p *program) linksListCommand() *cobra.Command {
	var limit int
	var cursor string
	c := &cobra.Command{
		Use:   "list",
		Short: "List links, newest first",
		Example: `  waypost links list --limit 20
  waypost links list --limit 1000 --output json`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > 1000 {
				return &usageError{fmt.Errorf("--limit: %d is not between 1 and 1000; go on from there with --cursor", limit)}
			}
			api, err := p.api()
			if err != nil {
				return err
			}
			defer api.Close()
			page, err := api.List(c.Context(), limit, cursor)
			if err != nil {
				return err
			}
			return p.print(table(page), page)
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, "how many links at most, up to 1000")
	c.Flags().StringVar(&cursor, "cursor", "", "where the page before ended")
	return c
}

// table lays out a page of links for people.
func table(page client.Page) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	// Writing into memory does not fail.
	_, _ = fmt.Fprintln(w, "CODE\tCREATED\tCLICKS\tTARGET\tTITLE")
	for _, l := range page.Links {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", l.ShortCode, l.CreatedAt.Format(time.DateTime), l.ClickCount, printable(shortened(l.OriginalURL)), printable(shortened(l.Title)))
	}
	_ = w.Flush()
	if page.Next != "" {
		_, _ = fmt.Fprintf(&b, "more with --cursor %s\n", page.Next)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// shortened keeps a table readable; --output json has it all.
func shortened(s string) string {
	const most = 72
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// printable keeps what users typed from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

func (p *program) linksDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "delete CODE...",
		Short:   "Delete links; their codes are never given out again",
		Example: `  waypost links delete spring-sale`,
		Args:    arguments(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := p.api()
			if err != nil {
				return err
			}
			defer api.Close()
			for i, code := range args {
				if err := api.Delete(c.Context(), code); err != nil {
					return fmt.Errorf("delete %s: %w (deleted before it: %d of %d)", code, err, i, len(args))
				}
			}
			return p.print("deleted "+strings.Join(args, ", "), map[string][]string{"deleted": args})
		},
	}
}
