package httpapi

import (
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/controlplane"
)

// PathEdgeReports is where edges report how they are, once a second.
const PathEdgeReports = "/fleet/v1/report"

const (
	maxReport         = 4 << 10 // bytes of a body
	reportReadTimeout = 5 * time.Second

	maxReportAddr    = 128
	maxReportVersion = 64
	maxHeldWhy       = 512
)

// edgeReport is the body of a report. Fields that are not known here are of later
// versions and ignored.
type edgeReport struct {
	Node          string    `json:"node"`
	Region        string    `json:"region"`
	Role          string    `json:"role"`
	Boot          string    `json:"boot"` // 32 hex digits
	Addr          string    `json:"addr"`
	AdminAddr     string    `json:"admin_addr"`
	Version       string    `json:"version"`
	Position      string    `json:"position"` // "" without a replica
	Synced        string    `json:"synced"`   // what of it a crash cannot take back; "" when unknown
	LastAppliedAt time.Time `json:"last_applied_at"`
	StartedAt     time.Time `json:"started_at"`
	ClicksPending int64     `json:"clicks_pending"` // -1: unknown
	ClicksUntil   time.Time `json:"clicks_until"`
	Leaving       bool      `json:"leaving"`
	Replica       string    `json:"replica"` // "" when unknown
	Held          string    `json:"held"`    // what it does not take; "" when nothing
	HeldWhy       string    `json:"held_why"`
	DiskLow       bool      `json:"disk_low"`
}

// ReportTaker takes what edges report. EUnavailable says that there are too many.
type ReportTaker interface {
	Report(controlplane.EdgeReport) error
}

// OrderGiver has what edges are to do. It must not block.
type OrderGiver interface {
	For(node string) []controlplane.EdgeOrder
}

// EdgeReports takes edges' reports, one JSON object of at most 4 KiB a POST, and
// answers 204, or 200 with what the edge is to do. Behind an [EdgeGate] it takes only what the sender may
// say; without one it does not ask who sends them. A nil logger logs nothing; without orders there is nothing to do.
func EdgeReports(fleet ReportTaker, orders OrderGiver, logger *slog.Logger) http.Handler {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		report, err := readReport(w, r)
		from := speakerOf(r.Context())
		if err == nil {
			err = from.mayReport(r.Context(), report.Node, report.Region)
		}
		if err == nil {
			report.Credential = from.credential()
			err = fleet.Report(report)
		}
		if err != nil {
			refuseEdge(w, r, logger, "an edge's report was not taken", err)
			return
		}
		if orders != nil {
			if open := orders.For(report.Node); len(open) > 0 && !report.Leaving {
				_ = writeOrders(w, open) // they come again
				return
			}
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func readReport(w http.ResponseWriter, r *http.Request) (none controlplane.EdgeReport, err error) {
	data, err := readPosted(w, r, maxReport)
	if err != nil {
		return none, err
	}
	var body edgeReport
	if err := json.Unmarshal(data, &body); err != nil {
		return none, waypost.WrapError(waypost.EMalformed, "the body is no report in JSON", err)
	}
	return body.judge()
}

// judge lets through only what can be shown to an operator as it is.
func (b *edgeReport) judge() (none controlplane.EdgeReport, err error) {
	invalid := func(what string) (controlplane.EdgeReport, error) {
		return none, waypost.Errorf(waypost.EInvalid, "%s", what)
	}
	region, err := waypost.ParseRegion(b.Region)
	if err != nil {
		return none, err
	}
	var position waypost.Position
	if b.Position != "" {
		if position, err = waypost.ParsePosition(b.Position); err != nil {
			return none, err
		}
	}
	var synced waypost.Position
	if b.Synced != "" {
		if synced, err = waypost.ParsePosition(b.Synced); err != nil {
			return none, err
		}
	}
	var boot waypost.BootID
	if n, err := hex.Decode(boot[:], []byte(b.Boot[:min(len(b.Boot), 2*len(boot))])); err != nil || n != len(boot) || len(b.Boot) != 2*n {
		return invalid("boot must be 32 hex digits")
	}
	switch {
	case !waypost.ValidNode(b.Node):
		return invalid("node must be 1 to 64 of A-Z, a-z, 0-9, dot, _ and -")
	case b.Role != "edge" && b.Role != "relay":
		return invalid("role must be edge or relay")
	case !hostPort(b.Addr):
		return invalid("addr must be HOST:PORT, or empty")
	case !hostPort(b.AdminAddr):
		return invalid("admin_addr must be HOST:PORT, or empty")
	case len(b.Version) > maxReportVersion || !printable(b.Version):
		return invalid("version must be at most 64 printable characters")
	case !plausible(b.LastAppliedAt), !plausible(b.StartedAt), !plausible(b.ClicksUntil):
		return invalid("last_applied_at, started_at and clicks_until must be between 1970 and 9999, or left out")
	case !slices.Contains(replicaStates, controlplane.ReplicaState(b.Replica)):
		return invalid("replica must be following, waiting, restoring, repairing, held or degraded, or left out")
	case len(b.Held) > maxReportVersion || !printable(b.Held) || len(b.HeldWhy) > maxHeldWhy || !printable(strings.ReplaceAll(b.HeldWhy, " ", "")):
		return invalid("held must be at most 64 printable characters, and held_why 512")
	case b.ClicksPending < -1:
		return invalid("clicks_pending must be a number of clicks, or -1 when unknown")
	}
	return controlplane.EdgeReport{
		Node: b.Node, Region: region, Role: b.Role, Boot: boot, Addr: b.Addr, AdminAddr: b.AdminAddr, Version: b.Version, Position: position, Synced: synced,
		LastAppliedAt: b.LastAppliedAt, StartedAt: b.StartedAt, ClicksPending: b.ClicksPending, ClicksUntil: b.ClicksUntil, Leaving: b.Leaving,
		Replica: controlplane.ReplicaState(b.Replica), Held: b.Held, HeldWhy: b.HeldWhy, DiskLow: b.DiskLow,
	}, nil
}

// replicaStates is what may be reported.
var replicaStates = []controlplane.ReplicaState{
	"", controlplane.ReplicaFollowing, controlplane.ReplicaWaiting, controlplane.ReplicaRestoring, controlplane.ReplicaRepairing,
	controlplane.ReplicaHeld, controlplane.ReplicaDegraded,
}

// hostPort allows an address that is shown to operators, or none.
func hostPort(s string) bool {
	_, _, err := net.SplitHostPort(s)
	return s == "" || err == nil && len(s) <= maxReportAddr && printable(s)
}

// plausible allows a time that can be written again, or none.
func plausible(t time.Time) bool {
	const year10000 = 253402300800 // Unix seconds
	return t.IsZero() || t.Unix() >= 0 && t.Unix() < year10000
}

// printable reports whether s is ASCII without spaces and control characters.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
