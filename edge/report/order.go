package report

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"waypost"
	"waypost/api"
)

// Limits in bytes: of the reason of a hold, of any text of an outcome, and of the control
// plane's answer.
const (
	maxWhy    = 512
	maxText   = 400
	maxAnswer = 1 << 20
)

// statusError is an answer that is no success.
type statusError struct {
	code   int
	status string
}

func (e *statusError) Error() string { return "the control plane answered " + e.status }

// lasting reports whether sending the same request again is of no use.
func (e *statusError) lasting() bool {
	return e.code/100 == 4 && e.code != http.StatusUnauthorized && e.code != http.StatusTooManyRequests
}

// order passes on the orders in an answer.
func (r *Reporter) order(answer *api.EdgeOrders) {
	r.differ = answer.Blocks
	for _, o := range answer.Orders {
		r.cfg.Order(o)
	}
}

// Answer sends the outcome of an order to the control plane. final reports that it need
// not be sent again.
func (r *Reporter) Answer(ctx context.Context, id int64, o api.EdgeOutcome) (final bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*r.cfg.Timeout)
	defer cancel()
	o.Error, o.Damage = plain(o.Error, maxText), plain(o.Damage, maxText)
	if x := o.Explained; x != nil {
		x.Location, x.Gate = plain(x.Location, waypost.MaxPayload), plain(x.Gate, maxText)
	}
	_, err = r.exchange(ctx, api.PathEdgeOutcomes, api.EdgeAnswer{Node: r.cfg.Node, Order: id, Outcome: o})
	if status, ok := err.(*statusError); ok { //nolint:errorlint // it is not wrapped
		return status.lasting(), fmt.Errorf("answer order %d: %w", id, err)
	}
	return err == nil, err
}

// plainConditions bounds conditions.
func plainConditions(all []api.NodeCondition) []api.NodeCondition {
	plainer := make([]api.NodeCondition, min(len(all), api.MaxConditions))
	for i := range plainer {
		plainer[i] = all[i]
		plainer[i].What, plainer[i].Do = plain(plainer[i].What, maxWhy), plain(plainer[i].Do, maxWhy)
	}
	return plainer
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
