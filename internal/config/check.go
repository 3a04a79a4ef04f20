package config

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"waypost"
	"waypost/replication"
	"waypost/rules/agents"
)

// Check judges the settings of logging.
func (l *Log) Check() error {
	return errors.Join(
		oneOf("log.level", l.Level, "debug", "info", "warn", "error"),
		oneOf("log.format", l.Format, "auto", "text", "json"),
	)
}

// Check judges the settings of a control plane. The error names the first mistake.
func (c *Control) Check() error {
	_, networks := ParseNetworks(c.TrustedProxies)
	return first(
		address("control.addr", c.Addr),
		optionalAddress("control.fleet_listen", c.FleetListen),
		address("control.admin_addr", c.AdminAddr),
		region("control.region", c.Region),
		nodeName("control.node", c.Node),
		each(region, "control.regions", c.Regions),
		among("control.region", c.Region, c.Regions),
		required("control.base_url", c.BaseURL, "give --base-url, what short URLs begin with, such as https://go.example.com"),
		origin("control.base_url", c.BaseURL),
		oneLine("control.contact", c.Contact),
		required("control.database_url", c.DatabaseURL.Reveal(), "set WAYPOST_CONTROL_DATABASE_URL, or --database-url-file"),
		database("control.database_url", c.DatabaseURL.Reveal()),
		required("control.cluster_secret", c.ClusterSecret.Reveal(), "set WAYPOST_CONTROL_CLUSTER_SECRET, or --cluster-secret-file; `openssl rand -hex 32` makes one"),
		secretKey("control.cluster_secret", c.ClusterSecret.Reveal()),
		atLeast("control.edge_token", c.EdgeToken.Reveal(), 16),
		together("control.tls_cert_file", c.TLSCertFile, "control.tls_key_file", c.TLSKeyFile),
		c.checkClientCA(),
		each(host, "control.own_hosts", c.OwnHosts),
		each(resolver, "control.dns_resolvers", c.DNSResolvers),
		oneOf("control.shared_codes", c.SharedCodes, "plain", "free"),
		prefixed("control.trusted_proxies", networks),
		c.checkCORS(),
		between("control.code_length", c.CodeLength, 5, 10),
		between("control.signing_generation", c.SigningGeneration, 1, replication.MaxGeneration),
		between("control.events_keep_months", c.EventsKeepMonths, 1, 1_200),
		between("control.rate_limit", c.RateLimit, 0, 1_000_000),
		required("control.data_dir", c.DataDir, "give --data-dir, the directory in which this control plane remembers which keys were issued"),
	)
}

// checkCORS accepts origins as browsers send them, and * for all.
func (c *Control) checkCORS() error {
	for _, from := range c.CORSOrigins {
		if err := origin("control.cors_origins", from); from != "*" && (err != nil || strings.HasSuffix(from, "/")) {
			return fmt.Errorf("control.cors_origins: %q is no origin such as https://shop.example.com", from)
		}
	}
	return nil
}

// Check judges the settings of the cleanup.
func (c *Cleanup) Check() error {
	return first(
		positive("cleanup.interval", c.Interval),
		notNegative("cleanup.buffer", c.Buffer),
		notNegative("cleanup.purge_after", c.PurgeAfter),
	)
}

// Check judges the settings of an edge. The error names the first mistake.
func (e *Edge) Check() error {
	_, networks := ParseNetworks(e.TrustedProxies)
	_, journal := ParseClickJournal(e.ClickJournal)
	_, bots := agents.New(e.Bots)
	return first(
		required("edge.addr", strings.Join(e.Addr, ","), "give --addr, the address of the redirects, such as :80"),
		each(address, "edge.addr", e.Addr),
		address("edge.admin_addr", e.AdminAddr),
		region("edge.region", e.Region),
		nodeName("edge.node", e.Node),
		required("edge.control_urls", strings.Join(e.ControlURLs, ","), "give --control-urls, the control planes to follow, such as https://10.0.0.1:7080"),
		each(origin, "edge.control_urls", e.ControlURLs),
		together("edge.node_cert_file", e.NodeCertFile, "edge.node_key_file", e.NodeKeyFile),
		required("edge.data_dir", e.DataDir, "give --data-dir, the directory of the replica"),
		prefixed("edge.trusted_proxies", networks),
		e.checkProxyProtocol(),
		prefixed("edge.click_journal", journal),
		prefixed("edge.bots", bots),
		atLeast("edge.relay_token", e.RelayToken.Reveal(), 16),
		e.checkRelay(),
		notNegative("edge.max_staleness", e.MaxStaleness),
		oneLine("edge.contact", e.Contact),
		notNegative("edge.drain_delay", e.DrainDelay),
	)
}

// oneLine accepts a text that fits into a page and a problem document.
func oneLine(setting, text string) error {
	if len(text) > 200 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%s: must be one line of at most 200 bytes", setting)
	}
	return nil
}

func (c *Control) checkClientCA() error {
	if c.ClientCAFile != "" && c.TLSCertFile == "" {
		return errors.New("control.client_ca_file: client certificates are shown over TLS only: give control.tls_cert_file and control.tls_key_file")
	}
	return nil
}

func (e *Edge) checkRelay() error {
	switch {
	case e.RelayAddr == "":
		return nil
	case e.RelayToken == "" && e.Token == "":
		return errors.New("edge.relay_token is missing: a relay without the edge token needs it to know the edges that follow it; " +
			"set WAYPOST_EDGE_RELAY_TOKEN, the same on all of them")
	case e.NodeCertFile != "" && e.NodeCAFile == "":
		return errors.New("edge.node_ca_file is missing: a relay with a certificate asks the edges that follow it for theirs, and needs the roots of these")
	}
	return address("edge.relay_addr", e.RelayAddr)
}

func (e *Edge) checkProxyProtocol() error {
	if e.ProxyProtocol && len(e.TrustedProxies) == 0 {
		return errors.New("edge.proxy_protocol: name the proxies in edge.trusted_proxies; only their headers are believed")
	}
	return nil
}

// Check judges the settings of TLS, which an edge need not speak.
func (t *TLS) Check() error {
	files, authority := t.CertFile != "" || t.KeyFile != "", t.ACMEDirectory != ""
	switch {
	case len(t.Addr) == 0 && (files || authority):
		return errors.New("tls.addr is missing: give --tls-addr, such as :443, or leave out the other settings of tls")
	case len(t.Addr) > 0 && !files && !authority:
		return errors.New("tls: there is no certificate: give tls.cert_file and tls.key_file, or tls.acme_directory")
	case (t.CertFile == "") != (t.KeyFile == ""):
		return errors.New("tls: cert_file and key_file belong together: give both")
	case authority:
		if u, err := url.Parse(t.ACMEDirectory); err != nil || u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("tls.acme_directory: %q is no https URL", t.ACMEDirectory)
		}
	}
	_, wrong := t.PublicAddresses()
	return first(
		each(address, "tls.addr", t.Addr), wrong, each(resolver, "tls.dns_resolvers", t.DNSResolvers),
		between("tls.orders_per_hour", t.OrdersPerHour, 0, 100_000),
	)
}

// PublicAddresses reads the addresses of the edges.
func (t *TLS) PublicAddresses() ([]netip.Addr, error) {
	all := make([]netip.Addr, len(t.Addresses))
	for i, text := range t.Addresses {
		var err error
		if all[i], err = netip.ParseAddr(text); err != nil || all[i].Zone() != "" {
			return nil, fmt.Errorf("tls.addresses: %q is no IP address", text)
		}
		all[i] = all[i].Unmap()
	}
	return all, nil
}

// Check judges the settings of gossip, in which a node need not take part.
func (g *Gossip) Check() error {
	if g.Addr == "" {
		return nil
	}
	_, bad := netip.ParseAddrPort(g.Addr)
	if bad != nil {
		bad = fmt.Errorf("%q is no address such as 10.0.0.1:7946", g.Addr)
	}
	err := checkKeys(g.Key.Reveal())
	return first(
		prefixed("gossip.addr", bad),
		required("gossip.key", g.Key.Reveal(), "set WAYPOST_GOSSIP_KEY, or --gossip-key-file; `openssl rand -hex 32` makes one, for all nodes"),
		err,
	)
}

// checkKeys judges gossip keys, which have commas or white space between them.
func checkKeys(text string) error {
	keys := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	for _, digits := range keys {
		if key, err := hex.DecodeString(digits); err != nil || len(key) != 32 {
			return errors.New("gossip.key: not 32 bytes in hex; `openssl rand -hex 32` makes one, for all nodes")
		}
	}
	if len(keys) > 3 {
		return errors.New("gossip.key: more than 3 keys")
	}
	return nil
}

// ParseNetworks reads networks, or single addresses, such as 10.0.0.0/8 and ::1.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("%q is no network such as 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		networks = append(networks, p.Masked())
	}
	return networks, nil
}

func first(errs ...error) error { return cmp.Or(errs...) }

func prefixed(path string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func required(path, value, whatToDo string) error {
	if value == "" {
		return fmt.Errorf("%s is missing: %s", path, whatToDo)
	}
	return nil
}

func together(path, value, otherPath, other string) error {
	if (value == "") != (other == "") {
		return fmt.Errorf("%s and %s belong together: give both", path, otherPath)
	}
	return nil
}

// among refuses a region outside of control.regions, because a mistyped region would get
// a prefix of its own.
func among(path, region string, regions []string) error {
	if len(regions) == 0 || slices.Contains(regions, region) {
		return nil
	}
	return fmt.Errorf("%s: %q is not among control.regions, %v", path, region, regions)
}

func oneOf(path, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: %q is none of %v", path, value, allowed)
}

func between(path string, n, low, high int) error {
	if n < low || n > high {
		return fmt.Errorf("%s: %d is not between %d and %d", path, n, low, high)
	}
	return nil
}

// atLeast is for a secret that may be left out.
func atLeast(path, secret string, n int) error {
	if secret != "" && len(secret) < n {
		return fmt.Errorf("%s: shorter than %d characters", path, n)
	}
	return nil
}

func secretKey(path, secret string) error {
	if b, err := hex.DecodeString(secret); err != nil || len(b) != 32 {
		return fmt.Errorf("%s: not 32 bytes in hex, which are 64 digits", path)
	}
	return nil
}

func positive(path string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%s: %s is not more than 0", path, d)
	}
	return nil
}

func notNegative(path string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s: %s is less than 0", path, d)
	}
	return nil
}

func region(path, text string) error {
	if text == "" {
		return fmt.Errorf("%s is missing: give --region, such as us-east-1", path)
	}
	_, err := waypost.ParseRegion(text)
	return prefixed(path, err)
}

// each judges the values of a list.
func each(check func(path, text string) error, path string, texts []string) error {
	for _, text := range texts {
		if err := check(path, text); err != nil {
			return err
		}
	}
	return nil
}

// nodeName allows names that are safe in a header, a label and a file's name.
func nodeName(path, text string) error {
	if len(text) > 64 {
		return fmt.Errorf("%s: longer than 64 characters", path)
	}
	for _, r := range text {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' {
			return fmt.Errorf("%s: %q has characters other than letters, digits, dots, - and _", path, text)
		}
	}
	return nil
}

// host accepts a name of a host, which has no scheme, port or path.
func host(path, name string) error {
	u, err := url.Parse("//" + name)
	if err != nil || name == "" || u.Hostname() != name {
		return fmt.Errorf("%s: %q is no name of a host, such as api.example.com", path, name)
	}
	return nil
}

func address(path, text string) error { return prefixed(path, CheckAddress(text)) }

func optionalAddress(path, text string) error {
	if text == "" {
		return nil
	}
	return address(path, text)
}

// resolver accepts the address of a DNS server, with or without a port.
func resolver(path, text string) error {
	if _, err := netip.ParseAddr(text); err != nil && CheckAddress(text) != nil {
		return fmt.Errorf("%s: %q is no address of a resolver such as 10.0.0.53 or 10.0.0.53:53", path, text)
	}
	return nil
}

// CheckAddress returns an error unless text is HOST:PORT; the host may be left out.
func CheckAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is no address such as 127.0.0.1:8080", text)
	}
	return nil
}

// origin returns an error unless text is a URL of scheme and host only, to which paths
// can be appended.
func origin(path, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%s: %q is no URL of scheme and host only, such as https://go.example.com", path, text)
	}
	return nil
}

// database does not repeat the URL, which may hold a password.
func database(path, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return fmt.Errorf("%s: no URL such as postgres://USER@HOST/DATABASE", path)
	}
	return nil
}
