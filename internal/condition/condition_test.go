package condition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/internal/condition"
)

// node has metrics that a test sets, and a clock.
type node struct {
	now    time.Time
	values map[string]float64 // by name, with labels as name{label="value"}
	slow   [2]uint64          // observations of a histogram: all, and up to half a second
	each   func()             // before each look; or nil

	registry *prometheus.Registry
	watch    *condition.Watch
}

func newNode(on condition.Role, says map[string]func() []condition.Statement) *node {
	n := &node{now: time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC), values: make(map[string]float64)}
	n.registry = prometheus.NewRegistry()
	n.watch = condition.New(condition.Config{Node: "n-1", On: on, Metrics: n.registry, Says: says, Now: func() time.Time { return n.now }})
	n.registry.MustRegister(n, n.watch)
	return n
}

// Describe describes nothing, because the metrics change.
func (n *node) Describe(chan<- *prometheus.Desc) {}

func (n *node) Collect(ch chan<- prometheus.Metric) {
	for series, v := range n.values {
		name, rest, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		labels := prometheus.Labels{}
		for pair := range strings.SplitSeq(rest, ",") {
			if label, text, ok := strings.Cut(pair, "="); ok {
				labels[label] = strings.Trim(text, `"`)
			}
		}
		kind := prometheus.GaugeValue
		if strings.HasSuffix(name, "_total") {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, "A test.", nil, labels), kind, v)
	}
	if n.slow[0] > 0 {
		desc := prometheus.NewDesc("waypost_redirect_duration_seconds", "A test.", nil, nil)
		ch <- prometheus.MustNewConstHistogram(desc, n.slow[0], 0, map[float64]uint64{0.1: 0, 0.5: n.slow[1]})
	}
}

// after looks every five seconds for a time, and returns the names of the conditions that
// are true then, with what they concern.
func (n *node) after(d time.Duration) (names []string) {
	for end := n.now.Add(d); ; n.now = n.now.Add(5 * time.Second) {
		if n.each != nil {
			n.each()
		}
		n.watch.Look()
		if !n.now.Before(end) {
			break
		}
	}
	all, _ := n.watch.Conditions()
	for _, c := range all {
		names = append(names, strings.TrimSuffix(c.Name+" "+c.Of, " "))
	}
	return names
}

func (n *node) find(t *testing.T, name string) condition.Condition {
	t.Helper()
	all, _ := n.watch.Conditions()
	i := slices.IndexFunc(all, func(c condition.Condition) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return all[i]
}

func TestWatch_FollowsTheFigures(t *testing.T) {
	const long = time.Hour
	for _, c := range []struct {
		name   string
		on     condition.Role
		values string // metrics with which it is false
		worse  string // further, or other ones, with which it is true after a time
		after  time.Duration
	}{
		{"EdgeStale", condition.Edge, "waypost_replica_age_seconds 10", "waypost_replica_age_seconds 11", 0},
		{"EdgeHeld", condition.Edge, "waypost_replica_held 0", "waypost_replica_held 1", 0},
		{"EdgeDegraded", condition.Edge, "waypost_replica_degraded 1; waypost_replica_disk_low 1", "waypost_replica_disk_low 0", 0},
		{"ReplicaDiskLow", condition.Edge, "waypost_replica_disk_low 0", "waypost_replica_disk_low 1", 0},
		{"DiskFills", condition.Control, "waypost_disk_free_bytes 6e9; waypost_disk_size_bytes 1e12", "waypost_disk_free_bytes 5e9", 0},
		{"EdgeVerifying", condition.Edge, "waypost_replica_verifying 1", "waypost_replica_verifying 1", 10 * time.Minute},
		{"LookupIncomplete", condition.Edge, "waypost_replica_lookup_complete 0", "waypost_replica_records 5", 15 * time.Minute},
		{"ReplicaDamaged", condition.Edge, "waypost_replica_verify_failures_total 0", "waypost_replica_quarantined_total 1", 59 * time.Minute},
		{"ConnectionsRefused", condition.Edge, `waypost_redirect_connections_refused_total{reason="tls_handshake"} 9`, "", 0},
		{"CertificateEnds", condition.Edge, "waypost_tls_certificate_not_after_seconds 2e9", "waypost_tls_certificate_not_after_seconds 1925500000", 0},
		{
			"CertificateEnds", condition.Edge, "waypost_tls_node_certificate_not_after_seconds 2e9",
			"waypost_tls_node_certificate_not_after_seconds 1925500000", 0,
		},
		{"ClicksWait", condition.Edge, "waypost_clicks_waiting_seconds 60", "waypost_clicks_waiting_seconds 61", 0},
		{"ClicksLost", condition.Edge, "waypost_clicks_dropped_total 0", "waypost_clicks_missed_total 1", 9 * time.Minute},
		{
			"CertificateOrdersFail", condition.Edge, `waypost_tls_certificate_orders_total{result="failed"} 2`,
			`waypost_tls_certificate_orders_total{result="failed"} 3`, 0,
		},
		{"GeoIPBroken", condition.Edge, "waypost_geoip_build_time_seconds 1924900000", "waypost_geoip_build_time_seconds 0", 0},
		{"GeoIPOld", condition.Edge, "waypost_geoip_build_time_seconds 1924900000", "waypost_geoip_build_time_seconds 1920000000", 0},
		{"PostgreSQLDown", condition.Control, "waypost_postgresql_up 1", "waypost_postgresql_up 0", 0},
		{"CleanupBehind", condition.Control, "waypost_cleanup_backlog 20000", "waypost_cleanup_backlog 20001", 12*time.Hour + time.Minute},
		{"DigestDiffers", condition.Control, "waypost_changelog_digest_differs 0", "waypost_changelog_digest_differs 1", 0},
		{"BudgetsFrozen", condition.Control, "waypost_budgets_frozen 0", "waypost_budgets_frozen 3", 0},
		{"KGSMintingHeld", condition.Control, "waypost_keys_held 0", "waypost_keys_held 1", 0},
		{"KGSNoFreePrefix", condition.Control, "kgs_free_prefixes 1", "kgs_free_prefixes 0", 0},
		{"KGSPoolLow eu", condition.Control, `kgs_pool_size{region="eu"} 1e6; kgs_pool_size{region="us"} 1e6`, `kgs_pool_size{region="eu"} 999999`, 0},
		{"KGSPoolCritical eu", condition.Control, `kgs_pool_size{region="eu"} 1e5`, `kgs_pool_size{region="eu"} 99999`, 0},
		{
			"KGSExhausted eu", condition.Control, `kgs_pool_size{region="eu"} 0; kgs_allocations_total{region="us",status="exhausted"} 7`,
			`kgs_allocations_total{region="eu",status="exhausted"} 1`, 0,
		},
		{
			"KGSExhaustionAhead eu", condition.Control,
			`kgs_pool_size{region="eu"} 9e6; kgs_free_prefixes 1; kgs_pool_exhaustion_minutes{region="eu"} 1000`, "kgs_free_prefixes 0", 0,
		},
		{
			"KGSPoolBelowTenth eu", condition.Control,
			`kgs_pool_size{region="eu"} 9e6; kgs_prefix_size 1e8; kgs_free_prefixes 0; kgs_pool_exhaustion_minutes{region="eu"} 50000`,
			`kgs_pool_exhaustion_minutes{region="eu"} 40000`, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(c.on, nil)
			n.set(t, c.values)
			require.NotContains(t, n.after(0), c.name)
			n.set(t, c.worse)
			if c.worse == "" {
				require.NotContains(t, n.after(long), c.name)
				return
			}
			require.Contains(t, n.after(c.after), c.name)
		})
	}
}

func (n *node) set(t *testing.T, text string) {
	t.Helper()
	for pair := range strings.SplitSeq(text, "; ") {
		if series, value, ok := strings.Cut(pair, " "); ok {
			var v float64
			_, err := fmt.Sscan(value, &v)
			require.NoError(t, err)
			n.values[series] = v
		}
	}
}

func TestWatch_ForgetsGrowthAfterItsTime(t *testing.T) {
	n := newNode(condition.Edge, nil)
	n.values["waypost_clicks_dropped_total"] = 5
	require.Contains(t, n.after(0), "ClicksLost", "a counter was 0 when the node started")
	require.Contains(t, n.find(t, "ClicksLost").What, "has lost clicks: 5 within 10 min")
	require.NotContains(t, n.after(11*time.Minute), "ClicksLost")
	n.values["waypost_clicks_dropped_total"] = 6
	require.Contains(t, n.after(0), "ClicksLost")
}

func TestWatch_FindsFailuresThatGoOn(t *testing.T) {
	for _, c := range []struct {
		name string
		on   condition.Role
		each func(n *node, bad bool) // what happens in five seconds
	}{
		{"EdgeErrors", condition.Edge, func(n *node, bad bool) {
			n.values[`waypost_redirects_total{status="302"}`] += 99
			if bad {
				n.values[`waypost_redirects_total{status="503"}`]++
			}
		}},
		{"APIErrors", condition.Control, func(n *node, bad bool) {
			n.values[`waypost_http_requests_total{status="200"}`] += 90
			if bad {
				n.values[`waypost_http_requests_total{status="500"}`]++
			}
		}},
		{"RedirectsSlow", condition.Edge, func(n *node, bad bool) {
			n.slow[0], n.slow[1] = n.slow[0]+90, n.slow[1]+90
			if bad {
				n.slow[1]--
			}
		}},
		{"ClickShippingFails", condition.Edge, func(n *node, bad bool) {
			if bad {
				n.values[`waypost_clicks_ship_failures_total{reason="refused"}`]++
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(c.on, nil)
			bad := true
			n.each = func() { c.each(n, bad) }
			require.NotContains(t, n.after(30*time.Second), c.name, "such as at a start")
			require.Contains(t, n.after(6*time.Minute), c.name)
			bad = false
			require.NotContains(t, n.after(2*time.Minute), c.name)
		})
	}
}

func TestWatch_KeepsSinceWhenAndSaysWhy(t *testing.T) {
	why := ""
	n := newNode(condition.Edge, map[string]func() []condition.Statement{
		"EdgeHeld":    func() []condition.Statement { return []condition.Statement{{Why: why}} },
		"EdgeDrained": func() []condition.Statement { return []condition.Statement{{}} },
		"EdgeStale":   nil,
	})
	n.values["waypost_replica_held"], n.values["waypost_replica_age_seconds"], why = 1, 75, "mass-delete, 5000 links"
	began := n.now
	require.Equal(t, []string{"EdgeStale", "EdgeHeld", "EdgeDrained"}, n.after(time.Minute))
	held := n.find(t, "EdgeHeld")
	require.Equal(t, began, held.Since)
	require.Equal(t, "holds back a change: mass-delete, 5000 links", held.What)
	require.Contains(t, held.Do, "`waypost edges accept n-1`")
	require.Equal(t, "docs/operations/alerts/EdgeHeld.md", held.Page)
	require.Equal(t, n.now.Add(-75*time.Second), n.find(t, "EdgeStale").Since)
	require.Equal(t, map[string]float64{"EdgeHeld critical": 1, "EdgeDegraded critical": 0, "EdgeVerifying warning": 0},
		n.metric(t, "EdgeHeld", "EdgeDegraded", "EdgeVerifying"))
	n.values["waypost_replica_held"] = 0
	require.NotContains(t, n.after(time.Second), "EdgeHeld")
	n.values["waypost_replica_held"] = 1
	n.after(0)
	require.Equal(t, n.now, n.find(t, "EdgeHeld").Since, "it is another time")
}

// metric returns the values of waypost_condition by name and severity.
func (n *node) metric(t *testing.T, names ...string) map[string]float64 {
	t.Helper()
	families, err := n.registry.Gather()
	require.NoError(t, err)
	found := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "waypost_condition" && slices.Contains(names, labels["name"]) {
				found[labels["name"]+" "+labels["severity"]] = m.GetGauge().GetValue()
			}
		}
	}
	return found
}

func TestClock_IsJudgedInBothDirections(t *testing.T) {
	for _, c := range []struct {
		ahead          time.Duration
		differs, wrong bool
	}{
		{4 * time.Second, false, false},
		{-6 * time.Second, true, false},
		{time.Hour, false, true},
		{-40 * 24 * time.Hour, false, true},
	} {
		require.Equal(t, c.differs, len(condition.Clock(c.ahead, false)) > 0, c.ahead)
		require.Equal(t, c.wrong, len(condition.Clock(c.ahead, true)) > 0, c.ahead)
	}
	require.Equal(t, "PostgreSQL's is 1h0m0s behind it", condition.Clock(-time.Hour, true)[0].Why)
}
