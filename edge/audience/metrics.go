package audience

import "github.com/prometheus/client_golang/prometheus"

var (
	descBuilt = prometheus.NewDesc("waypost_geoip_build_time_seconds",
		"When the GeoIP database in use was built, in seconds since 1970; 0: there is none.", nil, nil)
	descFailures = prometheus.NewDesc("waypost_geoip_load_failures_total",
		"GeoIP files that could not be used; the previous one stays.", nil, nil)
	descErrors = prometheus.NewDesc("waypost_geoip_lookup_errors_total",
		"Addresses at which the GeoIP database is broken.", nil, nil)
)

// geoDBMetrics shows how the database is.
type geoDBMetrics struct{ p *GeoDB }

func (m geoDBMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- descBuilt
	ch <- descFailures
	ch <- descErrors
}

func (m geoDBMetrics) Collect(ch chan<- prometheus.Metric) {
	built := 0.0
	if db := m.p.current.Load(); db != nil {
		built = float64(db.reader.Metadata.BuildEpoch)
	}
	ch <- prometheus.MustNewConstMetric(descBuilt, prometheus.GaugeValue, built)
	ch <- prometheus.MustNewConstMetric(descFailures, prometheus.CounterValue, float64(m.p.failures.Load()))
	ch <- prometheus.MustNewConstMetric(descErrors, prometheus.CounterValue, float64(m.p.errors.Load()))
}
