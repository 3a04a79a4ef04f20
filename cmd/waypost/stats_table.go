package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"waypost/api"
	"waypost/client"
)

const (
	barWidth    = 40 // cells of the longest bar
	shownNames  = 10 // of a breakdown
	shownLength = 40 // of a name, in characters
)

// statsTable lays out statistics for people, in a width as tabulate has it.
func statsTable(s *client.Stats, width int) string {
	var b strings.Builder
	if s.ShortCode != "" {
		_, _ = fmt.Fprintf(&b, "%s  %s\n", printable(s.ShortCode), printable(shortened(s.OriginalURL)))
	}
	if s.Links != nil {
		_, _ = fmt.Fprintf(&b, "%d links of the group\n", *s.Links)
	}
	_, _ = fmt.Fprintf(&b, "%s to %s, %s\n", s.From.Format("2006-01-02 15:04"), s.To.Format("2006-01-02 15:04"), printable(s.TZ))
	_, _ = fmt.Fprintf(&b, "clicks %d, of these by bots %d, unique visitors %d; in all time %d clicks\n%s\n\n",
		s.Clicks, s.BotClicks, s.UniqueVisitors, s.TotalClicks, completeText(s))
	writeBars(&b, s, width)
	writeCompared(&b, s)
	for _, a := range s.Annotations {
		_, _ = fmt.Fprintf(&b, "%s  changed: %s\n", a.T.In(s.From.Location()).Format("2006-01-02 15:04"), printable(strings.Join(a.Changes, ", ")))
	}
	for _, part := range []struct {
		title string
		names []api.Named
	}{
		{"COUNTRIES", s.Countries},
		{"CITIES", s.Cities},
		{"DEVICES", s.Devices},
		{"BROWSERS", s.Browsers},
		{"OPERATING SYSTEMS", s.Systems},
		{"REFERRERS", s.Referrers},
		{"UTM SOURCES", s.UTMSource},
		{"UTM MEDIUMS", s.UTMMedium},
		{"UTM CAMPAIGNS", s.UTMCampaign},
		{"UTM TERMS", s.UTMTerm},
		{"UTM CONTENTS", s.UTMContent},
		{"RULES", s.Rules},
	} {
		if len(part.names) != 1 || part.names[0].Name != "none" {
			writeNames(&b, part.title, part.names, width)
		}
	}
	if len(s.Codes) > 1 {
		sum := int64(0)
		for _, n := range s.Codes {
			sum += n.Clicks
		}
		b.WriteString("\n" + tableOf("ADDRESSES\tCLICKS\tSHARE\tPRINTED\tBATCH", s.Codes, width, func(n *api.CodeClicks) []any {
			return []any{cut(n.Name, shownLength), n.Clicks, share(n.Clicks, sum), n.PrintedOn, n.Batch}
		}) + "\n")
	}
	writeVariants(&b, s.Variants, width)
	writeTop(&b, s.Top, width)
	if s.TopExact != nil && !*s.TopExact {
		b.WriteString("other links may have as many clicks as the last of these\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// unknownTable lays out unknown addresses for people.
func unknownTable(u *api.UnknownAddresses, width int) string {
	if len(u.Addresses) == 0 {
		return "no address without a link was asked for by five people on a day from " + u.From + " to " + u.To
	}
	return tableOf("ADDRESS\tPEOPLE\tBOTS\tLAST\tANSWER", u.Addresses, width, func(a *api.UnknownAddress) []any {
		answer := "none"
		if a.Pattern {
			answer = "pattern"
		}
		return []any{"/" + a.Path, a.People, a.Bots, a.Days[len(a.Days)-1].Day, answer}
	})
}

// groupsText lays out a table of groups of links for people.
func groupsText(t *api.GroupTable, of string, width int) string {
	if len(t.Groups) == 0 {
		return "no link has a " + of + " that fits"
	}
	text := tableOf(strings.ToUpper(of)+"\tCLICKS\tBOTS\tPEOPLE\tSHARE\tBEFORE\tLINKS", t.Groups, width, func(g *api.Group) []any {
		return []any{cut(cmp.Or(g.Name, "(none)"), shownLength), g.Clicks, g.BotClicks, g.People, percent(g.Share), g.ClicksBefore, g.Links}
	})
	if more := t.Found - len(t.Groups); more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return text
}

// crossedText lays out a table of two breakdowns for people.
func crossedText(t *api.Crossed, width int) string {
	head := ""
	for _, column := range t.Columns {
		head += "\t" + printable(column.Name)
	}
	text := tableOf(head, t.Rows, width, func(r *api.CrossedRow) []any {
		cells := []any{cut(r.Name, shownLength)}
		for _, n := range r.Cells {
			cells = append(cells, n)
		}
		return cells
	})
	return fmt.Sprintf("%s\n%d of %d clicks of people were kept one by one; %s", text, t.Kept, t.Clicks,
		completeText(&client.Stats{ClickStats: api.ClickStats{CompleteUntil: t.CompleteUntil, Behind: t.Behind}}))
}

func completeText(s *client.Stats) string {
	text := "not known to be complete"
	if s.CompleteUntil != nil {
		until := *s.CompleteUntil
		if zone, err := time.LoadLocation(s.TZ); err == nil {
			until = until.In(zone)
		}
		text = "complete until " + until.Format(time.RFC3339)
	}
	if len(s.Behind) > 0 {
		text += "; clicks may be missing of " + printable(strings.Join(s.Behind, ", "))
	}
	return text
}

// writeBars draws a bar for each step of the series. The part of bots is drawn light.
func writeBars(b *strings.Builder, s *client.Stats, width int) {
	layout, most := time.DateOnly, int64(1)
	if s.Interval == "hour" || !s.Since.IsZero() {
		layout = "2006-01-02 15:04"
	}
	for _, step := range s.Series {
		most = max(most, step.Clicks)
	}
	digits, longest := len(fmt.Sprint(most)), barWidth
	if width > 0 {
		longest = max(1, min(longest, width-len(layout)-digits-len("    ")))
	}
	series := s.Series
	if quiet := slices.IndexFunc(series, func(step api.Bucket) bool { return step.Clicks > 0 }); quiet > 1 {
		series = series[quiet:]
		_, _ = fmt.Fprintf(b, "no clicks before %s\n", series[0].T.Format(layout))
	}
	for _, step := range series {
		bar := cells(step.Clicks, most, longest)
		light := min(cells(step.BotClicks, most, longest), bar)
		line := fmt.Sprintf("%s  %*d  %s%s", step.T.Format(layout), digits, step.Clicks, strings.Repeat("█", bar-light), strings.Repeat("░", light))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// writeCompared says how the clicks differ from the clicks of the time they are compared
// with.
func writeCompared(b *strings.Builder, s *client.Stats) {
	if s.Compared == nil {
		return
	}
	c := s.Compared.Change
	text := "no complete steps"
	if c.Steps > 0 {
		text = fmt.Sprintf("%d clicks in the first %d steps, against %d", c.Clicks, c.Steps, c.Before)
	}
	if c.Share != nil {
		text += fmt.Sprintf(" (%+.1f %%)", 100**c.Share)
	}
	_, _ = fmt.Fprintf(b, "\ncompared with %s to %s: %s\n", s.Compared.From.Format("2006-01-02 15:04"), s.Compared.To.Format("2006-01-02 15:04"), text)
}

// cells returns the length of a bar: 0 for no clicks, and a visible bar for a single one.
func cells(n, most int64, longest int) int {
	if n <= 0 {
		return 0
	}
	return max(1, int(float64(n)/float64(most)*float64(longest)+0.5))
}

func writeNames(b *strings.Builder, title string, names []api.Named, width int) {
	if len(names) == 0 {
		return
	}
	sum := sumOf(names)
	if more := len(names) - shownNames; more > 1 {
		rest := api.Named{Name: fmt.Sprintf("and %d more", more), Clicks: sumOf(names[shownNames:])}
		names = append(slices.Clip(names[:shownNames]), rest)
	}
	b.WriteString("\n" + tableOf(title+"\tCLICKS\tSHARE", names, width, func(n *api.Named) []any {
		return []any{cut(n.Name, shownLength), n.Clicks, share(n.Clicks, sum)}
	}) + "\n")
}

// writeVariants shows the share of a rule's clicks that its split sent to each variant.
func writeVariants(b *strings.Builder, variants []api.VariantClicks, width int) {
	if len(variants) == 0 {
		return
	}
	b.WriteString("\n" + tableOf("RULE\tVARIANT\tCLICKS\tSHARE\t95 % INTERVAL", variants, width, func(v *api.VariantClicks) []any {
		interval := ""
		if len(v.Interval) == 2 {
			interval = percent(v.Interval[0]) + " to " + percent(v.Interval[1])
		}
		return []any{cut(v.Rule, shownLength), cut(v.Name, shownLength), v.Clicks, percent(v.Share), interval}
	}) + "\n")
}

func sumOf(names []api.Named) (sum int64) {
	for _, n := range names {
		sum += n.Clicks
	}
	return sum
}

func share(n, of int64) string { return percent(float64(n) / float64(max(of, 1))) }

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func writeTop(b *strings.Builder, top []api.TopLink, width int) {
	if len(top) == 0 {
		return
	}
	b.WriteString("\n" + tableOf("LINK\tCLICKS\tBOTS\tTARGET\tTITLE", top, width, func(l *api.TopLink) []any {
		name := l.ShortCode
		if l.Domain != "" {
			name = l.Domain + "/" + name
		}
		return []any{name, l.Clicks, l.BotClicks, shortened(l.OriginalURL), cut(l.Title, shownLength)}
	}) + "\n")
}
