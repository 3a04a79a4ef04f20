package certs

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// meters counts orders and other events of certificates. No label holds a name.
type meters struct {
	orders  *prometheus.CounterVec
	unknown prometheus.Counter
	busy    prometheus.Counter
	refused *prometheus.CounterVec
}

func newMeters() *meters {
	m := &meters{
		orders: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_tls_certificate_orders_total",
			Help: "Certificates that the authority was asked for, renewals included, by result: obtained or failed.",
		}, []string{"result"}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waypost_tls_unknown_names_total", Help: "Handshakes that were refused because they named no domain that this edge knows.",
		}),
		busy: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waypost_tls_busy_total", Help: "Handshakes that were refused because too many certificates were being asked for.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_tls_orders_refused_total",
			Help: "Certificates that the authority was not asked for, by reason: elsewhere (the name leads to other addresses) or budget.",
		}, []string{"reason"}),
	}
	m.refused.WithLabelValues("elsewhere")
	m.refused.WithLabelValues("budget")
	m.orders.WithLabelValues("obtained")
	m.orders.WithLabelValues("failed")
	return m
}

// register registers the metrics, and when the certificate from files expires.
func (m *meters) register(r prometheus.Registerer, f *files) (err error) {
	all := []prometheus.Collector{m.orders, m.unknown, m.busy, m.refused}
	if f != nil {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waypost_tls_certificate_not_after_seconds", Help: "Unix time at which the certificate from files expires.",
		}, func() float64 { return float64(f.current().Leaf.NotAfter.Unix()) })) // no client may have come since the files changed
	}
	for _, one := range all {
		err = errors.Join(err, r.Register(one))
	}
	return err
}
