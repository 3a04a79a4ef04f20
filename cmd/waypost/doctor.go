package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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

	"waypost/api"
	"waypost/client"
	"waypost/internal/condition"
	"waypost/internal/dev"
)

// doctorCommands makes the command for the moment at which something is wrong.
type doctorCommands struct{ *program }

func (p doctorCommands) command() *cobra.Command {
	var admins []string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong, since when, and what to do",
		Long: `Look at everything at once: the API, and the conditions that edges and control planes
report and, if their admin listeners are open to other machines, as they answer /readyz
themselves. What is wrong comes with the time since when it is, what to do, and the page
of the documentation. The worst comes first. The lines "unseen" name what could not be
looked at. Alerts and the console know the same conditions. It changes nothing.

When the API does not answer, or edges are cut off from it, name admin listeners of
control planes and edges with --admin: they answer without PostgreSQL.

The exit status is 0 when nothing is wrong, and 1 otherwise.

` + asksAsAdmin,
		Example: `  waypost doctor
  waypost doctor --admin 10.0.0.1:9080,10.0.1.1:9081
  waypost doctor --output json`,
		RunE: func(c *cobra.Command, _ []string) error {
			d := &diagnosis{now: time.Now(), Findings: []finding{}, Fine: []string{}, Unseen: []string{}}
			if err := p.examine(c.Context(), d, admins); err != nil {
				return err
			}
			d.sort()
			err := p.print(d.text(p.width()), map[string]any{"findings": d.Findings, "unseen": d.Unseen, "fine": d.Fine})
			if err != nil || len(d.Findings) == 0 {
				return err
			}
			return fmt.Errorf("%s wrong", numberOf(len(d.Findings), "thing is", "things are"))
		},
	}
	c.Flags().StringSliceVar(&admins, "admin", nil, "admin listeners to ask as well, HOST:PORT")
	return p.bind(c, apiSettings...)
}

// finding is one thing that is wrong: a condition of a node, or a fault of the way to it.
type finding struct {
	Name     string     `json:"name,omitempty"` // of the condition
	Severity string     `json:"severity"`       // critical or warning
	Where    string     `json:"where"`
	What     string     `json:"what"`
	Since    *time.Time `json:"since,omitempty"`
	Do       string     `json:"do"`
	Page     string     `json:"page"`
}

// diagnosis is the result of an examination.
type diagnosis struct {
	now      time.Time
	Findings []finding
	Fine     []string // sentences about healthy parts
	Unseen   []string // sentences about parts that nothing is known of

	// young is a control plane that has just started, if the one that answers has.
	young *api.ControlPlane
}

// addFault adds a fault of the way to the nodes.
func (d *diagnosis) addFault(severity, where, what, do, page string) {
	if !strings.Contains(page, "/") {
		page = condition.Find(page).Page()
	}
	d.Findings = append(d.Findings, finding{Severity: severity, Where: printable(where), What: printable(what), Do: do, Page: page})
}

// addConditions adds the conditions of a node, and returns how many there are. Nodes that
// see the same are one finding.
func (d *diagnosis) addConditions(node string, all []api.NodeCondition) (n int) {
	for _, c := range all {
		where := node
		if k := condition.Find(c.Name); c.Of != "" {
			where = c.Of
		} else if k != nil && k.Cluster {
			where = "cluster"
		}
		where = printable(where)
		switch {
		case d.young != nil && c.Since.Before(d.young.StartedAt) && (c.Name == "EdgeStale" || c.Name == "EdgeDown"):
			d.unseen("%s is reconnecting: %s has just started; ask again in half a minute", where, printable(d.young.Node))
		case !slices.ContainsFunc(d.Findings, func(f finding) bool { return f.Name == c.Name && f.Where == where }):
			d.Findings = append(d.Findings, finding{
				Name: printable(c.Name), Severity: printable(c.Severity), Where: where, What: printable(c.What), Since: &c.Since,
				Do: printable(c.Do), Page: printable(c.Page),
			})
		}
		n++
	}
	return n
}

func (d *diagnosis) fine(format string, a ...any) { d.Fine = append(d.Fine, fmt.Sprintf(format, a...)) }

func (d *diagnosis) unseen(format string, a ...any) {
	if line := fmt.Sprintf(format, a...); !slices.Contains(d.Unseen, line) {
		d.Unseen = append(d.Unseen, line)
	}
}

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
	for _, line := range d.Unseen {
		_, _ = fmt.Fprintf(&b, "unseen    %s\n", line)
	}
	for _, line := range d.Fine {
		_, _ = fmt.Fprintf(&b, "fine      %s\n", line)
	}
	return strings.TrimSuffix(b.String(), "\n")
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
	server, err := p.api()
	if err != nil && len(admins) == 0 {
		return err
	}
	if err != nil {
		d.addFault(condition.Warning, "API", "it was not asked: "+err.Error(), "Name it with --api, and a key with --api-key-file, to see edges and keys.", "docs/access.md")
	} else {
		defer server.Close()
		admins = append(admins, p.examineAPI(ctx, server, d)...)
	}
	d.askAdmins(ctx, admins)
	return nil
}

// examineAPI examines everything that the control plane knows, and returns the admin
// listeners that other machines can reach, and the listeners of a development system.
func (p doctorCommands) examineAPI(ctx context.Context, server *client.Client, d *diagnosis) (admins []string) {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	fleet, err := server.Edges.Fleet(ctx)
	own := p.adminsOfDev()
	if err != nil {
		d.addAPI(server.Base(), err)
		return own
	}
	d.fine("the API at %s answers", server.Base())
	d.addClear(server.Base(), "keys and answers of the API", server.Base())
	admins = d.examineFleet(&fleet)
	if digest, err := server.Edges.Digest(ctx); err != nil {
		d.unseen("whether PostgreSQL's rows add up to the digest of the changelog: %s", printable(err.Error()))
	} else if digest.Error != nil {
		d.unseen("whether PostgreSQL's rows add up to the digest of the changelog: the last comparison of %s failed: %s; run `waypost verify --source`",
			printable(digest.ControlPlane), printable(*digest.Error))
	}
	if own != nil {
		return own
	}
	reachable := slices.DeleteFunc(admins, func(addr string) bool { return !forOthers(addr) })
	if private := len(admins) - len(reachable); private > 0 {
		d.unseen("%s no admin listener for other machines; on theirs, add --admin HOST:PORT", numberOf(private, "node names", "nodes name"))
	}
	return reachable
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
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	_, otherName := errors.AsType[x509.HostnameError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case unknown:
		d.addFault(condition.Critical, where, "this machine does not know the authority of the certificate: "+err.Error(),
			"The API runs. Name the authority's file in SSL_CERT_FILE.", "docs/operations/tls.md")
	case invalid, otherName:
		d.addFault(condition.Critical, where, "the certificate does not hold: "+err.Error(),
			"The API runs. Use a name that the certificate has, renew it, or set the clock of this machine.", "docs/operations/tls.md")
	case noTLS, !answered && strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		d.addFault(condition.Critical, where, "this port speaks no TLS: "+err.Error(), "Name the API with http://, or another port.", "docs/operations/tls.md")
	case !answered:
		d.addFault(condition.Critical, where, "the control plane does not answer: "+err.Error(),
			"Redirects go on. Start it, or ask another control plane with --api. Name admin listeners with --admin to see the edges.", "ControlPlaneDown")
	case problem.Status == http.StatusUnauthorized, problem.Status == http.StatusForbidden:
		d.addFault(condition.Critical, where, "the key may not see the fleet: "+problem.Error(),
			"Use a key of the default workspace with the scope admin (`waypost keys create --name doctor --scopes admin`).", "docs/access.md")
	case problem.Status == http.StatusServiceUnavailable:
		d.addFault(condition.Critical, where, "the control plane cannot work: "+problem.Error(),
			"Redirects go on, and edges keep their clicks. Look at PostgreSQL: `pg_isready`, its log, its disk.", "PostgreSQLDown")
	default:
		d.addFault(condition.Critical, where, problem.Error(), "Look into the log of the control plane.", "APIErrors")
	}
	d.unseen("edges and control planes, through the API")
}

// addClear adds a finding if a URL of another machine is used without TLS.
func (d *diagnosis) addClear(where, what, base string) {
	if inClear(base) {
		d.addFault(condition.Warning, where, what+" travel to and from "+base+" without encryption",
			"Make certificates with `waypost certs`, and use https://.", "docs/operations/tls.md")
	}
}

// youth is the time after the start of a control plane in which edges connect again.
const youth = 30 * time.Second

// examineFleet looks at the reports of all nodes, and returns their admin listeners.
func (d *diagnosis) examineFleet(fleet *api.EdgeList) (admins []string) {
	controls, wellControls, edges, wellEdges := 0, 0, 0, 0
	for i := range fleet.ControlPlanes {
		if p := &fleet.ControlPlanes[i]; p.Answers && p.LastSeen.Sub(p.StartedAt) < youth {
			d.young = p
		}
	}
	for i := range fleet.ControlPlanes {
		p := &fleet.ControlPlanes[i]
		n := d.addConditions(p.Node, p.Conditions)
		switch p.State {
		case "stopped":
			d.fine("%s is off: it was stopped", printable(p.Node))
		case "unknown":
			d.unseen("%s: PostgreSQL, which knows of it, was not reached", printable(p.Node))
		case "alive":
			admins = append(admins, p.AdminAddr)
			if controls++; n == 0 {
				wellControls++
			}
		}
	}
	if len(fleet.Edges) == 0 && d.young == nil {
		d.addFault(condition.Critical, "fleet", "no edge has reported to this control plane",
			"Start an edge, or look into the log of one: it says why it cannot report.", "docs/operations/add-a-region.md")
	}
	for i := range fleet.Edges {
		e := &fleet.Edges[i]
		n := d.addConditions(e.Node, e.Conditions)
		switch {
		case e.State != "alive" && n == 0:
			d.fine("%s is off: it was stopped, or its credential was revoked", printable(e.Node))
		case e.State != "alive":
		case e.Via != "report":
			d.unseen("%s does not report to this control plane; by gossip it is alive", printable(e.Node))
		default:
			admins = append(admins, e.AdminAddr)
			if edges++; n == 0 {
				wellEdges++
			}
		}
	}
	if wellControls+wellEdges > 0 {
		d.fine("%d of %s and %d of %s report nothing wrong", wellEdges, numberOf(edges, "edge", "edges"),
			wellControls, numberOf(controls, "control plane", "control planes"))
	}
	return slices.DeleteFunc(admins, func(addr string) bool { return addr == "" })
}

// readiness holds the parts of an answer of /readyz that describe faults.
type readiness struct {
	Status     string              `json:"status"`
	Node       string              `json:"node"`
	Error      string              `json:"error"`
	LastError  string              `json:"last_error"`
	Source     string              `json:"source"` // that an edge follows
	Conditions []api.NodeCondition `json:"conditions"`
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
		if errs[i] != nil {
			d.addFault(condition.Warning, admin, "no answer from the admin listener",
				"It may be closed to this machine: run `waypost doctor` there, or look into the log.", "docs/operations/monitor.md")
			d.unseen("%s, of which only the API knows", printable(admin))
			continue
		}
		n := d.addConditions(r.Node, r.Conditions)
		d.addClear(r.Node, "its credential and links", r.Source)
		switch {
		case r.Status == "ready" || r.Status == "following" || r.Status == "draining":
			ready++
		case n == 0:
			errs := slices.DeleteFunc([]string{r.Error, r.LastError}, func(s string) bool { return s == "" })
			d.addFault(condition.Warning, r.Node, strings.TrimSpace("says "+r.Status+" "+strings.Join(errs, "; ")),
				"Look into its log.", "docs/operations/troubleshoot.md")
		}
	}
	if ready > 0 {
		d.fine("%d of %d admin listeners say that they are ready", ready, asked)
	}
	if asked == 0 {
		d.unseen("no admin listener was asked: what nodes that do not report would say")
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
