package node

import (
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"waypost/edge/proxy"
	"waypost/internal/listener"
)

// connections bounds the connections of the API, and keeps places for edges.
func (c *control) connections() net.Listener {
	shares := listener.NewShares(c.ln, listener.SharesConfig{
		Most: c.cfg.MaxConnections, PerAddress: c.cfg.MaxConnectionsPerAddress, Exempt: proxy.Trusted(c.cfg.TrustedProxies).Has,
	})
	c.registry.MustRegister(connectionCounts{shares})
	return shares
}

// proven keeps the connection of an edge, which the gate has admitted.
func proven(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		listener.ConnOf(r.Context()).Prove()
		w.Header().Del("Connection")
		next.ServeHTTP(w, r)
	})
}

// connectionCounts are the metrics of the API's connections.
type connectionCounts struct{ shares *listener.Shares }

var (
	connectionsOpen = prometheus.NewDesc("waypost_http_connections",
		"Open connections of the API: of edges, on trial because of a limit, and others.", []string{"of"}, nil)
	connectionsRefused = prometheus.NewDesc("waypost_http_connections_refused_total",
		"Connections above a limit that did not show an edge's credential in time.", nil, nil)
)

func (connectionCounts) Describe(out chan<- *prometheus.Desc) {
	out <- connectionsOpen
	out <- connectionsRefused
}

func (c connectionCounts) Collect(out chan<- prometheus.Metric) {
	general, trials, edges, refused := c.shares.Count()
	for of, n := range map[string]int{"others": general, "trial": trials, "edges": edges} {
		out <- prometheus.MustNewConstMetric(connectionsOpen, prometheus.GaugeValue, float64(n), of)
	}
	out <- prometheus.MustNewConstMetric(connectionsRefused, prometheus.CounterValue, float64(refused))
}
