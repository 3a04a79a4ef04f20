// Package api declares the wire types of Waypost's HTTP API: the JSON bodies that the
// control plane, its clients and its edges exchange, and the paths that they use.
//
// The types hold data only. Package controlplane/httpapi serves them, package client
// sends them, and package edge/report reports with them. Times are RFC 3339 in UTC.
//
// Struct tags describe the fields in the OpenAPI document and bound the values that the
// control plane accepts: doc, example, default, enum, format, pattern, minimum, maximum,
// minLength and maxLength (in characters; of a list they bound each item), minItems,
// maxItems, uniqueItems and writeOnly. In a request, a field without omitzero is required
// and null means the same as leaving a field out; [Field] keeps the two apart.
package api

// Paths of the API. A code, an id or a node follows most of them.
const (
	PathLinks      = "/api/v1/urls"
	PathExplain    = "/api/v1/explain"
	PathTags       = "/api/v1/tags"
	PathImports    = "/api/v1/imports"
	PathStats      = "/api/v1/stats"
	PathUnknown    = "/api/v1/stats/unknown"
	PathViews      = "/api/v1/stats/views"
	PathPublic     = "/api/v1/public" // pages of public views, by their secrets
	PathLive       = "/api/v1/live"
	PathDomains    = "/api/v1/domains"
	PathAllDomains = "/api/admin/domains" // of all workspaces
	PathKeys       = "/api/v1/kgs"
	PathMe         = "/api/v1/me"
	PathSessions   = "/api/v1/me/sessions"
	PathFactor     = "/api/v1/me/second-factor"
	PathSession    = "/api/v1/session"
	PathInvitation = "/api/v1/invitation"
	PathUsers      = "/api/v1/users"
	PathAPIKeys    = "/api/v1/keys"
	PathWorkspace  = "/api/v1/workspace"

	PathRanges          = "/api/admin/ranges"
	PathAudit           = "/api/admin/audit"
	PathCleanup         = "/api/admin/cleanup/stats"
	PathDigest          = "/api/admin/digest"
	PathBlocks          = "/api/admin/blocks"
	PathEdges           = "/api/admin/edges"
	PathEdgeEnrolments  = "/api/admin/edge-enrolments"
	PathEdgeCredentials = "/api/admin/edge-credentials"
	PathVisitorSalts    = "/api/admin/visitor-salts"
	PathAllWorkspaces   = "/api/admin/workspaces"
	PathAllUsers        = "/api/admin/users"
)

// Paths that only edges use. Package api/clickbatch has the path of their clicks.
const (
	PathEdgeReports      = "/fleet/v1/report"
	PathEdgeOutcomes     = "/fleet/v1/outcome"
	PathEdgeCertificates = "/fleet/v1/certificates"
	PathEdgeBudgets      = "/fleet/v1/budgets"
	PathEdgeBlocks       = "/fleet/v1/blocks"
	PathEdgeUnknown      = "/fleet/v1/unknown"
)

// Headers of the API.
const (
	HeaderWorkspace = "Waypost-Workspace" // slug of the workspace that a request is for
	HeaderPosition  = "Waypost-Position"  // position of a change in the changelog
	HeaderApplied   = "Waypost-Applied"   // outcome of waiting for edges
	HeaderReplayed  = "Idempotency-Replayed"
	HeaderCursor    = "Waypost-Cursor" // of an export: where the next one continues
	HeaderLinks     = "Waypost-Links"  // of an export: how many links it wrote
)
