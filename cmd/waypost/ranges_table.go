package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost/api"
)

// keySpaceText lays out all ranges for people, by region, and
// the counters that each region has left.
func keySpaceText(space *api.KeySpace, all bool, width int) string {
	var b strings.Builder
	if held := heldText(space); held != "" {
		b.WriteString(held + "\n\n")
	}
	shown := slices.Clone(space.Ranges)
	if !all {
		shown = slices.DeleteFunc(shown, func(r api.Range) bool { return r.State == "retired" })
	}
	b.WriteString(rangeTable(shown, width))
	if hidden := len(space.Ranges) - len(shown); hidden > 0 {
		_, _ = fmt.Fprintf(&b, "and %d retired, see --all\n", hidden)
	}
	if len(space.Regions) > 0 {
		b.WriteString("\n" + supplyTable(space, width))
	}
	_, _ = fmt.Fprintf(&b, "\n%s of %s prefixes are free, %s keys each", grouped(int64(space.FreePrefixes)), grouped(int64(space.Prefixes)), grouped(space.PrefixSize))
	for i := range space.Regions {
		s := &space.Regions[i]
		soon := s.Unissued == 0 || s.MinutesLeft != nil && *s.MinutesLeft < lowMinutes
		if space.FreePrefixes == 0 && s.Unissued < space.PrefixSize/10 && soon {
			_, _ = fmt.Fprintf(&b, "\n!! %s runs low with %s, and no prefix is free: see `waypost ranges plan`", printable(s.Region), lowText(s))
		}
	}
	return b.String()
}

// lowMinutes is the supply below which a region without free prefixes runs low.
const lowMinutes = 30 * 24 * 60

func lowText(s *api.Supply) string {
	if s.Unissued == 0 {
		return "no key left"
	}
	return "keys for " + lasts(s.MinutesLeft, s.Unissued)
}

// heldText is a loud line with the remedy while no key is leased; "" otherwise.
func heldText(space *api.KeySpace) string {
	if space.Held == nil {
		return ""
	}
	text := "!! NO KEY IS ISSUED, and links can be created with custom codes only"
	if space.HeldSince != nil {
		text += ", since " + space.HeldSince.Local().Format(time.DateTime)
	}
	text += ":\n!! " + printable(*space.Held) + ".\n"
	if space.ResumeGap > 0 {
		return text + fmt.Sprintf("!! `waypost ranges resume` continues %s counters further in every prefix; --help says when to choose another gap.",
			grouped(space.ResumeGap))
	}
	return text + "!! Continue with `waypost ranges resume --gap N`, where N is the most keys that any prefix can have issued since the backup; " +
		"--help says how to find N."
}

// rangeTable sorts ranges by region and lays them out.
func rangeTable(ranges []api.Range, width int) string {
	if len(ranges) == 0 {
		return "no region has a range yet\n"
	}
	slices.SortFunc(ranges, func(x, y api.Range) int {
		return cmp.Or(strings.Compare(x.Region, y.Region), cmp.Compare(x.ID, y.ID))
	})
	return tableOf("ID\tREGION\tPREFIX\tUSED\tRATE\tLEFT\tSTATE\tHELD BY", ranges, width, func(r *api.Range) []any {
		return []any{r.ID, r.Region, r.Prefix, usedText(r), rateText(r.Rate), leftText(r), r.State, holders(r.Leases)}
	}) + "\n"
}

func supplyTable(space *api.KeySpace, width int) string {
	live := map[string]int{}
	for i := range space.Ranges {
		if space.Ranges[i].State == "live" {
			live[space.Ranges[i].Region]++
		}
	}
	return tableOf("REGION\tLIVE RANGES\tUNISSUED\tRATE\tLEFT", space.Regions, width, func(s *api.Supply) []any {
		return []any{s.Region, live[s.Region], grouped(s.Unissued), rateText(s.Rate), lasts(s.MinutesLeft, s.Unissued)}
	}) + "\n"
}

// rangeText shows a range with all that is known of it.
func rangeText(r *api.Range) string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "range       %d\nprefix      %s\nregion      %s\nstate       %s\ncounters    %s to %s\n",
		r.ID, printable(r.Prefix), printable(r.Region), printable(r.State), grouped(r.Lo), grouped(r.Hi-1))
	_, _ = fmt.Fprintf(&b, "next        %s\nunissued    %s, of which %s were given back\nused        %s\nrate        %s over the last hour\nleft        %s\n",
		grouped(r.Next), grouped(r.Unissued()), grouped(r.Returned), usedText(r), rateText(r.Rate), leftText(r))
	_, _ = fmt.Fprintf(&b, "generation  %d\ncreated     %s", r.Generation, r.CreatedAt.Format(time.RFC3339))
	for i, l := range r.Leases {
		title := "leases"
		if i > 0 {
			title = ""
		}
		_, _ = fmt.Fprintf(&b, "\n%-12s%s: counters %s to %s, generation %d", title, printable(l.Node), grouped(l.Lo), grouped(l.Hi-1), l.Generation)
	}
	if len(r.Leases) == 0 {
		b.WriteString("\nleases      none are held")
	}
	return b.String()
}

// stateTexts explain the states of a counter.
var stateTexts = map[string]string{
	"issued":     "a link or a reserved key has it",
	"spent":      "it was issued or is lost, and never will be again",
	"burned":     "a custom code has taken it",
	"leased":     "a control plane may issue it, or just has",
	"unissued":   "it lies ahead in a range",
	"unassigned": "no range holds it",
}

func decodedText(d *api.DecodedKey) string {
	state, region, in, lease := printable(d.State), "none", "none", "none"
	if explained := stateTexts[d.State]; explained != "" {
		state += ": " + explained
	}
	if d.Region != nil {
		region = printable(*d.Region)
	}
	if d.Range != nil {
		in = fmt.Sprintf("%d, counters %s to %s", d.Range.ID, grouped(d.Range.Lo), grouped(d.Range.Hi-1))
	}
	if d.Lease != nil {
		lease = fmt.Sprintf("counters %s to %s, generation %d", grouped(d.Lease.Lo), grouped(d.Lease.Hi-1), d.Lease.Generation)
		if d.Lease.Node != "" {
			lease = printable(d.Lease.Node) + ", " + lease
		}
	}
	return fmt.Sprintf("code     %s\nprefix   %s\ncounter  %s\nstate    %s\nregion   %s\nrange    %s\nlease    %s",
		printable(d.Code), printable(d.Prefix), grouped(d.Counter), state, region, in, lease)
}

// usedText describes the share of a range that is already leased. Only all of it
// is 100 %, and only none of it is 0 %.
func usedText(r *api.Range) string {
	size := r.Hi - r.Lo
	used := size - r.Unissued()
	switch {
	case size <= 0 || used <= 0:
		return "0 %"
	case used >= size:
		return "100 %"
	case used < size/1000:
		return "< 0.1 %"
	}
	return fmt.Sprintf("%.1f %%", min(99.9, 100*float64(used)/float64(size)))
}

func leftText(r *api.Range) string {
	if r.State == "retired" {
		return "none"
	}
	return lasts(r.MinutesLeft, r.Unissued())
}

func rateText(perMinute float64) string {
	if perMinute > 0 && perMinute < 10 {
		return fmt.Sprintf("%.1f/min", max(0.1, perMinute))
	}
	return grouped(int64(math.Round(perMinute))) + "/min"
}

// lasts says how long unissued keys last, in the largest unit with two
// or more.
func lasts(minutes *float64, unissued int64) string {
	const hour, day, year = 60, 24 * 60, 365.25 * 24 * 60
	switch {
	case unissued <= 0:
		return "none"
	case minutes == nil:
		return "not in use"
	case *minutes < 1:
		return "< 1 minute"
	case *minutes < 2:
		return "1 minute"
	case *minutes < 2*hour:
		return fmt.Sprintf("%.0f minutes", *minutes)
	case *minutes < 2*day:
		return fmt.Sprintf("%.0f hours", *minutes/hour)
	case *minutes < 2*year:
		return fmt.Sprintf("%.0f days", *minutes/day)
	case *minutes < 20*year:
		return fmt.Sprintf("%.1f years", *minutes/year)
	case *minutes < 1000*year:
		return fmt.Sprintf("%.0f years", *minutes/year)
	}
	return "> 1,000 years"
}

// holders names the nodes that hold leases, without the names of their starts. It returns
// "none" without any lease.
func holders(leases []api.Lease) string {
	const most = 3
	if len(leases) == 0 {
		return "none"
	}
	var nodes []string
	for _, l := range leases {
		node := l.Node
		if i := strings.LastIndexByte(node, '/'); i > 0 {
			node = node[:i]
		}
		if !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) > most {
		nodes = append(nodes[:most:most], fmt.Sprintf("%d more", len(nodes)-most))
	}
	return printable(strings.Join(nodes, ", "))
}

// grouped writes a number with a comma between thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
