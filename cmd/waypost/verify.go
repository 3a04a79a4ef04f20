package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"waypost/client"
)

func (p edgesCommands) verifyCommand() *cobra.Command {
	var node string
	var all, repair, source, recompute, yes bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "verify",
		Short: "Compare edges with PostgreSQL, slot by slot, and repair what differs",
		Long: `Compare what edges hold with what PostgreSQL holds, slot by slot, at equal positions of the changelog,
while they serve and while links are written: what was written meanwhile is no difference. It shows which
slots differ, and of some records what visitors get and what they should get. With --repair
the edges replace what differs; they serve all the while.

With --all each edge's result is shown as it comes. An edge whose credential was revoked
is named and not waited for, and no edge is waited for longer than a minute, unless
--timeout says otherwise.

With --source PostgreSQL is compared with itself: do its rows add up to the digest that
edges are held against? They do not when rows were changed past the triggers, or are
damaged. Edges then continue, but none can be repaired, and a new one gets no replica.
With --recompute an epoch of the changelog begins in which the digest is that of the rows,
and edges then take what differs from PostgreSQL, so restore damaged rows before. On a
terminal it asks; elsewhere it needs --yes.

It fails when something differs that was not repaired, or when an edge has not
answered. It asks the API of --api or WAYPOST_API with the key in WAYPOST_API_KEY, which needs
the scope admin, or else the development system that runs in --data-dir.`,
		Example: `  waypost verify --all
  waypost verify --edge eu-1 --repair
  waypost verify --source
  waypost verify --all --output json`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case source && (all || node != "" || repair), !source && (recompute || yes):
				return &usageError{errors.New("--source goes with --recompute and --yes only, and these with --source")}
			case source:
				return p.verifySource(c.Context(), recompute, yes, timeout)
			case all == (node != ""):
				return &usageError{errors.New("say which: --edge NODE, --all or --source")}
			}
			return p.withAPI(func(api *client.Client) error {
				if !all {
					p.tellSilence(c.Context(), api, node, timeout)
					return p.verify(c.Context(), api, []verification{{Node: node}}, repair, timeout)
				}
				if !c.Flags().Changed("timeout") {
					timeout = time.Minute
				}
				edges, err := aliveEdges(c.Context(), api)
				if err != nil {
					return err
				}
				return p.verify(c.Context(), api, edges, repair, timeout)
			})
		},
	}
	c.Flags().StringVar(&node, "edge", "", "name of the edge")
	c.Flags().BoolVar(&all, "all", false, "all edges that are alive")
	c.Flags().BoolVar(&repair, "repair", false, "repair what differs")
	c.Flags().BoolVar(&source, "source", false, "compare PostgreSQL's rows with its digest")
	c.Flags().BoolVar(&recompute, "recompute", false, "with --source: begin an epoch with the digest of the rows")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Minute, "how long to wait for an edge, or for PostgreSQL; with --all a minute")
	return p.bind(c, "client", "dev.data_dir")
}

// aliveEdges lists the edges that are alive, with an error for edges that would not
// answer.
func aliveEdges(ctx context.Context, api *client.Client) (found []verification, err error) {
	edges, err := api.Edges.List(ctx)
	for i := range edges {
		e := &edges[i]
		v := verification{Node: e.Node}
		switch {
		case e.State != "alive":
			continue
		case e.Credential != nil && *e.Credential == "revoked":
			v.Error = "its credential was revoked"
		}
		found = append(found, v)
	}
	if err == nil && len(found) == 0 {
		err = errors.New("no edge is alive")
	}
	return found, err
}

// tellSilence says on standard error that an edge will not answer before it is back. Who
// cannot be asked about it is no reason not to wait.
func (p edgesCommands) tellSilence(ctx context.Context, api *client.Client, node string, timeout time.Duration) {
	edges, err := api.Edges.List(ctx)
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
	Node    string              `json:"node"`
	Error   string              `json:"error,omitempty"` // nothing came of it
	Outcome *client.EdgeOutcome `json:"outcome"`
}

func (v *verification) bad() bool {
	return v.Outcome == nil || v.Outcome.Error != "" || v.Outcome.Different > v.Outcome.Repaired
}

// verify asks all edges at once that have no error yet, and shows results as they come.
func (p edgesCommands) verify(ctx context.Context, api *client.Client, found []verification, repair bool, timeout time.Duration) error {
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
			order, err := api.Edges.Verify(ctx, v.Node, repair)
			if err == nil {
				order, err = api.Edges.Await(ctx, order)
			}
			v.Outcome = order.Outcome
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				v.Error = "it has not answered within " + timeout.String()
				if !order.Until.IsZero() {
					v.Error += ", and compares if it is back before " + order.Until.Local().Format(time.TimeOnly)
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
		failed = fmt.Errorf("%d of %d edges are not what PostgreSQL holds, or could not be compared", bad, len(found))
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
		return fmt.Sprintf("%-*s  %7s  %9s  %9s  %8s  %-10s  %-8s  %s\n", append([]any{max(r.width, len("NODE"))}, of...)...)
	}
	text := ""
	if !r.shown {
		text = line("NODE", "SLOTS", "RECORDS", "DIFFERENT", "REPAIRED", "POSITION", "TOOK", "RESULT")
		r.shown = true
	}
	if v.Outcome == nil {
		text += line(printable(v.Node), "-", "-", "-", "-", "-", "-", "not compared: "+printable(v.Error))
	} else {
		text += line(resultOf(v)...) + differencesOf(v)
	}
	_, err := io.WriteString(r.p.stdout, text)
	return err
}

// resultOf returns the fields of a row.
func resultOf(v *verification) []any {
	o := v.Outcome
	result := "equal"
	switch {
	case o.Error != "":
		result = "failed: " + printable(o.Error)
	case o.Different > o.Repaired:
		result = "DIFFERENT"
	case o.Different > 0:
		result = "repaired"
	}
	position := "none"
	if o.Position != nil {
		position = positionText(&client.Edge{Position: o.Position})
	}
	return []any{
		printable(v.Node), strconv.Itoa(o.Slots), fmt.Sprint(o.Records), strconv.Itoa(o.Different), strconv.Itoa(o.Repaired), position,
		roughly(time.Duration(o.Seconds * float64(time.Second))), result,
	}
}

// differencesOf lays out examples of differences.
func differencesOf(v *verification) string {
	if len(v.Outcome.Differences) == 0 {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	// Writing into memory does not fail.
	_, _ = fmt.Fprint(w, "\tWHAT\tDOMAIN\tCODE\tVISITORS GET\tSHOULD GET\n")
	for _, d := range v.Outcome.Differences {
		name := printable(d.Name)
		if d.Kind != 1 {
			name = fmt.Sprintf("%s (kind %d)", name, d.Kind)
		}
		_, _ = fmt.Fprintf(w, "\t%s\t%d\t%s\t%s\t%s\n", printable(d.What), d.Domain, name, printable(d.Edge), printable(d.Source))
	}
	_ = w.Flush()
	return b.String()
}
