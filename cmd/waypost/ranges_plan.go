package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
	"waypost/internal/atomicfile"
)

func (p rangesCommands) planCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "plan",
		Short: "Plan the fewest moves after which all regions last equally long",
		Long: `Work out the fewest moves after which all regions last equally long at the rates of the
last hour. Nothing is changed. Keep the plan in a file to carry it out: with --out, or as
the JSON that --output json prints.`,
		Example: `  waypost ranges plan
  waypost ranges plan --out plan.json && waypost ranges apply plan.json`,
		RunE: func(c *cobra.Command, _ []string) error {
			if out != "" {
				if err := replaceable(out); err != nil {
					return err
				}
			}
			return p.withAPI(func(server *client.Client) error { return p.planRanges(c.Context(), server, out) })
		},
	}
	c.Flags().StringVar(&out, "out", "", "file to write the plan to")
	return c
}

func (p rangesCommands) planRanges(ctx context.Context, server *client.Client, out string) error {
	plan, err := client.Get[api.RangePlan](ctx, server, client.Path(api.PathRanges, "plan"))
	if err != nil {
		return err
	}
	text := planText(&plan, p.width())
	if len(plan.Steps) > 0 && p.output != "json" {
		// The plan stands without it, so a failure is no reason to keep the plan back.
		if space, err := client.Get[api.KeySpace](ctx, server, api.PathRanges); err == nil && space.FreePrefixes > 0 {
			text += fmt.Sprintf("\n\nnone of this is needed now: %s prefixes are free, and a region that runs low takes one automatically",
				grouped(int64(space.FreePrefixes)))
		}
	}
	if out != "" {
		encoded, err := json.MarshalIndent(plan, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the plan: %w", err)
		}
		if err := atomicfile.Write(out, append(encoded, '\n'), 0o644); err != nil {
			return err
		}
		if len(plan.Steps) > 0 {
			text += fmt.Sprintf("\n\nwritten to %s; carry it out with: waypost ranges apply %s", out, out)
		}
	}
	return p.print(text, plan)
}

// planText lays out a plan for people.
func planText(plan *api.RangePlan, width int) string {
	var b strings.Builder
	if len(plan.Steps) == 0 {
		b.WriteString("nothing to do")
		if plan.Reason != "" {
			b.WriteString(": " + printable(plan.Reason))
		}
		b.WriteString("\n")
	}
	for i := range plan.Steps {
		_, _ = fmt.Fprintf(&b, "%d. %s\n", i+1, stepText(&plan.Steps[i]))
	}
	if len(plan.Before) > 0 {
		b.WriteString("\n" + beforeAndAfter(plan, width))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func beforeAndAfter(plan *api.RangePlan, width int) string {
	after := map[string]*api.Supply{}
	for i := range plan.After {
		after[plan.After[i].Region] = &plan.After[i]
	}
	return tableOf("REGION\tRATE\tUNISSUED\tLEFT\tUNISSUED THEN\tLEFT THEN", plan.Before, width, func(s *api.Supply) []any {
		then, left := "unknown", "unknown"
		if a := after[s.Region]; a != nil {
			then, left = grouped(a.Unissued), lasts(a.MinutesLeft, a.Unissued)
		}
		return []any{s.Region, rateText(s.Rate), grouped(s.Unissued), lasts(s.MinutesLeft, s.Unissued), then, left}
	}) + "\n"
}

// stepText describes a step.
func stepText(s *api.RangeStep) string {
	region := printable(s.Region)
	switch {
	case s.Action == "assign" && s.Prefix == "":
		return "assign a free prefix to " + region
	case s.Action == "assign":
		return fmt.Sprintf("assign prefix %s to %s", printable(s.Prefix), region)
	case s.Action == "split" && s.At == 0:
		return fmt.Sprintf("split range %d in the middle of its unissued part", s.Range)
	case s.Action == "split":
		return fmt.Sprintf("split range %d at counter %s", s.Range, grouped(s.At))
	case s.Action == "move" && s.Remainder:
		return fmt.Sprintf("move the unleased part of range %d to %s", s.Range, region)
	case s.Action == "move" && s.At == 0:
		return fmt.Sprintf("move range %d to %s", s.Range, region)
	case s.Action == "move":
		return fmt.Sprintf("move range %d from counter %s on to %s", s.Range, grouped(s.At), region)
	case s.Range != 0:
		return fmt.Sprintf("%s range %d", printable(s.Action), s.Range)
	}
	return printable(s.Action)
}

func (p rangesCommands) applyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "apply FILE",
		Short: "Carry out a plan, unless the ranges have changed since it was made",
		Long: `Carry out a plan of waypost ranges plan: all of its steps or, when the ranges are not as
the plan found them, none. FILE is - for standard input. Links are created all the while.`,
		Example: `  waypost ranges apply plan.json --dry-run
  waypost ranges apply plan.json`,
	}
	dryRun := dryRunFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		plan, err := p.readPlan(args[0])
		if err != nil {
			return err
		}
		if len(plan.Steps) == 0 {
			return p.print("nothing to do: the plan has no steps", api.RangesChanged{Done: []api.StepDone{}, DryRun: *dryRun})
		}
		err = p.changeRanges(c.Context(), api.RangeChange{Steps: plan.Steps, Fingerprint: plan.Fingerprint, DryRun: *dryRun})
		if statusOf(err) == http.StatusConflict {
			return fmt.Errorf("the plan is not carried out, and nothing was changed: %w; `waypost ranges plan --out FILE` makes another", err)
		}
		return err
	}
	return c
}

// maxPlan bounds a plan file in bytes: 1,000 steps and 1,000 regions fit well.
const maxPlan = 4 << 20

func (p rangesCommands) readPlan(name string) (plan api.RangePlan, err error) {
	from := p.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return plan, fmt.Errorf("read the plan: %w", err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxPlan+1))
	if err != nil {
		return plan, fmt.Errorf("read the plan: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&plan); err == nil {
		if _, end := decoder.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("there is something after its end")
		}
	}
	switch {
	case len(text) > maxPlan:
		err = fmt.Errorf("it is larger than %d bytes", maxPlan)
	case err == nil && plan.Fingerprint == "":
		err = errors.New("it has no fingerprint of the ranges that it is for")
	}
	if err != nil {
		return plan, fmt.Errorf("%s is no plan of `waypost ranges plan`: %w", name, err)
	}
	return plan, nil
}
