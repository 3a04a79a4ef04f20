package server

import (
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts answers without a lock, and without a cache line that all processors
// write: connections are spread over stripes with counters of their own, which the
// collector adds up.
type metrics struct {
	open    func() int64 // connections
	refused [len(refusals)]atomic.Uint64
	next    atomic.Uint64

	passwords [len(passwordResults)]atomic.Uint64
	durations prometheus.Histogram
	stripes   []stripe
}

// stripe holds the counters of some connections. The padding keeps two stripes off the
// pair of cache lines that processors fetch together.
type stripe struct {
	answers [len(countedStatuses)]atomic.Uint64
	errors  atomic.Uint64
	broken  atomic.Uint64 // compiled rules that cannot be read
	_       [128]byte
}

// countedStatuses are the only values of the label status.
var countedStatuses = [...]int{301, 302, 307, 308, 404, 410, 451, 500, 503, 400, 405, 408, 413, 414, 431, 200, 403, 303, 429}

// statusIndex maps a status to its index in countedStatuses.
var statusIndex = func() (index [600]uint8) {
	for i, status := range countedStatuses {
		index[status] = uint8(i)
	}
	return index
}()

// Why a connection was refused, or ended before its first request.
const (
	refusedTotal     = iota // too many in all
	refusedAddress          // too many of one address
	refusedHeader           // no PROXY header where one is required
	refusedHandshake        // no TLS handshake
)

// refusals are the values of the label reason.
var refusals = [...]string{
	refusedTotal:     "total",
	refusedAddress:   "address",
	refusedHeader:    "proxy_header",
	refusedHandshake: "tls_handshake",
}

// count counts one answer. Its status must be one of countedStatuses.
func (s *stripe) count(status int) { s.answers[statusIndex[status]].Add(1) }

func newMetrics() *metrics {
	const perProcessor = 4 // two busy connections seldom share a stripe
	return &metrics{durations: newDurations(), stripes: make([]stripe, perProcessor*runtime.GOMAXPROCS(0))}
}

// nextStripe returns the stripe of a new connection, in turn, and its number: 1 for the
// first since the start.
func (m *metrics) nextStripe() (s *stripe, number uint64) {
	number = m.next.Add(1)
	return &m.stripes[number%uint64(len(m.stripes))], number
}

var (
	answersDesc = prometheus.NewDesc("waypost_redirects_total",
		"Answers to requests for a code (200: previews), and refusals of requests that break the protocol, by HTTP status.", []string{"status"}, nil)
	errorsDesc = prometheus.NewDesc("waypost_redirect_errors_total",
		"Requests that failed because a link could not be read from the replica.", nil, nil)
	brokenDesc = prometheus.NewDesc("waypost_redirect_broken_rules_total",
		"Visits to links whose rules could not be read: they were led to the link's own target, or answered 503 if the link counts its visits.", nil, nil)
	refusedDesc = prometheus.NewDesc("waypost_redirect_connections_refused_total",
		"Connections that were closed before a request: too many in all (total), too many of one address (address), "+
			"no PROXY header from a trusted proxy (proxy_header), or no TLS handshake (tls_handshake).", []string{"reason"}, nil)
	openDesc = prometheus.NewDesc("waypost_redirect_connections",
		"Client connections that are open now.", nil, nil)
	passwordsDesc = prometheus.NewDesc("waypost_redirect_passwords_total",
		"Passwords that visitors gave for links: right, wrong, refused after too many wrong ones for the link (limited), or because "+
			"too many others were being checked (busy).", []string{"result"}, nil)
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- answersDesc
	m.durations.Describe(ch)
	ch <- errorsDesc
	ch <- brokenDesc
	ch <- openDesc
	ch <- refusedDesc
	ch <- passwordsDesc
}

// answers adds up the answers by the index of their status.
func (m *metrics) answers() (answers [len(countedStatuses)]uint64) {
	for i := range m.stripes {
		for j := range answers {
			answers[j] += m.stripes[i].answers[j].Load()
		}
	}
	return answers
}

// Answers returns the number of answers since the start, as the metric
// waypost_redirects_total counts them.
func (s *Server) Answers() uint64 {
	var all uint64
	for _, n := range s.metrics.answers() {
		all += n
	}
	return all
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	answers := m.answers()
	var failures, broken uint64
	for i := range m.stripes {
		failures += m.stripes[i].errors.Load()
		broken += m.stripes[i].broken.Load()
	}
	for j, status := range countedStatuses {
		ch <- prometheus.MustNewConstMetric(answersDesc, prometheus.CounterValue, float64(answers[j]), strconv.Itoa(status))
	}
	m.durations.Collect(ch)
	ch <- prometheus.MustNewConstMetric(errorsDesc, prometheus.CounterValue, float64(failures))
	ch <- prometheus.MustNewConstMetric(brokenDesc, prometheus.CounterValue, float64(broken))
	ch <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(m.open()))
	for i, reason := range refusals {
		ch <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(m.refused[i].Load()), reason)
	}
	for i, result := range passwordResults {
		ch <- prometheus.MustNewConstMetric(passwordsDesc, prometheus.CounterValue, float64(m.passwords[i].Load()), result)
	}
}
