package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Markdown gives the report's part of RESULTS.md.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", r.Title)
	if r.Method != "" {
		fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(r.Method))
	}
	for i := range r.Sections {
		b.WriteString(r.Sections[i].Markdown())
	}
	return b.String()
}

// Markdown gives the section: its goals, its table, and how it was made.
func (s *Section) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", s.Title)
	for _, g := range s.Goals {
		verdict := "missed"
		if g.Met() {
			verdict = "met"
		}
		fmt.Fprintf(&b, "* goal **%s**: %s ≤ %s, measured %s\n", verdict, g.What, number(g.Most), number(g.Figure))
	}
	if len(s.Goals) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(s.Table())
	if len(s.Cases) > 0 {
		b.WriteByte('\n')
	}
	if s.Listing != "" {
		fmt.Fprintf(&b, "```\n%s\n```\n\n", strings.TrimRight(s.Listing, "\n"))
	}
	for _, c := range s.Cases {
		if c.What != "" {
			fmt.Fprintf(&b, "* **%s**: %s\n", c.Name, c.What)
		}
	}
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "* %s\n", note)
	}
	fmt.Fprintf(&b, "* made: %s, `%s`, on %s, %d cores, %s, %s\n", s.Made.UTC().Format("2006-01-02 15:04 MST"), s.Command,
		s.Machine.CPU, s.Machine.Cores, s.Machine.OS, s.Machine.Go)
	for _, set := range s.Settings {
		fmt.Fprintf(&b, "* %s: %s\n", set.Name, set.Value)
	}
	b.WriteByte('\n')
	return b.String()
}

// Table gives the figures as a table in Markdown, which reads well as it is. A
// measure of a single round has no range, one that is not compared no ratio.
func (s *Section) Table() string {
	if len(s.Cases) == 0 {
		return ""
	}
	head := []string{"case"}
	rows := make([][]string, len(s.Cases))
	for i, c := range s.Cases {
		rows[i] = []string{c.Name}
	}
	for j := range s.Cases[0].Measures {
		s.columns(j, &head, rows)
	}
	if slices.ContainsFunc(s.Cases, func(c Case) bool { return c.Requests > 0 }) {
		head = append(head, "requests")
		for i, c := range s.Cases {
			rows[i] = append(rows[i], strconv.FormatInt(c.Requests, 10))
		}
	}
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	b.WriteString("|---" + strings.Repeat("|--:", len(head)-1) + "|\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}

// columns adds those of the measure with index j.
func (s *Section) columns(j int, head *[]string, rows [][]string) {
	var ranges, ratios bool
	for _, c := range s.Cases {
		m := c.Measures[j]
		ranges, ratios = ranges || len(m.Rounds) > 1, ratios || m.Ratio != nil
	}
	*head = append(*head, s.Cases[0].Measures[j].Name)
	if ranges {
		*head = append(*head, "min – max")
	}
	if ratios {
		*head = append(*head, "ratio", "min – max")
	}
	for i, c := range s.Cases {
		m := c.Measures[j]
		if len(m.Rounds) == 0 {
			m.Summary = Summary{math.NaN(), math.NaN(), math.NaN()}
		}
		rows[i] = append(rows[i], number(m.Summary.Median))
		if ranges {
			rows[i] = append(rows[i], number(m.Summary.Min)+" – "+number(m.Summary.Max))
		}
		switch {
		case ratios && m.Ratio != nil:
			rows[i] = append(rows[i], fmt.Sprintf("%.3f", m.Ratio.Median), fmt.Sprintf("%.3f – %.3f", m.Ratio.Min, m.Ratio.Max))
		case ratios:
			rows[i] = append(rows[i], "", "")
		}
	}
}

// number writes a figure with about three digits, which is more than any of them
// is good for; nothing for none.
func number(f float64) string {
	digits := 3
	for _, limit := range []float64{1, 10, 100} {
		if math.Abs(f) >= limit {
			digits--
		}
	}
	switch {
	case math.IsNaN(f):
		return ""
	case f == math.Trunc(f):
		digits = 0
	}
	return strconv.FormatFloat(f, 'f', digits, 64)
}
