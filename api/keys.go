package api

import "time"

// ReservedKey is a code that was reserved for a service outside of Waypost.
type ReservedKey struct {
	Key     string `json:"key" example:"r7Qx0aZ" doc:"A code that nothing else in this cluster will ever have."`
	Service string `json:"service" doc:"The service that holds it."`
}

// ReserveKeys asks for many keys.
type ReserveKeys struct {
	Count   int    `json:"count" minimum:"1" maximum:"10000" doc:"How many keys."`
	Service string `json:"service,omitzero" minLength:"1" maxLength:"100" doc:"The service that holds the keys: 1 to 100 printable ASCII characters. Default: the API key's name, or \"default\" where that is not a valid name."`
}

// ReservedKeys are codes that were reserved for a service.
type ReservedKeys struct {
	Keys    []string `json:"keys" doc:"As many as requested."`
	Service string   `json:"service" doc:"The service that holds them."`
}

// ReturnKeys returns keys that were never published.
type ReturnKeys struct {
	Keys    []string `json:"keys" minItems:"1" maxItems:"10000" maxLength:"32" doc:"Keys that were never published."`
	Service string   `json:"service,omitzero" minLength:"1" maxLength:"100" doc:"The service that holds the keys. Default: as for a reservation without one."`
}

// ReturnedKeys is the answer to [ReturnKeys].
type ReturnedKeys struct {
	Returned int          `json:"returned" minimum:"0" doc:"How many were taken back and will be issued again."`
	Refused  []RefusedKey `json:"refused" doc:"The others."`
}

// RefusedKey explains why a key was not taken back.
type RefusedKey struct {
	Key    string `json:"key"`
	Code   string `json:"code" example:"not-found" doc:"Last part of the problem type that this key alone would have got: not-found when the service does not hold it, conflict when a link has it, unavailable when the database failed before this key was reached."`
	Detail string `json:"detail"`
}

// KeyStats describes the supply of keys in a control plane's region.
type KeyStats struct {
	Region       string           `json:"region" doc:"Region of the control plane that answers."`
	PoolSize     int64            `json:"pool_size" minimum:"0" doc:"All counters that can still be leased from the region's live ranges."`
	Leased       int64            `json:"leased" minimum:"0" doc:"Further counters that this control plane has leased and not issued yet."`
	Rate         float64          `json:"rate_per_minute" minimum:"0" doc:"Keys issued in the region, over the last hour."`
	MinutesLeft  *float64         `json:"minutes_left" doc:"How long the pool lasts at that rate; null while no key is issued."`
	FreePrefixes int              `json:"free_prefixes" minimum:"0" doc:"Prefixes that no region has. A region that runs low takes one automatically."`
	Held         *string          `json:"held" doc:"Why no key is leased until an operator resumes; null while keys are leased."`
	Reserved     map[string]int64 `json:"reserved" doc:"How many keys the workspace's services hold, by service."`
}

// KeySpace describes all key ranges of the cluster.
type KeySpace struct {
	Ranges       []Range    `json:"ranges" doc:"By id, retired ones included."`
	Regions      []Supply   `json:"regions" doc:"Supply of each region."`
	Prefixes     int        `json:"prefixes" doc:"Number of prefixes."`
	FreePrefixes int        `json:"free_prefixes" doc:"Number of prefixes without any range so far."`
	PrefixSize   int64      `json:"prefix_size" doc:"Counters in a prefix."`
	Held         *string    `json:"held" doc:"Why no key is leased until an operator resumes; null while keys are leased."`
	HeldSince    *time.Time `json:"held_since" doc:"Null while keys are leased."`
	ResumeGap    int64      `json:"resume_gap" doc:"How many counters every prefix would skip when an operator resumes; 0 when the operator has to say."`
}

// Range is a key range.
type Range struct {
	RangeBounds

	Leases      []Lease  `json:"leases" doc:"Blocks that control planes issue from at present, by node."`
	Rate        float64  `json:"rate_per_minute" minimum:"0" doc:"Keys issued from it, over the last hour."`
	MinutesLeft *float64 `json:"minutes_left" doc:"How long it lasts at that rate; null while no key is issued from it."`
}

// RangeBounds is a range without its current use.
type RangeBounds struct {
	ID         int64     `json:"id"`
	Prefix     string    `json:"prefix" example:"4k" doc:"Common prefix of its codes."`
	Lo         int64     `json:"lo" minimum:"0" doc:"The first counter."`
	Hi         int64     `json:"hi" doc:"The counter after the last."`
	Next       int64     `json:"next" doc:"Counters below it have been leased."`
	Region     string    `json:"region"`
	State      string    `json:"state" enum:"live,draining,retired" doc:"Draining: leased counters are used up, and no more are leased. Retired: no key is ever issued from it again."`
	Generation int64     `json:"generation" doc:"Leases of an earlier generation are fenced."`
	Returned   int64     `json:"returned" minimum:"0" doc:"Counters below next that were returned and will be leased again."`
	CreatedAt  time.Time `json:"created_at"`
}

// Unissued counts the counters that can still be leased from the range.
func (r *RangeBounds) Unissued() int64 { return r.Hi - r.Next + r.Returned }

// Lease is a block of counters that a control plane holds.
type Lease struct {
	Node       string `json:"node"`
	Lo         int64  `json:"lo" minimum:"0"`
	Hi         int64  `json:"hi"`
	Generation int64  `json:"generation"`
}

// Supply is a region's share of the keys.
type Supply struct {
	Region      string   `json:"region"`
	Unissued    int64    `json:"unissued" minimum:"0" doc:"Counters that can still be leased from its live ranges."`
	Rate        float64  `json:"rate_per_minute" minimum:"0" doc:"Keys issued, over the last hour."`
	MinutesLeft *float64 `json:"minutes_left" doc:"How long they last at that rate; null while no key is issued."`
}

// RangeChange is a list of steps, which are done all or not at all.
type RangeChange struct {
	Steps       []RangeStep `json:"steps" minItems:"1" maxItems:"100" doc:"The steps, in order."`
	Fingerprint string      `json:"fingerprint,omitzero" maxLength:"256" doc:"Fingerprint of the plan with these steps: the change is refused when the ranges differ from those that it was made for."`
	DryRun      bool        `json:"dry_run,omitzero" doc:"Check and show everything, and keep nothing."`
}

// RangeStep is one act with its arguments. Its action determines which it takes.
type RangeStep struct {
	Action    string `json:"action" enum:"assign,split,move,drain,revive,retire,resume" doc:"assign: region gets an unused prefix. split: range keeps [lo, at), a new range of its region gets the rest. move: region gets range, or, with remainder, the part that is not leased, or, with at, its counters from there on, as a new range. drain: no more is leased from range. revive: a draining range is live again. retire: range ends. resume: keys are leased again after a restore, when no control plane remembers which were issued."`
	Range     int64  `json:"range,omitzero" minimum:"1" doc:"Id of the range; for all actions except assign and resume."`
	Region    string `json:"region,omitzero" minLength:"1" maxLength:"32" doc:"For assign and move."`
	Prefix    string `json:"prefix,omitzero" minLength:"1" maxLength:"3" doc:"For assign. Default: any free prefix."`
	At        int64  `json:"at,omitzero" minimum:"1" doc:"A counter; for split, where the default is the middle of the unissued part, and for move, to move a part only."`
	Remainder bool   `json:"remainder,omitzero" doc:"For move, instead of at: only the part that is not leased yet."`
	Force     bool   `json:"force,omitzero" doc:"For retire: also while leases are held, which are then void."`
	Gap       *int64 `json:"gap,omitzero" minimum:"0" doc:"For resume: how many counters every prefix skips. Default: the resume_gap of the ranges."`
}

// RangesChanged is the answer to a [RangeChange].
type RangesChanged struct {
	Done   []StepDone `json:"done" doc:"One for each step, in order."`
	DryRun bool       `json:"dry_run" doc:"True when nothing was kept."`
}

// StepDone is the outcome of a step.
type StepDone struct {
	Step   RangeStep `json:"step"`
	What   string    `json:"what" doc:"The outcome in words."`
	Fenced int       `json:"fenced" minimum:"0" doc:"Number of held leases that are now void."`
	Ranges []Range   `json:"ranges" doc:"The ranges that were touched, after the step."`
}

// RangePlan is a list of moves that equalises the regions. Sent back as a [RangeChange]
// it is carried out.
type RangePlan struct {
	MadeAt      time.Time   `json:"made_at"`
	Fingerprint string      `json:"fingerprint" doc:"Fingerprint of the ranges that the plan was made for: send it with the steps."`
	Steps       []RangeStep `json:"steps" doc:"The steps; empty when there is nothing to do."`
	Before      []Supply    `json:"before" doc:"Supply of each region now."`
	After       []Supply    `json:"after" doc:"Supply of each region after the steps."`
	Reason      string      `json:"reason" doc:"Why there is nothing to do, if so."`
}

// DecodedKey is a generated code, taken apart.
type DecodedKey struct {
	Code    string       `json:"code"`
	Prefix  string       `json:"prefix"`
	Counter int64        `json:"counter" minimum:"0"`
	State   string       `json:"state" enum:"issued,spent,burned,leased,unissued,unassigned" doc:"issued: a link or a reserved key has the code. spent: it was issued or lost, and is never issued again. burned: a custom code has taken it. leased: a node may issue it, or just has. unissued: it lies ahead in a range. unassigned: no range holds it."`
	Issued  bool         `json:"issued" doc:"Whether a link or a reserved key has the code."`
	Region  *string      `json:"region" doc:"Region of the range that holds the counter; null without one."`
	Range   *RangeBounds `json:"range" doc:"The range that holds the counter; null without one."`
	Lease   *Lease       `json:"lease" doc:"The block that the counter is or was leased in; null without one."`
}
