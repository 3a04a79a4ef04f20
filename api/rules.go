package api

import "waypost/rules"

// The wire types of rules are their source.
type (
	Rule      = rules.Rule
	Condition = rules.Condition
	Parameter = rules.Parameter
	Schedule  = rules.Schedule
	Split     = rules.Split
	Variant   = rules.Variant
)
