package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

// rangesCommands makes the commands for key ranges.
type rangesCommands struct{ *program }

func (p rangesCommands) command() *cobra.Command {
	c := group("ranges", "Look after the key ranges that codes are made from",
		p.listCommand(), p.showCommand(), p.assignCommand(), p.splitCommand(), p.moveCommand(),
		p.drainCommand(), p.reviveCommand(), p.retireCommand(), p.planCommand(), p.applyCommand(),
		p.resumeCommand(), p.decodeCommand())
	c.Long = `A code is a prefix and a scrambled counter. A key range is some of a prefix's counters,
and belongs to one region; its control planes lease blocks from it and mint codes
on their own. While prefixes are free there is nothing to do by hand: a region that runs
low takes one automatically.

These commands ask the API of --api or WAYPOST_API with the key in WAYPOST_API_KEY,
which must be of the default workspace and have the scope admin, or else the
development system that runs in --data-dir. None of them blocks the creation of links,
and no counter is ever issued twice, whatever they do. Commands that change something have
--dry-run, which shows the effect, and make an entry in the audit log (waypost audit).`
	c.Example = `  waypost ranges list                              who has what, how fast it is used, how long it lasts
  waypost ranges plan --out plan.json              the moves that make all regions last equally long
  waypost ranges apply plan.json --dry-run         what they would do
  waypost ranges apply plan.json                   do them, unless the ranges have changed since`
	return p.bindAll(c)
}

func (p rangesCommands) listCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the ranges: their regions, how fast they are used, how long they last",
		Long: `List the key ranges, how much of each is used, how many keys a minute were issued from
it during the last hour, how long it lasts at that rate, and which control planes hold
leases of it; below that, what each region has left. With --output json it is a list of
all ranges, retired ones too.`,
		Example: `  waypost ranges list
  waypost ranges list --output json | jq '.[] | select(.minutes_left != null and .minutes_left < 1440)'`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			space, err := client.Get[api.KeySpace](ctx, server, api.PathRanges)
			if space.Ranges == nil {
				space.Ranges = []api.Range{}
			}
			if held := heldText(&space); err == nil && held != "" && p.output == "json" { // the list has no place for it
				_, err = fmt.Fprintln(p.stderr, held)
			}
			return keySpaceText(&space, all, p.width()), space.Ranges, err
		}),
	}
	c.Flags().BoolVar(&all, "all", false, "retired ranges too")
	return c
}

func (p rangesCommands) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show a range with its leases",
		Example: `  waypost ranges show 7`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			id, err := rangeID(args[0])
			if err != nil {
				return "", nil, err
			}
			r, err := client.Get[api.Range](ctx, server, client.Path(api.PathRanges, id))
			return rangeText(&r), r, missingRange(err)
		}),
	}
}

func rangeID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, &usageError{fmt.Errorf("ID: %q is no number of a range; `waypost ranges list` shows them", text)}
	}
	return id, nil
}

// missingRange adds the remedy to the refusal of a range that does not exist.
func missingRange(err error) error {
	if statusOf(err) == http.StatusNotFound {
		return fmt.Errorf("%w: `waypost ranges list` shows all ranges", err)
	}
	return err
}

// statusOf returns the status of a refusal by the API, 0 for any other error.
func statusOf(err error) int {
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		return problem.Status
	}
	return 0
}

func (p rangesCommands) decodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "decode CODE",
		Short: "Tell a generated code's range, counter and region, and whether it was issued",
		Long: `Tell from a generated code alone which prefix and counter it was made of, and from the
database what has become of them.`,
		Example: `  waypost ranges decode r7Qx0aZ
  waypost ranges decode r7Qx0aZ --output json`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			d, err := client.Get[api.DecodedKey](ctx, server, client.Path(api.PathRanges, "decode", args[0]))
			return decodedText(&d), d, err
		}),
	}
}
