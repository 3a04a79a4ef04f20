package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

func (p *program) auditCommand() *cobra.Command {
	var page pageFlags
	var all bool
	c := page.bind(&cobra.Command{
		Use:   "audit",
		Short: "List the actions of administrators, newest first",
		Long: `List what administrators of the workspace did, newest first: who, when, what, to what, and
with which arguments.

` + asksAsAdmin,
		Example: `  waypost audit
  waypost audit --all
  waypost audit --limit 1000 --output json`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			query := map[string]string{"limit": strconv.Itoa(page.limit), "cursor": page.cursor, "all": map[bool]string{true: "true"}[all]}
			found, err := client.Get[api.AuditPage](ctx, server, api.PathAudit+client.Query(query))
			return auditTable(&found, all, p.width()) + page.more(found.Next), found, err
		}),
	})
	c.Flags().BoolVar(&all, "all", false, "of all workspaces, for operators")
	return p.bind(c, apiSettings...)
}

// auditTable lays out a page of the audit log for people.
func auditTable(page *api.AuditPage, all bool, width int) string {
	if len(page.Entries) == 0 {
		return "nothing is noted here"
	}
	header, first := "WORKSPACE\tTIME\tWHO\tDID\tTO\tDETAIL", 0
	if !all {
		header, first = strings.TrimPrefix(header, "WORKSPACE\t"), 1
	}
	return tableOf(header, page.Entries, width, func(e *api.AuditEntry) []any {
		cells := []any{e.Workspace, e.At.Local().Format(time.DateTime), e.Actor, e.Action, e.Subject, shortened(detailText(e.Detail))}
		return cells[first:]
	})
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
