package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// line is one line of the table: all times that one fault was struck.
type line struct {
	times                int
	reads, readsFailed   int
	writes, writesFailed int
	readGap, writeGap    time.Duration
	recovery             time.Duration
	violations           int
}

// Table lists the requests by fault: how many there were while the fault was there and
// until every part was right again, how many of them were not answered, the longest time
// in which an edge answered no visitor and in which no write was acknowledged, and the
// longest time from the end of the fault until every part was right again. A violation
// counts for each fault during which it shows.
func Table(h *History, found []Violation) string {
	var order []string
	lines := make(map[string]*line)
	byNode := make(map[string][]time.Duration) // answers to visitors, by edge
	var writes []time.Duration                 // answers to writes
	for _, op := range h.Operations {
		switch {
		case op.Outcome == Unknown, op.Saw == Later:
		case op.Kind == Visit:
			byNode[op.Node] = append(byNode[op.Node], op.Return)
		case op.Outcome == Done:
			writes = append(writes, op.Return)
		}
	}
	slices.Sort(writes)
	for _, answers := range byNode {
		slices.Sort(answers)
	}
	for _, f := range h.Faults {
		l := lines[f.Name]
		if l == nil {
			l = &line{}
			lines[f.Name] = l
			order = append(order, f.Name)
		}
		l.times++
		l.recovery = max(l.recovery, f.Whole-f.Healed)
		for _, answers := range byNode {
			l.readGap = max(l.readGap, gap(answers, f))
		}
		l.writeGap = max(l.writeGap, gap(writes, f))
		for _, op := range h.Operations {
			if op.Call > f.Whole || op.Return < f.Struck {
				continue
			}
			requests, failed := &l.writes, &l.writesFailed
			if op.Kind == Visit {
				requests, failed = &l.reads, &l.readsFailed
			}
			*requests++
			if op.Outcome == Unknown || op.Saw == Later {
				*failed++
			}
		}
		for _, v := range found {
			if f.during(v.At) {
				l.violations++
			}
		}
	}
	var b strings.Builder
	b.WriteString("| fault | times | redirects | failed | writes | failed | longest gap of redirects on an edge | of writes | recovery | verdict |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range order {
		l := lines[name]
		verdict := "holds"
		switch {
		case l.violations == 1:
			verdict = "1 violation"
		case l.violations > 1:
			verdict = fmt.Sprintf("%d violations", l.violations)
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %.1f s | %.1f s | %.1f s | %s |\n", name, l.times, l.reads, l.readsFailed, l.writes,
			l.writesFailed, l.readGap.Seconds(), l.writeGap.Seconds(), l.recovery.Seconds(), verdict)
	}
	return b.String()
}

// gap returns the longest time between two answers that overlaps the fault.
func gap(answers []time.Duration, f Fault) (longest time.Duration) {
	for i := 1; i < len(answers); i++ {
		if answers[i] >= f.Struck && answers[i-1] <= f.Whole {
			longest = max(longest, answers[i]-answers[i-1])
		}
	}
	return longest
}
