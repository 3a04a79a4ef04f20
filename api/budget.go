package api

// Budget describes how many clicks of a link are left.
type Budget struct {
	Limit   int64  `json:"limit" doc:"max_clicks."`
	Granted int64  `json:"granted" doc:"Clicks that edges have spent or hold to spend them."`
	Spent   int64  `json:"spent" doc:"Of these, visitors who were led to the target, as far as edges have reported, and the clicks that an edge held when it was killed."`
	AtMost  *int64 `json:"at_most" doc:"Visitors are led to the target at most that often, whatever fails; null in the mode eventual."`
}

// MaxEdgeBudgets bounds the accounts of one report.
const MaxEdgeBudgets = 1000

// EdgeBudgets reports an edge's accounts of click budgets, and asks for clicks.
type EdgeBudgets struct {
	Node     string       `json:"node"`
	Epoch    uint32       `json:"epoch" doc:"Newest epoch of the changelog that the edge has seen. Nothing is granted in another one."`
	Accounts []EdgeBudget `json:"accounts" doc:"At most 1,000."`
	Complete bool         `json:"complete" doc:"With this report the control plane has all accounts of the edge in this epoch."`
	Disk     string       `json:"disk,omitzero" doc:"Of complete: 32 hex digits that were made at random, and are kept on the edge's disk. Others mean that accounts are lost: the disk was replaced, or the edge could not read them."`
}

// EdgeBudget is an account of an edge for the budget of a link. Totals only grow.
type EdgeBudget struct {
	Domain   uint32 `json:"domain" doc:"Id of the domain."`
	Code     string `json:"code"`
	ID       string `json:"id" doc:"Of the account: 32 hex digits that the edge makes at random when it opens the account. After a restart it opens another one."`
	Granted  int64  `json:"granted" doc:"Clicks that the edge has taken."`
	Returned int64  `json:"returned" doc:"Clicks that it has given back unspent."`
	Spent    int64  `json:"spent" doc:"Clicks that it has redirected, as far as it knows."`
	Want     int64  `json:"want" doc:"Clicks that it asks for; 0 for none. All edges together are granted at most a quarter of the clicks that are left, except for visitors who wait."`
	Waiting  int64  `json:"waiting,omitzero" doc:"Visitors who wait for a click. They are granted theirs while any is left."`
}

// EdgeGrants is the answer to a report of accounts.
type EdgeGrants struct {
	Epoch  uint32      `json:"epoch" doc:"Of the changelog. A grant of an epoch before the newest one that the edge has seen is void."`
	Grants []EdgeGrant `json:"grants" doc:"For each account of the report, in the same order."`

	Recalled []EdgeLink `json:"recalled,omitzero" doc:"Links of which the edge holds clicks while visitors of other edges have none: it returns the clicks that no visitor takes. At most 1,000."`
}

// EdgeLink names a link.
type EdgeLink struct {
	Domain uint32 `json:"domain" doc:"Id of the domain."`
	Code   string `json:"code"`
}

// EdgeGrant is the state of one account.
type EdgeGrant struct {
	Granted int64  `json:"granted" doc:"Clicks that the edge was given in all, by this account."`
	State   string `json:"state" enum:"open,used,held,none,gone" doc:"open: more can be granted. used: all clicks are spent, except the clicks that this account holds. held: nothing is granted at the moment, because edges hold all clicks that are left, or have to report first. none: the link has no budget of which clicks are granted, and may have one again. gone: there is no such link."`
}
