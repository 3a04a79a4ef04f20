package condition

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"waypost/internal/failpoint"
)

// figures holds the metrics of a node at one moment, and remembers former ones.
type figures struct {
	families map[string][]*dto.Metric
	now      time.Time
	past     *past
	kind     string // that is evaluated
}

// past holds former figures of a node. A counter was 0 when the node started.
type past struct {
	started time.Time
	series  map[string][]sample
	since   map[string]time.Time // when a test that has to last became true, by kind
}

type sample struct {
	at    time.Time
	value float64
}

func newPast(now time.Time) past {
	return past{started: now, series: make(map[string][]sample), since: make(map[string]time.Time)}
}

// gather reads the metrics. It leaves out metrics that cannot be read.
func gather(from prometheus.Gatherer, p *past, now time.Time) *figures {
	families, _ := from.Gather() // the admin listener logs why a metric cannot be read
	f := &figures{families: make(map[string][]*dto.Metric, len(families)), now: now, past: p}
	for _, family := range families {
		f.families[family.GetName()] = family.GetMetric()
	}
	return f
}

// series selects series of a metric by their labels.
type series struct {
	metric string
	text   string                    // of the whole selection
	labels map[string]*regexp.Regexp // each whole value; nil: any
	but    bool                      // the labels of a series must not match
}

// of selects the series of a metric by pairs of a label and a pattern.
func of(metric string, pairs ...string) series {
	s := series{metric: metric, text: metric + " " + strings.Join(pairs, " "), labels: make(map[string]*regexp.Regexp)}
	for i := 0; i+1 < len(pairs); i += 2 {
		s.labels[pairs[i]] = regexp.MustCompile("^(?:" + pairs[i+1] + ")$")
	}
	return s
}

// except turns the selection of labels around.
func (s series) except() series {
	s.but = true
	return s
}

func (s series) matches(m *dto.Metric) bool {
	for _, l := range m.GetLabel() {
		if p := s.labels[l.GetName()]; p != nil && p.MatchString(l.GetValue()) == s.but {
			return false
		}
	}
	return true
}

// all returns the selected series.
func (f *figures) all(s series) (found []*dto.Metric) {
	for _, m := range f.families[s.metric] {
		if s.matches(m) {
			found = append(found, m)
		}
	}
	return found
}

// value returns the value of a gauge or a counter.
func value(m *dto.Metric) float64 {
	switch {
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	}
	return 0
}

// sum adds up series; false: there is none.
func (f *figures) sum(s series) (total float64, known bool) {
	for _, m := range f.all(s) {
		total, known = total+value(m), true
	}
	return total, known
}

// change returns by how much a sum has changed within a time, or since the start.
func (f *figures) change(key string, now float64, within time.Duration) float64 {
	key = f.kind + " " + key
	kept := f.past.series[key]
	if kept == nil {
		kept = []sample{{f.past.started, 0}}
	}
	for len(kept) > 1 && f.now.Sub(kept[1].at) >= within {
		kept = kept[1:]
	}
	before := kept[0].value
	if newest := kept[len(kept)-1]; f.now.Sub(newest.at) >= within/samples {
		kept = append(kept, sample{f.now, now})
	}
	f.past.series[key] = kept
	return now - before
}

// samples is the number of samples that are kept of a time.
const samples = 30

// growth returns by how much counters have grown within a time, or since the start.
func (f *figures) growth(within time.Duration, all ...series) (by float64) {
	for _, s := range all {
		total, _ := f.sum(s)
		by += f.change(s.text, total, within)
	}
	return by
}

// test looks at figures, and returns what makes a condition true; nothing: it is false.
type test func(f *figures) []Statement

// yes is a statement about the node itself.
func yes(why string) []Statement { return []Statement{{Why: why}} }

// is is true while a gauge has a value.
func is(v float64, s series) test {
	return func(f *figures) []Statement {
		for _, m := range f.all(s) {
			if value(m) == v {
				return yes("")
			}
		}
		return nil
	}
}

// above is true while a gauge is above a limit.
func above(limit float64, s series, why string) test {
	return func(f *figures) []Statement {
		if v, known := f.sum(s); known && v > limit {
			return yes(strings.ReplaceAll(why, "N", number(v)))
		}
		return nil
	}
}

// older is true while a gauge of seconds is above a limit, and since the time that the
// gauge says.
func older(limit time.Duration, s series) test {
	return func(f *figures) []Statement {
		v, known := f.sum(s)
		if !known || v <= limit.Seconds() {
			return nil
		}
		return []Statement{{Since: f.now.Add(-time.Duration(v * float64(time.Second)))}}
	}
}

// grows is true while counters have grown within a time.
func grows(within time.Duration, all ...series) test { return growsBy(0, within, all...) }

// growsBy is true while counters have grown by more than a number within a time.
func growsBy(more float64, within time.Duration, all ...series) test {
	return func(f *figures) []Statement {
		if by := f.growth(within, all...); by > more {
			return yes(number(by) + " within " + short(within))
		}
		return nil
	}
}

// slow is true while more than one in a hundred observations of a histogram within a time
// are above a bound of it.
func slow(bound float64, within time.Duration, s series) test {
	return func(f *figures) []Statement {
		var count, fast float64
		for _, m := range f.all(s) {
			h := m.GetHistogram()
			count += float64(h.GetSampleCount())
			for _, b := range h.GetBucket() {
				if b.GetUpperBound() >= bound {
					fast += float64(b.GetCumulativeCount())
					break
				}
			}
		}
		count, fast = f.change("count", count, within), f.change("fast", fast, within)
		if count-fast > 0.01*count {
			return yes(fmt.Sprintf("%s of %s within %s", number(count-fast), number(count), short(within)))
		}
		return nil
	}
}

// share is true while a part of a sum of counters has grown by more than a share of the
// growth of the sum within a time.
func share(limit float64, within time.Duration, part, whole series) test {
	return func(f *figures) []Statement {
		some, all := f.growth(within, part), f.growth(within, whole)
		if some > limit*all {
			return yes(fmt.Sprintf("%s of %s within %s", number(some), number(all), short(within)))
		}
		return nil
	}
}

// lasting is true once another test has been true for a time.
func lasting(d time.Duration, t test) test {
	d = time.Duration(d.Minutes() * float64(failpoint.Limit("a minute of conditions lasts", time.Minute)))
	return func(f *figures) []Statement {
		found := t(f)
		if len(found) == 0 {
			delete(f.past.since, f.kind)
			return nil
		}
		since, known := f.past.since[f.kind]
		if !known {
			since = f.now
			f.past.since[f.kind] = since
		}
		if f.now.Sub(since) < d {
			return nil
		}
		found[0].Since = since
		return found
	}
}

// unless is true while the first test is true and the second is not.
func unless(t, not test) test {
	return func(f *figures) []Statement {
		found := t(f)
		if len(not(f)) > 0 {
			return nil
		}
		return found
	}
}

// both is true while both tests are true.
func both(a, b test) test {
	return func(f *figures) []Statement {
		found, other := a(f), b(f)
		if len(other) == 0 {
			return nil
		}
		return found
	}
}

// either is true while one of two tests is true.
func either(a, b test) test {
	return func(f *figures) []Statement {
		found, other := a(f), b(f)
		if len(found) == 0 {
			return other
		}
		return found
	}
}

// regions is true for each region with a supply of keys for which a test is true.
func regions(holds func(f *figures, region string, unissued float64) (why string, yes bool)) test {
	return func(f *figures) (found []Statement) {
		for _, m := range f.families["kgs_pool_size"] {
			for _, l := range m.GetLabel() {
				if l.GetName() != "region" {
					continue
				}
				if why, yes := holds(f, l.GetValue(), value(m)); yes {
					found = append(found, Statement{Of: l.GetValue(), Why: why})
				}
			}
		}
		return found
	}
}

// fewKeys is true for each region with fewer keys than a limit.
func fewKeys(limit float64) test {
	return regions(func(_ *figures, _ string, unissued float64) (string, bool) {
		return number(unissued) + " are left", unissued < limit
	})
}

// lastFor returns the minutes for which the keys of a region last; false when a prefix is
// free, which the region takes when it needs one.
func (f *figures) lastFor(region string) (minutes float64, alone bool) {
	minutes, known := f.sum(of("kgs_pool_exhaustion_minutes", "region", regexp.QuoteMeta(region)))
	free, _ := f.sum(of("kgs_free_prefixes"))
	return minutes, known && free <= 0
}

func number(v float64) string {
	if math.Trunc(v) == v {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// short writes a number of whole minutes.
func short(d time.Duration) string {
	if d < 2*time.Hour {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d h", d/time.Hour)
}

// Clocks differ from 5 seconds on, and are wrong from a minute on.
const (
	clockDiffers = 5 * time.Second
	clockWrong   = time.Minute
)

// Clock states that PostgreSQL's clock is ahead of a node's by more than a minute, or by
// 5 seconds to a minute. A negative number means that it is behind.
func Clock(ahead time.Duration, wrong bool) []Statement {
	if ahead.Abs() <= clockDiffers || wrong != (ahead.Abs() > clockWrong) {
		return nil
	}
	which := "ahead of"
	if ahead < 0 {
		which = "behind"
	}
	return []Statement{{Why: fmt.Sprintf("PostgreSQL's is %s %s it", ahead.Abs().Round(time.Second), which)}}
}
