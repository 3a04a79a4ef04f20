package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

// statsQuery holds the flags that choose the time of statistics.
type statsQuery struct {
	params map[string]*string // by their names in the API
	bom    bool
}

func (q *statsQuery) bind(c *cobra.Command, breakdowns string) {
	c.Annotations = map[string]string{moreFormats: "table csv"}
	q.params = make(map[string]*string)
	for _, f := range [][3]string{
		{"from", "", "first day (2026-03-01), or a moment (2026-03-01T12:00:00Z); 30 days if left out"},
		{"to", "", "last day, or the moment at which the time ends; now if left out"},
		{"since", "", "instead of --from, a moment from which hours, or days of 24 hours, are counted"},
		{"interval", "day", "step of the series: hour, day, week or month"},
		{"tz", "UTC", "time zone of these steps, such as Europe/Berlin"},
		{"compare", "", "time to compare with: previous, or year for the same days a year ago"},
		{"compare-from", "", "instead of --compare, the beginning of that time, as --from or --since"},
		{"compare-to", "", "its end, as --to; as many steps if left out"},
		{"breakdown", "", "with --output csv, a table instead of the series: " + breakdowns},
		{"separator", "", "between the cells of csv: comma, or semicolon with decimal commas"},
	} {
		q.params[strings.ReplaceAll(f[0], "-", "_")] = c.Flags().String(f[0], f[1], f[2])
	}
	c.Flags().BoolVar(&q.bom, "bom", false, "begin csv with a byte order mark, which Excel needs to read it as UTF-8")
}

// values returns the parameters for the API, which validates them.
func (q *statsQuery) values() url.Values {
	v := url.Values{}
	for name, value := range q.params {
		if *value != "" {
			v.Set(name, *value)
		}
	}
	if q.bom {
		v.Set("bom", "true")
	}
	return v
}

const statsLong = `Text, which is also called table, has a bar for every step and the first names of each
breakdown; json has everything. With csv it is the series, or what --breakdown names.

Steps are those of --tz. Breakdowns and unique visitors are kept by whole days in
UTC, and may hold a little more than the time asked for.`

// clicksCommands makes the commands for clicks and statistics.
type clicksCommands struct{ *program }

func (p clicksCommands) linkCommand() *cobra.Command {
	var q statsQuery
	var domain string
	c := &cobra.Command{
		Use:   "stats CODE",
		Short: "Show how often a link was followed, when, from where and with what",
		Long:  "Show how often a link was followed, when, from where and with what.\n\n" + statsLong,
		Example: `  waypost links stats spring-sale
  waypost links stats spring-sale --from 2026-03-01 --to 2026-03-31 --tz Europe/Berlin
  waypost links stats spring-sale --interval month --from 2026-01-01 --compare year
  waypost links stats spring-sale --since 2026-03-31T09:15:00+02:00 --interval hour
  waypost links stats spring-sale --output csv --breakdown countries > countries.csv`,
		RunE: func(c *cobra.Command, args []string) error {
			values := q.values()
			host, code := linkName(domain, args[0])
			if host != "" {
				values.Set("domain", host)
			}
			return p.showStats(c, client.Path(api.PathLinks, code, "stats")+"?"+values.Encode())
		},
	}
	q.bind(c, "countries, cities, devices, browsers, os, referrers, rules, variants, codes or utm_source and the like")
	c.Flags().StringVar(&domain, "domain", "", "host of the link's domain; the shared one if left out")
	return c
}

func (p clicksCommands) statsCommand() *cobra.Command {
	var q statsQuery
	var group linkGroup
	var top int
	c := &cobra.Command{
		Use:   "stats",
		Short: "Show how often the links of the workspace were followed, and which most",
		Long: "Show how often all links of the workspace were followed, when, from where and with what,\nand which of them most.\n\n" + statsLong + `

With --tag, --domain or --created-by, it is about all clicks of the links that have the
tags, the domain and the creator now, whenever the clicks were.

It asks the API of --api or WAYPOST_API with the key in WAYPOST_API_KEY, which needs
the scope analytics:read, or else the development system that runs in --data-dir.`,
		Example: `  waypost stats
  waypost stats --tag spring --tag mail --domain go.example.com --created-by ann@example.com
  waypost stats --top 100 --output csv --breakdown top > top.csv`,
		RunE: func(c *cobra.Command, _ []string) error {
			values := q.values()
			group.set(values)
			values.Set("top", strconv.Itoa(top))
			return p.showStats(c, api.PathStats+"?"+values.Encode())
		},
	}
	q.bind(c, "countries, cities, devices, browsers, os, referrers, utm_source and the like, or top")
	group.bind(c)
	c.Flags().IntVar(&top, "top", 10, "how many of the links with the most clicks are listed, up to 100")
	c.AddCommand(p.unknownCommand(), p.viewsCommand(), p.crossedCommand())
	for by, of := range map[string]string{"tags": "tag", "domains": "domain", "creators": "creator"} {
		c.AddCommand(p.groupsCommand(by, of))
	}
	return p.bind(c, apiSettings...)
}

// linkGroup holds the flags that choose a group of links.
type linkGroup struct {
	tags            []string
	domain, creator string
}

func (g *linkGroup) bind(c *cobra.Command) {
	c.Flags().StringArrayVar(&g.tags, "tag", nil, "only links that have this tag; several times: all of them")
	c.Flags().StringVar(&g.domain, "domain", "", "only links under the domain of this host")
	c.Flags().StringVar(&g.creator, "created-by", "", "only links of this creator, as links show it")
}

// set adds the parameters for the API. A tag is in quotes, because it may have commas.
func (g *linkGroup) set(v url.Values) {
	for _, tag := range g.tags {
		if strings.ContainsAny(tag, "\",") {
			tag = `"` + strings.ReplaceAll(tag, `"`, `""`) + `"`
		}
		v.Add("tag", tag)
	}
	for name, value := range map[string]string{"domain": g.domain, "created_by": g.creator} {
		if value != "" {
			v.Set(name, value)
		}
	}
}

func (p clicksCommands) groupsCommand(by, of string) *cobra.Command {
	var q statsQuery
	var limit int
	c := &cobra.Command{
		Use:   by,
		Short: "Compare the clicks of links by " + of,
		Long: `Compare the clicks of links by ` + of + `, most clicks first: of the links that have it now, in whole
days (UTC). BEFORE is their clicks in as many days before. A deleted link does not count.`,
		Example: `  waypost stats ` + by + ` --from 2026-03-01 --to 2026-03-31
  waypost stats ` + by + ` --search spring --output csv --separator semicolon --bom > ` + by + `.csv`,
		RunE: func(c *cobra.Command, _ []string) error {
			values := q.values()
			values.Set("limit", strconv.Itoa(limit))
			return showTable(p, c, by, values, func(t *api.GroupTable) string { return groupsText(t, of, p.width()) })
		},
	}
	q.bindDays(c, [][3]string{{"search", "", "only names with this text"}})
	c.Flags().IntVar(&limit, "limit", 100, "how many, up to 1,000")
	return p.bind(c, apiSettings...)
}

// bindDays binds the flags of a table of UTC days.
func (q *statsQuery) bindDays(c *cobra.Command, more [][3]string) {
	c.Annotations, q.params = map[string]string{moreFormats: "table csv"}, make(map[string]*string)
	for _, f := range append(more, [][3]string{
		{"from", "", "first day (2026-03-01), in UTC; 30 days if left out"},
		{"to", "", "last day; today if left out"},
		{"separator", "", "between the cells of csv: comma, or semicolon with decimal commas"},
	}...) {
		q.params[f[0]] = c.Flags().String(f[0], f[1], f[2])
	}
	c.Flags().BoolVar(&q.bom, "bom", false, "begin csv with a byte order mark, which Excel needs to read it as UTF-8")
}

func (p clicksCommands) crossedCommand() *cobra.Command {
	var q statsQuery
	var group linkGroup
	var code string
	c := &cobra.Command{
		Use:   "crossed",
		Short: "Count clicks by two breakdowns at once, such as devices by country",
		Long: `Count the clicks of people by two breakdowns at once, in up to 92 whole days (UTC), from the
single clicks that the workspace keeps (workspaces set --events all). A cell with fewer than
five clicks is among the others of both breakdowns.`,
		Example: `  waypost stats crossed --rows devices --columns countries --tag spring
  waypost stats crossed --rows cities --columns devices --code spring-sale --output csv > crossed.csv`,
		RunE: func(c *cobra.Command, _ []string) error {
			values := q.values()
			group.set(values)
			values.Set("code", code)
			return showTable(p, c, "crossed", values, func(t *api.Crossed) string { return crossedText(t, p.width()) })
		},
	}
	const names = "countries, cities, devices, browsers, os or referrers"
	q.bindDays(c, [][3]string{
		{"rows", "devices", "breakdown of the rows: " + names}, {"columns", "countries", "and of the columns, likewise"},
	})
	group.bind(c)
	c.Flags().StringVar(&code, "code", "", "only this link, under the domain")
	return p.bind(c, apiSettings...)
}

// showTable prints a table of statistics by its name, as text or in another form.
func showTable[T any](p clicksCommands, c *cobra.Command, name string, query url.Values, text func(*T) string) error {
	return p.withAPI(func(server *client.Client) error {
		path := client.Path(api.PathStats, name) + "?" + query.Encode()
		if p.output == "csv" {
			return p.writeCSV(c, server, path)
		}
		t, err := waitForCount(p, c, func() (T, error) { return client.Get[T](c.Context(), server, path) })
		if err != nil {
			return err
		}
		return p.print(text(&t), t)
	})
}

// writeCSV prints the statistics at a path as CSV.
func (p clicksCommands) writeCSV(c *cobra.Command, server *client.Client, path string) error {
	text, err := waitForCount(p, c, func() ([]byte, error) { return server.Raw(c.Context(), path, "text/csv") })
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(text)
	return err
}

// waitForCount repeats a request while its answer is being counted, and says so once.
func waitForCount[T any](p clicksCommands, c *cobra.Command, ask func() (T, error)) (answer T, err error) {
	told := false
	err = client.Retry{Again: func(err error) (after time.Duration, again bool) {
		problem, is := errors.AsType[*client.Problem](err)
		if !is || problem.Status != http.StatusAccepted {
			return 0, false
		}
		if !told {
			told = true
			_, _ = fmt.Fprintln(p.stderr, "waypost: waiting for the count of the clicks of very many links, which may take minutes")
		}
		return problem.RetryAfter, true
	}}.Do(c.Context(), func() (err error) {
		answer, err = ask()
		return err
	})
	return answer, err
}

func (p clicksCommands) unknownCommand() *cobra.Command {
	var domain, from, to string
	var limit int
	c := &cobra.Command{
		Use:   "unknown",
		Short: "Show what visitors asked for that is no link: misprints, old addresses",
		Long: `Show the addresses of a domain that visitors asked for and that name no link, most visits
first, on days (UTC) on which at least five different people asked for them. They are kept
for 30 days.`,
		Example: `  waypost stats unknown --domain go.example.com
  waypost stats unknown --from 2026-03-01 --to 2026-03-01 --limit 1000 --output json`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			query := map[string]string{"limit": strconv.Itoa(limit), "domain": domain, "from": from, "to": to}
			u, err := client.Get[api.UnknownAddresses](ctx, server, api.PathUnknown+client.Query(query))
			return unknownTable(&u, p.width()), u, err
		}),
	}
	c.Flags().StringVar(&domain, "domain", "", "host of the domain; the shared one if left out")
	c.Flags().StringVar(&from, "from", "", "first day (2026-03-01), in UTC; a week if left out")
	c.Flags().StringVar(&to, "to", "", "last day; today if left out")
	c.Flags().IntVar(&limit, "limit", 100, "how many addresses, up to 1,000")
	return p.bind(c, apiSettings...)
}

// showStats prints the statistics at a path of the API.
func (p clicksCommands) showStats(c *cobra.Command, path string) error {
	return p.withAPI(func(server *client.Client) error {
		if p.output == "csv" {
			return p.writeCSV(c, server, path)
		}
		answer, err := waitForCount(p, c, func() (json.RawMessage, error) { return client.Get[json.RawMessage](c.Context(), server, path) })
		if err != nil {
			return err
		}
		var s client.Stats
		if err := json.Unmarshal(answer, &s); err != nil {
			return fmt.Errorf("read the statistics: %w", err)
		}
		return p.print(statsTable(&s, p.width()), answer)
	})
}
