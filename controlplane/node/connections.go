package node

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"waypost/edge/proxy"
	"waypost/internal/listener"
)

// boundConnections bounds the connections of both listeners. Shares of the API keep
// places for edges, if edges have no listener of their own (nil).
func (c *control) boundConnections() (api, fleet *listener.Shares) {
	api = listener.NewShares(c.ln, listener.SharesConfig{
		Most: c.cfg.MaxConnections, PerAddress: c.cfg.MaxConnectionsPerAddress, Exempt: proxy.Trusted(c.cfg.TrustedProxies).Has,
	})
	counts := connectionCounts{api}
	if c.fleetLn != nil {
		fleet = listener.NewShares(c.fleetLn, listener.SharesConfig{Most: c.cfg.MaxConnections, PerAddress: c.cfg.MaxConnections})
		counts = append(counts, fleet)
	}
	c.registry.MustRegister(counts)
	return api, fleet
}

// proven keeps the connection of an edge, which the gate has admitted.
func proven(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		listener.ConnOf(r.Context()).Prove()
		w.Header().Del("Connection")
		next.ServeHTTP(w, r)
	})
}

// connectionCounts are the metrics of the connections of the API and of edges.
type connectionCounts []*listener.Shares

var (
	connectionsOpen = prometheus.NewDesc("waypost_http_connections",
		"Open connections of the API and of edges: of edges, on trial because of a limit, and others.", []string{"of"}, nil)
	connectionsRefused = prometheus.NewDesc("waypost_http_connections_refused_total",
		"Connections above a limit that did not show an edge's credential in time.", nil, nil)
)

func (connectionCounts) Describe(out chan<- *prometheus.Desc) {
	out <- connectionsOpen
	out <- connectionsRefused
}

func (c connectionCounts) Collect(out chan<- prometheus.Metric) {
	open, refused := map[string]int{}, uint64(0)
	for _, shares := range c {
		others, trials, edges, refusedHere := shares.Count()
		open["others"] += others
		open["trial"] += trials
		open["edges"] += edges
		refused += refusedHere
	}
	for of, n := range open {
		out <- prometheus.MustNewConstMetric(connectionsOpen, prometheus.GaugeValue, float64(n), of)
	}
	out <- prometheus.MustNewConstMetric(connectionsRefused, prometheus.CounterValue, float64(refused))
}
