package alerts_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/dnstest"
	"waypost/test/devtest"
)

// fault is something that is wrong with a system, and the conditions that follow from it.
// The faults are made in their order, in one system.
type fault struct {
	what      string
	long      bool // only in make test-long
	root      bool // needs to mount disks, or to write into another process
	dark      bool // the API does not answer
	make      func(w *world)
	says      []said
	meanwhile func(w *world) // between looks; or nil
	heal      func(w *world) // nil: the fault stays
}

// said is a condition that follows from a fault.
type said struct {
	name  string
	where string // node, region or "cluster", as doctor names it
	by    string // node that evaluates it, if that is not where
	why   string // words of doctor about it
}

func (s *said) node() string {
	if s.by != "" {
		return s.by
	}
	return s.where
}

var faults = []fault{
	{
		what: "codes are short, a certificate ends, PostgreSQL does not sync",
		make: func(w *world) {
			standing := []string{"CertificateEnds", "KGSPoolLow", "PostgreSQLSettings"}
			require.Eventually(w.t, func() bool { return w.onlyFire(standing...) }, patience, 100*time.Millisecond, "nothing else fires")
		},
		says: []said{
			{name: "CertificateEnds", where: "eu-1"},
			{name: "KGSPoolLow", where: "eu-west-1", by: "one"},
			{name: "PostgreSQLSettings", where: "one"},
		},
	},
	{
		what: "an edge has hardly any disk, no GeoIP database, a wrong list of control planes, and clients instead of a proxy",
		make: func(w *world) {
			e := w.edge("eu-3", "FAILPOINT=bytes that stay free@1000000000000000", "WAYPOST_EDGE_GEOIP="+filepath.Join(w.t.TempDir(), "none.mmdb"),
				"WAYPOST_EDGE_PROXY_PROTOCOL=true", "WAYPOST_EDGE_TRUSTED_PROXIES=127.0.0.1/32",
				"WAYPOST_EDGE_CONTROL_URLS="+w.control.API+",http://127.0.0.1:1,http://127.0.0.1:2,http://127.0.0.1:3,http://127.0.0.1:4")
			_, _, err := get(w.t, "http://"+e.Addr+"/")
			require.Error(w.t, err)
		},
		says: []said{
			{name: "ReplicaDiskLow", where: "eu-3"},
			{name: "GeoIPBroken", where: "eu-3"},
			{name: "ConnectionsRefused", where: "eu-3"},
			{name: "ReportsFail", where: "eu-3"},
		},
	},
	{
		what: "an edge is drained, and a domain has no certificate",
		make: func(w *world) {
			w.run("edges", "drain", "eu-2")
			w.run("domains", "add", "go.acme.test")
			w.run("domains", "approve", "go.acme.test")
		},
		says: []said{
			{name: "EdgeDrained", where: "eu-2"},
			{name: "CertificateWrong", where: "eu-1", why: "the certificate shown for go.acme.test is for go.example.com"},
		},
	},
	{
		what: "another control plane has another signing key, and more clients than it takes",
		make: func(w *world) {
			w.disk = w.t.TempDir()
			if devtest.Long() && os.Geteuid() == 0 {
				w.disk = w.mount("64m")
			}
			w.two = w.controlIn(filepath.Join(w.disk, "two"), "two", "us-east-1", "WAYPOST_CONTROL_SIGNING_GENERATION=2",
				"WAYPOST_CONTROL_TRUSTED_PROXIES=127.0.0.2/32", "FAILPOINT=connections of the API of an address@8")
			var open []net.Conn
			for range 20 {
				c, err := net.Dial("tcp", strings.TrimPrefix(w.two.API, "http://"))
				require.NoError(w.t, err)
				open = append(open, c)
			}
			w.stop = func() {
				for _, c := range open {
					_ = c.Close() // it may have been refused
				}
			}
		},
		says: []said{
			{name: "SigningKeysDiffer", where: "cluster", by: "one", why: "generation 1 (one); generation 2 (two)"},
			{name: "ControlConnectionsRefused", where: "two"},
		},
	},
	{
		what: "the disk of a control plane fills", long: true, root: true,
		make: func(w *world) { w.fill(4 << 20) },
		says: []said{{name: "DiskFills", where: "two"}},
	},
	{
		what: "the disk of a control plane is full", long: true, root: true,
		make:      func(w *world) { w.fill(0) },
		meanwhile: func(w *world) { w.post(w.two.API+"/api/v1/urls", `{"original_url": "https://example.com/"}`) },
		says:      []said{{name: "KGSKeysUnremembered", where: "two"}},
	},
	{
		what: "keys are guessed from many addresses", long: true,
		make: func(w *world) {
			local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)} // whose X-Forwarded-For counts
			client := http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: local}).DialContext}}
			for i := range 1600 {
				req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.two.API+"/api/v1/urls", http.NoBody)
				require.NoError(w.t, err)
				req.Header.Set("Authorization", fmt.Sprintf("Bearer wp_live_%04d%028d", i, i))
				req.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.%d.1", i/10))
				res, err := client.Do(req)
				require.NoError(w.t, err)
				require.NoError(w.t, res.Body.Close())
				require.Equal(w.t, http.StatusUnauthorized, res.StatusCode)
			}
			client.CloseIdleConnections()
		},
		says: []said{{name: "CredentialsGuessed", where: "two"}},
	},
	{
		what: "an edge is of another version", long: true,
		make: func(w *world) { w.stop = w.otherVersion("eu-9") },
		says: []said{{name: "VersionsDiffer", where: "cluster", by: "one", why: "9.9.9 (eu-9)"}},
	},
	{
		what: "an edge and a control plane are killed",
		make: func(w *world) {
			w.kill("eu-3", w.edges["eu-3"])
			w.kill("two", w.two)
		},
		says: []said{{name: "EdgeDown", where: "eu-3"}, {name: "ControlPlaneDown", where: "two"}},
	},
	{
		what: "keys run out, and are held back after that",
		make: func(w *world) {
			w.exec(`INSERT INTO key_range (prefix, lo, hi, next, region, state)
				SELECT p, 0, key_prefix_size(), 0, 'eu-west-1', 'retired' FROM generate_series(0, 62 * 62 - 1) p
				WHERE p NOT IN (SELECT prefix FROM key_range)`)
			w.exec(`UPDATE key_range SET next = hi WHERE state = 'live'`)
			require.Eventually(w.t, func() bool {
				status, _ := w.post(w.control.API+"/api/v1/urls", `{"original_url": "https://example.com/"}`)
				return status == http.StatusServiceUnavailable
			}, patience, time.Millisecond)
			w.exec(`UPDATE key_state SET held = 'a test', held_since = now()`)
		},
		says: []said{
			{name: "KGSPoolCritical", where: "eu-west-1", by: "one"},
			{name: "KGSNoFreePrefix", where: "cluster", by: "one"},
			{name: "KGSPoolBelowTenth", where: "eu-west-1", by: "one"},
			{name: "KGSExhaustionAhead", where: "eu-west-1", by: "one"},
			{name: "KGSExhausted", where: "eu-west-1", by: "one"},
			{name: "KGSMintingHeld", where: "cluster", by: "one"},
		},
	},
	{
		what: "clicks cannot be counted",
		make: func(w *world) {
			w.create("first", "")
			w.metricsExist()
			w.exec(`ALTER TABLE click_watermark RENAME TO hidden`)
			for range 5000 {
				w.get("http://" + w.edges["eu-2"].Addr + "/first")
			}
		},
		says: []said{
			{name: "ClicksWait", where: "eu-2"},
			{name: "ClickShippingFails", where: "eu-2"},
			{name: "ClicksLoseDetail", where: "eu-2"},
		},
		heal: func(w *world) { w.exec(`ALTER TABLE hidden RENAME TO click_watermark`) },
	},
	{
		what: "batches of clicks have other contents than PostgreSQL remembers, and a day of clicks is damaged",
		make: func(w *world) {
			w.exec(`UPDATE click_watermark SET seq = seq + 1, hash = sha256('other')`)
		},
		meanwhile: func(w *world) {
			w.exec(`UPDATE click_day SET breakdown = '\xff'`)
			w.get("http://" + w.edges["eu-1"].Addr + "/first")
			w.get("http://" + w.edges["eu-2"].Addr + "/first")
		},
		says: []said{
			{name: "ClickBatchesRefused", where: "one"},
			{name: "ClicksSetAside", where: "eu-2"},
			{name: "RollupsUnreadable", where: "one"},
		},
	},
	{
		what: "clicks cannot be added to statistics", long: true,
		make: func(w *world) {
			w.stop = w.locked("click_day")
			require.Eventually(w.t, func() bool {
				w.get("http://" + w.edges["eu-1"].Addr + "/first")
				return w.changed(`UPDATE click_pack SET received_at = now() - interval '2 minutes'`) > 0
			}, patience, 20*time.Millisecond)
		},
		says: []said{{name: "StatisticsBehind", where: "cluster", by: "one"}},
	},
	{
		what: "a stolen token claims clicks of a budget, and an edge that PostgreSQL awaits does not report",
		make: func(w *world) {
			w.create("sold", `, "max_clicks": 1000, "max_clicks_mode": "exact"`)
			status, answer := w.post(w.control.API+"/fleet/v1/budgets", `{"node": "eu-thief", "epoch": 1, "accounts": [
				{"domain": 1, "code": "sold", "id": "00000000000000000000000000000001", "granted": 9, "returned": 0, "spent": 9, "want": 0}]}`)
			require.Equal(w.t, http.StatusOK, status, answer)
			w.exec(`INSERT INTO budget_awaited (node) VALUES ('eu-lost')`)
		},
		says: []said{{name: "BudgetsClaimed", where: "one"}, {name: "BudgetsFrozen", where: "cluster", by: "one"}},
		heal: func(w *world) { w.exec(`DELETE FROM budget_awaited`) },
	},
	{
		what: "the password of a link is guessed, and links have rules of a later version",
		make: func(w *world) {
			w.create("secret", `, "password": "open sesame"`)
			// Byte 1 of a programme holds its gates. With a password or a budget the answer
			// is 503.
			w.exec(`INSERT INTO link (workspace_id, domain_id, code, original_url, rules, programme)
				VALUES (1, 1, 'later', 'https://example.com/', '{"later": true}', '\x63ff000000000000')`)
			for range 301 {
				status, _ := w.post("http://"+w.edges["eu-1"].Addr+"/secret", "password=guess")
				require.Less(w.t, status, 500)
			}
		},
		meanwhile: func(w *world) { w.get("http://" + w.edges["eu-2"].Addr + "/later") },
		says: []said{
			{name: "LinkPasswordsGuessed", where: "eu-1"},
			{name: "RulesBroken", where: "eu-2"},
			{name: "EdgeErrors", where: "eu-2"},
		},
	},
	{
		what: "tables of PostgreSQL are locked", long: true,
		make: func(w *world) {
			w.get("http://" + w.edges["eu-1"].Addr + "/sold") // its patience is known from now on
			w.stop = w.locked("link, budget_account")
		},
		meanwhile: func(w *world) {
			w.atOnce(32, func() { w.get("http://" + w.edges["eu-1"].Addr + "/sold") })
			w.atOnce(8, func() { w.get(w.control.API + "/api/v1/urls/first") })
		},
		says: []said{
			{name: "APIErrors", where: "one"},
			{name: "APISlow", where: "one"},
			{name: "BudgetsFail", where: "eu-1"},
			{name: "RedirectsSlow", where: "eu-1"},
		},
	},
	{
		what: "very many links are deleted at once", long: true,
		make: func(w *world) {
			w.exec(`INSERT INTO link (workspace_id, domain_id, code, original_url)
				SELECT 1, 1, 'mass' || n, 'https://example.com/' FROM generate_series(1, 1500) n`)
			last := "http://" + w.edges["eu-1"].Addr + "/mass1500"
			require.Eventually(w.t, func() bool { return w.get(last) == http.StatusFound }, patience, 20*time.Millisecond)
			w.exec(`UPDATE link SET deleted_at = now() WHERE code LIKE 'mass%'`)
		},
		says: []said{{name: "EdgeHeld", where: "eu-1"}},
		heal: func(w *world) {
			for _, node := range []string{"eu-1", "eu-2"} {
				require.Eventually(w.t, func() bool {
					return w.succeeds("edges", "accept", node, "--yes") && w.get("http://"+w.edges[node].Addr+"/mass1") == http.StatusGone
				}, patience, 500*time.Millisecond)
			}
		},
	},
	{
		what: "an edge is a copy of another", long: true,
		make: func(w *world) {
			other := w.edges["eu-2"]
			e := w.edge("eu-2")
			w.stop = func() { e.Kill(); w.edges["eu-2"] = other; w.scrape("waypost-edge", "eu-2", other.Admin) }
		},
		says: []said{{name: "EdgeTwins", where: "eu-2", by: "one"}},
	},
	{
		what: "the disk of an edge fills", long: true, root: true,
		make: func(w *world) {
			w.disk = w.mount("256m")
			w.edgeIn(filepath.Join(w.disk, "edge"), "eu-5", "FAILPOINT=bytes of a click segment@4096;clicks become a batch after@10ms")
		},
		meanwhile: func(w *world) { w.fill(15 << 20) }, // the edge takes and frees room as well
		says:      []said{{name: "DiskFills", where: "eu-5"}},
	},
	{
		what: "the disk of an edge has hardly any room", long: true, root: true,
		make:      func(*world) {},
		meanwhile: func(w *world) { w.fill(2 << 20) },
		says:      []said{{name: "ReplicaDiskLow", where: "eu-5"}},
	},
	{
		what: "the disk of an edge is full", long: true, root: true,
		make: func(w *world) {
			require.NotContains(w.t, w.reported(), "eu-5 DiskFills", "the worse one says it")
			w.fill(0)
		},
		meanwhile: func(w *world) {
			for range 500 {
				w.get("http://" + w.edges["eu-5"].Addr + "/first")
			}
		},
		says: []said{{name: "ClicksLost", where: "eu-5"}, {name: "JournalDiskFails", where: "eu-5"}},
		heal: func(w *world) { w.kill("eu-5", w.edges["eu-5"]) },
	},
	{
		what: "the disk of an edge is read-only", long: true, root: true,
		make: func(w *world) { w.stop = w.readOnly("eu-6") },
		says: []said{{name: "EdgeDegraded", where: "eu-6"}},
	},
	{
		what: "a GeoIP database is old, memory is short, and certificates are ordered from an authority that refuses", long: true,
		make: func(w *world) {
			names := dnstest.Start(w.t)
			names.SetAddresses(dnstest.Any, netip.MustParseAddr("127.0.0.1"))
			directory, roots := refusingAuthority(w.t)
			e := w.edge("eu-4", "FAILPOINT=bytes of the lookup table@4096", "WAYPOST_EDGE_GEOIP="+oldPlaces(w.t),
				"WAYPOST_TLS_ADDR=127.0.0.1:0", "WAYPOST_TLS_ACME_DIRECTORY="+directory, "WAYPOST_TLS_CA_FILE="+roots,
				"WAYPOST_TLS_DNS_RESOLVERS="+names.Addr, "WAYPOST_TLS_ORDERS_PER_HOUR=8")
			w.exec(`INSERT INTO domain (workspace_id, host) SELECT 1, 'go' || n || '.acme.test' FROM generate_series(1, 20) n`)
			require.Len(w.t, e.TLS, 1)
		},
		meanwhile: func(w *world) {
			for i := range 20 {
				name := fmt.Sprintf("go%d.acme.test", i+1)
				as := &tls.Config{ServerName: name, InsecureSkipVerify: true}
				c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", w.edges["eu-4"].TLS[0], as)
				require.Error(w.t, err, "%v", c)
			}
		},
		says: []said{
			{name: "GeoIPOld", where: "eu-4"},
			{name: "LookupIncomplete", where: "eu-4"},
			{name: "CertificateOrdersFail", where: "eu-4"},
			{name: "CertificateOrdersRefused", where: "eu-4"},
		},
		heal: func(w *world) { w.kill("eu-4", w.edges["eu-4"]) },
	},
	{
		what: "a credential is revoked, and strangers gossip", long: true,
		make: func(w *world) {
			e := w.edge("eu-7", "WAYPOST_EDGE_TOKEN=", "WAYPOST_ENROL_TOKEN="+w.enrolment("eu-7"), "WAYPOST_GOSSIP_ADDR="+freePort(w.t),
				"WAYPOST_GOSSIP_SEEDS="+w.gossip, "WAYPOST_GOSSIP_KEY="+gossipKey)
			require.Eventually(w.t, func() bool {
				text, _, err := get(w.t, "http://"+w.admins["one"]+"/metrics")
				return err == nil && strings.Contains(string(text), "\nwaypost_gossip_members 1\n") &&
					w.get("http://"+e.Addr+"/first") == http.StatusFound
			}, patience, 50*time.Millisecond)
			w.run("edges", "revoke", "eu-7", "--yes")
			stranger, err := net.Dial("udp", w.gossip)
			require.NoError(w.t, err)
			_, err = stranger.Write([]byte(strings.Repeat("stranger", 20)))
			require.NoError(w.t, err)
			require.NoError(w.t, stranger.Close())
		},
		says: []said{{name: "EdgeRevoked", where: "eu-7", by: "one"}, {name: "GossipForeign", where: "one"}},
		heal: func(w *world) { w.kill("eu-7", w.edges["eu-7"]) },
	},
	{
		what: "the disk of an edge is slow when it starts", long: true,
		make: func(w *world) {
			dir := w.t.TempDir()
			w.stopServing(w.edgeIn(dir, "eu-8"))
			slow := filepath.Join(w.t.TempDir(), "slow")
			require.NoError(w.t, os.WriteFile(slow, []byte("10m"), 0o600))
			w.edgeIn(dir, "eu-8", "FAILPOINT=read the replica~"+slow)
			w.stop = func() { require.NoError(w.t, os.Remove(slow)) }
		},
		says: []said{{name: "EdgeVerifying", where: "eu-8"}},
	},
	{
		what: "the disk and the memory of an edge change bits", long: true, root: true,
		make: func(w *world) {
			require.NoError(w.t, w.edges["eu-8"].Stop())
			dir := w.dirs["eu-8"]
			damageTables(w.t, dir)
			e := w.edgeIn(dir, "eu-8")
			w.create("bits", `, "title": "bits"`)
			require.Eventually(w.t, func() bool { return w.get("http://"+e.Addr+"/bits") == http.StatusFound }, patience, 20*time.Millisecond)
			flipMemory(w.t, e.PID(), "example.com/bits")
			w.get("http://" + e.Addr + "/bits")
		},
		says: []said{{name: "ReplicaDamaged", where: "eu-8"}, {name: "MemoryFaulty", where: "eu-8"}},
		heal: func(w *world) { w.kill("eu-8", w.edges["eu-8"]) },
	},
	{
		what: "expired links are not cleaned up, and snapshots are taken slowly", long: true,
		make: func(w *world) {
			w.exec(`INSERT INTO link (workspace_id, domain_id, code, original_url, expires_at)
				SELECT 1, 1, 'old' || n, 'https://example.com/' || (SELECT string_agg(md5(n::text || i::text), '') FROM generate_series(1, 60) i),
				       now() - interval '1 minute'
				FROM generate_series(1, 10100) n`)
			w.stop = w.takeSnapshots()
			require.Eventually(w.t, func() bool {
				text, _, err := get(w.t, "http://"+w.admins["one"]+"/metrics")
				return err == nil && strings.Contains(string(text), "\nwaypost_replication_transfers{of=\"snapshots\"} 4\n")
			}, patience, 10*time.Millisecond)
			w.edge("eu-10")
		},
		says: []said{
			{name: "EdgeWaitsForSnapshot", where: "eu-10"},
			{name: "SnapshotsQueue", where: "one"},
			{name: "CleanupBehind", where: "cluster", by: "one"},
		},
	},
	{
		what: "rows are changed past the triggers", long: true,
		make: func(w *world) {
			w.exec(`ALTER TABLE link DISABLE TRIGGER ALL`)
			w.exec(`UPDATE link SET stamp = stamp # 5 WHERE code = 'first'`)
			w.exec(`ALTER TABLE link ENABLE TRIGGER ALL`)
			w.succeeds("verify", "--source")
		},
		says: []said{{name: "DigestDiffers", where: "cluster", by: "one"}},
	},
	{
		what: "PostgreSQL's clock is ten seconds ahead", long: true,
		make: func(w *world) { w.setClock("10 seconds") },
		says: []said{{name: "ClockDiffers", where: "one"}, {name: "ClockDiffers", where: "eu-1"}},
	},
	{
		what: "PostgreSQL's clock is 400 days ahead", long: true,
		make: func(w *world) { w.setClock("400 days") },
		says: []said{{name: "ClockWrong", where: "one", why: "PostgreSQL's is 9600h0m0s ahead of it"}, {name: "ClockWrong", where: "eu-1"}},
	},
	{
		what: "PostgreSQL is gone", dark: true,
		make: func(w *world) { w.stopDatabase() },
		meanwhile: func(w *world) {
			w.get("http://" + w.edges["eu-2"].Addr + "/first")
			w.get(w.control.API + "/api/v1/urls/first")
		},
		says: []said{
			{name: "PostgreSQLDown", where: "one"},
			{name: "APIErrors", where: "one"},
			{name: "EdgeStale", where: "eu-1"},
			{name: "ClicksWait", where: "eu-2"},
		},
	},
}
