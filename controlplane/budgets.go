package controlplane

import (
	"context"

	"waypost"
	"waypost/api"
	"waypost/rules"
	"waypost/rules/budget"
)

// BudgetStore keeps the click budgets of links, and the grants of edges.
type BudgetStore interface {
	// ReportBudgets merges the accounts of an edge with the stored ones, and grants the
	// clicks that they ask for, as far as the limits allow. It believes a claim above the
	// stored number only while the database may have forgotten grants. When it returns,
	// all changes are durable, in one transaction. It returns EUnavailable when a newer
	// primary than this PostgreSQL is known.
	ReportBudgets(ctx context.Context, r *BudgetReport) (BudgetGrants, error)

	// LinkBudget returns the budget of a link of a workspace, of exact clicks.
	LinkBudget(ctx context.Context, ws waypost.WorkspaceID, link int64) (api.Budget, error)
}

// BudgetReport holds accounts of an edge. The caller has checked the edge's credential.
type BudgetReport struct {
	Node     string
	Former   []string // names that the edge had before, by its credential
	Epoch    uint32   // newest epoch of the changelog that the edge has seen
	Accounts []BudgetAccount
	Complete bool     // all accounts of the edge are known with this report, in this epoch
	Disk     [16]byte // of Complete: id of the edge's disk
}

// BudgetAccountID is made at random by the edge that opens an account.
type BudgetAccountID [16]byte

// BudgetAccount is an account of an edge for the budget of a link.
type BudgetAccount struct {
	Domain waypost.DomainID
	Code   waypost.Code
	ID     BudgetAccountID
	budget.Account
	Want    int64
	Waiting int64 // visitors who wait for a click
}

// BudgetGrants is the answer to a report.
type BudgetGrants struct {
	api.EdgeGrants
	Excess int64 // clicks that the edge claims and was never granted
}

// The states of a budget say whether it grants clicks to edges, and why not.
const (
	BudgetOpen = "open" // more can be granted
	BudgetUsed = "used" // all clicks are spent, except the clicks that the account holds
	BudgetHeld = "held" // nothing is granted at the moment: edges hold the rest, or have to report first
	BudgetNone = "none" // the link has no budget that grants clicks; it may have one again
	BudgetGone = "gone" // there is no such link, and never will be
)

// Budgets describes the click budgets of links.
type Budgets struct{ store BudgetStore }

// Of returns the budget of a link of the actor's workspace, nil for a link without one.
// An eventual budget grants nothing, and counts the clicks of people.
func (b *Budgets) Of(ctx context.Context, actor Actor, l *waypost.Link) (*api.Budget, error) {
	source, err := rules.ParseSource(l.Rules)
	if err != nil || source.MaxClicks == 0 {
		return nil, err
	}
	if source.MaxClicksMode == rules.ModeEventual {
		spent := l.Clicks - l.BotClicks
		return &api.Budget{Limit: source.MaxClicks, Granted: spent, Spent: spent}, nil
	}
	found, err := b.store.LinkBudget(ctx, actor.Workspace, l.ID)
	if waypost.CodeOf(err) == waypost.ENotFound {
		return nil, nil //nolint:nilnil // the link was changed a moment ago
	}
	return &found, err
}
