// Package dashboards makes the dashboards for Grafana in its directory, from short lists
// of panels, if WAYPOST_WRITE_DASHBOARDS is set.
package dashboards

import (
	"encoding/json"
	"strings"
)

// dashboard is one page of Grafana. Its file is named by ID.
type dashboard struct {
	ID, Title, What string
	Instances       string // job whose instances can be chosen; "": no choice
	Panels          []panel
}

// panel is one chart.
type panel struct {
	Title, What, Unit string
	Queries           []query
}

// query is one expression of Prometheus, and the name of the lines that it returns.
type query struct{ Expr, Legend string }

// The units that Grafana knows.
const (
	perSecond = "ops"
	seconds   = "s"
	byteSize  = "bytes"
	share     = "percentunit"
	number    = "short"
)

const byInstance = "{{instance}}"

func one(title, what, unit, expr, legend string) panel {
	return panel{Title: title, What: what, Unit: unit, Queries: []query{{expr, legend}}}
}

// all returns the dashboards.
func all() []dashboard {
	return []dashboard{
		{
			ID: "waypost-fleet", Title: "Waypost: fleet", What: "All edges and control planes at a glance.",
			Panels: []panel{
				one("Redirects", "Answers of all edges, by status.", perSecond, `sum by (status) (rate(waypost_redirects_total[1m]))`, "{{status}}"),
				one("Redirects by edge", "", perSecond, `sum by (instance) (rate(waypost_redirects_total[1m]))`, byInstance),
				one("Reachable", "1: Prometheus reaches the process.", number, `up{job=~"waypost-.*"}`, "{{job}} "+byInstance),
				one("Age of replicas", "Time since an edge has heard of the head of the changelog.", seconds, `waypost_replica_age_seconds`, byInstance),
				one("Behind", "Transactions that an edge has heard of and not applied.", number, `waypost_replica_head_sequence - waypost_replica_sequence`, byInstance),
				one("Clicks that wait", "Age of the oldest batch that is not acknowledged.", seconds, `waypost_clicks_waiting_seconds`, byInstance),
				{Title: "In need of a look", What: "Edges that are held, degraded, short of disk, verifying or repairing.", Unit: number, Queries: []query{
					{`sum(waypost_replica_held)`, "held"},
					{`sum(waypost_replica_degraded)`, "degraded"},
					{`sum(waypost_replica_disk_low)`, "disk low"},
					{`sum(waypost_replica_verifying)`, "verifying"},
					{`sum(waypost_replica_repairing)`, "repairing"},
				}},
				one("Links", "Records of each replica, deleted links included.", number, `waypost_replica_records`, byInstance),
				one("Members of gossip", "Other nodes that a node knows.", number, `waypost_gossip_members`, byInstance),
				one("Versions", "", number, `sum by (version, job) (waypost_build_info)`, "{{job}} {{version}}"),
			},
		},
		{
			ID: "waypost-edge", Title: "Waypost: edge", What: "One edge.", Instances: "waypost-edge",
			Panels: []panel{
				one("Answers", "By status.", perSecond, `sum by (status) (rate(waypost_redirects_total{instance=~"$instance"}[1m]))`, "{{status}}"),
				one("CPU", "Processors that the process uses.", number, `rate(process_cpu_seconds_total{instance=~"$instance", job="waypost-edge"}[1m])`, byInstance),
				one("Time of a redirect, p99", "From when a request was read until it was answered.", seconds,
					`histogram_quantile(0.99, sum by (instance, le) (rate(waypost_redirect_duration_seconds_bucket{instance=~"$instance"}[5m])))`, byInstance),
				one("Connections", "", number, `waypost_redirect_connections{instance=~"$instance"}`, byInstance),
				one("Refused connections", "", perSecond, `sum by (reason) (rate(waypost_redirect_connections_refused_total{instance=~"$instance"}[1m]))`, "{{reason}}"),
				one("Errors", "Redirects that failed, and links whose rules cannot be read.", perSecond,
					`rate(waypost_redirect_errors_total{instance=~"$instance"}[1m]) + rate(waypost_redirect_broken_rules_total{instance=~"$instance"}[1m])`, byInstance),
				{Title: "Lookups", What: "Where the records of redirects come from.", Unit: perSecond, Queries: []query{
					{`sum(rate(waypost_replica_lookup_hits_total{instance=~"$instance"}[1m]))`, "memory"},
					{`sum(rate(waypost_replica_lookup_misses_total{instance=~"$instance"}[1m]))`, "no link"},
					{`sum(rate(waypost_replica_lookup_fallbacks_total{instance=~"$instance"}[1m]))`, "disk"},
				}},
				{Title: "Memory", Unit: byteSize, Queries: []query{
					{`process_resident_memory_bytes{instance=~"$instance", job="waypost-edge"}`, "resident"},
					{`waypost_replica_lookup_bytes{instance=~"$instance"}`, "lookup table"},
					{`go_memstats_heap_inuse_bytes{instance=~"$instance", job="waypost-edge"}`, "Go heap"},
				}},
				one("Applied records", "", perSecond, `rate(waypost_replica_applied_records_total{instance=~"$instance"}[1m])`, byInstance),
				one("Time to apply a batch, p99", "", seconds,
					`histogram_quantile(0.99, sum by (le) (rate(waypost_replica_apply_seconds_bucket{instance=~"$instance"}[5m])))`, "p99"),
				one("Writes to tables", "Flushes and compactions.", byteSize, `rate(waypost_replica_table_written_bytes_total{instance=~"$instance"}[1m])`, byInstance),
				{Title: "Damage", What: "Since the start: slots that were replaced, failed verifications, stores set aside.", Unit: number, Queries: []query{
					{`waypost_replica_repaired_slots_total{instance=~"$instance"}`, "repaired slots"},
					{`waypost_replica_verify_failures_total{instance=~"$instance"}`, "failed verifications"},
					{`waypost_replica_quarantined_total{instance=~"$instance"}`, "quarantined stores"},
				}},
				one("Certificates", "Time until each ends.", seconds, `waypost_tls_certificate_not_after_seconds{instance=~"$instance"} - time()`, byInstance),
			},
		},
		{
			ID: "waypost-control-plane", Title: "Waypost: control plane", What: "The API, the stream and PostgreSQL.", Instances: "waypost-control",
			Panels: []panel{
				one("Requests", "By status.", perSecond, `sum by (status) (rate(waypost_http_requests_total{instance=~"$instance"}[1m]))`, "{{status}}"),
				{Title: "Time of a request", Unit: seconds, Queries: []query{
					{`histogram_quantile(0.5, sum by (le) (rate(waypost_http_request_duration_seconds_bucket{instance=~"$instance"}[5m])))`, "p50"},
					{`histogram_quantile(0.99, sum by (le) (rate(waypost_http_request_duration_seconds_bucket{instance=~"$instance"}[5m])))`, "p99"},
				}},
				one("PostgreSQL answers", "1: yes.", number, `waypost_postgresql_up{instance=~"$instance"}`, byInstance),
				one("Rows differ from the digest", "1: see waypost verify --source.", number, `waypost_changelog_digest_differs{instance=~"$instance"}`, byInstance),
				one("Connections", "By whose they are.", number, `sum by (of) (waypost_http_connections{instance=~"$instance"})`, "{{of}}"),
				one("Judged credentials", "", perSecond, `sum by (credential, outcome) (rate(waypost_authentications_total{instance=~"$instance"}[1m]))`, "{{credential}} {{outcome}}"),
				one("Followers", "", number, `waypost_replication_followers{instance=~"$instance"}`, byInstance),
				one("Stream", "Bytes sent to followers.", byteSize, `rate(waypost_replication_sent_bytes_total{instance=~"$instance"}[1m])`, byInstance),
				one("Snapshots and sums under way", "", number, `sum by (of) (waypost_replication_transfers{instance=~"$instance"})`, "{{of}}"),
				one("Dropped followers", "Slow ones, and those whose connection ended.", perSecond, `rate(waypost_replication_followers_dropped_total{instance=~"$instance"}[5m])`, byInstance),
				one("Memory", "", byteSize, `process_resident_memory_bytes{instance=~"$instance", job="waypost-control"}`, byInstance),
				one("Expired links that wait", "For the cleanup; visitors get 410 for them.", number, `waypost_cleanup_backlog{instance=~"$instance"}`, byInstance),
			},
		},
		{
			ID: "waypost-clicks", Title: "Waypost: clicks", What: "The way of clicks from the edges into statistics.",
			Panels: []panel{
				one("Recorded", "Clicks in the journals of edges.", perSecond, `sum by (instance) (rate(waypost_clicks_recorded_total[1m]))`, byInstance),
				one("Shipped", "Clicks that a control plane has acknowledged.", perSecond, `sum by (instance) (rate(waypost_clicks_shipped_total[1m]))`, byInstance),
				one("Taken and added to statistics", "", perSecond, `sum(rate(waypost_clicks_ingested_total[1m]))`, "taken"),
				one("Waiting on edges", "", number, `waypost_clicks_waiting`, byInstance),
				one("Age of what waits on edges", "", seconds, `waypost_clicks_waiting_seconds`, byInstance),
				one("Age of what waits in PostgreSQL", "Counted, and not added to rollups yet.", seconds, `waypost_click_parts_age_seconds`, byInstance),
				one("Size of the journals", "", byteSize, `waypost_clicks_journal_bytes`, byInstance),
				{Title: "Lost or set aside", What: "Since the start.", Unit: number, Queries: []query{
					{`sum(waypost_clicks_dropped_total)`, "dropped"},
					{`sum(waypost_clicks_lost_total)`, "lost"},
					{`sum(waypost_clicks_missed_total)`, "missed"},
					{`sum(waypost_clicks_dead_total)`, "dead"},
					{`sum(waypost_clicks_voided_batches_total)`, "voided batches"},
				}},
				one("Batches", "By what became of them.", perSecond, `sum by (outcome) (rate(waypost_click_batches_total[1m]))`, "{{outcome}}"),
				one("Batches that could not be sent", "By reason.", perSecond, `sum by (reason) (rate(waypost_clicks_ship_failures_total[1m]))`, "{{reason}}"),
				one("Time to take a batch, p99", "", seconds, `histogram_quantile(0.99, sum by (le) (rate(waypost_click_batch_duration_seconds_bucket[5m])))`, "p99"),
			},
		},
		{
			ID: "waypost-key-ranges", Title: "Waypost: key ranges", What: "The supply of codes.",
			Panels: []panel{
				one("Keys left", "By region.", number, `max by (region) (kgs_pool_size)`, "{{region}}"),
				one("Lasts for", "At the rate of the last hour, in seconds.", seconds, `60 * max by (region) (kgs_pool_exhaustion_minutes)`, "{{region}}"),
				one("Minted", "", perSecond, `sum by (region) (rate(kgs_generated_total[5m]))`, "{{region}}"),
				one("Leases", "Attempts, by status.", perSecond, `sum by (region, status) (rate(kgs_allocations_total[5m]))`, "{{region}} {{status}}"),
				one("Free prefixes", "", number, `max(kgs_free_prefixes)`, "free"),
				one("Held", "1: no key is issued until an operator decides.", number, `max by (instance) (waypost_keys_held)`, byInstance),
			},
		},
	}
}

// file returns the file that Grafana imports.
func (d *dashboard) file() ([]byte, error) {
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${source}"}
	variables := []object{{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}}
	if d.Instances != "" {
		query := "label_values(up{job=\"" + d.Instances + "\"}, instance)"
		variables = append(variables, object{
			"name": "instance", "label": "Instance", "type": "query", "datasource": source, "query": query,
			"includeAll": true, "multi": true, "refresh": 2, "sort": 1,
		})
	}
	const width, height, columns = 8, 7, 3
	var panels []object
	for i, p := range d.Panels {
		var targets []object
		for n, q := range p.Queries {
			targets = append(targets, object{
				"refId": string(rune('A' + n)), "datasource": source, "expr": q.Expr, "legendFormat": q.Legend,
			})
		}
		unit := p.Unit
		if strings.Contains(p.Queries[0].Expr, "bytes_total") {
			unit = "Bps"
		}
		panels = append(panels, object{
			"id": i + 1, "type": "timeseries", "title": p.Title, "description": p.What, "datasource": source, "targets": targets,
			"gridPos":     object{"x": i % columns * width, "y": i / columns * height, "w": width, "h": height},
			"fieldConfig": object{"defaults": object{"unit": unit, "min": 0}, "overrides": []object{}},
		})
	}
	text, err := json.MarshalIndent(object{
		"uid": d.ID, "title": d.Title, "description": d.What, "tags": []string{"waypost"}, "schemaVersion": 39, "editable": true,
		"time": object{"from": "now-3h", "to": "now"}, "refresh": "30s", "templating": object{"list": variables}, "panels": panels,
	}, "", "  ")
	return append(text, '\n'), err
}
