package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

func (p edgesCommands) verifyCommand() *cobra.Command {
	var node string
	var all, source, recompute bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "verify",
		Short: "Let edges read all their records and compare them with the digest",
		Long: `Let edges read all records on their disks, and compare each with its checksum and their sum with the
digest of the position, which PostgreSQL has too. They serve and take changes meanwhile. Edges do so at
each start and once a day by themselves, and repair what is damaged in any case.

With --all each edge's result is shown as it comes. An edge that is silent, or whose
credential was revoked, is named and not waited for, and no edge is waited for longer than
a minute, unless --timeout says otherwise.

With --source PostgreSQL is compared with itself: do its rows add up to the digest that
edges compare with? They do not when rows were changed past the triggers, or are
damaged. Edges then continue, but none can be repaired, and a new one gets no replica.
With --recompute an epoch of the changelog begins in which the digest is that of the rows,
and edges then take what differs from PostgreSQL, so restore damaged rows before. On a
terminal it asks; elsewhere it needs --yes.

It fails when records are damaged, or when an edge has not
answered. It asks the API of --api or WAYPOST_API with the key in WAYPOST_API_KEY, which needs
the scope admin, or else the development system that runs in --data-dir.`,
		Example: `  waypost verify --all
  waypost verify --edge eu-1
  waypost verify --source
  waypost verify --all --output json`,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case source && (all || node != ""), !source && (recompute || p.yes):
				return &usageError{errors.New("--source goes with --recompute and --yes only, and these with --source")}
			case source:
				return p.verifySource(c.Context(), recompute, timeout)
			case all == (node != ""):
				return &usageError{errors.New("say which: --edge NODE, --all or --source")}
			}
			return p.withAPI(func(server *client.Client) error {
				if !all {
					p.tellSilence(c.Context(), server, node, timeout)
					return p.verify(c.Context(), server, []verification{{Node: node}}, timeout)
				}
				if !c.Flags().Changed("timeout") {
					timeout = time.Minute
				}
				edges, err := allEdges(c.Context(), server)
				if err != nil {
					return err
				}
				return p.verify(c.Context(), server, edges, timeout)
			})
		},
	}
	c.Flags().StringVar(&node, "edge", "", "name of the edge")
	c.Flags().BoolVar(&all, "all", false, "all edges that are not gone")
	c.Flags().BoolVar(&source, "source", false, "compare PostgreSQL's rows with its digest")
	c.Flags().BoolVar(&recompute, "recompute", false, "with --source: begin an epoch with the digest of the rows")
	c.Flags().BoolVar(&p.yes, "yes", false, "do not ask")
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Minute, "how long to wait for an edge, or for PostgreSQL; with --all a minute")
	return p.bind(c, apiSettings...)
}

// allEdges lists the edges that are not gone, with an error for edges that would not
// answer.
func allEdges(ctx context.Context, server *client.Client) (found []verification, err error) {
	edges, err := server.Edges.List(ctx)
	for i := range edges {
		e := &edges[i]
		v := verification{Node: e.Node}
		switch {
		case e.State == "gone":
			continue
		case e.State == "silent":
			v.Error = "it is silent since " + e.Since.Local().Format(time.DateTime)
		case e.Credential != nil && *e.Credential == "revoked":
			v.Error = "its credential was revoked"
		}
		found = append(found, v)
	}
	if err == nil && len(found) == 0 {
		err = errors.New("there is no edge")
	}
	return found, err
}

// tellSilence says on standard error that an edge will not answer before it is back. Who
// cannot be asked about it is no reason not to wait.
func (p edgesCommands) tellSilence(ctx context.Context, server *client.Client, node string, timeout time.Duration) {
	edges, err := server.Edges.List(ctx)
	if err != nil {
		return
	}
	for i := range edges {
		if e := &edges[i]; e.Node == node && e.State == "silent" {
			_, _ = fmt.Fprintf(p.stderr, "waypost: %s is silent since %s, and is waited for until it is back: %s at most (--timeout)\n",
				printable(node), e.Since.Local().Format(time.DateTime), timeout)
		}
	}
}

// verification is the outcome for one edge.
type verification struct {
	Node    string           `json:"node"`
	Error   string           `json:"error,omitempty"` // nothing came of it
	Outcome *api.EdgeOutcome `json:"outcome"`
}

func (v *verification) bad() bool {
	return v.Outcome == nil || v.Outcome.Error != "" || v.Outcome.Damage != ""
}

// verify asks all edges at once that have no error yet, and shows results as they come.
func (p edgesCommands) verify(ctx context.Context, server *client.Client, found []verification, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows := verifyRows{p: p.program}
	for i := range found {
		rows.width = max(rows.width, len(printable(found[i].Node)))
	}
	done := make(chan *verification, len(found))
	for i := range found { // first, so that these rows are in order
		if found[i].Error != "" {
			done <- &found[i]
		}
	}
	for i := range found {
		v := &found[i]
		if v.Error != "" {
			continue
		}
		go func() {
			order, err := client.Send[api.EdgeOrder](ctx, server, http.MethodPost, client.Path(api.PathEdges, v.Node, "verifications"), nil)
			if err == nil {
				order, err = server.Edges.Await(ctx, order)
			}
			v.Outcome = order.Outcome
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				v.Error = "it has not answered within " + timeout.String()
				if !order.Until.IsZero() {
					v.Error += ", and verifies if it is back before " + order.Until.Local().Format(time.TimeOnly)
				}
			case err != nil:
				v.Error = err.Error()
			}
			done <- v
		}()
	}
	var failed error
	bad := 0
	for range found {
		v := <-done
		if v.bad() {
			bad++
		}
		failed = errors.Join(failed, rows.show(v))
	}
	if p.output == "json" {
		failed = p.print("", map[string][]verification{"edges": found})
	}
	if failed == nil && bad > 0 {
		failed = fmt.Errorf("%d of %d edges have damaged records, or could not be verified", bad, len(found))
	}
	return failed
}

// verifyRows shows results to people, one by one.
type verifyRows struct {
	p     *program
	width int // of the longest name
	shown bool
}

// show prints the result of an edge at once, so that a slow edge hides no other.
func (r *verifyRows) show(v *verification) error {
	if r.p.output == "json" {
		return nil
	}
	line := func(of ...any) string {
		return fmt.Sprintf("%-*s  %9s  %-10s  %-8s  %s\n", append([]any{max(r.width, len("NODE"))}, of...)...)
	}
	text := ""
	if !r.shown {
		text = line("NODE", "RECORDS", "POSITION", "TOOK", "RESULT")
		r.shown = true
	}
	if v.Outcome == nil {
		text += line(printable(v.Node), "-", "-", "-", "not verified: "+printable(v.Error))
	} else {
		text += line(resultOf(v)...)
	}
	_, err := io.WriteString(r.p.stdout, text)
	return err
}

// resultOf returns the fields of a row.
func resultOf(v *verification) []any {
	o := v.Outcome
	result := "sound"
	switch {
	case o.Error != "":
		result = "failed: " + printable(o.Error)
	case o.Damage != "":
		result = "DAMAGED, and repairs itself: " + printable(o.Damage)
	}
	position := "none"
	if o.Position != nil {
		position = positionText(&client.Edge{Position: o.Position})
	}
	return []any{
		printable(v.Node), fmt.Sprint(o.Records), position, roughly(time.Duration(o.Seconds * float64(time.Second))), result,
	}
}
