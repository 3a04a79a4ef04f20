package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/api"
	"waypost/client"
)

// filterFlags narrow a list, a search or an export.
type filterFlags struct {
	typed                       string
	tags                        []string
	domain                      string
	active, expired             string
	createdAfter, createdBefore string
	expiresBefore               string
}

func (f *filterFlags) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.typed, "search", "", "beginnings of words or tags, or of a code, host or URL")
	c.Flags().StringArrayVar(&f.tags, "tag", nil, "a tag that the links have; several times: all of them")
	c.Flags().StringVar(&f.domain, "domain", "", "host that the links are of")
	c.Flags().StringVar(&f.active, "active", "", "true: enabled links, false: disabled ones")
	c.Flags().StringVar(&f.expired, "expired", "", "true: links that have expired, false: all others")
	c.Flags().StringVar(&f.createdAfter, "created-after", "", "links created at that time or later, such as 2030-12-31T00:00:00Z or 2030-12-31")
	c.Flags().StringVar(&f.createdBefore, "created-before", "", "links created before that time")
	c.Flags().StringVar(&f.expiresBefore, "expires-before", "", "links that expire before that time")
	completeWith(c, "active", "true", "false")
	completeWith(c, "expired", "true", "false")
}

// completeWith lets the shell complete a flag with words.
func completeWith(c *cobra.Command, flag string, words ...string) {
	// It fails for a flag that is not there, or was given words before.
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

func (f *filterFlags) filter(ctx context.Context, p linksCommands) (client.Filter, error) {
	out := client.Filter{Typed: f.typed, Tags: f.tags, Domain: f.domain, Active: f.active, Expired: f.expired}
	for flag, value := range map[string]string{"active": f.active, "expired": f.expired} {
		if value != "" && value != "true" && value != "false" {
			return out, &usageError{fmt.Errorf("--%s: %q is neither true nor false", flag, value)}
		}
	}
	for flag, t := range map[string]struct {
		text string
		to   *time.Time
	}{
		"created-after": {f.createdAfter, &out.CreatedAfter}, "created-before": {f.createdBefore, &out.CreatedBefore},
		"expires-before": {f.expiresBefore, &out.ExpiresBefore},
	} {
		var err error
		if *t.to, err = p.moment(ctx, "--"+flag, t.text); err != nil {
			return out, err
		}
	}
	return out, nil
}

// listing holds the options of a list.
type listing struct {
	filterFlags
	sort   string
	limit  int
	cursor string

	deleted bool
}

// sorts are the orders of a list.
var sorts = []string{"-created", "created", "-clicks", "clicks"}

func (l *listing) addFlags(c *cobra.Command) {
	l.filterFlags.addFlags(c)
	c.Flags().StringVar(&l.sort, "sort", "-created", "created, -created, clicks or -clicks; a minus sign: descending")
	c.Flags().IntVar(&l.limit, "limit", 50, "how many links at most, up to 1000")
	c.Flags().StringVar(&l.cursor, "cursor", "", "where the page before ended")
	completeWith(c, "sort", sorts...)
}

func (p linksCommands) listCommand() *cobra.Command {
	var l listing
	c := &cobra.Command{
		Use:   "list",
		Short: "List links, newest first",
		Long: `List links, newest first. When one of them does not redirect now, a column shows the
state of each: live, disabled, expired, not yet valid, or blocked by an operator.`,
		Example: `  waypost links list --limit 20
  waypost links list --tag spring --sort -clicks
  waypost links list --search exam
  waypost links list --deleted
  waypost links list --limit 1000 --output json`,
		RunE: func(c *cobra.Command, _ []string) error { return p.listLinks(c, l, "") },
	}
	l.addFlags(c)
	c.Flags().BoolVar(&l.deleted, "deleted", false, "deleted links that can be restored, newest deletion first; without other filters")
	return c
}

func (p linksCommands) searchCommand() *cobra.Command {
	var l listing
	c := &cobra.Command{
		Use:   "search WORDS...",
		Short: "Find links by the words of their title and description",
		Long: `Find links that have all of the words in their title or description, whatever their
case. Words in double quotes stand behind one another, "or" between words takes either, and a
minus sign before a word leaves out links that have it (put -- before the words then).
Beginnings of words, tags, codes and URLs are found by "waypost links list --search", and a
link by its short URL by "waypost links get".`,
		Example: `  waypost links search spring sale
  waypost links search '"spring sale" or auction' --tag newsletter
  waypost links search -- spring -2029`,
		RunE: func(c *cobra.Command, args []string) error { return p.listLinks(c, l, strings.Join(args, " ")) },
	}
	l.addFlags(c)
	return c
}

func (p linksCommands) listLinks(c *cobra.Command, l listing, words string) error {
	if l.limit < 1 || l.limit > 1000 {
		return &usageError{fmt.Errorf("--limit: %d is not between 1 and 1000; list further links with --cursor", l.limit)}
	}
	if !slices.Contains(sorts, l.sort) {
		return &usageError{fmt.Errorf("--sort: %q is none of %s", l.sort, strings.Join(sorts, ", "))}
	}
	filter, err := l.filter(c.Context(), p)
	if err != nil {
		return err
	}
	filter.Words, filter.Deleted = words, l.deleted
	return p.withAPI(func(server *client.Client) error {
		// The API answers in parts where few links fit; people want them together.
		page, err := server.Links.Search(c.Context(), filter, l.sort, l.limit, l.cursor)
		for err == nil && page.Next != "" && len(page.Links) < l.limit {
			links := page.Links
			if page, err = server.Links.Search(c.Context(), filter, l.sort, l.limit-len(links), page.Next); err == nil {
				page.Links = append(links, page.Links...)
			}
		}
		if err != nil {
			return err
		}
		if len(page.Links) == 0 && page.Next == "" && l.cursor == "" && p.output == "text" {
			_, err = io.WriteString(p.stderr, searchHint(words, l.typed))
		}
		return errors.Join(err, p.print(linkTable(page, time.Now(), p.width()), page))
	})
}

// searchHint names another way to search after a search without results, "" if all
// were tried.
func searchHint(words, typed string) string {
	text := cmp.Or(words, typed)
	_, code := linkName("", text)
	switch {
	case strings.Contains(text, "/") && waypost.ValidCode(code):
		return "waypost: a link is found by its short URL with `waypost links get " + printable(text) + "`\n"
	case words != "":
		return "waypost: these are whole words of titles and descriptions: `waypost links list --search` takes the beginnings " +
			"of words, tags, codes and URLs, too\n"
	}
	return ""
}

func (p linksCommands) tagsCommand() *cobra.Command {
	var prefix string
	c := &cobra.Command{
		Use:   "tags",
		Short: "List tags and how many links have them",
		Example: `  waypost links tags
  waypost links tags --prefix spring --output json`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (text string, value any, err error) {
			tags, after := []api.TagCount{}, ""
			for more := true; more; more = after != "" {
				var page []api.TagCount
				if page, after, err = server.Links.Tags(ctx, prefix, after, 1000); err != nil {
					return "", nil, err
				}
				tags = append(tags, page...)
			}
			if text = "no tags"; len(tags) > 0 {
				text = tableOf("LINKS\tTAG", tags, p.width(), func(t *api.TagCount) []any { return []any{t.Links, t.Tag} })
			}
			return text, map[string]any{"tags": tags}, nil
		}),
	}
	c.Flags().StringVar(&prefix, "prefix", "", "prefix of the tags")
	return c
}
