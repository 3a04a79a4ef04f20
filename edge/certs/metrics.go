package certs

import (
	"github.com/prometheus/client_golang/prometheus"
)

// meters counts orders and other events of certificates. No label holds a name.
type meters struct {
	orders  *prometheus.CounterVec
	unknown prometheus.Counter
	busy    prometheus.Counter
	refused *prometheus.CounterVec
	files   *files // nil: none
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

var expiryDesc = prometheus.NewDesc("waypost_tls_certificate_not_after_seconds",
	"Unix time at which the certificate from files expires.", nil, nil)

// Describe implements prometheus.Collector.
func (m *meters) Describe(ch chan<- *prometheus.Desc) {
	m.orders.Describe(ch)
	m.unknown.Describe(ch)
	m.busy.Describe(ch)
	m.refused.Describe(ch)
	ch <- expiryDesc
}

// Collect implements prometheus.Collector.
func (m *meters) Collect(ch chan<- prometheus.Metric) {
	m.orders.Collect(ch)
	m.unknown.Collect(ch)
	m.busy.Collect(ch)
	m.refused.Collect(ch)
	if m.files != nil { // no client may have come since the files changed
		ch <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(m.files.current().Leaf.NotAfter.Unix()))
	}
}
