package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Report is what one benchmark has measured: the content of its file in results.
type Report struct {
	Name     string    `json:"name"`  // of the file, without its ending
	Title    string    `json:"title"` // of its part of RESULTS.md
	Method   string    `json:"method"`
	Sections []Section `json:"sections"`
}

// Section is a table of cases that were measured side by side. It is replaced as a
// whole, and therefore says itself how and when it was made.
type Section struct {
	Name     string    `json:"name"`
	Title    string    `json:"title"`
	Made     time.Time `json:"made"`
	Command  string    `json:"command"`
	Machine  Machine   `json:"machine"`
	Settings []Setting `json:"settings,omitempty"`
	Cases    []Case    `json:"cases,omitempty"`
	Goals    []Goal    `json:"goals,omitempty"`
	Notes    []string  `json:"notes,omitempty"`   // a sentence each
	Listing  string    `json:"listing,omitempty"` // shown as it is
}

// Setting is a choice that a reader has to know to make the figures again.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Case is one thing that was measured. All cases of a section have the same measures.
type Case struct {
	Name     string    `json:"name"`
	What     string    `json:"what,omitempty"`     // one sentence
	Base     string    `json:"base,omitempty"`     // the case that it is compared with; itself or none: it is not
	Requests int64     `json:"requests,omitempty"` // over all rounds
	Measures []Measure `json:"measures"`
}

// Measure is one figure of a case, once for every round.
type Measure struct {
	Name     string    `json:"name"` // with its unit
	Compared bool      `json:"compared,omitempty"`
	Rounds   []float64 `json:"rounds"`
	Summary  Summary   `json:"summary"`
	Ratio    *Summary  `json:"ratio,omitempty"` // to the same measure of the base
}

// Goal is a bound that the project has set itself.
type Goal struct {
	What   string  `json:"what"`
	Most   float64 `json:"most"`
	Figure float64 `json:"figure"`
}

// Met reports whether the figure is within the bound.
func (g Goal) Met() bool { return g.Figure <= g.Most }

// Find gives the measure of a case; nil when there is none.
func (s *Section) Find(name, measure string) *Measure {
	for i := range s.Cases {
		if s.Cases[i].Name == name {
			return s.Cases[i].find(measure)
		}
	}
	return nil
}

func (c *Case) find(measure string) *Measure {
	for i := range c.Measures {
		if c.Measures[i].Name == measure {
			return &c.Measures[i]
		}
	}
	return nil
}

// Compare fills in the summaries of all measures, and the ratios of those that are
// compared.
func (s *Section) Compare() error {
	for i := range s.Cases {
		c := &s.Cases[i]
		for j := range c.Measures {
			m := &c.Measures[j]
			m.Summary, m.Ratio = Summarize(m.Rounds), nil
			if !m.Compared || c.Base == "" || c.Base == c.Name {
				continue
			}
			base := s.Find(c.Base, m.Name)
			if base == nil {
				return fmt.Errorf("%s is compared with %s, which has no %s", c.Name, c.Base, m.Name)
			}
			ratios, err := Ratios(m.Rounds, base.Rounds)
			if err != nil {
				return fmt.Errorf("comparing %s with %s: %w", c.Name, c.Base, err)
			}
			summary := Summarize(ratios)
			m.Ratio = &summary
		}
	}
	return nil
}

// Put adds a section, in the place of an earlier one of its name. Sections stay in
// the order of names; those that it does not hold come last.
func (r *Report) Put(s Section, names []string) {
	r.Sections = append(slices.DeleteFunc(r.Sections, func(old Section) bool { return old.Name == s.Name }), s)
	rank := func(name string) int {
		if i := slices.Index(names, name); i >= 0 {
			return i
		}
		return len(names)
	}
	slices.SortStableFunc(r.Sections, func(a, b Section) int { return cmp.Compare(rank(a.Name), rank(b.Name)) })
}
