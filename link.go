package waypost

import (
	"cmp"
	"encoding/json"
	"time"
)

// WorkspaceID numbers a tenant.
type WorkspaceID int64

// DefaultWorkspace exists in every cluster.
const DefaultWorkspace WorkspaceID = 1

// DefaultSlug is the slug of [DefaultWorkspace].
const DefaultSlug = "default"

// DomainID numbers a domain under which codes are unique.
type DomainID uint32

// DefaultDomain is shared by all workspaces. Its host is the host of the base URL.
const DefaultDomain DomainID = 1

// Limits of a link's fields, in bytes, except for the counts.
const (
	MaxURLLength      = 8192
	MaxShortURLLength = 2048 // for the old /shorten form
	MaxTitle          = 512
	MaxDescription    = 4096
	MaxNotes          = 4096
	MaxTags           = 32
	MaxTag            = 64
	MaxMetadata       = 8192
	MaxBulk           = 1000 // links in one request, and in one transaction
)

// Link is a short link in the control plane.
type Link struct {
	ID             int64
	Workspace      WorkspaceID
	Domain         DomainID
	Host           string // of the domain; "" for the default one
	Code           Code   // as its owner typed it
	Folded         Code   // see Key; "": Code
	Custom         bool   // chosen by a user, not minted from a range
	OriginalURL    string // byte for byte as the client sent it, with a scheme
	Location       string // of the redirect: OriginalURL, escaped, with its IDN host in punycode
	RedirectStatus int    // 301, 302, 307 or 308
	Flags          LinkFlags
	Details
	Rules          json.RawMessage // package rules, type Source; nil: none
	Programme      []byte          // compiled from Rules
	CreatedBy      string
	Active         bool
	Aliases        []Alias   // by their numbers
	Clicks         int64     // counted so far; edges report within seconds
	BotClicks      int64     // of these, by software that identifies itself
	LastAccessedAt time.Time // of the newest click; zero: never
	CreatedAt      time.Time
	UpdatedAt      time.Time
	ExpiresAt      time.Time // zero: never
	DeletedAt      time.Time // zero: it is not deleted
	Revision       Revision  // of the newest version
	Stamp          uint64    // of the newest version
}

// Key returns the code under which edges find the link, which differs from Code on a
// domain that ignores case.
func (l *Link) Key() Code { return cmp.Or(l.Folded, l.Code) }

// SetCode sets the code of a link, and its key on a domain that ignores case.
func (l *Link) SetCode(code, key Code) {
	if l.Code, l.Folded = code, ""; key != code {
		l.Folded = key
	}
}

// MaxAliases bounds the aliases of a link, and MaxAlias the numbers of its aliases.
const (
	MaxAliases = 16
	MaxAlias   = 250
)

// Alias is a further address of a link.
type Alias struct {
	Domain DomainID
	Host   string // of the domain; "" for the default one
	Code   Code   // as its owner typed it
	Folded Code   // see [Link.Key]
	N      uint8  // 1 to [MaxAlias], in statistics; no other alias of the link ever has it
	Title  string // for its owner
	Print
	AddedAt time.Time
}

// Print says where an alias was printed.
type Print struct {
	PrintedOn string // a date such as 2026-03-31; "" when unknown
	Batch     string
}

// Key returns the code under which edges find the alias.
func (a *Alias) Key() Code { return cmp.Or(a.Folded, a.Code) }

// Addresses returns all addresses of the link: its own, with the number 0, and its
// aliases.
func (l *Link) Addresses() []Alias {
	return append([]Alias{{Domain: l.Domain, Host: l.Host, Code: l.Code, Folded: l.Folded, AddedAt: l.CreatedAt}}, l.Aliases...)
}

// Details hold what the owner of a link keeps with it. Waypost only stores and finds
// them: edges do not have them, and visitors never see them. Package api/linkfields
// lists them.
type Details struct {
	Title       string
	Description string
	Notes       string // of the team about the link
	Tags        []string
	Metadata    json.RawMessage // a JSON object, or nil
}

// Text is a text among the details of a link.
type Text struct {
	Field string // its name in the API
	Text  string
	Most  int // bytes
}

// Texts yields the texts.
func (d *Details) Texts(yield func(Text) bool) {
	_ = yield(Text{"title", d.Title, MaxTitle}) &&
		yield(Text{"description", d.Description, MaxDescription}) &&
		yield(Text{"notes", d.Notes, MaxNotes})
}

// Expired reports whether the link has expired at now. At the instant of expiry it has.
func (l *Link) Expired(now time.Time) bool {
	return !l.ExpiresAt.IsZero() && !now.Before(l.ExpiresAt)
}
