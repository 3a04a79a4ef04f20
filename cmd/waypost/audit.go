package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/client"
)

func (p *program) auditCommand() *cobra.Command {
	var limit int
	var cursor string
	var all bool
	c := &cobra.Command{
		Use:   "audit",
		Short: "List the actions of administrators, newest first",
		Long: `List what administrators of the workspace did, newest first: who, when, what, to what, and
with which arguments.

It asks the API of --api or WAYPOST_API with the key in WAYPOST_API_KEY, which needs
the scope admin, or else the development system that runs in --data-dir.`,
		Example: `  waypost audit
  waypost audit --all
  waypost audit --limit 1000 --output json`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > 1000 {
				return &usageError{fmt.Errorf("--limit: %d is not between 1 and 1000; list further entries with --cursor", limit)}
			}
			return p.withAPI(func(api *client.Client) error {
				page, err := api.Ranges.Audit(c.Context(), all, limit, cursor)
				if err != nil {
					return err
				}
				return p.print(auditTable(&page, all, p.width()), page)
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, "how many entries at most, up to 1000")
	c.Flags().BoolVar(&all, "all", false, "of all workspaces, for operators")
	c.Flags().StringVar(&cursor, "cursor", "", "where the page before ended")
	return p.bind(c, "client", "dev.data_dir")
}

// auditTable lays out a page of the audit log for people.
func auditTable(page *client.AuditPage, all bool, width int) string {
	if len(page.Entries) == 0 {
		return "nothing is noted here"
	}
	var b strings.Builder
	if all {
		_, _ = fmt.Fprint(&b, "WORKSPACE\t")
	}
	_, _ = fmt.Fprintln(&b, "TIME\tWHO\tDID\tTO\tDETAIL")
	for i := range page.Entries {
		e := &page.Entries[i]
		if all {
			_, _ = fmt.Fprintf(&b, "%s\t", printable(e.Workspace))
		}
		_, _ = fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\n",
			e.At.Local().Format(time.DateTime), printable(e.Actor), printable(e.Action), printable(e.Subject),
			printable(shortened(detailText(e.Detail))))
	}
	text := tabbed(b.String(), width)
	if page.Next != "" {
		text += "\nmore with --cursor " + printable(page.Next)
	}
	return text
}

// detailText returns the sentence in an entry's detail or, without one, the whole
// detail.
func detailText(detail json.RawMessage) string {
	var said struct{ What string }
	if json.Unmarshal(detail, &said) == nil && said.What != "" {
		return said.What
	}
	var compact bytes.Buffer
	if json.Compact(&compact, detail) != nil {
		return ""
	}
	return compact.String()
}
