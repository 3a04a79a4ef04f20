package report

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// OutcomePath is where the control plane takes what came of orders.
const OutcomePath = "/fleet/v1/outcome"

// maxWhy bounds the reason of a hold, and maxText any text of an outcome, in bytes.
const (
	maxWhy  = 512
	maxText = 400
)

// Replica is what an edge's replica does.
type Replica struct {
	State string // following, waiting, restoring, repairing, held or degraded
	Held  string // what is held back: "" when nothing
	Why   string

	DiskLow bool // changes wait for room on the disk
}

// Order is what the control plane wants done. What is not known here is of a later version.
type Order struct {
	ID     int64  `json:"id"`
	What   string `json:"what"`   // "verify" or "accept"
	Repair bool   `json:"repair"` // of verify: what differs
	Hold   string `json:"hold"`   // of accept: which hold; "": any
}

// Outcome is what came of an order.
type Outcome struct {
	Error       string       `json:"error,omitempty"`
	Accepted    string       `json:"accepted,omitempty"`
	Slots       int          `json:"slots,omitempty"`
	Records     uint64       `json:"records,omitempty"`
	Different   int          `json:"different,omitempty"`
	Repaired    int          `json:"repaired,omitempty"`
	Epoch       uint32       `json:"epoch,omitempty"`
	Seq         uint64       `json:"seq,omitempty"`
	Seconds     float64      `json:"seconds,omitempty"`
	Differences []Difference `json:"differences,omitempty"` // at most 20
}

// Difference is a record that is not what the source has.
type Difference struct {
	Slot   uint16 `json:"slot"`
	Kind   uint8  `json:"kind"`
	Domain uint32 `json:"domain"`
	Name   string `json:"name"`
	What   string `json:"what"`
	Edge   string `json:"edge"`   // what visitors get
	Source string `json:"source"` // what they should get
}

// statusError is an answer that is no success.
type statusError struct {
	code   int
	status string
}

func (e *statusError) Error() string { return "the control plane answered " + e.status }

// Lasting reports whether sending the same again is of no use.
func (e *statusError) lasting() bool {
	return e.code/100 == 4 && e.code != http.StatusUnauthorized && e.code != http.StatusTooManyRequests
}

// order hands on what an answer asks for. One that cannot be read says nothing: a proxy's, or none.
func (r *Reporter) order(answer []byte) {
	var orders struct {
		Orders []Order `json:"orders"`
	}
	if len(answer) == 0 || json.Unmarshal(answer, &orders) != nil {
		return
	}
	for _, o := range orders.Orders {
		r.cfg.Order(o)
	}
}

// Answer tells the control plane what came of an order. final says that it knows, or does not want to.
func (r *Reporter) Answer(ctx context.Context, id int64, o Outcome) (final bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*r.cfg.Timeout)
	defer cancel()
	o.Error = plain(o.Error, maxText)
	for i := range o.Differences {
		d := &o.Differences[i]
		d.Name, d.Edge, d.Source = plain(d.Name, maxText), plain(d.Edge, maxText), plain(d.Source, maxText)
	}
	_, err = r.exchange(ctx, r.outcome, struct {
		Node  string `json:"node"`
		Order int64  `json:"order"`
		Outcome
	}{r.cfg.Node, id, o})
	if status, ok := err.(*statusError); ok { //nolint:errorlint // it is not wrapped
		return status.lasting(), fmt.Errorf("answer order %d: %w", id, err)
	}
	return err == nil, err
}

// plain makes text that an operator can be shown, of at most most bytes.
func plain(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	if len(text) > most {
		text = text[:most-3] + "..."
	}
	return text
}
