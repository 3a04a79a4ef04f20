package fleet

import (
	"cmp"
	"slices"
	"time"

	"waypost"
	"waypost/internal/condition"
)

const (
	// SilentControl is the time without a heartbeat after which a control plane counts as
	// down. It is three heartbeats.
	SilentControl = 15 * time.Second

	// ForgetControl is the time without a heartbeat after which it is no longer shown.
	ForgetControl = 24 * time.Hour
)

// ControlReport is the report that a control plane sends with its heartbeats.
type ControlReport struct {
	Addr, AdminAddr string // HOST:PORT, as they listen
	Version         string
	Signing         uint32                // generation of its signing key
	Conditions      []condition.Condition // that are true
}

// ControlPlane is the last heartbeat of a control plane.
type ControlPlane struct {
	Node      string
	Region    waypost.Region
	StartedAt time.Time     // by PostgreSQL's clock; of this one by its own
	Silent    time.Duration // since the heartbeat
	Stopped   bool          // in order
	ControlReport
}

// ControlState is the presumed state of a control plane.
type ControlState string

// The states of control planes.
const (
	ControlAlive   ControlState = "alive"
	ControlSilent  ControlState = "silent"
	ControlStopped ControlState = "stopped"
	ControlUnknown ControlState = "unknown" // PostgreSQL was not asked for long
)

// ControlStatus describes a control plane in the fleet view.
type ControlStatus struct {
	ControlPlane
	State    ControlState
	LastSeen time.Time
	Answers  bool // it is this one
}

// HearControls stores the heartbeats of all control planes. Of several starts of one, the
// last counts.
func (f *Fleet) HearControls(all []ControlPlane) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.controls, f.controlsAt = make(map[string]ControlPlane, len(all)), f.cfg.Now()
	for _, c := range all {
		if known, there := f.controls[c.Node]; !there || c.StartedAt.After(known.StartedAt) {
			f.controls[c.Node] = c
		}
	}
}

// ControlPlanes returns all known control planes, by region and node. It does not block.
func (f *Fleet) ControlPlanes() []ControlStatus {
	own := f.cfg.Own()
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.cfg.Now()
	own.StartedAt = f.started
	all := []ControlStatus{{ControlPlane: own, State: ControlAlive, LastSeen: now, Answers: true}}
	for _, c := range f.controls {
		if c.Node == own.Node {
			continue
		}
		s := ControlStatus{ControlPlane: c, State: ControlAlive, LastSeen: f.controlsAt.Add(-c.Silent)}
		switch {
		case c.Stopped:
			s.State = ControlStopped
		case now.Sub(f.controlsAt) > SilentControl:
			s.State = ControlUnknown
		case c.Silent > SilentControl:
			s.State = ControlSilent
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b ControlStatus) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Node, b.Node))
	})
	return all
}
