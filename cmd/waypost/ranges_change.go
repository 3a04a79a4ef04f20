package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/api"
	"waypost/client"
)

// dryRunFlag adds --dry-run to a command that changes ranges.
func dryRunFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("dry-run", false, "show the changes, and make none")
}

// stepCommand completes a command that does one step, with the range of its argument, if
// it has one. Check judges the flags, and may fill in the step; nil: nothing has to be
// judged.
func (p rangesCommands) stepCommand(c *cobra.Command, step *api.RangeStep, check func(c *cobra.Command) error) *cobra.Command {
	dryRun := dryRunFlag(c)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if len(args) > 0 {
			step.Range, err = rangeID(args[0])
		}
		if err == nil && check != nil {
			err = check(c)
		}
		if err != nil {
			return err
		}
		return p.changeRanges(c.Context(), api.RangeChange{Steps: []api.RangeStep{*step}, DryRun: *dryRun})
	}
	return c
}

// changeRanges has the steps done and prints their results.
func (p rangesCommands) changeRanges(ctx context.Context, change api.RangeChange) error {
	return p.withAPI(func(server *client.Client) error {
		changed, err := client.Send[api.RangesChanged](ctx, server, http.MethodPost, client.Path(api.PathRanges, "changes"), change)
		if err != nil {
			return refused(err)
		}
		return p.print(changedText(&changed, p.width()), changed)
	})
}

// refused adds the remedy to the error of a change.
func refused(err error) error {
	if client.Processed(err) {
		return fmt.Errorf("%w; look with `waypost ranges list` whether it was done before you try again", err)
	}
	return missingRange(err)
}

// changedText describes a change that was made, and shows the ranges it touched.
func changedText(changed *api.RangesChanged, width int) string {
	var b strings.Builder
	if changed.DryRun {
		b.WriteString("dry run, nothing was changed; this would be done:\n")
	}
	var touched []api.Range
	for i := range changed.Done {
		done := &changed.Done[i]
		b.WriteString(printable(done.What) + "\n")
		switch {
		case done.Fenced == 1:
			b.WriteString("  1 lease that is held becomes void: its remaining codes are never issued\n")
		case done.Fenced > 1:
			_, _ = fmt.Fprintf(&b, "  %d leases that are held become void: their remaining codes are never issued\n", done.Fenced)
		}
		for _, r := range done.Ranges {
			touched = slices.DeleteFunc(touched, func(old api.Range) bool { return old.ID == r.ID })
			touched = append(touched, r)
		}
	}
	if len(touched) > 0 {
		b.WriteString("\n" + rangeTable(touched, width))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (p rangesCommands) assignCommand() *cobra.Command {
	step := api.RangeStep{Action: "assign"}
	c := &cobra.Command{
		Use:   "assign --region REGION",
		Short: "Give a region a prefix that was never used",
		Long: `Give a region a prefix that was never used, as a range of its own. A region that runs
low takes one automatically; use this command for a region that begins or grows soon.`,
		Example: `  waypost ranges assign --region eu-west-1
  waypost ranges assign --region eu-west-1 --prefix 4k --dry-run`,
	}
	c.Flags().StringVar(&step.Region, "region", "", "who gets it")
	c.Flags().StringVar(&step.Prefix, "prefix", "", "which (default: any that is free)")
	return p.stepCommand(c, &step, func(*cobra.Command) error { return checkRegion("region", step.Region) })
}

func checkRegion(flag, region string) error {
	if region == "" {
		return &usageError{fmt.Errorf("--%s is missing: name a region", flag)}
	}
	if _, err := waypost.ParseRegion(region); err != nil {
		return &usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	return nil
}

// checkAt sees that --at, if it was given, can be a place to cut at.
func checkAt(c *cobra.Command, at int64) error {
	if c.Flags().Changed("at") && at < 1 {
		return &usageError{fmt.Errorf("--at: %d is no counter to cut at; `waypost ranges show ID` lists them", at)}
	}
	return nil
}

func (p rangesCommands) splitCommand() *cobra.Command {
	step := api.RangeStep{Action: "split"}
	c := &cobra.Command{
		Use:   "split ID",
		Short: "Cut a range in two of the same region",
		Long: `Cut a range in two of the same region, which can then be moved or drained apart. It can
be cut only where nothing was leased yet.`,
		Example: `  waypost ranges split 7
  waypost ranges split 7 --at 500000000`,
	}
	c.Flags().Int64Var(&step.At, "at", 0, "first counter of the new range (default: the middle of the unissued part)")
	return p.stepCommand(c, &step, func(c *cobra.Command) error { return checkAt(c, step.At) })
}

func (p rangesCommands) moveCommand() *cobra.Command {
	step := api.RangeStep{Action: "move"}
	c := &cobra.Command{
		Use:   "move ID --to REGION",
		Short: "Give a range, or its unleased part, to another region",
		Long: `Give a range to another region. A whole range takes its leases with it: those that are
held become void, and what was left of them is never issued. The control planes that
held them take others at once; no create fails. With --remainder or --at the region
keeps what it has leased, and nothing becomes void.`,
		Example: `  waypost ranges move 7 --to eu-west-1 --remainder     all that is not leased yet
  waypost ranges move 7 --to eu-west-1                 everything
  waypost ranges move 7 --to eu-west-1 --at 500000000  counters from 500,000,000 on`,
	}
	c.Flags().StringVar(&step.Region, "to", "", "who gets it")
	c.Flags().BoolVar(&step.Remainder, "remainder", false, "only the unleased part, as a range of its own")
	c.Flags().Int64Var(&step.At, "at", 0, "only the counters from this one on, as a range of their own")
	return p.stepCommand(c, &step, func(c *cobra.Command) error {
		if err := cmp.Or(checkRegion("to", step.Region), checkAt(c, step.At)); err != nil {
			return err
		}
		if step.Remainder && step.At != 0 {
			return &usageError{errors.New("give --remainder or --at, not both")}
		}
		return nil
	})
}

func (p rangesCommands) drainCommand() *cobra.Command {
	return p.stepCommand(&cobra.Command{
		Use:   "drain ID",
		Short: "Lease nothing more from a range",
		Long: `Lease nothing more from a range. What control planes hold of it is used up. Take it back
with revive; end it with retire.`,
		Example: `  waypost ranges drain 7`,
	}, &api.RangeStep{Action: "drain"}, nil)
}

func (p rangesCommands) reviveCommand() *cobra.Command {
	return p.stepCommand(&cobra.Command{
		Use:     "revive ID",
		Short:   "Lease from a drained range again",
		Example: `  waypost ranges revive 7`,
	}, &api.RangeStep{Action: "revive"}, nil)
}

func (p rangesCommands) retireCommand() *cobra.Command {
	step := api.RangeStep{Action: "retire"}
	c := &cobra.Command{
		Use:   "retire ID",
		Short: "End a range permanently; its links stay live",
		Long: `End a range: no key is ever issued from it again, and its unissued counters are lost for
good. Links that have its keys live on. Drain it first; a live range, and one of which
control planes hold leases, is retired by force only, and the leases become void.`,
		Example: `  waypost ranges drain 7 && waypost ranges retire 7
  waypost ranges retire 7 --force --dry-run`,
	}
	c.Flags().BoolVar(&step.Force, "force", false, "also a live range, and while leases are held")
	return p.stepCommand(c, &step, nil)
}

func (p rangesCommands) resumeCommand() *cobra.Command {
	var gap int64
	c := &cobra.Command{
		Use:   "resume",
		Short: "Issue keys again when no control plane remembers which were issued",
		Long: `After PostgreSQL was restored or failed over, keys may have been issued that the database
has forgotten. Where a control plane still knows which (the file keys.witness in its data
directory), every prefix skips ahead automatically. Where none does, or where too much would
be skipped, no key is leased until an operator states the gap: more than the keys that can
have been issued from any one prefix since the backup was made.

  gap = peak keys per second × seconds from the backup to the restore, and some more

Too large costs keys, of which a prefix has plenty. Too small issues a key twice: the
gap can be stated only once.`,
		Example: `  waypost ranges list                     why keys are held back, and the gap that would be skipped
  waypost ranges resume --dry-run
  waypost ranges resume                   skip that
  waypost ranges resume --gap 40000000    skip that many counters in every prefix`,
	}
	c.Flags().Int64Var(&gap, "gap", 0, "counters that every prefix skips (default: the gap that waypost ranges list shows, if any)")
	step := api.RangeStep{Action: "resume"}
	return p.stepCommand(c, &step, func(c *cobra.Command) error {
		if gap < 0 {
			return &usageError{fmt.Errorf("--gap: %d is less than nothing", gap)}
		}
		step.Gap = optional(c, "gap", &gap)
		return nil
	})
}
