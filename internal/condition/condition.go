// Package condition has the list of everything that can be wrong with a node, and
// evaluates it. Each node evaluates its own conditions from its own metrics, shows them
// as the metric waypost_condition, and reports them. Alerts, their pages, the console and
// `waypost doctor` know no other conditions.
package condition

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost/internal/failpoint"
)

// Condition is a condition that is true, as nodes show it.
type Condition struct {
	Name     string    `json:"name"`
	Severity string    `json:"severity"` // critical or warning
	Of       string    `json:"of"`       // region, or edge, if it concerns one that is not the node itself
	Since    time.Time `json:"since"`
	What     string    `json:"what"` // a predicate to the name of the node, or of Of
	Do       string    `json:"do"`
	Page     string    `json:"page"` // of the documentation
}

// The severities. Critical should wake an operator; a warning can wait until morning.
const (
	Critical = "critical"
	Warning  = "warning"
)

// Role is a kind of node.
type Role uint8

// The kinds of nodes.
const (
	Edge Role = 1 << iota
	Control
)

// Kind is an entry of the list.
type Kind struct {
	Name     string // also of the alert, and of its page
	Severity string
	On       Role
	// Cluster marks a condition that every control plane sees alike.
	Cluster bool
	// For is the time for which it has to be true before an alert fires.
	For  time.Duration
	What string
	Do   string

	// holds looks at the figures of the node. It is nil for a condition that the node
	// states itself, and for a node that is down, of which only others know.
	holds test
}

// Page returns the page of the documentation.
func (k *Kind) Page() string { return "docs/operations/alerts/" + k.Name + ".md" }

// Find returns the entry of a name, nil if the list has none, such as for a condition of
// a newer version.
func Find(name string) *Kind {
	i := slices.IndexFunc(list, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// List returns the list. The caller must not change it.
func List() []Kind { return list }

// Of returns the entry as a condition of a node that is true, for a reason, which may be
// empty.
func (k *Kind) Of(node string, s Statement) Condition {
	about := s.Of
	if about == "" {
		about = node
	}
	c := Condition{
		Name: k.Name, Severity: k.Severity, Of: s.Of, Since: s.Since, What: k.What,
		Do: strings.NewReplacer("NODE", about, "REGION", about).Replace(k.Do), Page: k.Page(),
	}
	if s.Why != "" {
		c.What += ": " + s.Why
	}
	return c
}

// Statement says that a condition is true.
type Statement struct {
	Of    string    // region or edge; "" for the node itself
	Why   string    // in words; may be empty
	Since time.Time // zero: since it was first seen
}

// Config configures a Watch. Zero fields mean the default.
type Config struct {
	Node    string
	On      Role
	Metrics prometheus.Gatherer // has the figures of the list; required

	// Says returns by name what no figure says: that a condition is true, or why. Nil
	// functions say nothing.
	Says map[string]func() []Statement

	Interval time.Duration    // between looks; default 5 s
	Now      func() time.Time // default time.Now
}

// Watch evaluates the conditions of one node. All methods may be called by many
// goroutines at once.
type Watch struct {
	cfg Config

	looking sync.Mutex // guards the fields below during a look
	past    past
	since   map[[2]string]time.Time // by name and Of

	mu    sync.Mutex
	known []Condition // that are true, as of the last look
	at    time.Time   // of the last look
}

// New returns a watch. Run looks.
func New(cfg Config) *Watch {
	cfg.Interval = cmp.Or(cfg.Interval, failpoint.Limit("conditions are looked at every", 5*time.Second))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Watch{cfg: cfg, past: newPast(cfg.Now()), since: make(map[[2]string]time.Time), known: []Condition{}}
}

// Run looks at every interval until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	ticker := time.NewTicker(w.cfg.Interval)
	defer ticker.Stop()
	for {
		w.Look()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Look evaluates all conditions now.
func (w *Watch) Look() {
	w.looking.Lock()
	defer w.looking.Unlock()
	now := w.cfg.Now()
	f := gather(w.cfg.Metrics, &w.past, now)
	found := make([]Condition, 0, 8)
	since := make(map[[2]string]time.Time)
	for i := range list {
		k := &list[i]
		if k.On&w.cfg.On == 0 {
			continue
		}
		for _, s := range w.statements(k, f) {
			key := [2]string{k.Name, s.Of}
			if s.Since.IsZero() {
				if s.Since = w.since[key]; s.Since.IsZero() {
					s.Since = now
				}
			}
			since[key] = s.Since
			found = append(found, k.Of(w.cfg.Node, s))
		}
	}
	w.since = since
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known, w.at = found, now
}

// statements returns the statements that make a condition true. The figures decide where
// the condition has some, and the node then only says why.
func (w *Watch) statements(k *Kind, f *figures) []Statement {
	said := w.cfg.Says[k.Name]
	if k.holds == nil {
		if said == nil {
			return nil
		}
		return said()
	}
	f.kind = k.Name
	found := k.holds(f)
	if len(found) > 0 && said != nil {
		if why := said(); len(why) > 0 && found[0].Why == "" {
			found[0].Why = why[0].Why
		}
	}
	return found
}

// Conditions returns the conditions that were true at the last look, and its time, which
// is zero before the first look.
func (w *Watch) Conditions() ([]Condition, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known, w.at
}

var desc = prometheus.NewDesc("waypost_condition",
	"1 while a condition of this node is true, and 0 while it is not; of: the region or edge that it concerns, if that is not this node.",
	[]string{"name", "severity", "of"}, nil)

// Describe implements prometheus.Collector.
func (w *Watch) Describe(ch chan<- *prometheus.Desc) { ch <- desc }

// Collect implements prometheus.Collector.
func (w *Watch) Collect(ch chan<- prometheus.Metric) {
	known, at := w.Conditions()
	if at.IsZero() {
		return
	}
	there := make(map[string]bool, len(known))
	for i := range known {
		c := &known[i]
		there[c.Name] = there[c.Name] || c.Of == ""
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, c.Name, c.Severity, c.Of)
	}
	for i := range list {
		if k := &list[i]; k.On&w.cfg.On != 0 && !there[k.Name] {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 0, k.Name, k.Severity, "")
		}
	}
}
