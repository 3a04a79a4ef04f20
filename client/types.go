package client

import "waypost/api"

// The bodies of the API, which package api declares and describes.
type (
	NewLink     = api.NewLink
	Link        = api.Link
	Alias       = api.Alias
	NewAlias    = api.NewAlias
	LinkChange  = api.LinkChange
	LinkHistory = api.LinkHistory
	Warning     = api.Warning
	Outcome     = api.LinkOutcome
	TagCount    = api.TagCount
	Block       = api.Block
	NewBlock    = api.NewBlock
	LinkBlock   = api.LinkBlock
	BlockPage   = api.BlockPage

	Import       = api.Import
	NewImport    = api.NewImport
	ImportChange = api.ImportChange
	ImportCounts = api.ImportCounts

	Explanation   = api.Explanation
	ExplainedEdge = api.ExplainedEdge

	Bucket        = api.Bucket
	Named         = api.Named
	VariantClicks = api.VariantClicks
	TopLink       = api.TopLink
	Forgotten     = api.ForgottenClicks

	UnknownAddresses = api.UnknownAddresses
	GroupTable       = api.GroupTable
	UnknownAddress   = api.UnknownAddress

	KeySpace      = api.KeySpace
	Range         = api.Range
	RangeBounds   = api.RangeBounds
	Lease         = api.Lease
	Supply        = api.Supply
	RangeStep     = api.RangeStep
	RangeChange   = api.RangeChange
	RangesChanged = api.RangesChanged
	StepDone      = api.StepDone
	RangePlan     = api.RangePlan
	Decoded       = api.DecodedKey
	AuditEntry    = api.AuditEntry
	AuditPage     = api.AuditPage

	SignIn          = api.SignIn
	SignedIn        = api.Session
	Sessions        = api.Sessions
	User            = api.User
	Affiliation     = api.Affiliation
	Me              = api.Me
	Member          = api.Member
	MemberPage      = api.MemberPage
	NewMember       = api.NewMember
	MemberChange    = api.MemberChange
	AccountChange   = api.AccountChange
	Invitation      = api.Invitation
	Account         = api.Account
	AccountPage     = api.AccountPage
	Key             = api.APIKey
	KeyPage         = api.APIKeyPage
	NewKey          = api.NewAPIKey
	Workspace       = api.Workspace
	WorkspacePage   = api.WorkspacePage
	WorkspaceChange = api.WorkspaceChange
	SettingsChange  = api.SettingsChange

	Domain       = api.Domain
	NewDomain    = api.NewDomain
	DomainChange = api.DomainChange

	Edge           = api.Edge
	Fleet          = api.EdgeList
	ControlPlane   = api.ControlPlane
	NodeCondition  = api.NodeCondition
	EdgeState      = api.EdgeState
	Verified       = api.Verified
	Position       = api.Sequence
	EdgeOrder      = api.EdgeOrder
	EdgeOutcome    = api.EdgeOutcome
	NewEnrolment   = api.NewEnrolment
	Enrolment      = api.Enrolment
	NodeCredential = api.NodeCredential
	Digest         = api.Digest
)
