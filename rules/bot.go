package rules

import (
	"waypost"
	"waypost/rules/agents"
)

// Limited reports whether an answer takes a click of an exact budget.
func Limited(res *waypost.Resolution) bool {
	return res.Link && res.Budget == BudgetExact
}

// RefusesBot reports whether an edge answers a user agent 403 in place of a redirect:
// granted clicks are for visitors, and software that says so is none.
func RefusesBot(res *waypost.Resolution, by *agents.Classifier, agent []byte) bool {
	return Limited(res) && by.IsBot(agent)
}
