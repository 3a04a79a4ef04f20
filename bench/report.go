package bench

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Section is a table of cases that were measured side by side.
type Section struct {
	Name  string // unique in RESULTS.md
	Title string
	Cases []Case
	Goals []Goal
	Notes []string // a sentence each
}

// Case is one row of the table. All cases of a section begin with the same measures.
type Case struct {
	Name     string
	What     string // one sentence
	Base     string // the case to compare with; "" for none
	Measures []Measure
}

// Measure is one figure of a case, once for every round.
type Measure struct {
	Name     string // with its unit
	Compared bool   // with the same measure of the base
	Rounds   []float64
}

// Goal is a bound that the project has set itself.
type Goal struct {
	What         string
	Most, Figure float64
}

// Median returns the middle of the rounds, or the mean of the two middle ones, and NaN
// without rounds.
func Median(rounds []float64) float64 {
	if len(rounds) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(rounds))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Quantile returns the time within which a part of all was done, 0 < part <= 1, and sorts
// the times.
func Quantile(times []time.Duration, part float64) time.Duration {
	slices.Sort(times)
	rank := int(math.Ceil(part * float64(len(times))))
	return times[min(max(rank, 1), len(times))-1]
}

// Find returns the rounds of a measure of a case, or nil.
func (s *Section) Find(name, measure string) []float64 {
	for _, c := range s.Cases {
		for _, m := range c.Measures {
			if c.Name == name && m.Name == measure {
				return m.Rounds
			}
		}
	}
	return nil
}

// Ratios divides a measure of a case by the measure of its base, round by round, so that
// a machine that slows down half-way does not change the ratios. It returns nil without a
// base.
func (s *Section) Ratios(c *Case, measure string) []float64 {
	rounds, base := s.Find(c.Name, measure), s.Find(c.Base, measure)
	if c.Base == "" || c.Base == c.Name || len(rounds) != len(base) {
		return nil
	}
	ratios := make([]float64, len(rounds))
	for i := range rounds {
		ratios[i] = rounds[i] / base[i]
	}
	return ratios
}

// AddGoal adds a bound for the median of a measure, when the case was measured.
func (s *Section) AddGoal(name, measure string, most float64) {
	if rounds := s.Find(name, measure); len(rounds) > 0 {
		s.Goals = append(s.Goals, Goal{What: name + ", " + measure, Most: most, Figure: Median(rounds)})
	}
}

// AddRatioGoal is AddGoal for the ratio to the base.
func (s *Section) AddRatioGoal(name, measure string, most float64) {
	for i := range s.Cases {
		c := &s.Cases[i]
		if ratios := s.Ratios(c, measure); c.Name == name && len(ratios) > 0 {
			what := fmt.Sprintf("%s, %s over that of %s", name, measure, c.Base)
			s.Goals = append(s.Goals, Goal{What: what, Most: most, Figure: Median(ratios)})
		}
	}
}

// Markdown writes the section as it stands in RESULTS.md.
func (s *Section) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s%s\n\n## %s\n\n", markBegin, s.Name, markEnd, s.Title)
	for _, g := range s.Goals {
		verdict := "missed"
		if g.Figure <= g.Most {
			verdict = "met"
		}
		fmt.Fprintf(&b, "* goal **%s**: %s ≤ %s, measured %s\n", verdict, g.What, Number(g.Most), Number(g.Figure))
	}
	if len(s.Goals) > 0 {
		b.WriteByte('\n')
	}
	s.table(&b)
	for _, c := range s.Cases {
		if c.What != "" {
			fmt.Fprintf(&b, "* **%s**: %s\n", c.Name, c.What)
		}
	}
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "* %s\n", note)
	}
	return b.String() + "\n"
}

// table has a column for every measure of the first case, and one for its ratio when it
// is compared. A cell holds the median and, of several rounds, the range.
func (s *Section) table(b *strings.Builder) {
	if len(s.Cases) == 0 {
		return
	}
	measures := s.Cases[0].Measures
	head, rule := "| case |", "|---|"
	for _, m := range measures {
		head, rule = head+" "+m.Name+" |", rule+"--:|"
		if m.Compared {
			head, rule = head+" ratio |", rule+"--:|"
		}
	}
	b.WriteString(head + "\n" + rule + "\n")
	for i := range s.Cases {
		c := &s.Cases[i]
		fmt.Fprintf(b, "| %s |", c.Name)
		for _, m := range measures {
			fmt.Fprintf(b, " %s |", cell(s.Find(c.Name, m.Name)))
			if m.Compared {
				fmt.Fprintf(b, " %s |", cell(s.Ratios(c, m.Name)))
			}
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

func cell(rounds []float64) string {
	if len(rounds) < 2 {
		return Number(Median(rounds))
	}
	return fmt.Sprintf("%s (%s – %s)", Number(Median(rounds)), Number(slices.Min(rounds)), Number(slices.Max(rounds)))
}

// Number writes about three digits, and nothing for a figure that was not taken.
func Number(f float64) string {
	digits := 3
	for _, limit := range []float64{1, 10, 100} {
		if math.Abs(f) >= limit {
			digits--
		}
	}
	if math.IsNaN(f) {
		return ""
	}
	if f == math.Trunc(f) {
		digits = 0
	}
	return strconv.FormatFloat(f, 'f', digits, 64)
}

// A line like this stands above every section of RESULTS.md.
const (
	markBegin = "<!-- section "
	markEnd   = " -->"
)

// resultsHead stands above all sections of RESULTS.md.
const resultsHead = `# Measurements

Written by the programs below this directory, one section at a time.
Only figures of one section may be compared: those of different sections come from different runs, and perhaps machines.
The sections that end in "earlier program" were measured before the last changes of Waypost or of the benchmark; the next run replaces them.
A figure is the median of the rounds of a case, with the least and the greatest round in brackets: 5 (4 – 9).
A ratio is the median of the ratios of the rounds to those of the case that it is compared with, and not the ratio of the medians.
A goal is a bound that the project has set itself; it is met when the median is within the bound, and missed otherwise.
An empty cell was not measured, or has nothing to be compared with.
`

// Put writes the section into RESULTS.md in dir, in the place of the earlier one of its
// name or at the end. The other sections stay.
func (s *Section) Put(dir string) error {
	path := filepath.Join(dir, "RESULTS.md")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read earlier results: %w", err)
	}
	parts := strings.Split(string(text), markBegin)
	parts[0] = resultsHead
	at := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, s.Name+markEnd) })
	section := strings.TrimPrefix(s.Markdown(), markBegin)
	if at < 0 {
		parts = append(parts, section)
	} else {
		parts[at] = section
	}
	for i := range parts {
		parts[i] = strings.TrimRight(parts[i], "\n") + "\n\n"
	}
	all := strings.TrimRight(strings.Join(parts, markBegin), "\n") + "\n"
	if err := os.WriteFile(path+".new", []byte(all), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return os.Rename(path+".new", path)
}

// made describes the run and the machine.
func made(command, load string) string {
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo") // without it the processor is unknown
	_, model, _ := strings.Cut(string(cpuinfo), "model name")
	cores := strings.Count(string(cpuinfo), "model name")
	model, _, _ = strings.Cut(model, "\n")
	return fmt.Sprintf("made: %s, `%s`, on %s, %d cores, %s; load average before: %s", time.Now().UTC().Format("2006-01-02 15:04 MST"),
		command, strings.Trim(model, "\t :"), cores, runtime.Version(), load)
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg") // without it the load is empty
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// Grouped writes a number with commas.
func Grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", Grouped(n/1000), n%1000)
}
