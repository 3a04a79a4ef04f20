package api

import (
	"encoding/json"
	"time"
)

// AuditPage is a page of the audit log.
type AuditPage struct {
	Entries []AuditEntry `json:"entries" doc:"Newest first."`
	Next    string       `json:"next_cursor" doc:"Empty on the last page."`
}

// AuditEntry records an administrative act.
type AuditEntry struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor" doc:"Name and number of the API key or user."`
	Action  string          `json:"action" example:"ranges.move"`
	Subject string          `json:"subject" example:"range 7" doc:"The object of the act."`
	Detail  json.RawMessage `json:"detail" doc:"Its arguments. Never holds a secret."`

	Workspace string `json:"workspace" doc:"Slug of the workspace."`
}

// CleanupStats describes the removal of expired links, by all control planes together.
type CleanupStats struct {
	LastCleanupTime  *time.Time `json:"last_cleanup_time" doc:"When the last run ended; null before the first."`
	TotalCleaned     int64      `json:"total_cleaned" doc:"Expired links that all control planes have removed since the installation."`
	LastBatchSize    int64      `json:"last_batch_size" doc:"Links that the last transaction with any removed."`
	SuccessfulRuns   int64      `json:"successful_runs"`
	FailedRuns       int64      `json:"failed_runs"`
	AverageCleanupMS float64    `json:"average_cleanup_ms" doc:"Duration of a run."`
	IsRunning        bool       `json:"is_running" doc:"Whether a run is under way, on any control plane."`
	Backlog          int64      `json:"backlog" doc:"Links that have expired and are not removed yet, counted up to a million. They answer 410."`
}

// Digest compares the digest of the changelog with the sum of PostgreSQL's replicated
// rows.
type Digest struct {
	ControlPlane string `json:"control_plane" doc:"Name of the control plane that answers; each knows its own comparisons only."`

	Running   bool       `json:"running" doc:"A comparison has not ended; what follows is of the one before."`
	CheckedAt *time.Time `json:"checked_at" doc:"When this control plane has compared them last; null: it has not."`
	Equal     *bool      `json:"equal" doc:"Whether the rows add up to the digest; null: not compared. If not, edges are not repaired."`
	Position  *Sequence  `json:"position"`
	Digest    string     `json:"digest" doc:"Of the head of the changelog, in hexadecimal."`
	Rows      string     `json:"rows_digest" doc:"The same, added up from the rows."`
	Records   int64      `json:"records" doc:"Rows that were added up."`
	Error     *string    `json:"error" doc:"Why the last comparison failed; null: it did not."`
}

// CheckDigest asks for a comparison.
type CheckDigest struct {
	Recompute bool `json:"recompute,omitzero" doc:"If the rows do not add up to the digest, open an epoch of the changelog with the digest of the rows. Edges then repair what differs from the rows."`
}
