package httpapi

import (
	"context"
	"encoding/hex"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/rules/budget"
)

// maxBudgets bounds a report of accounts, in bytes.
const maxBudgets = 512 << 10

// BudgetTaker takes the accounts of click budgets from edges, and grants clicks.
type BudgetTaker interface {
	ReportBudgets(ctx context.Context, r *controlplane.BudgetReport) (controlplane.BudgetGrants, error)
}

// EdgeBudgets takes the accounts of edges, one [api.EdgeBudgets] a POST of at most 512
// KiB, and answers with [api.EdgeGrants]. It counts the clicks that edges claim and were
// never granted.
func EdgeBudgets(to BudgetTaker, log *slog.Logger, metrics prometheus.Registerer) http.Handler {
	excess := promauto.With(metrics).NewCounter(prometheus.CounterOpts{
		Name: "waypost_budget_excess_clicks_total", Help: "Clicks of budgets that edges claim and were never granted; they are ignored.",
	})
	return edgePosts(maxBudgets, "refused an edge's accounts of click budgets", log, func(ctx context.Context, body *api.EdgeBudgets) (any, error) {
		report, err := budgetsOf(body)
		if err == nil {
			err = edgeFrom(ctx).maySpeak(ctx, body.Node)
		}
		if err != nil {
			return nil, err
		}
		report.Former = edgeFrom(ctx).former()
		grants, err := to.ReportBudgets(ctx, &report)
		if err == nil && grants.Excess > 0 {
			excess.Add(float64(grants.Excess))
			log.WarnContext(ctx, "ignored clicks of budgets that an edge claims and was never granted", "edge", body.Node, "clicks", grants.Excess)
		}
		return &grants.EdgeGrants, err
	})
}

// Budgets describes the click budgets of links.
type Budgets interface {
	// Of returns the budget of a link of the actor's workspace, nil for a link without one.
	Of(ctx context.Context, actor controlplane.Actor, l *waypost.Link) (*api.Budget, error)
}

// budgetsOf accepts only accounts that are possible.
func budgetsOf(b *api.EdgeBudgets) (r controlplane.BudgetReport, err error) {
	if !waypost.ValidNode(b.Node) || len(b.Accounts) > api.MaxEdgeBudgets || b.Epoch > 1<<31-1 {
		return r, waypost.Errorf(waypost.EInvalid, "the report needs the name of the edge, an epoch, and at most %d accounts", api.MaxEdgeBudgets)
	}
	r = controlplane.BudgetReport{Node: b.Node, Epoch: b.Epoch, Complete: b.Complete}
	if b.Complete {
		if r.Disk, err = sixteen("disk", b.Disk); err != nil {
			return r, err
		}
	}
	for i := range b.Accounts {
		a := &b.Accounts[i]
		account := controlplane.BudgetAccount{
			Domain: waypost.DomainID(a.Domain), Code: waypost.Code(a.Code), Want: a.Want, Waiting: a.Waiting,
			Account: budget.Account{Granted: a.Granted, Returned: a.Returned, Spent: a.Spent},
		}
		id, err := sixteen("id", a.ID)
		switch {
		case err != nil:
			return r, err
		case a.Domain < 1 || a.Domain > 1<<31-1 || !waypost.ValidCode(a.Code):
			return r, waypost.Errorf(waypost.EInvalid, "domain and code must name a link")
		case !account.Valid() || a.Want < 0 || a.Want > budget.MaxGrant || a.Waiting < 0 || a.Waiting > budget.MaxGrant:
			return r, waypost.Errorf(waypost.EInvalid, "granted, returned, spent, want and waiting must be possible numbers of clicks")
		}
		account.ID = controlplane.BudgetAccountID(id)
		r.Accounts = append(r.Accounts, account)
	}
	return r, nil
}

// sixteen decodes 16 bytes in hex.
func sixteen(field, text string) (b [16]byte, err error) {
	if len(text) == hex.EncodedLen(len(b)) {
		_, err = hex.Decode(b[:], []byte(text))
	}
	if err != nil || len(text) != hex.EncodedLen(len(b)) {
		return b, waypost.Errorf(waypost.EInvalid, "%s must be 32 hex digits", field)
	}
	return b, nil
}
