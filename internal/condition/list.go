package condition

import (
	"fmt"
	"math"
	"regexp"
	"time"

	"waypost/internal/failpoint"
)

const (
	day = 24 * time.Hour

	// warnOfDisk is the free part of a disk below which it counts as filling, and
	// neverFills the free bytes above which no disk does.
	warnOfDisk = 0.1
	neverFills = 5 << 30

	fewKeysLeft, hardlyKeysLeft = 1_000_000, 100_000
)

// list has every condition. `go test ./internal/condition -update` writes the alerts and
// the table of their pages from it. What is a predicate to the name of the node.
var list = []Kind{
	// Nodes that are down, of which others know.
	{
		Name: "EdgeDown", Severity: Critical, On: 0, For: time.Minute,
		What: "cannot be reached",
		Do: "Take it out of DNS or the balancer if it does not answer visitors, and start it. Until then it may be serving, and waiting for all edges " +
			"ends with `reachable`. If it is gone for good: `waypost edges gone NODE`. If it has not reported since a failover or restore of PostgreSQL, " +
			"that ends the exact click budgets of all existing links for good.",
	},
	{
		Name: "ControlPlaneDown", Severity: Critical, On: 0, For: time.Minute,
		What: "cannot be reached",
		Do:   "Edges serve, follow another control plane if there is one, and keep their clicks. Start it.",
	},

	// The replica of an edge.
	{
		Name: "EdgeStale", Severity: Critical, On: Edge, For: time.Minute,
		What:  "has heard nothing new for 10 seconds; changes and takedowns do not reach it",
		Do:    "It serves all links as they were then. Look at the control plane first, then at the connection between the two.",
		holds: older(10*time.Second, of("waypost_replica_age_seconds")),
	},
	{
		Name: "EdgeHeld", Severity: Critical, On: Edge, For: time.Minute,
		What:  "holds back a change",
		Do:    "Find out who made it (`waypost audit`). Right: `waypost edges accept NODE`. Wrong: restore, and the edge loses nothing.",
		holds: is(1, of("waypost_replica_held")),
	},
	{
		Name: "EdgeDegraded", Severity: Critical, On: Edge, For: time.Minute,
		What:  "cannot write its replica, or has damaged records",
		Do:    "It serves the links that it can read, and takes no changes. Look at its disk and its log.",
		holds: unless(is(1, of("waypost_replica_degraded")), is(1, of("waypost_replica_disk_low"))),
	},
	{
		Name: "ReplicaDiskLow", Severity: Critical, On: Edge, For: time.Minute,
		What:  "has almost no room on its disk, so that changes of links wait",
		Do:    "It serves the links that it has, deleted ones included. Make room: the changes then come without further action.",
		holds: is(1, of("waypost_replica_disk_low")),
	},
	{
		Name: "DiskFills", Severity: Warning, On: Edge | Control, For: 5 * time.Minute,
		What:  "has less than a tenth of its disk, and less than 5 GiB, free",
		Do:    "Make room before it is full. On a full disk an edge takes no changes and loses clicks, and a control plane cannot keep which keys were issued.",
		holds: unless(diskFills, is(1, of("waypost_replica_disk_low"))),
	},
	{
		Name: "EdgeVerifying", Severity: Warning, On: Edge,
		What:  "has been adding up its records for ten minutes",
		Do:    "It takes about a second for a million links. A slow or failing disk takes longer.",
		holds: lasting(10*time.Minute, is(1, of("waypost_replica_verifying"))),
	},
	{
		Name: "EdgeWaitsForSnapshot", Severity: Warning, On: Edge,
		What:  "has waited for a snapshot for a quarter of an hour",
		Do:    "Its source is busy with snapshots for others.",
		holds: lasting(15*time.Minute, is(1, of("waypost_replica_waits"))),
	},
	{
		Name: "ReplicaDamaged", Severity: Warning, On: Edge,
		What:  "has had damaged or missing records on its disk",
		Do:    "It has set them aside and takes them again from its source. Look at its disk, and run `waypost verify --edge NODE`.",
		holds: grows(time.Hour, of("waypost_replica_verify_failures_total"), of("waypost_replica_quarantined_total")),
	},
	{
		Name: "MemoryFaulty", Severity: Critical, On: Edge,
		What:  "has memory that changes bits",
		Do:    "Records in memory no longer fitted their checksums, and were read from disk. Replace the machine: nothing else on it has such a check.",
		holds: grows(time.Hour, of("waypost_replica_lookup_damaged_total")),
	},
	{
		Name: "LookupIncomplete", Severity: Warning, On: Edge,
		What:  "has more links than fit into its lookup table",
		Do:    "Some are read from disk, which costs 3 to 25 microseconds each instead of less than one. Give it more memory.",
		holds: lasting(15*time.Minute, both(is(0, of("waypost_replica_lookup_complete")), above(0, of("waypost_replica_records"), ""))),
	},

	// Visitors.
	{
		Name: "EdgeErrors", Severity: Critical, On: Edge, For: time.Minute,
		What:  "answers visitors with 5xx, in each of the last minutes",
		Do:    "It has no replica yet, cannot read its disk, or cannot decide a link with a budget or damaged rules. Look into its log.",
		holds: lasting(time.Minute, grows(time.Minute, of("waypost_redirects_total", "status", "5.."))),
	},
	{
		Name: "RedirectsSlow", Severity: Critical, On: Edge, For: time.Minute,
		What:  "lets one in a hundred visitors wait for more than half a second",
		Do:    "The machine has too few processors, or links are read from a slow disk.",
		holds: lasting(4*time.Minute, slow(0.5, time.Minute, of("waypost_redirect_duration_seconds"))),
	},
	{
		Name: "RulesBroken", Severity: Critical, On: Edge,
		What:  "has links whose rules it cannot read",
		Do:    "Such a link leads to its own target, or answers 503 if it has a password or a budget. The edge is older than the control plane, or records are damaged.",
		holds: grows(10*time.Minute, of("waypost_redirect_broken_rules_total")),
	},
	{
		Name: "ConnectionsRefused", Severity: Warning, On: Edge,
		What:  "has refused connections of visitors for five minutes",
		Do:    "Its metric says why: the edge has as many as it takes, one address opens too many, or a trusted proxy sends no PROXY header.",
		holds: lasting(5*time.Minute, grows(5*time.Minute, of("waypost_redirect_connections_refused_total", "reason", "total|address|proxy_header"))),
	},
	{
		Name: "LinkPasswordsGuessed", Severity: Warning, On: Edge, For: 10 * time.Minute,
		What:  "gets many wrong passwords of links",
		Do:    "Guesses are limited by link and by address. Look at the addresses before the edge.",
		holds: growsBy(300, 10*time.Minute, of("waypost_redirect_passwords_total", "result", "wrong|limited|busy")),
	},

	// Certificates.
	{
		Name: "CertificateEnds", Severity: Critical, On: Edge | Control, For: 5 * time.Minute,
		What:  "has a certificate that ends within a week",
		Do:    "Renew it. Browsers and edges refuse it from that moment on.",
		holds: certificateEnds,
	},
	{
		Name: "CertificateWrong", Severity: Critical, On: Edge, For: 5 * time.Minute,
		What: "shows visitors of a domain a certificate for another name, or an expired one",
		Do:   "Put a certificate that has the name into tls.cert_file, let the edge order certificates, or terminate TLS of the domain before the edge.",
	},
	{
		Name: "CertificateOrdersFail", Severity: Warning, On: Edge,
		What:  "orders certificates that the authority refuses",
		Do:    "Its log has the reason. Names with a valid certificate keep it until it ends.",
		holds: growsBy(2, time.Hour, of("waypost_tls_certificate_orders_total", "result", "failed")),
	},
	{
		Name: "CertificateOrdersRefused", Severity: Warning, On: Edge,
		What:  "orders no certificates for some names",
		Do:    "Its metric says why: the names lead to other addresses, or there are more than tls.orders_per_hour.",
		holds: growsBy(10, time.Hour, of("waypost_tls_orders_refused_total")),
	},

	// Clocks.
	{
		Name: "ClockDiffers", Severity: Warning, On: Edge | Control, For: time.Minute,
		What: "has a clock that differs from PostgreSQL's by more than 5 seconds",
		Do:   "Run NTP on both machines. " + clocksBreak,
	},
	{
		Name: "ClockWrong", Severity: Critical, On: Edge | Control, For: time.Minute,
		What: "has a clock that differs from PostgreSQL's by more than a minute",
		Do:   "Set the clock that is wrong, and run NTP on both machines. " + clocksBreak,
	},

	// Reports and gossip.
	{
		Name: "ReportsFail", Severity: Warning, On: Edge, For: 5 * time.Minute,
		What:  "cannot report to a control plane",
		Do:    "`waypost edges` does not show it as it is, and `?wait=all` may not wait for it. Look at the connection between the two.",
		holds: growsBy(20, time.Minute, of("waypost_fleet_reports_total", "result", "failed")),
	},
	{
		Name: "GossipForeign", Severity: Warning, On: Edge | Control,
		What:  "has heard gossip that it cannot use for ten minutes",
		Do:    "A node has another gossip key or version, or a stranger sends packets.",
		holds: lasting(10*time.Minute, grows(5*time.Minute, of("waypost_gossip_refused_total"), of("waypost_gossip_faults_total"))),
	},
	{
		Name: "EdgeDrained", Severity: Warning, On: Edge, For: 6 * time.Hour,
		What: "is drained: balancers send visitors elsewhere",
		Do:   "`waypost edges drain NODE --undo` ends that.",
	},

	// Clicks.
	{
		Name: "ClicksWait", Severity: Warning, On: Edge, For: 2 * time.Minute,
		What:  "has clicks that have not been counted for more than a minute",
		Do:    "They are safe on its disk, and statistics lack them. Its log says why they are not taken.",
		holds: older(failpoint.Limit("clicks are late after", time.Minute), of("waypost_clicks_waiting_seconds")),
	},
	{
		Name: "ClicksLost", Severity: Critical, On: Edge,
		What:  "has lost clicks",
		Do:    "The disk or the journal is full, a file could not be read, or the journal could not be opened. Look into its log.",
		holds: grows(10*time.Minute, of("waypost_clicks_dropped_total"), of("waypost_clicks_lost_total"), of("waypost_clicks_missed_total")),
	},
	{
		Name: "ClicksSetAside", Severity: Warning, On: Edge,
		What: "has set clicks aside",
		Do: "Its metrics say why. dead: the control plane does not count a batch. quarantined: a file could not be read. " +
			"voided: a failover of PostgreSQL has lost batches that the edge no longer keeps.",
		holds: grows(time.Hour, of("waypost_clicks_dead_total"), of("waypost_clicks_quarantined_files_total"), of("waypost_clicks_voided_batches_total")),
	},
	{
		Name: "ClicksLoseDetail", Severity: Warning, On: Edge,
		What:  "drops detail of clicks to make room",
		Do:    "They have waited for so long that the journal was full. No click is lost by it. Find out why they wait.",
		holds: grows(time.Hour, of("waypost_clicks_coarsened_total")),
	},
	{
		Name: "ClickShippingFails", Severity: Warning, On: Edge, For: 4 * time.Minute,
		What:  "cannot deliver clicks",
		Do:    "They wait on its disk. Its log has the reason, and so has the log of the control plane.",
		holds: lasting(time.Minute, grows(time.Minute, of("waypost_clicks_ship_failures_total"))),
	},
	{
		Name: "JournalDiskFails", Severity: Critical, On: Edge,
		What:  "has a disk that fails under the click journal",
		Do:    "Reads, writes or syncs fail. Redirects go on. Look at its disk, and whether it is full.",
		holds: grows(10*time.Minute, of("waypost_clicks_disk_errors_total")),
	},
	{
		Name: "BudgetsFail", Severity: Warning, On: Edge,
		What:  "cannot get or write clicks of budgets",
		Do:    "Links with max_clicks of the mode exact answer 503 once the granted clicks are used up.",
		holds: grows(10*time.Minute, of("waypost_budget_failures_total")),
	},
	{
		Name: "GeoIPOld", Severity: Warning, On: Edge, For: time.Hour,
		What: "has a GeoIP database that is older than 40 days",
		Do:   "Countries and cities become wrong, in statistics and in rules. Download a new one.",
		holds: func(f *figures) []Statement {
			if built, known := f.sum(of("waypost_geoip_build_time_seconds")); known && built != 0 && f.now.Sub(time.Unix(int64(built), 0)) > 40*day {
				return yes("")
			}
			return nil
		},
	},
	{
		Name: "GeoIPBroken", Severity: Critical, On: Edge, For: 5 * time.Minute,
		What:  "cannot use its GeoIP database",
		Do:    "Every country is unknown, in statistics and in rules. Its log has the reason.",
		holds: is(0, of("waypost_geoip_build_time_seconds")),
	},

	// Control planes.
	{
		Name: "PostgreSQLDown", Severity: Critical, On: Control, For: time.Minute,
		What:  "does not reach PostgreSQL",
		Do:    "All edges serve, and keep their clicks. The API answers 503. Look at PostgreSQL: `pg_isready`, its log, its disk.",
		holds: is(0, of("waypost_postgresql_up")),
	},
	{
		Name: "PostgreSQLSettings", Severity: Warning, On: Control, For: time.Minute,
		What: "works with settings of PostgreSQL that do harm, or that a pooler drops",
		Do:   "It works until more fails. Change the settings, or make them for the login.",
	},
	{
		Name: "EdgeRevoked", Severity: Critical, On: Control, Cluster: true, For: time.Minute,
		What: "still answers visitors, and its credential was revoked",
		Do:   "Take it out of DNS, or let it in again with a token of `waypost edges enrol`.",
	},
	{
		Name: "EdgeTwins", Severity: Critical, On: Control, Cluster: true, For: time.Minute,
		What: "shares its name with other edges, so that no change counts as applied there",
		Do:   "Stop the copy, and enrol it under a name of its own: \"Two edges with one name\" in docs/operations/troubleshoot.md.",
	},
	{
		Name: "VersionsDiffer", Severity: Warning, On: Control, Cluster: true, For: 6 * time.Hour,
		What: "has nodes of several versions",
		Do:   "Complete the upgrade, control planes first: docs/operations/upgrade.md.",
	},
	{
		Name: "SigningKeysDiffer", Severity: Warning, On: Control, Cluster: true, For: 15 * time.Minute,
		What: "has control planes that sign changes with different keys, so that edges with the newer key follow only some of them",
		Do:   "Set the highest control.signing_generation on all control planes, and restart them: docs/operations/rotate-secrets.md.",
	},
	{
		Name: "APIErrors", Severity: Critical, On: Control, For: time.Minute,
		What: "fails more than 1 % of the requests to its API",
		Do:   "PostgreSQL is slow or away, no key is issued, or there is a fault in Waypost. Look into its log.",
		holds: lasting(time.Minute,
			share(0.01, time.Minute, of("waypost_http_requests_total", "status", "5.."), of("waypost_http_requests_total"))),
	},
	{
		Name: "APISlow", Severity: Warning, On: Control, For: time.Minute,
		What: "answers one in a hundred requests to its API after more than half a second",
		Do:   "PostgreSQL or its disk is slow, or the machine is too busy. Redirects are not concerned.",
		holds: lasting(4*time.Minute,
			slow(0.5, time.Minute, of("waypost_http_request_duration_seconds", "route", "/api/v1/live|/fleet/.*|.*/(bulk|export)").except())),
	},
	{
		Name: "ControlConnectionsRefused", Severity: Warning, On: Control,
		What:  "has refused connections to its API for five minutes",
		Do:    "All places of clients are taken, or one address opens too many. Edges have a share of their own.",
		holds: lasting(5*time.Minute, grows(5*time.Minute, of("waypost_http_connections_refused_total"))),
	},
	{
		Name: "CredentialsGuessed", Severity: Warning, On: Control, For: 5 * time.Minute,
		What:  "refuses many wrong keys or passwords",
		Do:    "Guesses are limited by address and by account. Look at the addresses before the API.",
		holds: growsBy(1500, 5*time.Minute, of("waypost_authentications_total", "outcome", "refused")),
	},
	{
		Name: "SnapshotsQueue", Severity: Warning, On: Control,
		What:  "has let edges wait for snapshots for half an hour",
		Do:    "Four are sent at a time.",
		holds: lasting(30*time.Minute, grows(15*time.Minute, of("waypost_replication_transfers_refused_total"))),
	},
	{
		Name: "StatisticsBehind", Severity: Warning, On: Control, Cluster: true, For: 5 * time.Minute,
		What:  "has clicks that have waited for more than a minute to be added to statistics",
		Do:    "They are counted and shown, but reading them becomes slow.",
		holds: older(time.Minute, of("waypost_click_parts_age_seconds")),
	},
	{
		Name: "ClickBatchesRefused", Severity: Warning, On: Control,
		What:  "has got click batches that it cannot count",
		Do:    "Its metric says why. dead-letter: another batch has the same identity, or it breaks a rule. void: an edge has lost it.",
		holds: grows(10*time.Minute, of("waypost_click_batches_total", "outcome", "dead-letter|void")),
	},
	{
		Name: "RollupsUnreadable", Severity: Critical, On: Control,
		What:  "has found rollups that it cannot read",
		Do:    "A page of PostgreSQL is damaged, or rows were changed by hand. They were set aside; the clicks stay counted.",
		holds: grows(time.Hour, of("waypost_click_set_aside_total")),
	},
	{
		Name: "BudgetsFrozen", Severity: Warning, On: Control, Cluster: true, For: 2 * time.Minute,
		What: "has frozen click budgets: edges get no further clicks of them",
		Do: "PostgreSQL may have forgotten grants, and an edge has not reported since. The log of the control planes names it. Start it, or say that it " +
			"is gone: `waypost edges gone` ends the budgets of all links that exist.",
		holds: above(0, of("waypost_budgets_frozen"), "N are frozen"),
	},
	{
		Name: "BudgetsClaimed", Severity: Warning, On: Control,
		What:  "ignores clicks of budgets that an edge claims and was never granted",
		Do:    "Its log names the edge. The credential of the edge may be in the wrong hands.",
		holds: grows(10*time.Minute, of("waypost_budget_excess_clicks_total")),
	},
	{
		Name: "CleanupBehind", Severity: Warning, On: Control, Cluster: true,
		What: "has expired links that wait for the cleanup, and they have not become fewer for six hours",
		Do:   "Visitors get 410 for each anyway. The tables grow.",
		holds: lasting(6*time.Hour, either(
			both(above(10_000, of("waypost_cleanup_backlog"), "N wait"), growsBy(-1, 6*time.Hour, of("waypost_cleanup_backlog"))),
			above(999_999, of("waypost_cleanup_backlog"), "N wait"))), // where the gauge stops
	},
	{
		Name: "DigestDiffers", Severity: Critical, On: Control, Cluster: true, For: time.Minute,
		What:  "has rows in PostgreSQL that do not add up to the digest of the changelog",
		Do:    "Edges serve and follow, but none can be repaired, and a new one gets no replica. Run `waypost verify --source`.",
		holds: is(1, of("waypost_changelog_digest_differs")),
	},

	// Keys.
	{
		Name: "KGSPoolLow", Severity: Warning, On: Control, Cluster: true, For: 5 * time.Minute,
		What: "has fewer than 1,000,000 keys",
		Do: "A region that runs low takes a free prefix, so there is none, or keys are held back. See `waypost ranges list`; " +
			"move a range to the region with `waypost ranges plan --out plan.json`, then `waypost ranges apply plan.json`.",
		holds: fewKeys(fewKeysLeft),
	},
	{
		Name: "KGSPoolCritical", Severity: Critical, On: Control, Cluster: true, For: time.Minute,
		What: "has fewer than 100,000 keys, and is about to run out",
		Do: "Creates without a custom code will answer 503. Give the region keys now: `waypost ranges assign --region REGION` if a prefix is free, " +
			"else `waypost ranges move ID --to REGION --remainder`.",
		holds: fewKeys(hardlyKeysLeft),
	},
	{
		Name: "KGSMintingHeld", Severity: Critical, On: Control, Cluster: true, For: time.Minute,
		What: "issues no key until an operator resumes",
		Do: "PostgreSQL was restored or failed over, and no control plane knows how many keys it has forgotten. Creates without a custom code answer " +
			"503. `waypost ranges list` says why, `waypost ranges resume --help` how to go on.",
		holds: is(1, of("waypost_keys_held")),
	},
	{
		Name: "KGSKeysUnremembered", Severity: Warning, On: Control, For: time.Minute,
		What: "has a disk that does not take which keys were issued",
		Do: "Creates and redirects go on, and a restart works. If PostgreSQL is restored or failed over now, new keys skip more counters, or are held. " +
			"Make room in control.data_dir.",
		holds: is(1, of("waypost_keys_unremembered")),
	},
	{
		Name: "KGSExhausted", Severity: Critical, On: Control, Cluster: true,
		What: "has no key left: creates answer 503",
		Do:   "Move a range to the region: `waypost ranges move ID --to REGION --remainder`. It takes effect at once.",
		holds: regions(func(f *figures, region string, _ float64) (string, bool) {
			return "", f.growth(5*time.Minute, of("kgs_allocations_total", "status", "exhausted", "region", regexp.QuoteMeta(region))) > 0
		}),
	},
	{
		Name: "KGSNoFreePrefix", Severity: Warning, On: Control, Cluster: true, For: 15 * time.Minute,
		What:  "has used every prefix, so that no region can take another",
		Do:    "Nothing fails yet. From now on, regions have to be balanced by hand when they run low: `waypost ranges plan`.",
		holds: is(0, of("kgs_free_prefixes")),
	},
	{
		Name: "KGSPoolBelowTenth", Severity: Warning, On: Control, Cluster: true, For: 5 * time.Minute,
		What: "has less than a tenth of a prefix, which lasts less than 30 days, and no prefix is free",
		Do:   "Move a range to the region: `waypost ranges plan`.",
		holds: regions(func(f *figures, region string, unissued float64) (string, bool) {
			size, _ := f.sum(of("kgs_prefix_size"))
			minutes, alone := f.lastFor(region)
			return number(unissued) + " are left", alone && unissued < size/10 && minutes < (30*day).Minutes()
		}),
	},
	{
		Name: "KGSExhaustionAhead", Severity: Critical, On: Control, Cluster: true, For: 5 * time.Minute,
		What: "runs out of keys within a day, and no prefix is free",
		Do:   "Move a range to the region: `waypost ranges plan --out plan.json`, then `waypost ranges apply plan.json`.",
		holds: regions(func(f *figures, region string, _ float64) (string, bool) {
			minutes, alone := f.lastFor(region)
			return fmt.Sprintf("they last %.0f minutes", minutes), alone && minutes < day.Minutes()
		}),
	},
}

// clocksBreak says what clocks that differ break.
const clocksBreak = "Until then links with a lifetime end too early or too late, rules and budgets of a time of day act at another, " +
	"clicks count for another hour or day, sessions last shorter or longer, and valid certificates are refused."

// diskFills is true while a disk has little room.
func diskFills(f *figures) []Statement {
	free, known := f.sum(of("waypost_disk_free_bytes"))
	size, _ := f.sum(of("waypost_disk_size_bytes"))
	if !known || free >= neverFills || free >= warnOfDisk*size {
		return nil
	}
	return yes(fmt.Sprintf("%d of %d MiB are free", int64(free)>>20, int64(size)>>20))
}

// certificateEnds is true in the last week of the certificate from files, or of the
// certificate that an edge shows to other nodes.
func certificateEnds(f *figures) []Statement {
	for i, metric := range []string{"waypost_tls_certificate_not_after_seconds", "waypost_tls_node_certificate_not_after_seconds"} {
		end, known := f.sum(of(metric))
		left := time.Duration(math.Round(end-float64(f.now.Unix()))) * time.Second
		why := "in " + short(left)
		if left < 0 {
			why = "it has ended"
		}
		if i > 0 {
			why = "for other nodes, " + why
		}
		if known && left < 7*day {
			return yes(why)
		}
	}
	return nil
}
