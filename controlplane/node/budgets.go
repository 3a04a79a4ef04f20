package node

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// frozenBudgets is the metric of click budgets that wait for edges. While the database is
// out of reach it shows nothing.
type frozenBudgets struct {
	store interface {
		FrozenBudgets(ctx context.Context) (int64, error)
	}
}

// scrapeDeadline bounds the query of a scrape.
const scrapeDeadline = time.Second

var budgetsFrozen = prometheus.NewDesc("waypost_budgets_frozen",
	"Click budgets that grant nothing before edges have reported, up to 100,000; of the whole cluster.", nil, nil)

func (frozenBudgets) Describe(out chan<- *prometheus.Desc) { out <- budgetsFrozen }

func (f frozenBudgets) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeDeadline)
	defer cancel()
	if n, err := f.store.FrozenBudgets(ctx); err == nil {
		out <- prometheus.MustNewConstMetric(budgetsFrozen, prometheus.GaugeValue, float64(n))
	}
}
