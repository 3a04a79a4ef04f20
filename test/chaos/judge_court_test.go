package chaos

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// forever is later than all that is recorded.
const forever = time.Duration(math.MaxInt64)

const (
	// syncTime bounds how long an edge holds a change that a crash may take back. An edge
	// syncs within 100 ms; the rest is for a machine on which many programs run.
	syncTime = 2 * time.Second
	// lagTime bounds how long a change takes to reach an edge while nothing is wrong, on
	// such a machine.
	lagTime = 10 * time.Second
)

// Violation is one thing that must not be.
type Violation struct {
	Invariant string        `json:"invariant"` // such as I1
	At        time.Duration `json:"at"`
	Text      string        `json:"text"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at %.3f s: %s", v.Invariant, v.At.Seconds(), v.Text)
}

// Judge returns all violations of a history, in the order of time.
func Judge(h *History) []Violation {
	c := &court{h: h, codes: make(map[string]*register)}
	c.sort()
	c.reads()
	c.blocks()
	c.identities()
	c.availability()
	c.clicks()
	c.budgets()
	c.final()
	slices.SortStableFunc(c.found, func(a, b Violation) int { return int(a.At - b.At) })
	return c.found
}

// court holds the findings on a history.
type court struct {
	h     *History
	codes map[string]*register
	found []Violation
}

// register is all that was recorded of one code.
type register struct {
	code   string
	writes []Operation // that had or may have had an effect, by call
	blocks []Operation // likewise
	claims []Operation
	visits map[string][]Operation // by edge, by call
}

func (c *court) violated(invariant string, at time.Duration, format string, args ...any) {
	c.found = append(c.found, Violation{invariant, at, fmt.Sprintf(format, args...)})
}

// sort distributes the requests by code.
func (c *court) sort() {
	byCall := func(a, b Operation) int { return int(a.Call - b.Call) }
	for _, op := range c.h.Operations {
		if op.Code == "" {
			continue
		}
		r := c.codes[op.Code]
		if r == nil {
			r = &register{code: op.Code, visits: make(map[string][]Operation)}
			c.codes[op.Code] = r
		}
		switch {
		case op.Kind == Visit:
			r.visits[op.Node] = append(r.visits[op.Node], op)
		case op.Kind == Claim:
			r.claims = append(r.claims, op)
		case op.Outcome == Refused:
		case op.Kind == Block:
			r.blocks = append(r.blocks, op)
		default:
			if op.Outcome == Unknown {
				op.Return = forever
			}
			r.writes = append(r.writes, op)
		}
	}
	for _, r := range c.codes {
		slices.SortFunc(r.writes, byCall)
		slices.SortFunc(r.blocks, byCall)
		for _, visits := range r.visits {
			slices.SortFunc(visits, byCall)
		}
	}
}

// incidents returns the incidents of a kind at a node.
func (c *court) incidents(what What, node string) (all []Incident) {
	for _, i := range c.h.Incidents {
		if i.What == what && i.Node == node {
			all = append(all, i)
		}
	}
	return all
}

// calm returns since when nothing has been wrong, and false when something is wrong at
// that time.
func (c *court) calm(at time.Duration) (since time.Duration, calm bool) {
	for _, f := range c.h.Faults {
		if f.None {
			continue
		}
		if f.during(at) {
			return 0, false
		}
		if f.Whole < at {
			since = max(since, f.Whole)
		}
	}
	return since, true
}
