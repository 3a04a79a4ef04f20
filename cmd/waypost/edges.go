package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

// edgesCommands makes the commands for edges.
type edgesCommands struct{ *program }

func (p edgesCommands) command() *cobra.Command {
	c := &cobra.Command{
		Use:   "edges",
		Short: "List the edges and control planes: who is alive, where, and how far behind",
		Long: `List the edges and, in a second table, the control planes that the control plane knows.
Of edges it shows who is alive, where, up to where each
has the changelog, how far it is behind the head, in changes and in time, and how many
clicks it has that are not counted yet, how many requests it answers a second, over about
ten seconds, how much room its disk has, whether its replica is being filled or repaired, holds something
back, waits for room on its disk (LOW DISK), does not know all blocked links yet
(LACKS BLOCKS) or shares its name with another edge (TWIN), and what the last ` + "`waypost verify`" + ` found.
CREDENTIAL shows whether an edge has one of its own, has the
token that all may have, or was revoked. An edge is silent when it has not been seen for more than three seconds, and gone when
it left on purpose or has not been seen for long.

` + asksAsAdmin,
		Example: `  waypost edges
  waypost edges --output json`,
		Args: arguments(cobra.NoArgs),
		RunE: p.asking(p.list),
	}
	list := &cobra.Command{Use: "list", Short: "The same as `waypost edges`", Example: `  waypost edges list`, RunE: p.asking(p.list)}
	c.AddCommand(list, p.enrolCommand(), p.revokeCommand(), p.credentialsCommand(), p.goneCommand(), p.acceptCommand(), p.drainCommand())
	return p.bindAll(p.bind(c, apiSettings...))
}

func (p edgesCommands) list(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
	all, err := server.Edges.Fleet(ctx)
	if err == nil {
		p.warnOfSource(ctx, server)
	}
	return edgeTable(all.Edges, time.Now(), p.width()) + "\n\n" + controlTable(all.ControlPlanes, time.Now(), p.width()), all, err
}

func (p edgesCommands) goneCommand() *cobra.Command {
	return p.confirming(&cobra.Command{
		Use:   "gone NODE",
		Short: "Say that an edge is gone for good, with its disk",
		Long: `Declare an edge lost, with its disk and the clicks on it, so that statistics no longer
wait for its clicks, which they do for 30 days otherwise, and --wait no longer answers that
it may serve without a change. Of two edges with its name, only the silent one is meant.
Nothing is deleted: if the edge returns, its clicks are counted. If PostgreSQL was failed over or restored, and the edge has not
reported since, the exact click budgets of all existing links end for good.
The audit log has an entry. On a terminal the command asks for the name; elsewhere it
needs --yes.`,
		Example: `  waypost edges gone eu-1 --yes`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			err := server.Delete(ctx, client.Path(api.PathEdges, args[0]))
			return args[0] + " and its clicks are waited for no longer", map[string]string{"gone": args[0]}, err
		}),
	}, func(args []string) (question, answer string) {
		question = fmt.Sprintf("Changes and statistics wait no longer for %s and its clicks. "+
			"If it has not reported since a failover or restore of PostgreSQL, "+
			"the exact click budgets of all existing links end for good. Type its name to go on: ", args[0])
		return question, args[0]
	})
}

func (p edgesCommands) acceptCommand() *cobra.Command {
	var what string
	c := &cobra.Command{
		Use:   "accept NODE",
		Short: "Let an edge do what it holds back",
		Long: `Let an edge make the changes that it holds back. An edge that is to delete very many links
within ten minutes, or to replace all links by far fewer, holds back: it serves the links
that it has, and counts clicks, until the source no longer asks for the deletion or an
operator accepts it with this command. Find the cause first.
Deletions are accepted up to the present head of the changelog; later ones count again.
The audit log has an entry. On a terminal the command asks for the name; elsewhere it
needs --yes.`,
		Example: `  waypost edges accept eu-1 --yes
  waypost edges accept eu-1 --what mass-delete --yes`,
		RunE: func(c *cobra.Command, args []string) error {
			return p.order(c.Context(), args[0], "acceptances", api.AcceptHeld{What: what}, func(o *api.EdgeOutcome) (string, any) {
				return args[0] + " goes on with what it held: " + printable(o.Accepted), map[string]string{"node": args[0], "accepted": o.Accepted}
			})
		},
	}
	c.Flags().StringVar(&what, "what", "", "accept only this kind: mass-delete, empty-snapshot or record")
	return p.confirming(c, func(args []string) (question, answer string) {
		return args[0] + " does what it holds back. Type its name to go on: ", args[0]
	})
}

// order sends an edge an order of a kind, waits for the outcome, and prints it.
func (p edgesCommands) order(
	ctx context.Context, node, kind string, body any, done func(*api.EdgeOutcome) (text string, value any),
) error {
	return p.withAPI(func(server *client.Client) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		order, err := client.Send[api.EdgeOrder](ctx, server, http.MethodPost, client.Path(api.PathEdges, node, kind), body)
		if err == nil {
			order, err = server.Edges.Await(ctx, order)
		}
		switch {
		case err != nil:
			return unanswered(&order, node, err)
		case order.Outcome.Error != "":
			return fmt.Errorf("%s: %s", node, printable(order.Outcome.Error))
		}
		return p.print(done(order.Outcome))
	})
}

// unanswered is the error for an order that an edge has not answered, and which it may
// still carry out.
func unanswered(o *api.EdgeOrder, node string, err error) error {
	if o.Until.IsZero() {
		return fmt.Errorf("%s was not asked: %w", node, err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("it is silent")
	}
	return fmt.Errorf("%s has not answered, and carries the order out if it is back before %s: %w", node, o.Until.Local().Format(time.DateTime), err)
}

func (p edgesCommands) drainCommand() *cobra.Command {
	var undo bool
	c := &cobra.Command{
		Use:   "drain NODE",
		Short: "Let an edge send new visitors elsewhere, or end that",
		Long: `Let an edge answer /readyz with 503, so that balancers send new visitors to other edges. It
serves visitors who come nevertheless, and follows the changelog. With --undo it is ready
again; so it is after a restart. The audit log has an entry.`,
		Example: `  waypost edges drain eu-1
  waypost edges drain eu-1 --undo`,
		RunE: func(c *cobra.Command, args []string) error {
			return p.order(c.Context(), args[0], "drains", api.DrainEdge{Undo: undo}, func(*api.EdgeOutcome) (string, any) {
				text := args[0] + " is not ready, so that visitors go elsewhere"
				if undo {
					text = args[0] + " is ready again"
				}
				return text, map[string]any{"node": args[0], "draining": !undo}
			})
		},
	}
	c.Flags().BoolVar(&undo, "undo", false, "be ready again")
	return c
}

// maxReason bounds the reasons in the table, in columns. JSON has all of them.
const maxReason = 60

// edgeTable lays out edges for people. It marks hints, which come from gossip about edges
// that do not reach the control plane.
func edgeTable(edges []client.Edge, now time.Time, width int) string {
	if len(edges) == 0 {
		return "no edge has reported to this control plane yet"
	}
	const header = "NODE\tREGION\tSTATE\tPOSITION\tLAG\tREQ/S\tPENDING\tDISK FREE\tLAST SEEN\tVERIFIED\tCREDENTIAL\tVERSION"
	return tableOf(header, edges, width, func(e *client.Edge) []any {
		state := e.State
		switch {
		case len(e.Twins) > 0:
			state = "TWIN: " + strings.Join(e.Twins, ", ")
		case e.Via == "gossip":
			state += " (gossip)"
		case e.State == "alive" && e.Held != "":
			state = "HELD: " + e.Held
		case e.State == "alive" && e.HasBlocks != nil && !*e.HasBlocks:
			state = "LACKS BLOCKS"
		case e.State == "alive" && e.Draining:
			state = "DRAINING"
		case e.State == "alive" && slices.ContainsFunc(e.Conditions, func(c api.NodeCondition) bool { return c.Name == "ReplicaDiskLow" }):
			state = "LOW DISK"
		case e.State == "alive" && e.Replica != "" && e.Replica != "following":
			state += ", " + e.Replica
			if e.HeldWhy != "" {
				state += ": " + cut(e.HeldWhy, maxReason)
			}
		}
		return []any{
			e.Node, e.Region, state, positionText(e), lagText(e), known("%.1f", e.RequestsPerSecond), known("%d", e.ClicksPending), diskText(e),
			ago(now.Sub(e.LastSeen)), verifiedText(e.Verified, now), known("%s", e.Credential), e.Version,
		}
	})
}

// controlTable lays out control planes for people.
func controlTable(all []api.ControlPlane, now time.Time, width int) string {
	return tableOf("CONTROL PLANE\tREGION\tSTATE\tSTARTED\tLAST SEEN\tVERSION\tCONDITIONS", all, width, func(c *api.ControlPlane) []any {
		state, names := c.State, []string{}
		if c.Answers {
			state += " (answers)"
		}
		for _, known := range c.Conditions {
			names = append(names, known.Name)
		}
		slices.Sort(names)
		return []any{
			c.Node, c.Region, state, ago(now.Sub(c.StartedAt)), ago(now.Sub(c.LastSeen)), c.Version, strings.Join(slices.Compact(names), ", "),
		}
	})
}

// positionText shows the epoch only where there has been more than one.
func positionText(e *client.Edge) string {
	switch {
	case e.Position == nil && e.Via == "record":
		return "unknown"
	case e.Position == nil:
		return "none"
	case e.Position.Epoch == 1:
		return fmt.Sprint(e.Position.Seq)
	}
	return fmt.Sprintf("%d (epoch %d)", e.Position.Seq, e.Position.Epoch)
}

func lagText(e *client.Edge) string {
	switch {
	case (e.LagChanges == nil || e.LagSeconds == nil) && e.AgeSeconds != nil:
		return "unknown, age " + roughly(time.Duration(*e.AgeSeconds*float64(time.Second)))
	case e.LagChanges == nil || e.LagSeconds == nil:
		return "unknown"
	case *e.LagChanges == 0:
		return "0"
	}
	return numberOf(int(*e.LagChanges), "change", "changes") + ", " + roughly(time.Duration(*e.LagSeconds*float64(time.Second)))
}

// known formats a value that may be unknown.
func known[T any](format string, value *T) string {
	if value == nil {
		return "unknown"
	}
	return fmt.Sprintf(format, *value)
}

// verifiedText describes the result and the time of the last verification.
func verifiedText(v *api.Verified, now time.Time) string {
	switch {
	case v == nil:
		return "never"
	case v.Error != "":
		return "failed " + ago(now.Sub(v.At))
	case v.Damage != "":
		return "DAMAGED " + ago(now.Sub(v.At))
	}
	return "sound " + ago(now.Sub(v.At))
}

// diskText describes the room on an edge's disk.
func diskText(e *client.Edge) string {
	switch free := e.DiskFreeBytes; {
	case free == nil:
		return "unknown"
	case *free >= 10<<30:
		return fmt.Sprintf("%d GiB", *free>>30)
	default:
		return fmt.Sprintf("%d MiB", *free>>20)
	}
}

// ago allows for clocks that differ: a time in the future is now.
func ago(d time.Duration) string {
	if d < time.Second {
		return "now"
	}
	return roughly(d) + " ago"
}

// roughly returns a duration in its largest whole unit.
func roughly(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", max(d, 0).Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/(24*time.Hour))
}
