package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"waypost/client"
)

func (p edgesCommands) verifyCommand() *cobra.Command {
	var node string
	var all, repair bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "verify",
		Short: "Compare edges with PostgreSQL, slot by slot, and repair what differs",
		Long: `Compare what edges hold with what PostgreSQL holds, slot by slot, at equal positions of the changelog,
while they serve and while links are written: what was written meanwhile is no difference. It shows which
slots differ, and of some records what visitors get and what they should get. With --repair
the edges replace what differs; they serve all the while.

It fails when something differs that was not repaired, or when an edge has not
answered. It asks the API of --api or WAYPOST_API with the key in WAYPOST_API_KEY, which needs
the scope admin, or else the development system that runs in --data-dir.`,
		Example: `  waypost verify --all
  waypost verify --edge eu-1 --repair
  waypost verify --all --output json`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if all == (node != "") {
				return &usageError{errors.New("say which: --edge NODE, or --all")}
			}
			return p.withAPI(func(api *client.Client) error {
				nodes := []string{node}
				if all {
					var err error
					if nodes, err = aliveEdges(c.Context(), api); err != nil {
						return err
					}
				}
				if !all {
					p.tellSilence(c.Context(), api, node, timeout)
				}
				return p.verify(c.Context(), api, nodes, repair, timeout)
			})
		},
	}
	c.Flags().StringVar(&node, "edge", "", "name of the edge")
	c.Flags().BoolVar(&all, "all", false, "all edges that are alive")
	c.Flags().BoolVar(&repair, "repair", false, "repair what differs")
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Minute, "how long to wait for the edges")
	return p.bind(c, "client", "dev.data_dir")
}

// aliveEdges names the edges that are alive.
func aliveEdges(ctx context.Context, api *client.Client) (nodes []string, err error) {
	edges, err := api.Edges.List(ctx)
	for i := range edges {
		if edges[i].State == "alive" {
			nodes = append(nodes, edges[i].Node)
		}
	}
	if err == nil && len(nodes) == 0 {
		err = errors.New("no edge is alive")
	}
	return nodes, err
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

// verify asks all nodes at once and waits for them.
func (p edgesCommands) verify(ctx context.Context, api *client.Client, nodes []string, repair bool, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found := make([]verification, len(nodes))
	var waiting sync.WaitGroup
	for i, node := range nodes {
		waiting.Go(func() {
			order, err := api.Edges.Verify(ctx, node, repair)
			if err == nil {
				order, err = api.Edges.Await(ctx, order)
			}
			found[i] = verification{Node: node, Outcome: order.Outcome}
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				found[i].Error = "it has not answered within " + timeout.String()
			case err != nil:
				found[i].Error = err.Error()
			}
		})
	}
	waiting.Wait()
	if err := p.print(verifyTable(found), map[string][]verification{"edges": found}); err != nil {
		return err
	}
	bad := 0
	for i := range found {
		if found[i].bad() {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d edges are not what PostgreSQL holds, or could not be compared", bad, len(found))
	}
	return nil
}

// verifyTable lays out what was found for people.
func verifyTable(found []verification) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	// Writing into memory does not fail.
	_, _ = fmt.Fprintln(w, "NODE\tRESULT\tSLOTS\tRECORDS\tDIFFERENT\tREPAIRED\tPOSITION\tTOOK")
	for i := range found {
		v := &found[i]
		if v.Outcome == nil {
			_, _ = fmt.Fprintf(w, "%s\tno answer: %s\t\t\t\t\t\t\n", printable(v.Node), printable(v.Error))
			continue
		}
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
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", printable(v.Node), result, o.Slots, o.Records, o.Different, o.Repaired,
			position, roughly(time.Duration(o.Seconds*float64(time.Second))))
	}
	_ = w.Flush()
	for i := range found {
		o := found[i].Outcome
		if o == nil || len(o.Differences) == 0 {
			continue
		}
		_, _ = fmt.Fprintf(w, "\n%s\tWHAT\tDOMAIN\tCODE\tVISITORS GET\tSHOULD GET\n", printable(found[i].Node))
		for _, d := range o.Differences {
			name := printable(d.Name)
			if d.Kind != 1 {
				name = fmt.Sprintf("%s (kind %d)", name, d.Kind)
			}
			_, _ = fmt.Fprintf(w, "\t%s\t%d\t%s\t%s\t%s\n", printable(d.What), d.Domain, name, printable(d.Edge), printable(d.Source))
		}
		_ = w.Flush()
	}
	return strings.TrimSuffix(b.String(), "\n")
}
