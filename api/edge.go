package api

import "time"

// EdgeList holds the edges that the control plane knows, and the control planes.
type EdgeList struct {
	Edges         []Edge         `json:"edges" doc:"By region and node."`
	ControlPlanes []ControlPlane `json:"control_planes" doc:"By region and node."`
}

// MaxConditions bounds the conditions in a report.
const MaxConditions = 64

// NodeCondition describes something that is wrong with a node.
type NodeCondition struct {
	Name     string    `json:"name" doc:"Name of the condition, and of its alert."`
	Severity string    `json:"severity" enum:"critical,warning" doc:"Critical should wake an operator; a warning can wait until morning."`
	Of       string    `json:"of" doc:"The region or edge that it concerns; empty for the node itself."`
	Since    time.Time `json:"since" doc:"By the clock of the node."`
	What     string    `json:"what" doc:"A predicate to the name of the node, or of what it concerns."`
	Do       string    `json:"do" doc:"What to do."`
	Page     string    `json:"page" doc:"Page of the documentation."`
}

// ControlPlane describes a control plane to operators.
type ControlPlane struct {
	Node       string          `json:"node"`
	Region     string          `json:"region"`
	Version    string          `json:"version" doc:"Version of the software."`
	Addr       string          `json:"addr" doc:"HOST:PORT of the API, as it listens."`
	AdminAddr  string          `json:"admin_addr" doc:"HOST:PORT of the admin listener."`
	State      string          `json:"state" enum:"alive,silent,stopped,unknown" doc:"Silent: PostgreSQL has not heard of it for 15 seconds, and it did not stop in order; after a day it is forgotten. Unknown: PostgreSQL was not asked for so long."`
	Answers    bool            `json:"answers" doc:"It has answered this request."`
	StartedAt  time.Time       `json:"started_at" doc:"By PostgreSQL's clock; of the one that answers by its own."`
	LastSeen   time.Time       `json:"last_seen"`
	Conditions []NodeCondition `json:"conditions" doc:"Conditions that are true, by its last report."`
}

// EdgeState is the part of an edge's state that the edge itself reports and operators
// see.
type EdgeState struct {
	Node      string `json:"node"`
	Region    string `json:"region"`
	Role      string `json:"role" enum:"edge,relay," doc:"Relay: an edge that others follow instead of the control plane. Empty when unknown."`
	Version   string `json:"version" doc:"Version of the software."`
	Addr      string `json:"addr" doc:"HOST:PORT of the redirects; may be empty."`
	AdminAddr string `json:"admin_addr" doc:"HOST:PORT of the admin listener; may be empty."`
	Replica   string `json:"replica" enum:"following,waiting,verifying,restoring,repairing,held,degraded," doc:"State of the replica. following: it follows the changelog. waiting: it waits for a source, or for its turn to take a snapshot. verifying: after a start, until all records have been added up and compared with the digest; there is no position meanwhile. restoring: a snapshot fills it. repairing: slots are replaced. held: it holds back a change until an operator accepts it. degraded: it takes no changes, because its disk has failed or is almost full, or because records are damaged. The edge serves in every state. Empty when unknown."`
	Held      string `json:"held" doc:"The change that is held until it is accepted: mass-delete, empty-snapshot or record. Empty for none."`
	HeldWhy   string `json:"held_why" doc:"The reason why a change is held, or why the edge waits for a source, in words; may be empty."`
	Draining  bool   `json:"draining" doc:"The edge answers /readyz with 503 by order of an operator, so that balancers send visitors elsewhere. It serves visitors who come nevertheless."`

	RequestsPerSecond *float64   `json:"requests_per_second" doc:"Answers to visitors, over about the last 10 seconds; null when unknown."`
	DiskUsedBytes     *int64     `json:"disk_used_bytes" doc:"Bytes of the file system of the edge's data directory that are not free, whichever program uses them; null when unknown."`
	DiskFreeBytes     *int64     `json:"disk_free_bytes" doc:"Bytes of that file system that the edge may still use; null when unknown."`
	PlacesBuilt       *time.Time `json:"places_built_at" doc:"When the edge's GeoIP database was built, which locates visitors for rules and statistics; null without one, and when unknown."`

	Conditions []NodeCondition `json:"conditions" doc:"Conditions that are true, by the last report, and those that this control plane sees."`
}

// Edge describes an edge to operators.
type Edge struct {
	EdgeState
	State         string     `json:"state" enum:"alive,silent,gone" doc:"Silent: not seen for more than 3 seconds. Gone: left on purpose, or not seen for more than 10 minutes."`
	Left          bool       `json:"left" doc:"It is gone because it was stopped in order."`
	MayServe      bool       `json:"may_serve" doc:"It may be serving: it has not said that it stopped, and was not declared gone. While it is silent, waiting for edges ends with reachable."`
	Twins         []string   `json:"twins" doc:"Addresses of the redirects of other edges that report under the same name, such as copies of its disk. No change counts as applied there. Empty for none."`
	Since         time.Time  `json:"since" doc:"When the state began; for an edge that is not seen, since when."`
	LastSeen      time.Time  `json:"last_seen"`
	Via           string     `json:"via" enum:"report,gossip,record" doc:"Source of this state. report: the edge itself. gossip: a hint from other nodes, while the edge does not reach the control plane. record: the last report to another control plane, or before this one was started."`
	Position      *Sequence  `json:"position" doc:"Up to which position the edge has the changelog; null without a replica, and when unknown."`
	AgeSeconds    *float64   `json:"age_seconds" doc:"Time since the replica was last known to be at PostgreSQL's head; null unless the edge itself reports."`
	LagChanges    *uint64    `json:"lag_changes" doc:"Transactions that the edge does not have yet; null when unknown, and instead of 0 when age_seconds is above 5."`
	LagSeconds    *float64   `json:"lag_seconds" doc:"For how long it has lacked the oldest of them, at least; null when unknown."`
	StartedAt     *time.Time `json:"started_at" doc:"By the edge's clock; null when unknown."`
	ClicksPending *int64     `json:"clicks_pending" doc:"Clicks in the edge's journal that are not counted here yet; null when unknown."`
	ClicksUntil   *time.Time `json:"clicks_until" doc:"The edge's clicks before this time, by its clock, are counted here; null when unknown."`
	Verified      *Verified  `json:"verified" doc:"The last comparison with PostgreSQL; null without one."`
	HasBlocks     *bool      `json:"has_blocks" doc:"Whether the edge knew all blocks of codes at its last report; null when unknown."`
	Credential    *string    `json:"credential" enum:"own,shared,revoked" doc:"Credential of the edge: its own, or the token that all edges share; or its own was revoked. Null when unknown."`
}

// EdgeReport is the report that an edge sends once a second.
type EdgeReport struct {
	EdgeState
	Boot          string    `json:"boot" doc:"This start of the edge: 32 hex digits."`
	Position      string    `json:"position" doc:"Empty without a replica."`
	AgeSeconds    float64   `json:"age_seconds" doc:"Time since the replica was last known to be at PostgreSQL's head."`
	Synced        string    `json:"synced" doc:"The part of the position that survives a crash; empty when unknown."`
	StartedAt     time.Time `json:"started_at"`
	ClicksPending int64     `json:"clicks_pending" doc:"-1 when unknown."`
	ClicksUntil   time.Time `json:"clicks_until,omitzero"`
	Leaving       bool      `json:"leaving" doc:"The edge answers no requests any more, and is about to stop."`
	Starting      bool      `json:"starting,omitzero" doc:"The edge answers no requests yet."`
	Continues     string    `json:"continues,omitzero" doc:"Boot of the program before in the same process, which has ended: 32 hex digits. Left out: there was none."`
	Blocks        *uint64   `json:"blocks" doc:"Digest of the blocks of codes that the edge knows; null when unknown."`
}

// EdgeOrders is the answer to a report: orders that the edge has not answered yet.
type EdgeOrders struct {
	Orders  []EdgeOrder `json:"orders"`
	CatchUp string      `json:"catch_up,omitzero" doc:"For an edge that starts: the position that its replica must have reached before the edge serves."`
	Blocks  bool        `json:"blocks" doc:"The control plane knows other blocks of codes than the edge, which exchanges them now."`
}

// EdgeCertificates is the report of an edge about its certificates, every 5 seconds.
type EdgeCertificates struct {
	Node     string            `json:"node"`
	Complete bool              `json:"complete" doc:"The edge has no certificates for other hosts."`
	Hosts    []HostCertificate `json:"hosts" doc:"At most 256: those that failed, then those that wait, then those that expire soonest."`
}

// HostCertificate describes an edge's certificate for a host.
type HostCertificate struct {
	Host  string     `json:"host" doc:"In lower case; *.example.com stands for all names one label longer."`
	State string     `json:"state" enum:"waiting,valid,failed"`
	Until *time.Time `json:"until,omitzero" doc:"When it expires; left out: none is valid."`
	Error string     `json:"error,omitzero" doc:"Why it has failed."`
}

// MaxEdgeUnknown bounds the addresses in an [EdgeUnknown].
const MaxEdgeUnknown = 500

// EdgeUnknown is the report of an edge about addresses that visitors asked for and that
// name no link. Node, boot and seq identify it; it counts once, however often it arrives.
type EdgeUnknown struct {
	Node      string               `json:"node"`
	Boot      string               `json:"boot" doc:"Of the edge's start: 32 hex digits."`
	Seq       uint64               `json:"seq" doc:"1 for the first report of a boot, and 1 more for each."`
	Addresses []EdgeUnknownAddress `json:"addresses" doc:"At most 500, each once."`
}

// EdgeUnknownAddress has the visits of an address on a day since the report before.
type EdgeUnknownAddress struct {
	Domain   uint32   `json:"domain" doc:"Id of the domain."`
	Day      string   `json:"day" doc:"UTC."`
	Kind     uint8    `json:"kind" doc:"0: it led nowhere; 1: a pattern answered."`
	Path     string   `json:"path" doc:"Without its first slash and the query."`
	People   uint64   `json:"people" doc:"Visits of people."`
	Bots     uint64   `json:"bots" doc:"Visits of bots."`
	Visitors []uint64 `json:"visitors" doc:"Numbers of people, of the first five of the day on this edge, without those that were reported before."`
}

// Verified is the result of the last verification of an edge.
type Verified struct {
	At     time.Time `json:"at"`
	Damage string    `json:"damage" doc:"What was wrong with the records on disk, which the edge then repaired; may be empty."`
	Error  string    `json:"error" doc:"Why it was not done, or not completed; may be empty."`
}

// Sequence is a position in the changelog.
type Sequence struct {
	Epoch uint32 `json:"epoch" doc:"Ordinal of the history. Positions of different epochs cannot be compared."`
	Seq   uint64 `json:"seq"`
}

// AcceptHeld orders an edge to take a change that it holds back.
type AcceptHeld struct {
	What string `json:"what,omitzero" enum:"mass-delete,empty-snapshot,record" doc:"The held change. Default: any."`
}

// DrainEdge orders an edge to send new visitors elsewhere.
type DrainEdge struct {
	Undo bool `json:"undo,omitzero" doc:"End that."`
}

// EdgeOrder is an order of an operator to an edge.
type EdgeOrder struct {
	ID        int64         `json:"id"`
	Node      string        `json:"node"`
	What      string        `json:"what" enum:"verify,accept,drain,undrain,explain"`
	Hold      string        `json:"hold" doc:"For accept: the held change; empty for any."`
	Question  *EdgeQuestion `json:"question,omitzero" doc:"For explain: the link and the visitor."`
	OrderedBy string        `json:"ordered_by"`
	OrderedAt time.Time     `json:"ordered_at"`
	Until     time.Time     `json:"until" doc:"An edge that has not answered by then does not carry it out any more."`
	DoneAt    *time.Time    `json:"done_at" doc:"When the edge answered; null before."`
	Outcome   *EdgeOutcome  `json:"outcome" doc:"Outcome of the order; null before."`
}

// EdgeOutcome is the outcome of an order.
type EdgeOutcome struct {
	Error     string         `json:"error" doc:"Why it was not done, or not completed; may be empty."`
	Accepted  string         `json:"accepted" doc:"The held change that is accepted; empty for none."`
	Records   uint64         `json:"records" doc:"Records that were read."`
	Damage    string         `json:"damage" doc:"What is wrong with the records on disk, which the edge then repairs; may be empty."`
	Position  *Sequence      `json:"position" doc:"Position of the replica at the end; null without one."`
	Seconds   float64        `json:"seconds" doc:"Duration."`
	Explained *EdgeExplained `json:"explained,omitzero" doc:"The answer of the edge to a visitor."`
}

// EdgeQuestion asks an edge for its answer to a visitor of a link.
type EdgeQuestion struct {
	Host      string    `json:"host" doc:"Host of the link's domain; empty: the default one."`
	Path      string    `json:"path" doc:"What the visitor asks for, without its first slash."`
	At        time.Time `json:"at"`
	Address   string    `json:"address"`
	Country   string    `json:"country" doc:"Empty: that of the address by the edge's GeoIP database."`
	City      string    `json:"city"`
	UserAgent string    `json:"user_agent"`
	Language  string    `json:"language"`
	Query     string    `json:"query"`
	Cookie    string    `json:"cookie"`
}

// EdgeExplained is the answer of an edge to a visitor.
type EdgeExplained struct {
	Code        string     `json:"code" doc:"Code of the link that the path leads to; empty: the edge has no such link."`
	Match       string     `json:"match" doc:"How the path names the link."`
	Country     string     `json:"country"`
	City        string     `json:"city"`
	PlacesBuilt *time.Time `json:"places_built_at" doc:"When the edge's GeoIP database was built; null without one."`
	Status      int        `json:"status"`
	Location    string     `json:"location"`
	Gate        string     `json:"gate"`
	Steps       []EdgeStep `json:"steps" doc:"The rules that were evaluated."`
	Variant     uint8      `json:"variant"`
	Keep        bool       `json:"keep" doc:"A cookie is to keep the variant."`
	NotFound    bool       `json:"not_found"`
	Maintenance bool       `json:"maintenance"`
	Budget      bool       `json:"budget" doc:"A visit spends a click of a budget."`
}

// EdgeStep is the evaluation of a rule.
type EdgeStep struct {
	Rule   int `json:"rule" doc:"Its id."`
	Failed int `json:"failed" doc:"Index of the first condition that did not hold; -1: all hold."`
}

// EdgeAnswer is the answer of an edge to an order.
type EdgeAnswer struct {
	Node    string      `json:"node"`
	Order   int64       `json:"order"`
	Outcome EdgeOutcome `json:"outcome"`
}

// NewEnrolment asks for a token with which an edge enrols.
type NewEnrolment struct {
	Region    string `json:"region" minLength:"1" maxLength:"32" example:"eu-west-1" doc:"Region of the edge."`
	Role      string `json:"role,omitzero" enum:"edge,relay" default:"edge"`
	Node      string `json:"node,omitzero" maxLength:"64" example:"eu-1" doc:"The only name that the token is valid for, even if an edge has it, whose credential is then replaced. Default: any unused name."`
	Label     string `json:"label,omitzero" maxLength:"100" doc:"For operators, in the audit log."`
	ExpiresIn int64  `json:"expires_in_seconds,omitzero" minimum:"1" maximum:"86400" default:"3600"`
}

// Enrolment is a token with which an edge enrols.
type Enrolment struct {
	Token     string    `json:"token" doc:"With it an edge gets a credential of its own, once. It is not shown again."`
	Region    string    `json:"region"`
	Role      string    `json:"role" enum:"edge,relay"`
	Node      string    `json:"node" doc:"Empty: any unused name."`
	Label     string    `json:"label"`
	ExpiresAt time.Time `json:"expires_at"`

	ControlURL string `json:"control_url" doc:"Where edges reach this control plane. Empty: at the address of the API, or at the port of control.fleet_listen."`
}

// Enrol exchanges an enrolment token for a credential.
type Enrol struct {
	Token    string   `json:"token"`
	Hash     string   `json:"credential_sha256" doc:"SHA-256 of the credential: 64 hex digits."`
	Node     string   `json:"node"`
	Region   string   `json:"region"`
	Previous string   `json:"previous,omitzero" doc:"Earlier credential of the node; empty for none."`
	Former   []string `json:"former_names,omitzero" doc:"Earlier names under which the node still has clicks."`
}

// Enrolled is the answer to [Enrol].
type Enrolled struct {
	Node   string `json:"node"`
	Region string `json:"region"`
	Role   string `json:"role"`
}

// EdgeCredentialList holds the credentials of edges.
type EdgeCredentialList struct {
	Credentials []NodeCredential `json:"credentials" doc:"The newest of each edge, by name."`
}

// NodeCredential describes the newest credential of an edge.
type NodeCredential struct {
	Node       string     `json:"node"`
	Region     string     `json:"region"`
	Role       string     `json:"role" enum:"edge,relay"`
	State      string     `json:"state" enum:"good,revoked"`
	Former     []string   `json:"former_names" doc:"Earlier names of the edge, whose clicks it may still bring."`
	CreatedAt  time.Time  `json:"created_at"`
	LastSeenAt *time.Time `json:"last_seen_at" doc:"Accurate to a minute; null: never."`
	RevokedAt  *time.Time `json:"revoked_at"`
}
