package controlplane

import (
	"github.com/prometheus/client_golang/prometheus"

	"waypost"
)

type minterMetrics struct {
	allocations *prometheus.CounterVec
}

func newMinterMetrics(registerer prometheus.Registerer, region waypost.Region, m *Minter) *minterMetrics {
	labels := prometheus.Labels{"region": string(region)}
	generated := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "kgs_generated_total", Help: "Keys that this control plane has minted.", ConstLabels: labels,
	}, func() float64 { return float64(m.Minted()) })
	metrics := &minterMetrics{
		allocations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kgs_allocations_total", Help: "Attempts of this control plane to lease counters: ok, exhausted (none are left), unavailable (the database is away, or keys are held back) or error.", ConstLabels: labels,
		}, []string{"status"}),
	}
	for _, status := range []string{"ok", "exhausted", "unavailable", "error"} {
		metrics.allocations.WithLabelValues(status)
	}
	if registerer != nil {
		registerer.MustRegister(generated, metrics.allocations)
	}
	return metrics
}

func (m *minterMetrics) took(err error) {
	status := "error"
	switch {
	case err == nil:
		status = "ok"
	case waypost.CodeOf(err) == waypost.EExhausted:
		status = "exhausted"
	case waypost.CodeOf(err) == waypost.EUnavailable:
		status = "unavailable"
	}
	m.allocations.WithLabelValues(status).Inc()
}
