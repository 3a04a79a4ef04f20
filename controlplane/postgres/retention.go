package postgres

import (
	"context"
	"time"

	"waypost/controlplane"
	"waypost/controlplane/imports"
	"waypost/controlplane/postgres/analytics"
)

// Ages that no setting changes.
const (
	keptRates      = 8 * 24 * time.Hour // of keys in a minute, and of control planes that are gone
	keptSessions   = 24 * time.Hour     // after their end
	keptEdgeOrders = 50                 // of an edge
	keptUnknown    = 48 * time.Hour     // after the day; reports of it may come for as long
)

// retained describes rows that are deleted after a time.
type retained struct {
	table string
	age   time.Duration // 0: see until
	until string        // "" if the age says all
	// forget deletes older rows, in one round of Maintain; nil: another job deletes them.
	forget func(context.Context) error
}

// retention lists all that PostgreSQL keeps for a limited time. Edges keep acknowledged
// batches of clicks for a time of their own (package edge/clicks).
func (db *DB) retention() []retained {
	return []retained{
		{table: "visitor_salt", age: db.SaltStore.retention, until: "the age after its day", forget: db.keepSalts},
		{table: "changelog", age: db.Changelog.cfg.KeepChangelog, until: "that, or KeepChangelogBytes", forget: db.keepPartitions},
		{table: "click_batch", age: analytics.KeptBatches, forget: db.ForgetBatches},
		{table: "idempotency", age: keepAnswers, forget: db.forgetAnswers},
		{table: "import", age: imports.KeptFor, until: "the age after the last change; with import_part and import_rows", forget: db.forgetImports},
		{table: "key_issue", age: keptRates, forget: db.forgetIssues},
		{table: "control_node", age: keptRates, until: "the age, and no lease; by forgetIssues"},
		{table: "click_event", until: "EventMonths whole months; by KeepEvents"},
		{table: "unknown_address", age: controlplane.UnknownDays * 24 * time.Hour, until: "the age of its day, or keptUnknown without enough visitors", forget: db.forgetUnknown},
		{table: "unknown_report", age: keptUnknown, until: "the age; by forgetUnknown"},
		{table: "stats_question", age: analytics.KeptAnswers, until: "the age after it was asked; with stats_answer and stats_answer_day; by KeepAnswers"},
		{table: "user_session", age: keptSessions, until: "the age after its end; when uses are stored"},
		{table: "sign_in_link", until: "its end; when uses are stored"},
		{table: "edge_order", until: "keptEdgeOrders newer ones; by the next order"},
		{table: "link", until: "ReaperConfig.PurgeAfter its deletion, and Buffer after its expiry"},
		{table: "link_change", until: "the purge of its link"},
		{table: "api_key", until: "ReaperConfig.KeysAfter its end"},
	}
}
