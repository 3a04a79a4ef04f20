package gossip

import (
	"log"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	refused prometheus.Counter
	joins   *prometheus.CounterVec
	faults  prometheus.Counter
}

// newMetrics makes metrics that are not registered yet.
func newMetrics() metrics {
	return metrics{
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waypost_gossip_refused_total",
			Help: "Cards, messages and states of other members that were not understood or for which there was no room.",
		}),
		joins: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_gossip_joins_total",
			Help: "Attempts to join through a seed.",
		}, []string{"result"}),
		faults: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waypost_gossip_faults_total",
			Help: "Faults that the gossip protocol met, such as packets that cannot be decrypted.",
		}),
	}
}

// register registers the metrics, and one of the members that are alive. A nil r takes
// none.
func (m *metrics) register(r prometheus.Registerer, alive func() int) {
	if r == nil {
		return
	}
	r.MustRegister(m.refused, m.joins, m.faults, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waypost_gossip_members",
		Help: "Members that gossip believes to be alive, without this node.",
	}, func() float64 { return float64(alive()) }))
}

// protocolLog returns the logger of memberlist. Messages of strangers must not fill the
// log, so its lines are counted by kind and shown only when debugging.
func protocolLog(to *slog.Logger, faults prometheus.Counter) *log.Logger {
	return log.New(protocolLines{to, faults}, "", 0)
}

type protocolLines struct {
	to     *slog.Logger
	faults prometheus.Counter
}

func (w protocolLines) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.HasPrefix(text, "[ERR]") || strings.HasPrefix(text, "[WARN]") {
		w.faults.Inc()
	}
	w.to.Debug("memberlist logged a line", "line", text)
	return len(line), nil
}
