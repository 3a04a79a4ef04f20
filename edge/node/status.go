package node

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost/api"
	"waypost/edge/replica"
	"waypost/replication"
)

// readiness is the answer of /readyz.
type readiness struct {
	Status       string    `json:"status"` // see statusOf
	Node         string    `json:"node"`
	Region       string    `json:"region"`
	Version      string    `json:"version"`
	Position     string    `json:"position,omitempty"`
	Sequence     uint64    `json:"sequence"`
	HeadSequence uint64    `json:"head_sequence"` // as last heard
	Lag          *uint64   `json:"lag"`           // transactions; null when unknown, while verifying, and instead of 0 beyond maxAge
	Connected    bool      `json:"connected"`
	Source       string    `json:"source"`               // base URL that is followed
	Via          []string  `json:"via,omitempty"`        // nodes that pass the changes on; left out: none
	OriginTime   time.Time `json:"origin_time,omitzero"` // of the head, by PostgreSQL's clock
	Restoring    bool      `json:"restoring"`
	WaitSeconds  float64   `json:"wait_seconds,omitempty"` // since the source refuses a snapshot or a repair because it is busy
	Repairing    bool      `json:"repairing"`              // slots are being replaced: there is no position meanwhile
	AgeSeconds   float64   `json:"age_seconds"`            // since the replica was last known to be at the head
	Snapshots    int       `json:"snapshots"`              // taken since the start
	Repairs      int       `json:"repairs"`                // completed since the start
	Repaired     uint64    `json:"repaired_slots"`         // by them
	Digest       string    `json:"digest,omitempty"`       // at the position; left out while the position moves
	LastError    string    `json:"last_error,omitempty"`
	Degraded     string    `json:"degraded,omitempty"` // reason why the replica takes no more changes
	Held         string    `json:"held,omitempty"`     // what waits for an operator to accept it
	HeldWhy      string    `json:"held_why,omitempty"`

	Conditions []api.NodeCondition `json:"conditions"` // that are true
}

// maxAge is the age up to which a replica may be said to lack nothing. An older replica
// has not heard which changes it lacks.
const maxAge = 5 * time.Second

// ready reports true while there is a replica, because a stale one still serves, and
// until this edge begins to stop, and unless an operator drains it.
func (e *edge) ready(context.Context) (any, bool) {
	st := e.following.Status()
	serves := e.store.holds()
	// The store's position, because the follower knows none before it connects.
	at := e.store.Position()
	detail := readiness{
		Status: "unready", Node: e.store.node, Region: string(e.cfg.Region), Version: e.cfg.Version,
		Sequence: at.Seq, HeadSequence: st.Head.Position.Seq,
		Connected: st.Connected, Restoring: st.Restoring, Snapshots: st.Snapshots,
		Repairing: st.Repairing || e.store.Repairing(), Repairs: st.Repairs, Repaired: st.Repaired,
		AgeSeconds: e.freshness.age().Seconds(),
	}
	detail.Source, detail.Via, detail.Conditions = e.sources.URL(), st.Via, shownConditions(e.conditions)
	if st.Head.At > 0 {
		detail.OriginTime = time.UnixMilli(st.Head.At).UTC()
	}
	if serves {
		detail.Status = e.statusOf()
	}
	if !e.store.reported().IsZero() {
		detail.Position = at.String()
	}
	if digest, still := e.store.digest(at); still {
		detail.Digest = fmt.Sprintf("%016x", digest)
	}
	if lag, known := st.Lag(); known && e.store.Verified() && (lag > 0 || detail.AgeSeconds <= maxAge.Seconds()) {
		detail.Lag = &lag
	}
	if err := e.store.Degraded(); err != nil {
		detail.Degraded = err.Error()
	}
	if w := st.Wait; w.Waits() {
		detail.WaitSeconds = time.Since(w.Since).Seconds()
	}
	if st.Held != nil {
		detail.Held, detail.HeldWhy = string(st.Held.What), st.Held.Why
	}
	if st.Err != nil {
		detail.LastError = st.Err.Error()
	}
	if !e.caughtUp() {
		detail.Status, serves = "starting", false
	}
	if e.orders.unready() {
		detail.Status, serves = "draining", false
	}
	if e.stopping.Load() {
		detail.Status, serves = "stopping", false
	}
	return detail, serves
}

// statusOf describes a replica that serves: "ready", however old it is; "verifying" after
// a start, until its records have been added up; "stale" while they are known to be wrong
// or missing, and no repair has begun. "unready" is an edge without a replica.
func (e *edge) statusOf() string {
	switch {
	case e.store.Verifying():
		return "verifying"
	case e.store.damaged():
		return "stale"
	}
	return "ready"
}

// followed returns the status of the follower. It knows nothing of the head while the
// replica is not verified.
func (e *edge) followed() replication.Status {
	st := e.following.Status()
	if !e.store.Verified() {
		st.HeardAt = time.Time{}
	}
	return st
}

// staleness returns the replica's age for visitors. A damaged replica is older than any
// limit, because it may hold any state of a link.
func (e *edge) staleness() time.Duration {
	age := e.freshness.age()
	if e.store.damaged() {
		age = max(age, e.cfg.Server.MaxStaleness+time.Second)
	}
	return age
}

// state returns the state of this edge for the fleet view.
func (e *edge) state() api.EdgeState {
	st := e.following.Status()
	degraded := e.store.Degraded()
	perSecond := e.requests.perSecond(time.Now())
	r := api.EdgeState{
		Replica: "following", Draining: e.orders.unready(), RequestsPerSecond: &perSecond, Conditions: shownConditions(e.conditions),
	}
	if built := e.clicks.placesBuilt(); !built.IsZero() {
		r.PlacesBuilt = new(built.UTC())
	}
	if free, total, err := replica.DiskSpace(e.cfg.DataDir); err == nil {
		used := total - free
		r.DiskUsedBytes, r.DiskFreeBytes = &used, &free
	}
	switch {
	case st.Held != nil:
		r.Replica, r.Held, r.HeldWhy = "held", string(st.Held.What), st.Held.Why
	case st.Wait.Waits() && !e.store.Repairing() && degraded == nil:
		r.Replica = "waiting"
	case st.Repairing || e.store.Repairing():
		r.Replica = "repairing"
	case st.Restoring:
		r.Replica = "restoring"
	case e.store.Verifying():
		r.Replica = "verifying"
	case degraded != nil:
		r.Replica, r.HeldWhy = "degraded", degraded.Error()
	case !st.Connected:
		r.Replica = "waiting"
		if st.Err != nil {
			r.HeldWhy = st.Err.Error()
		}
	}
	return r
}

func (e *edge) registerMetrics() {
	gauge := func(name, help string, value func() float64) {
		e.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("waypost_replica_sequence", "Sequence up to which the replica has the changelog.",
		func() float64 { return float64(e.store.Position().Seq) })
	gauge("waypost_replica_head_sequence", "Sequence of the origin's head, as last heard.",
		func() float64 { return float64(e.following.Status().Head.Position.Seq) })
	gauge("waypost_replica_age_seconds", "Time since the replica was last known to be at the head.",
		func() float64 { return e.freshness.age().Seconds() })
	flag := func(name, help string, is func(replication.Status) bool) {
		gauge(name, help, func() float64 {
			if is(e.following.Status()) {
				return 1
			}
			return 0
		})
	}
	flag("waypost_replica_held", "1 while the replica holds changes back until an operator accepts them.",
		func(st replication.Status) bool { return st.Held != nil })
	flag("waypost_replica_connected", "1 while the stream is connected.", func(st replication.Status) bool { return st.Connected })
	flag("waypost_replica_waits", "1 while the source is too busy for a snapshot or a repair.",
		func(st replication.Status) bool { return st.Wait.Waits() })
}
