package httpapi

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"waypost"
	"waypost/api"
	"waypost/controlplane/fleet"
	"waypost/internal/condition"
	"waypost/rules"
)

const (
	maxReport  = 64 << 10 // bytes of a body
	maxOutcome = 64 << 10 // bytes of a body

	reportReadTimeout = 5 * time.Second

	maxReportAddr    = 128
	maxReportVersion = 64
	maxHeldWhy       = 512
	maxCondition     = 2048 // all texts of one
	maxOutcomeText   = 1024
	maxOpenOrders    = 16 // in an answer; further ones come later
	maxReplicaAge    = 100 * 365 * 24 * time.Hour
	maxRequests      = 1_000_000_000 // a second
	maxDisk          = 1 << 60       // bytes
)

// ReportTaker takes the reports of edges, as [fleet.Fleet.Report] does.
type ReportTaker interface {
	Report(ctx context.Context, r fleet.EdgeReport) (catchUp waypost.Position, err error)
}

// OrderGiver has the orders for edges. For must not block.
type OrderGiver interface {
	For(node string) []api.EdgeOrder
}

// BlockDigest has the digest of all statements about blocks. It must not block.
type BlockDigest interface{ Digest() uint64 }

// OutcomeTaker takes the answers of edges. ENotFound: there is no such order.
type OutcomeTaker interface {
	Done(ctx context.Context, node string, id int64, outcome api.EdgeOutcome) error
}

// EdgeReports takes the reports of edges, one [api.EdgeReport] a POST of at most 64 KiB,
// and answers 204, or 200 with [api.EdgeOrders]. It takes only reports that the sender
// may make by its [EdgeGate], and any report without a gate.
func EdgeReports(reports ReportTaker, orders OrderGiver, blocks BlockDigest, log *slog.Logger) http.Handler {
	return edgePosts(maxReport, "refused an edge's report", log, func(ctx context.Context, body *api.EdgeReport) (answer any, err error) {
		report, err := reportOf(body)
		from := edgeFrom(ctx)
		if err == nil {
			err = from.mayReport(ctx, report.Node, waypost.Region(report.Region))
		}
		var catchUp waypost.Position
		if err == nil {
			report.Credential = from.credential()
			catchUp, err = reports.Report(ctx, report)
		}
		differs := blocks != nil && report.Blocks != nil && *report.Blocks != blocks.Digest()
		open := orders.For(report.Node)
		if err != nil || report.Leaving || len(open) == 0 && !differs && !report.Starting {
			return nil, err
		}
		shown := api.EdgeOrders{Orders: open[:min(len(open), maxOpenOrders)], Blocks: differs}
		if report.Starting {
			shown.CatchUp = catchUp.String()
		}
		return &shown, nil // a lost answer is sent again
	})
}

// EdgeOutcomes takes the outcomes of orders, one [api.EdgeAnswer] a POST of at most 64
// KiB, and answers 204.
func EdgeOutcomes(orders OutcomeTaker, log *slog.Logger) http.Handler {
	return edgePosts(maxOutcome, "refused an edge's answer to an order", log, func(ctx context.Context, body *api.EdgeAnswer) (any, error) {
		err := checkAnswer(body)
		if err == nil {
			err = edgeFrom(ctx).maySpeak(ctx, body.Node)
		}
		if err == nil {
			err = orders.Done(ctx, body.Node, body.Order, body.Outcome)
		}
		return nil, err
	})
}

// edgePosts passes the bodies of edges, each JSON of at most that many bytes in a POST,
// to a function, and answers with what it returns, 204 for nil. A refusal is logged.
func edgePosts[B any](most int64, refusal string, log *slog.Logger, handle func(context.Context, *B) (answer any, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body B
		var answer any
		err := readPosted(w, r, most, &body)
		if err == nil {
			answer, err = handle(r.Context(), &body)
		}
		switch {
		case err != nil:
			refuseEdge(w, r, log, refusal, err)
		case answer == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			writeJSON(w, http.StatusOK, answer)
		}
	})
}

// readPosted reads a JSON body that was sent with POST. Unknown fields are ignored,
// because a newer edge may send them.
func readPosted(w http.ResponseWriter, r *http.Request, most int64, v any) error {
	if r.Method != http.MethodPost {
		p := newProblem(codeMethodNotAllowed, "send it with POST")
		p.header.Set("Allow", http.MethodPost)
		return p
	}
	text, err := readJSON(w, r, most, time.Now().Add(reportReadTimeout))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return waypost.WrapError(waypost.EMalformed, "the body does not fit its type", err)
	}
	return nil
}

// writeJSON answers an edge. An edge that has left asks again.
func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := encode(nil, v)
	if err != nil {
		panic("httpapi: " + err.Error()) // texts and numbers can be encoded
	}
	w.Header().Set("Cache-Control", "no-store")
	writeBody(w, status, jsonType, text)
}

// refuseEdge answers an edge with a problem, and logs it.
func refuseEdge(w http.ResponseWriter, r *http.Request, log *slog.Logger, message string, err error) {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		p = newProblem(waypost.CodeOf(err), waypost.MessageOf(err))
	}
	log.WarnContext(r.Context(), message, "edge", edgeFrom(r.Context()).name(), "status", p.Status, "error", err)
	writeProblem(w, p)
}

// reportOf accepts only reports that can be shown to an operator as they are.
func reportOf(b *api.EdgeReport) (report fleet.EdgeReport, err error) {
	if _, err := waypost.ParseRegion(b.Region); err != nil {
		return report, err
	}
	position, err := positionOf(b.Position)
	if err != nil {
		return report, err
	}
	synced, err := positionOf(b.Synced)
	if err != nil {
		return report, err
	}
	boot, err := bootOf(b.Boot)
	if err != nil {
		return report, err
	}
	var continues waypost.BootID
	if b.Continues != "" {
		if continues, err = bootOf(b.Continues); err != nil {
			return report, err
		}
	}
	if fault := faultOfReport(b); fault != "" {
		return report, waypost.Errorf(waypost.EInvalid, "%s", fault)
	}
	if b.PlacesBuilt != nil {
		b.PlacesBuilt = moment(*b.PlacesBuilt)
	}
	return fleet.EdgeReport{EdgeReport: *b, Boot: boot, Continues: continues, Position: position, Synced: synced}, nil
}

func bootOf(text string) (boot waypost.BootID, err error) {
	n, err := hex.Decode(boot[:], []byte(text[:min(len(text), 2*len(boot))]))
	if err != nil || n != len(boot) || len(text) != 2*n || boot == (waypost.BootID{}) {
		return boot, waypost.Errorf(waypost.EInvalid, "a boot must be 32 hex digits, and not all zeros")
	}
	return boot, nil
}

func positionOf(text string) (waypost.Position, error) {
	if text == "" {
		return waypost.Position{}, nil
	}
	return waypost.ParsePosition(text)
}

func faultOfReport(b *api.EdgeReport) string {
	switch {
	case !waypost.ValidNode(b.Node):
		return "node must be 1 to 64 of A-Z, a-z, 0-9, dot, _ and -"
	case b.Role != "edge" && b.Role != "relay":
		return "role must be edge or relay"
	case !hostPort(b.Addr):
		return "addr must be HOST:PORT, or empty"
	case !hostPort(b.AdminAddr):
		return "admin_addr must be HOST:PORT, or empty"
	case len(b.Version) > maxReportVersion || !waypost.Printable(b.Version):
		return "version must be at most 64 printable characters"
	case !plausible(b.StartedAt), !plausible(b.ClicksUntil), b.PlacesBuilt != nil && !plausible(*b.PlacesBuilt):
		return "started_at, clicks_until and places_built_at must be between 1970 and 9999, or left out"
	case !slices.Contains(replicaStates, b.Replica):
		return "replica must be following, waiting, verifying, restoring, repairing, held or degraded, or left out"
	case len(b.Held) > maxReportVersion || !waypost.Printable(b.Held) ||
		len(b.HeldWhy) > maxHeldWhy || !waypost.Printable(strings.ReplaceAll(b.HeldWhy, " ", "")):
		return "held must be at most 64 printable characters, and held_why 512"
	case b.AgeSeconds < 0 || b.AgeSeconds > maxReplicaAge.Seconds():
		return "age_seconds must be a number of seconds, up to 100 years"
	case b.RequestsPerSecond != nil && (*b.RequestsPerSecond < 0 || *b.RequestsPerSecond > maxRequests):
		return "requests_per_second must be a number up to 1,000,000,000, or left out"
	case outside(b.DiskUsedBytes) || outside(b.DiskFreeBytes):
		return "disk_used_bytes and disk_free_bytes must be numbers of bytes up to 2^60, or left out"
	case len(b.Conditions) > api.MaxConditions || slices.ContainsFunc(b.Conditions, unshowable):
		return "conditions must be at most 64, with texts that can be shown"
	case b.ClicksPending < -1:
		return "clicks_pending must be a number of clicks, or -1 when unknown"
	}
	return ""
}

// unshowable reports whether a condition cannot be shown to an operator as it is.
func unshowable(c api.NodeCondition) bool {
	text := c.Name + c.Of + c.Severity + c.What + c.Do + c.Page
	return len(c.Name) > maxReportVersion || len(text) > maxCondition || !waypost.Printable(strings.ReplaceAll(text, " ", "")) ||
		c.Severity != condition.Critical && c.Severity != condition.Warning || !plausible(c.Since)
}

// outside reports whether a number of bytes is given that no disk has.
func outside(bytes *int64) bool { return bytes != nil && (*bytes < 0 || *bytes > maxDisk) }

// replicaStates lists the states that an edge may report.
var replicaStates = []string{"", "following", "waiting", "verifying", "restoring", "repairing", "held", "degraded"}

// checkAnswer refuses an answer that cannot be shown to an operator as it is.
func checkAnswer(a *api.EdgeAnswer) error {
	o := &a.Outcome
	for _, text := range []string{o.Error, o.Accepted, o.Damage} {
		if len(text) > maxOutcomeText || !waypost.Printable(strings.ReplaceAll(text, " ", "")) {
			return waypost.Errorf(waypost.EInvalid, "texts must be at most %d printable characters", maxOutcomeText)
		}
	}
	if !waypost.ValidNode(a.Node) || a.Order < 1 || o.Records > 1<<62 || o.Position != nil && o.Position.Seq > 1<<62 || o.Seconds < 0 {
		return waypost.Errorf(waypost.EInvalid, "the outcome is out of bounds")
	}
	x := o.Explained
	if x != nil && (x.Code != "" && !waypost.ValidCode(x.Code) || len(x.Match) > 32 ||
		len(x.Country) > 2 || len(x.City) > waypost.MaxClickName || !utf8.ValidString(x.City) ||
		len(x.Location) > waypost.MaxPayload || !waypost.Printable(x.Location) || len(x.Gate) > 32 ||
		!waypost.Printable(x.Gate+x.Country+x.Match) || x.Status < 0 || x.Status > 599 || x.Steps == nil || len(x.Steps) > rules.MaxRules) {
		return waypost.Errorf(waypost.EInvalid, "the explanation is out of bounds")
	}
	return nil
}

// hostPort allows an address that is shown to operators, or none.
func hostPort(s string) bool {
	_, _, err := net.SplitHostPort(s)
	return s == "" || err == nil && len(s) <= maxReportAddr && waypost.Printable(s)
}

// plausible allows a time that can be encoded again, or none.
func plausible(t time.Time) bool {
	const year10000 = 253402300800 // Unix seconds
	return t.IsZero() || t.Unix() >= 0 && t.Unix() < year10000
}
