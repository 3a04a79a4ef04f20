package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"waypost/client"
	"waypost/internal/dev"
)

// doctorCommands makes the command for the moment at which something is wrong.
type doctorCommands struct{ *program }

func (p doctorCommands) command() *cobra.Command {
	var admins []string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong, since when, and what to do",
		Long: `Look at everything at once: the API, PostgreSQL's digest, the key ranges, and each edge as
the control plane sees it and, if its admin listener is open to other machines, as it
answers /readyz itself. What is wrong comes with the time since when it is, if that is
known, what to do, and the page of the documentation. The worst comes first. It changes
nothing.

When the API does not answer, or edges are cut off from it, name admin listeners of
control planes and edges with --admin: they answer without PostgreSQL.

The exit status is 0 when nothing is wrong, and 1 otherwise.

It asks the API of --api or WAYPOST_API with the key in WAYPOST_API_KEY, which needs
the scope admin, or else the development system that runs in --data-dir.`,
		Example: `  waypost doctor
  waypost doctor --admin 10.0.0.1:9080,10.0.1.1:9081
  waypost doctor --output json`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			d := &diagnosis{now: time.Now(), Findings: []finding{}, Fine: []string{}}
			if err := p.examine(c.Context(), d, admins); err != nil {
				return err
			}
			d.sort()
			if err := p.print(d.text(p.width()), map[string]any{"findings": d.Findings, "fine": d.Fine}); err != nil || len(d.Findings) == 0 {
				return err
			}
			return fmt.Errorf("%s wrong", numbered(len(d.Findings), "thing is", "things are"))
		},
	}
	c.Flags().StringSliceVar(&admins, "admin", nil, "admin listeners to ask as well, HOST:PORT")
	return p.bind(c, "client", "dev.data_dir")
}

// finding is one thing that is wrong.
type finding struct {
	Severity string     `json:"severity"` // critical or warning
	Where    string     `json:"where"`
	What     string     `json:"what"`
	Since    *time.Time `json:"since,omitempty"`
	Do       string     `json:"do"`
	Page     string     `json:"page"`
}

const (
	critical = "critical"
	warning  = "warning"
)

// diagnosis is the result of an examination.
type diagnosis struct {
	now      time.Time
	Findings []finding
	Fine     []string // sentences about healthy parts
}

func (d *diagnosis) addFinding(severity, where, what string, since time.Time, do, page string) {
	f := finding{Severity: severity, Where: printable(where), What: printable(what), Do: do, Page: page}
	if !since.IsZero() {
		f.Since = &since
	}
	if !strings.Contains(page, "/") {
		f.Page = "docs/operations/alerts/" + page + ".md"
	}
	d.Findings = append(d.Findings, f)
}

func (d *diagnosis) fine(format string, a ...any) { d.Fine = append(d.Fine, fmt.Sprintf(format, a...)) }

func (d *diagnosis) sort() {
	slices.SortStableFunc(d.Findings, func(a, b finding) int { return strings.Compare(a.Severity, b.Severity) })
}

// text lays the result out for people.
func (d *diagnosis) text(width int) string {
	var b strings.Builder
	for _, f := range d.Findings {
		since := ""
		if f.Since != nil {
			since = " (for " + roughly(d.now.Sub(*f.Since)) + ")"
		}
		_, _ = fmt.Fprintf(&b, "%s  %s: %s%s\n", strings.ToUpper(f.Severity), f.Where, f.What, since)
		for _, line := range wrapped(f.Do, max(width, 60)-10) {
			_, _ = fmt.Fprintf(&b, "          %s\n", line)
		}
		_, _ = fmt.Fprintf(&b, "          %s\n", f.Page)
	}
	for _, line := range d.Fine {
		_, _ = fmt.Fprintf(&b, "fine      %s\n", line)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// because adds a reason, if there is one.
func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// numbered returns a number with its noun.
func numbered(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// wrapped breaks a text into lines.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// examine looks at everything. An error means that it could not even begin.
func (p doctorCommands) examine(ctx context.Context, d *diagnosis, admins []string) error {
	api, err := p.api()
	if err != nil && len(admins) == 0 {
		return err
	}
	if err != nil {
		d.addFinding(warning, "API", "it was not asked: "+err.Error(), time.Time{}, "Name it with --api, and a key with --api-key-file, to see edges and keys.", "docs/access.md")
	} else {
		defer api.Close()
		admins = append(admins, p.examineAPI(ctx, api, d)...)
	}
	d.askAdmins(ctx, admins)
	return nil
}

// examineAPI examines everything that the control plane knows, and returns the admin
// listeners that other machines can reach, and the listeners of a development system.
func (p doctorCommands) examineAPI(ctx context.Context, api *client.Client, d *diagnosis) (admins []string) {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	edges, err := api.Edges.List(ctx)
	own := p.adminsOfDev()
	if err != nil {
		d.addAPI(api.Base(), err)
		return own
	}
	d.fine("the API at %s answers", api.Base())
	d.examineEdges(edges)
	private := 0
	for i := range edges {
		switch e := &edges[i]; {
		case e.AdminAddr == "" || e.State != "alive":
		case forOthers(e.AdminAddr):
			admins = append(admins, e.AdminAddr)
		default:
			private++
		}
	}
	if private > 0 && own == nil {
		d.fine("%s no admin listener for other machines; on theirs, add --admin HOST:PORT", numbered(private, "edge names", "edges name"))
	}
	switch digest, err := api.Edges.Digest(ctx); {
	case err != nil:
		d.addAPI("PostgreSQL's digest", err)
	case digest.Error != nil:
		d.addFinding(warning, "PostgreSQL", "its rows could not be added up at the last look: "+*digest.Error, time.Time{}, "Run `waypost verify --source`.", "DigestDiffers")
	case digest.Equal != nil && !*digest.Equal:
		d.addFinding(critical, "PostgreSQL", "its rows do not add up to the digest of the changelog, so no edge can be repaired", time.Time{},
			"Run `waypost verify --source`.", "DigestDiffers")
	}
	if space, err := api.Ranges.List(ctx); err == nil {
		d.examineKeys(&space)
	} else {
		d.addAPI("key ranges", err)
	}
	return append(admins, own...)
}

// forOthers reports whether another machine may ask a listener at an address that it has
// been told, which is neither a loopback address nor the address of all interfaces.
func forOthers(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.IsLoopback() && !ip.IsUnspecified()
}

// adminsOfDev returns the admin listeners of a development system, if there is one.
func (p doctorCommands) adminsOfDev() (admins []string) {
	cfg, err := p.settings(nil)
	if err != nil || cfg.Client.API != "" {
		return nil
	}
	state, err := dev.ReadState(cfg.Dev.DataDir)
	if err != nil {
		return nil
	}
	admins = append(admins, state.Control.AdminURL)
	for _, e := range state.Edges {
		admins = append(admins, e.AdminURL)
	}
	return slices.DeleteFunc(admins, func(url string) bool { return url == "" })
}

// addAPI says why the API did not answer as it should.
func (d *diagnosis) addAPI(where string, err error) {
	problem, answered := errors.AsType[*client.Problem](err)
	switch {
	case !answered:
		d.addFinding(critical, where, "the control plane does not answer: "+err.Error(), time.Time{},
			"Redirects go on. Start it, or ask another control plane with --api. Name admin listeners with --admin to see the edges.", "ControlPlaneDown")
	case problem.Status == http.StatusUnauthorized, problem.Status == http.StatusForbidden:
		d.addFinding(critical, where, "the key may not see the fleet: "+problem.Error(), time.Time{},
			"Use a key of the default workspace with the scope admin (`waypost keys create --name doctor --scopes admin`).", "docs/access.md")
	case problem.Status == http.StatusServiceUnavailable:
		d.addFinding(critical, where, "the control plane cannot work: "+problem.Error(), time.Time{},
			"Redirects go on, and edges keep their clicks. Look at PostgreSQL: `pg_isready`, its log, its disk.", "PostgreSQLDown")
	default:
		d.addFinding(critical, where, problem.Error(), time.Time{}, "Look into the log of the control plane.", "APIErrors")
	}
}

// Bounds below which nothing is wrong yet.
const (
	maxAge       = 10 * time.Second
	maxClickAge  = time.Minute
	warnKeys     = 1_000_000
	criticalKeys = 100_000
	warnTimeLeft = 24 * time.Hour
)

// examineEdges looks at the edges as the control plane sees them.
func (d *diagnosis) examineEdges(edges []client.Edge) {
	if len(edges) == 0 {
		d.addFinding(critical, "fleet", "no edge has reported to this control plane", time.Time{},
			"Start an edge, or look into the log of one: it says why it cannot report.", "docs/operations/add-a-region.md")
		return
	}
	before := len(d.Findings)
	versions := make(map[string][]string)
	for i := range edges {
		e := &edges[i]
		d.examineEdge(e)
		if e.State == "alive" && e.Version != "" {
			versions[e.Version] = append(versions[e.Version], printable(e.Node))
		}
	}
	if len(versions) > 1 {
		var list []string
		for version, nodes := range versions {
			list = append(list, printable(version)+" ("+strings.Join(nodes, ", ")+")")
		}
		slices.Sort(list)
		d.addFinding(warning, "fleet", "edges run several versions: "+strings.Join(list, "; "), time.Time{},
			"Complete the upgrade, control planes first.", "docs/operations/upgrade.md")
	}
	if len(d.Findings) == before {
		d.fine("%s everything", numbered(len(edges), "edge has", "edges have"))
	}
}

func (d *diagnosis) examineEdge(e *client.Edge) {
	age := time.Duration(0)
	if e.AgeSeconds != nil {
		age = time.Duration(*e.AgeSeconds * float64(time.Second))
	}
	if len(e.Twins) > 0 {
		d.addFinding(critical, e.Node, "shares its name with other edges ("+strings.Join(e.Twins, ", ")+"), so that no change counts as applied there", time.Time{},
			"Stop the copy, and enrol it under a name of its own: \"Two edges with one name\".", "docs/operations/troubleshoot.md")
	}
	switch {
	case e.Left || !e.MayServe && e.State != "alive" && e.Credential != nil && *e.Credential == "revoked":
		d.fine("%s is off: it was stopped, or its credential was revoked", printable(e.Node))
		return
	case e.State != "alive":
		d.addFinding(critical, e.Node, "is "+e.State, e.Since,
			"Take it out of DNS or the balancer if it does not answer visitors, and start it: until then it may be serving, and waiting for all edges ends with `reachable`. If it is gone for good: `waypost edges gone "+
				printable(e.Node)+"`. If it has not reported since a failover or restore of PostgreSQL, that ends the exact click budgets "+
				"of all existing links for good.", "EdgeDown")
		return
	case e.Credential != nil && *e.Credential == "revoked":
		d.addFinding(critical, e.Node, "still answers visitors, and its credential was revoked", time.Time{},
			"Take it out of DNS, or let it in again: `waypost edges enrol --region "+printable(e.Region)+" --node "+printable(e.Node)+"`.",
			"docs/operations/rotate-secrets.md")
	case e.Held != "":
		d.addFinding(critical, e.Node, because("holds back a change ("+e.Held+")", e.HeldWhy), d.now.Add(-age),
			"Find out who made it (`waypost audit`). Right: `waypost edges accept "+printable(e.Node)+"`. Wrong: restore, and the edge loses nothing.", "EdgeHeld")
	case e.DiskLow:
		d.addFinding(critical, e.Node, "has almost no room on its disk, so that changes of links wait", d.now.Add(-age), "Make room: the changes come then.", "ReplicaDiskLow")
	case e.Replica == "degraded":
		d.addFinding(critical, e.Node, because("cannot write its replica", e.HeldWhy), d.now.Add(-age), "Look at its disk and its log.", "EdgeDegraded")
	case age > maxAge:
		d.addFinding(critical, e.Node, because("has heard nothing new; changes and takedowns do not reach it", e.HeldWhy), d.now.Add(-age),
			"Look at its connection to the control plane: `source` and `last_error` in its /readyz.", "EdgeStale")
	case e.Replica != "following" && e.Replica != "":
		d.addFinding(warning, e.Node, because("is "+e.Replica, e.HeldWhy), time.Time{}, "Wait some minutes, and ask again.", "EdgeVerifying")
	}
	if v := e.Verified; v != nil && v.Damage != "" {
		d.addFinding(warning, e.Node, because("had damaged records when it was last verified", v.Damage), v.At,
			"It repairs itself. Look at its disk, and run `waypost verify --edge "+printable(e.Node)+"`.", "ReplicaDamaged")
	}
	if e.ClicksPending != nil && *e.ClicksPending > 0 && e.ClicksUntil != nil && d.now.Sub(*e.ClicksUntil) > maxClickAge {
		d.addFinding(warning, e.Node, fmt.Sprintf("has %d clicks that are not counted", *e.ClicksPending), *e.ClicksUntil,
			"They are safe on its disk. Its log says why they are not taken.", "ClicksWait")
	}
	if e.Draining {
		d.addFinding(warning, e.Node, "is drained: balancers send visitors elsewhere", time.Time{}, "`waypost edges drain "+printable(e.Node)+" --undo` ends that.",
			"docs/operations/upgrade.md")
	}
}

// applyPlan is the remedy for a region with few keys left.
const applyPlan = "`waypost ranges plan --out plan.json`, then `waypost ranges apply plan.json`."

// examineKeys looks at the supply of keys.
func (d *diagnosis) examineKeys(space *client.KeySpace) {
	before := len(d.Findings)
	if space.Held != nil {
		var since time.Time
		if space.HeldSince != nil {
			since = *space.HeldSince
		}
		d.addFinding(critical, "keys", "none is issued: "+*space.Held, since, "`waypost ranges list` says how to go on.", "KGSMintingHeld")
	}
	for _, s := range space.Regions {
		lasts := time.Duration(1<<63 - 1)
		if s.MinutesLeft != nil && *s.MinutesLeft < warnTimeLeft.Minutes() {
			lasts = time.Duration(*s.MinutesLeft * float64(time.Minute))
		}
		switch where := "keys of " + printable(s.Region); {
		case space.FreePrefixes > 0 && s.Unissued >= criticalKeys: // the region takes a prefix when it needs one
		case s.Unissued < criticalKeys:
			d.addFinding(critical, where, fmt.Sprintf("%s are left", grouped(s.Unissued)), time.Time{},
				"`waypost ranges assign --region "+printable(s.Region)+"`, or `waypost ranges move ID --to "+printable(s.Region)+" --remainder`.", "KGSPoolCritical")
		case lasts < warnTimeLeft:
			d.addFinding(critical, where, "they last "+roughly(lasts), time.Time{}, applyPlan, "KGSExhaustionAhead")
		case s.Unissued < warnKeys:
			d.addFinding(warning, where, fmt.Sprintf("%s are left", grouped(s.Unissued)), time.Time{}, applyPlan, "KGSPoolLow")
		}
	}
	if len(d.Findings) == before {
		d.fine("%s keys", numbered(len(space.Regions), "region has", "regions have"))
	}
}

// readiness holds the parts of an answer of /readyz that describe faults.
type readiness struct {
	Status    string  `json:"status"`
	Node      string  `json:"node"`
	Error     string  `json:"error"`
	Degraded  string  `json:"degraded"`
	LastError string  `json:"last_error"`
	Age       float64 `json:"age_seconds"`
	Connected *bool   `json:"connected"` // nil: of a control plane
}

// askAdmins asks admin listeners, all at once.
func (d *diagnosis) askAdmins(ctx context.Context, admins []string) {
	slices.Sort(admins)
	admins = slices.Compact(admins)
	answers, errs := make([]readiness, len(admins)), make([]error, len(admins))
	var all sync.WaitGroup
	for i, admin := range admins {
		all.Go(func() { answers[i], errs[i] = readyz(ctx, admin) })
	}
	all.Wait()
	ready, asked, seen := 0, 0, make(map[string]bool)
	for i, admin := range admins {
		r := answers[i]
		if r.Node != "" && seen[r.Node] {
			continue // it has two addresses
		}
		seen[r.Node] = true
		asked++
		since := time.Time{}
		if r.Age > 0 {
			since = d.now.Add(-time.Duration(r.Age * float64(time.Second)))
		}
		where := r.Node
		switch {
		case errs[i] != nil:
			d.addFinding(warning, admin, "no answer from the admin listener", time.Time{},
				"It may be closed to this machine: run `waypost doctor` there, or look into the log.", "docs/operations/monitor.md")
		case r.Error != "" && r.Status == "ready":
			d.addFinding(warning, where, r.Error, since, "Look into its log.", "DigestDiffers")
		case r.Degraded != "" && r.Status == "ready":
			d.addFinding(warning, where, r.Degraded, time.Time{}, "It works, until more fails: set the clock, the settings of the login, or make room.", "docs/operations/second-control-plane.md")
		case r.Status == "ready" || r.Status == "following" || r.Status == "draining":
			if ready++; r.Connected != nil && !*r.Connected {
				d.addFinding(warning, where, "is connected to nothing: redirects go on, and changes, takedowns and statistics wait", since,
					"It connects again on its own. Look at the control plane first.", "docs/operations/troubleshoot.md")
			}
		case strings.Contains(r.Error, "PostgreSQL") || r.Status == "superseded":
			d.addFinding(critical, where, "is "+r.Status+": "+r.Error, time.Time{}, "Look at PostgreSQL, and at the log of this control plane.", "PostgreSQLDown")
		default:
			errs := slices.DeleteFunc([]string{r.Error, r.Degraded, r.LastError}, func(s string) bool { return s == "" })
			d.addFinding(warning, where, strings.TrimSpace("says "+r.Status+" "+strings.Join(errs, "; ")), since,
				"Look into its log.", "docs/operations/troubleshoot.md")
		}
	}
	if ready > 0 {
		d.fine("%d of %d admin listeners say that they are ready", ready, asked)
	}
}

// readyz asks an admin listener.
func readyz(ctx context.Context, admin string) (r readiness, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if !strings.Contains(admin, "://") {
		admin = "http://" + admin
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(admin, "/")+"/readyz", http.NoBody)
	if err != nil {
		return r, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return r, err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	const most = 64 << 10
	return r, json.NewDecoder(io.LimitReader(res.Body, most)).Decode(&r)
}
