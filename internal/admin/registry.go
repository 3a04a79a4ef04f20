package admin

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry returns a registry with the metrics of every server process. Space measures
// the file system of the data directory.
func NewRegistry(version string, space func() (free, total int64, err error)) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(disk{space})
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "waypost_build_info", Help: "Always 1; the labels name the build.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// disk has the metrics of the file system of a data directory.
type disk struct {
	space func() (free, total int64, err error)
}

var (
	diskFree = prometheus.NewDesc("waypost_disk_free_bytes", "Free bytes of the file system of the data directory.", nil, nil)
	diskSize = prometheus.NewDesc("waypost_disk_size_bytes", "Size of the file system of the data directory.", nil, nil)
)

// Describe implements prometheus.Collector.
func (d disk) Describe(ch chan<- *prometheus.Desc) { ch <- diskFree; ch <- diskSize }

// Collect implements prometheus.Collector.
func (d disk) Collect(ch chan<- prometheus.Metric) {
	free, size, err := d.space()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(diskFree, err)
		return
	}
	ch <- prometheus.MustNewConstMetric(diskFree, prometheus.GaugeValue, float64(free))
	ch <- prometheus.MustNewConstMetric(diskSize, prometheus.GaugeValue, float64(size))
}
