package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

func (p linksCommands) historyCommand() *cobra.Command {
	var domain, cursor string
	var limit int
	c := &cobra.Command{
		Use:   "history CODE",
		Short: "List the changes of a link, newest first: who, when and what",
		Long: `List the changes of a link, newest first: who changed it, when, and which fields. A deleted
link has a history as long as it can be restored.`,
		Example: `  waypost links history spring-sale
  waypost links history spring-sale --limit 200 --output json`,
		PreRunE: func(*cobra.Command, []string) error {
			if limit < 1 || limit > 200 {
				return &usageError{fmt.Errorf("--limit: %d is not between 1 and 200; list further changes with --cursor", limit)}
			}
			return nil
		},
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			host, code := linkName(domain, args[0])
			query := client.Query(map[string]string{"domain": host, "limit": strconv.Itoa(limit), "cursor": cursor})
			h, err := client.Get[api.LinkHistory](ctx, server, client.Path(api.PathLinks, code, "history")+query)
			return historyTable(&h, p.width()), h, err
		}),
	}
	c.Flags().StringVar(&domain, "domain", "", "host of the link's domain (default the shared one)")
	c.Flags().IntVar(&limit, "limit", 50, "how many entries at most, up to 200")
	c.Flags().StringVar(&cursor, "cursor", "", "where the page before ended")
	return c
}

// historyTable lays out a page of a history for people.
func historyTable(h *api.LinkHistory, width int) string {
	rows := [][]string{{"TIME", "WHO", "DID", "FIELD", "BEFORE", "AFTER"}}
	for i := range h.Changes {
		e := &h.Changes[i]
		who := "unknown"
		if e.By != nil {
			who = printable(e.By.Name)
		}
		row := []string{e.At.Local().Format(time.DateTime), who, e.What, "", "", ""}
		for j, f := range e.Fields {
			if j > 0 {
				row = []string{"", "", "", "", "", ""}
			}
			row[3], row[4], row[5] = f.Name, valueText(f.Before), valueText(f.After)
			rows = append(rows, row)
		}
		if len(e.Fields) == 0 {
			rows = append(rows, row)
		}
	}
	text := tabulate(rows, width)
	if h.Next != "" {
		text += "\nmore with --cursor " + printable(h.Next)
	}
	return text
}

// valueText lays out a value of a field.
func valueText(v any) string {
	text, is := v.(string)
	if !is {
		encoded, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		text = string(encoded)
	}
	return printable(shortened(strings.TrimSpace(text)))
}
