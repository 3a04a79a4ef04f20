package node

import (
	"fmt"

	"waypost/api"
	"waypost/internal/condition"
)

// newConditions makes the watch over the conditions of this edge.
func (e *edge) newConditions() *condition.Watch {
	return condition.New(condition.Config{
		Node: e.store.node, On: condition.Edge, Metrics: e.registry,
		Says: map[string]func() []condition.Statement{
			"EdgeStale":        e.whyStale,
			"EdgeHeld":         e.whyHeld,
			"EdgeDegraded":     e.whyDegraded,
			"ReplicaDiskLow":   e.whyDegraded,
			"EdgeDrained":      e.isDrained,
			"ClockDiffers":     func() []condition.Statement { return condition.Clock(e.following.Status().Ahead, false) },
			"ClockWrong":       func() []condition.Statement { return condition.Clock(e.following.Status().Ahead, true) },
			"CertificateWrong": e.wrongCertificates,
		},
	})
}

func (e *edge) whyStale() []condition.Statement {
	switch st := e.following.Status(); {
	case st.Connected:
		return []condition.Statement{{Why: "it is connected, so its source hears nothing from PostgreSQL"}}
	case st.Err != nil:
		return []condition.Statement{{Why: "it is connected to nothing: " + st.Err.Error()}}
	}
	return nil
}

func (e *edge) whyHeld() []condition.Statement {
	if held := e.following.Status().Held; held != nil {
		return []condition.Statement{{Why: fmt.Sprintf("%s, %s", held.What, held.Why)}}
	}
	return nil
}

func (e *edge) whyDegraded() []condition.Statement {
	if err := e.store.Degraded(); err != nil {
		return []condition.Statement{{Why: err.Error()}}
	}
	return nil
}

func (e *edge) isDrained() []condition.Statement {
	if e.orders.unready() {
		return []condition.Statement{{}}
	}
	return nil
}

// wrongCertificates names the domains of customers for which this edge shows a
// certificate that browsers refuse.
func (e *edge) wrongCertificates() []condition.Statement {
	if e.listeners.certs == nil {
		return nil
	}
	wrong := e.listeners.certs.Wrong(e.store.CustomHosts())
	switch len(wrong) {
	case 0:
		return nil
	case 1:
		return []condition.Statement{{Why: wrong[0]}}
	}
	return []condition.Statement{{Why: fmt.Sprintf("%s; so it is for %d domains more", wrong[0], len(wrong)-1)}}
}

// shownConditions returns the conditions that are true as reports have them.
func shownConditions(w *condition.Watch) []api.NodeCondition {
	if w == nil {
		return nil
	}
	all, _ := w.Conditions()
	shown := make([]api.NodeCondition, len(all))
	for i := range all {
		shown[i] = api.NodeCondition(all[i])
	}
	return shown
}
