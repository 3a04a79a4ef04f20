package fleet

import (
	"cmp"
	"slices"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// Edges returns all known edges, by region and node.
func (f *Fleet) Edges() []EdgeStatus {
	hints := f.cfg.Hints()
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.cfg.Now()
	byNode := make(map[string]FleetHint, len(hints))
	for _, h := range hints {
		if other, known := byNode[h.Node]; !known || h.supersedes(other) {
			byNode[h.Node] = h
		}
	}
	all := make([]EdgeStatus, 0, max(len(f.nodes), len(byNode)))
	shown, serving := f.byName(now), f.mayServe()
	for node, boots := range shown {
		h, hinted := byNode[node]
		delete(byNode, node)
		s := f.status(boots[0], h, hinted, now)
		for _, n := range boots[1:] {
			if f.isTwin(n.first, n.seen, boots[0].first, boots[0].seen) && now.Sub(n.seen) <= f.cfg.Silent {
				s.Twins = append(s.Twins, n.report.Addr)
			}
		}
		slices.Sort(s.Twins)
		all = append(all, s)
	}
	for _, h := range byNode {
		if now.Sub(h.LastHeard) <= f.cfg.Forget && len(all) < f.cfg.Max {
			all = append(all, f.hinted(h, now))
		}
	}
	for i := range f.noted {
		p := &f.noted[i]
		_, hinted := byNode[p.Node]
		if _, known := shown[p.Node]; !known && !hinted && len(all) < f.cfg.Max {
			if s, show := f.recorded(p, serving[p.Node], now); show {
				all = append(all, s)
			}
		}
	}
	for i := range all {
		all[i].MayServe = all[i].State == EdgeAlive || serving[all[i].Node]
	}
	slices.SortFunc(all, func(a, b EdgeStatus) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Node, b.Node))
	})
	return all
}

// byName returns the boots of each name that have reported here: first the boot that is
// shown, which is alive rather than silent, and younger than others. The caller holds
// f.mu.
func (f *Fleet) byName(now time.Time) map[string][]*fleetNode {
	all := make(map[string][]*fleetNode, len(f.nodes))
	for _, n := range f.nodes {
		all[n.report.Node] = append(all[n.report.Node], n)
	}
	alive := func(n *fleetNode) int {
		if n.report.Leaving || now.Sub(n.seen) > f.cfg.Silent {
			return 0
		}
		return 1
	}
	for _, boots := range all {
		slices.SortFunc(boots, func(a, b *fleetNode) int {
			return cmp.Or(alive(b)-alive(a), b.report.StartedAt.Compare(a.report.StartedAt), slices.Compare(a.report.Boot[:], b.report.Boot[:]))
		})
	}
	return all
}

// mayServe returns the edges that may be serving, by the last read of the store. The
// caller holds f.mu.
func (f *Fleet) mayServe() map[string]bool {
	all := make(map[string]bool, len(f.serving))
	for key := range f.serving {
		if n := f.nodes[key]; n == nil || !n.report.Leaving {
			all[key.node] = true
		}
	}
	return all
}

// Knows reports whether the fleet has an edge of a name that is not gone.
func (f *Fleet) Knows(node string) bool {
	return slices.ContainsFunc(f.Edges(), func(s EdgeStatus) bool { return s.Node == node && s.State != EdgeGone })
}

// Locates reports whether an edge may know the countries of visitors: it is false when
// every edge that is not gone has reported that it has no GeoIP database.
func (f *Fleet) Locates() bool {
	there := false
	for _, s := range f.Edges() {
		if s.State == EdgeGone {
			continue
		}
		if there = true; s.Via != ViaReport || s.PlacesBuilt != nil {
			return true
		}
	}
	return !there
}

// supersedes reports whether the fleet shows h instead of another boot of the node.
func (h FleetHint) supersedes(other FleetHint) bool {
	if h.Alive != other.Alive {
		return h.Alive
	}
	return h.StartedAt.After(other.StartedAt)
}

// status returns the status of an edge that has reported. Gossip counts only when the
// reports have ceased and gossip has heard of the edge since.
func (f *Fleet) status(n *fleetNode, h FleetHint, hinted bool, now time.Time) EdgeStatus {
	r := &n.report
	silent := now.Sub(n.seen) > f.cfg.Silent
	if hinted && silent && h.Alive && now.Sub(h.LastHeard) <= f.cfg.Silent {
		s := f.hinted(h, now)
		s.AdminAddr, s.Credential = r.AdminAddr, unlessZero(r.Credential)
		s.setClicks(r.ClicksPending, r.ClicksUntil)
		return s
	}
	s := seenEdge(r.EdgeState, n.since, n.seen, ViaReport)
	s.StartedAt, s.Credential, s.Blocks = unlessZero(r.StartedAt.UTC()), unlessZero(r.Credential), r.Blocks
	s.setClicks(r.ClicksPending, r.ClicksUntil)
	left := r.Leaving || hinted && h.Left && h.Boot == r.Boot
	switch {
	case left && (silent || r.Leaving), now.Sub(n.seen) > f.cfg.Gone:
		s.State, s.Since, s.Left = EdgeGone, s.LastSeen, left
	case silent:
		s.State, s.Since = EdgeSilent, s.LastSeen
	}
	age := time.Duration(r.AgeSeconds*float64(time.Second)) + now.Sub(n.seen)
	s.AgeSeconds = new(age.Seconds())
	f.setPosition(&s, r.Position, age, now)
	return s
}

// hinted returns the status of an edge by gossip alone.
func (f *Fleet) hinted(h FleetHint, now time.Time) EdgeStatus {
	s := seenEdge(api.EdgeState{
		Node: h.Node, Region: string(h.Region), Role: h.Role, Version: h.Version, Addr: h.Addr,
	}, h.Since, h.LastHeard, ViaGossip)
	s.StartedAt = unlessZero(h.StartedAt.UTC())
	unheard := now.Sub(h.LastHeard)
	switch {
	case h.Left || unheard > f.cfg.Gone:
		s.State, s.Since, s.Left = EdgeGone, s.LastSeen, h.Left
	case !h.Alive || unheard > f.cfg.Silent:
		s.State, s.Since = EdgeSilent, s.LastSeen
	}
	f.setPosition(&s, h.Position, 0, now)
	return s
}

// recorded returns the status of an edge by its stored progress, unless it may still
// report to another control plane.
func (f *Fleet) recorded(p *controlplane.EdgeProgress, serves bool, now time.Time) (s EdgeStatus, shown bool) {
	unheard := f.notedAt.Sub(p.At)
	if p.Region == "" || now.Sub(f.notedAt) > staleNote || f.elsewhere(p, now) || unheard > f.cfg.Forget && !serves {
		return EdgeStatus{}, false
	}
	s = seenEdge(api.EdgeState{Node: p.Node, Region: string(p.Region)}, p.At, p.At, ViaRecord)
	s.setClicks(p.Pending, p.Until)
	if s.State = EdgeSilent; p.Left || unheard > f.cfg.Gone {
		s.State, s.Left = EdgeGone, p.Left
	}
	return s, true
}

// seenEdge returns the status of an edge that is alive.
func seenEdge(e api.EdgeState, since, seen time.Time, via string) EdgeStatus {
	return EdgeStatus{Edge: api.Edge{
		EdgeState: e, State: EdgeAlive, Twins: []string{}, Since: since.UTC(), LastSeen: seen.UTC(), Via: via,
	}}
}

func (s *EdgeStatus) setClicks(pending int64, until time.Time) {
	if s.ClicksUntil = unlessZero(until.UTC()); pending >= 0 {
		s.ClicksPending = &pending
	}
}

// setPosition sets the position of an edge's replica, which was at the head before age,
// and its lag. The caller holds f.mu.
func (f *Fleet) setPosition(s *EdgeStatus, p waypost.Position, age time.Duration, now time.Time) {
	if !p.IsZero() {
		s.Position = &api.Sequence{Epoch: p.Epoch.Ordinal, Seq: p.Seq}
	}
	if changes, behind, known := f.heads.lag(p, now); known && (changes > 0 || age <= MaxAge) {
		s.LagChanges, s.LagSeconds = &changes, new(behind.Seconds())
	}
}

// unlessZero returns a value; nil for zero.
func unlessZero[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// elsewhere reports whether an edge may still report to another control plane, which
// stores it every few seconds.
func (f *Fleet) elsewhere(p *controlplane.EdgeProgress, now time.Time) bool {
	return now.Sub(f.notedAt) <= staleNote && f.notedAt.Sub(p.At) <= f.cfg.Silent+noteSlack
}
