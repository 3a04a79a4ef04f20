package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Kind names the action of a request.
type Kind string

// Kinds of requests.
const (
	Create  Kind = "create"
	Edit    Kind = "edit"
	Delete  Kind = "delete"
	Restore Kind = "restore"
	Block   Kind = "block"
	Claim   Kind = "claim" // of the code of a link that exists or existed
	Visit   Kind = "visit"
)

// Outcome says whether a request had an effect, as far as its client knows.
type Outcome string

// Outcomes.
const (
	Done    Outcome = "done"
	Refused Outcome = "refused" // it had no effect
	Unknown Outcome = "unknown" // it may have an effect at any later time, or none
)

// Answers that a visitor may see in place of a target.
const (
	Gone    = "gone"        // 410
	Absent  = "absent"      // 404
	Blocked = "blocked"     // 451
	Later   = "unavailable" // 503
)

// Operation is one request. Times are since the beginning of the history.
type Operation struct {
	Kind    Kind          `json:"kind"`
	Node    string        `json:"node"`            // that was asked
	Code    string        `json:"code"`            // "" when no answer named it
	Value   string        `json:"value,omitempty"` // target that a create or an edit asks for
	Call    time.Duration `json:"call"`
	Return  time.Duration `json:"return"`
	Outcome Outcome       `json:"outcome"`
	Saw     string        `json:"saw,omitempty"`     // target of the answer, or Gone, Absent, Blocked or Later
	Applied string        `json:"applied,omitempty"` // outcome of waiting for edges
	Detail  string        `json:"detail,omitempty"`  // status or error
}

// Incident is a time in which a node is away, or may have lost state.
type Incident struct {
	What  What          `json:"what"`
	Node  string        `json:"node,omitempty"`
	Begin time.Duration `json:"begin"`
	End   time.Duration `json:"end"` // when the node serves again
}

// What names the kind of an incident.
type What string

// Incidents.
const (
	Away     What = "away"     // visitors need not get an answer
	Crash    What = "crash"    // the process was killed, so that the last moments may be lost
	Wipe     What = "wipe"     // the disk was lost
	Failover What = "failover" // PostgreSQL may forget unacknowledged writes
)

// Fault is one entry of the schedule, as it was struck.
type Fault struct {
	Name   string        `json:"name"`
	On     string        `json:"on,omitempty"`
	Struck time.Duration `json:"struck"`
	Healed time.Duration `json:"healed"`
	Whole  time.Duration `json:"whole"`          // when every part was right again
	None   bool          `json:"none,omitempty"` // nothing is struck, so that there is something to compare with
}

// during reports whether a time lies within the fault and the recovery.
func (f Fault) during(at time.Duration) bool { return f.Struck <= at && at <= f.Whole }

// Row is a link of PostgreSQL at the end.
type Row struct {
	Target  string `json:"target"`
	Deleted bool   `json:"deleted,omitempty"`
	Blocked bool   `json:"blocked,omitempty"`
	Clicks  int64  `json:"clicks"`
}

// state returns the answer that visitors of the row see.
func (r Row) state() string {
	switch {
	case r.Blocked:
		return Blocked
	case r.Deleted:
		return Gone
	}
	return r.Target
}

// Final holds the state of all parts after every fault and the traffic had ended.
type Final struct {
	Rows    map[string]Row               `json:"rows"`    // by code
	Heads   map[string]string            `json:"heads"`   // position and digest, by node; PostgreSQL's under "postgresql"
	Answers map[string]map[string]string `json:"answers"` // answers to visitors, by node and code
	Wrong   []string                     `json:"wrong"`   // forbidden acts and output of processes
}

// Budget bounds how many visitors are led to a link's target.
type Budget struct {
	Target string `json:"target"`
	Most   int    `json:"most"`
}

// History is all that was recorded of one run.
type History struct {
	Seed       uint64            `json:"seed"`
	Edges      []string          `json:"edges"`
	Stable     map[string]string `json:"stable"`  // targets of links that are never changed, by code
	Budgets    map[string]Budget `json:"budgets"` // by code
	Operations []Operation       `json:"operations"`
	Incidents  []Incident        `json:"incidents"`
	Faults     []Fault           `json:"faults"`
	Final      Final             `json:"final"`
}

// Write writes the history as JSON, to be read by [Read].
func (h *History) Write(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(h); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return nil
}

// Read reads a history that Write has written.
func Read(r io.Reader) (*History, error) {
	h := &History{}
	if err := json.NewDecoder(r).Decode(h); err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	return h, nil
}
