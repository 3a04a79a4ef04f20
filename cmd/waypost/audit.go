package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/client"
)

func (p *program) auditCommand() *cobra.Command {
	var page pageFlags
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
		PreRunE: page.check,
		RunE: p.asking(func(ctx context.Context, api *client.Client, _ []string) (string, any, error) {
			found, err := api.Ranges.Audit(ctx, all, page.limit, page.cursor)
			return auditTable(&found, all, p.width()) + page.more(found.Next), found, err
		}),
	}
	page.bind(c)
	c.Flags().BoolVar(&all, "all", false, "of all workspaces, for operators")
	return p.bind(c, apiSettings...)
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
	return tabbed(b.String(), width)
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
