package api

import (
	"encoding/json"
	"time"
)

// NewLink asks for a link.
type NewLink struct {
	OriginalURL      string          `json:"original_url" example:"https://example.com/a?b=c" doc:"The target: an http or https URL of at most 8,192 bytes. It is kept byte for byte. A text that begins with a host, such as example.com/a, gets https:// in front. Location of the redirect has an international host in punycode, and everything percent-encoded that no URI may hold."`
	CustomCode       string          `json:"custom_code,omitzero" example:"spring-sale" doc:"1 to 128 bytes of letters, digits, emoji, - _ . ~ and slashes between segments, kept in Unicode NFC. On the shared domain 4 to 32 characters of A-Z, a-z, 0-9, _ and -, unless the operator allows all. On the workspace's own domains also a pattern for many addresses, such as docs/* or jira/{ticket}. Default: a generated code."`
	Domain           string          `json:"domain,omitzero" maxLength:"253" example:"go.example.com" doc:"Host of a domain of the workspace, or of a shared one. Default: the shared default domain."`
	Dedupe           *bool           `json:"dedupe,omitzero" doc:"True: return the one link of this target in the domain. An existing live link is returned with 200, and the other fields are ignored. Two targets are the same when their normal forms are. With custom_code: the link of that code, if it has just this target. Default: the setting of the workspace, which is usually false."`
	ExpiresInSeconds int64           `json:"expires_in_seconds,omitzero" minimum:"1" maximum:"3155760000" doc:"Time to live in seconds. Give at most one of the three expiry fields."`
	ExpiresInHours   int64           `json:"expires_in_hours,omitzero" minimum:"1" maximum:"876600" doc:"Time to live in hours."`
	ExpiresAt        time.Time       `json:"expires_at,omitzero" doc:"When the link expires: RFC 3339, in the future, before the year 10000."`
	RedirectStatus   int             `json:"redirect_status,omitzero" enum:"301,302,307,308" default:"302" doc:"Status of the redirect."`
	ForwardQuery     bool            `json:"forward_query,omitzero" doc:"Append the query of the request to that of the target. The target's own parameters stay first."`
	ForwardPath      bool            `json:"forward_path,omitzero" doc:"Append the path behind the code to the path of the target. Otherwise such paths answer 404."`
	Title            string          `json:"title,omitzero" maxLength:"512" doc:"At most 512 bytes."`
	Description      string          `json:"description,omitzero" maxLength:"4096" doc:"At most 4,096 bytes."`
	Notes            string          `json:"notes,omitzero" maxLength:"4096" doc:"Notes of the team about the link, which visitors never see: at most 4,096 bytes."`
	Tags             []string        `json:"tags,omitzero" maxItems:"32" minLength:"1" maxLength:"64" doc:"At most 32, each of 1 to 64 bytes, without control characters; kept in Unicode NFC without blanks at their ends, and each once."`
	Metadata         json.RawMessage `json:"metadata,omitzero" doc:"A JSON object of at most 8,192 bytes, also with its numbers written out in full."`
	Active           *bool           `json:"active,omitzero" default:"true" doc:"False: the link answers 410 until it is activated."`
	CreatedBy        string          `json:"created_by,omitzero" maxLength:"512" doc:"Free text that names the creator, at most 512 bytes. Default: who is signed in; empty for an API key."`
	Rules            []Rule          `json:"rules,omitzero" maxItems:"16" doc:"Where other visitors than all are led: the first rule whose conditions hold decides, and without one the target. A link with rules redirects with 302 or 307."`
	ValidFrom        time.Time       `json:"valid_from,omitzero" doc:"From when on the link works: RFC 3339. Before, it answers 404."`
	ExpiredURL       string          `json:"expired_url,omitzero" maxLength:"8192" doc:"Where visitors are led once the link has expired. Default: 410."`
	MaxClicks        int64           `json:"max_clicks,omitzero" minimum:"1" maximum:"1000000000000" doc:"How often visitors are led to the target, in all; bots do not count. Default: without a limit."`
	MaxClicksMode    string          `json:"max_clicks_mode,omitzero" enum:"eventual,exact" default:"eventual" doc:"exact: never more often. Edges take clicks from the control plane before they spend them, and an edge that is cut off from it stops early. eventual: the control plane ends it when it has counted that many, a second or more later."`
	ExhaustedURL     string          `json:"exhausted_url,omitzero" maxLength:"8192" doc:"Where visitors are led once max_clicks is reached. Default: 410."`
	Confirm          bool            `json:"confirm,omitzero" doc:"Visitors press a button before they are led on, so that software that opens links in messages is no click."`
	Aliases          []NewAlias      `json:"aliases,omitzero" maxItems:"16" doc:"Further addresses. The link is created with all of them, or refused. The links of a request have at most 1,000."`
	Password         string          `json:"password,omitzero" minLength:"1" maxLength:"128" doc:"A password that visitors must give: at most 128 bytes of UTF-8, which are compared in Unicode NFC. It is never returned. A link with a password redirects with 302 or 307. At most ten links of a request have one."`
}

// Link is a link.
type Link struct {
	ID             string          `json:"id"`
	ShortCode      string          `json:"short_code"`
	ShortURL       string          `json:"short_url" format:"uri"`
	Domain         string          `json:"domain" doc:"Host of the link's domain."`
	OriginalURL    string          `json:"original_url" doc:"The target, byte for byte as it was sent, behind https:// if it was sent without a scheme."`
	RedirectStatus int             `json:"redirect_status" enum:"301,302,307,308"`
	ForwardQuery   bool            `json:"forward_query" doc:"Whether the query of a request is appended to the target's."`
	ForwardPath    bool            `json:"forward_path" doc:"Whether the path behind the code is appended to the target's."`
	Title          string          `json:"title"`
	Description    string          `json:"description"`
	Notes          string          `json:"notes" doc:"Notes of the team about the link, which visitors never see."`
	Tags           []string        `json:"tags"`
	Metadata       json.RawMessage `json:"metadata"`
	CreatedBy      string          `json:"created_by"`
	Active         bool            `json:"active"`
	Aliases        []Alias         `json:"aliases,omitzero" doc:"Further addresses that lead to the link, in the order of their creation; left out without any."`
	ClickCount     int64           `json:"click_count" minimum:"0" doc:"Redirects by edges; see the statistics."`
	LastAccessedAt *time.Time      `json:"last_accessed_at" doc:"Time of the newest click; null without one."`
	CreatedAt      time.Time       `json:"created_at"`
	UpdatedAt      time.Time       `json:"updated_at"`
	ExpiresAt      *time.Time      `json:"expires_at" doc:"Null when the link never expires."`
	DeletedAt      *time.Time      `json:"deleted_at,omitzero" doc:"When the link was deleted; in lists of deleted links only."`
	Restorable     *time.Time      `json:"restorable_until,omitzero" doc:"Until when the link can be restored; in lists of deleted links only."`
	Rules          []Rule          `json:"rules,omitzero" doc:"The rules; left out without any."`
	ValidFrom      *time.Time      `json:"valid_from,omitzero" doc:"From when on the link works; left out when it always did."`
	ExpiredURL     string          `json:"expired_url,omitzero" doc:"Where visitors are led once the link has expired."`
	MaxClicks      int64           `json:"max_clicks,omitzero" doc:"How often visitors are led to the target; left out without a limit."`
	MaxClicksMode  string          `json:"max_clicks_mode,omitzero" enum:"eventual,exact" doc:"How strictly max_clicks is kept; left out without it."`
	ExhaustedURL   string          `json:"exhausted_url,omitzero" doc:"Where visitors are led once max_clicks is reached."`
	Confirm        bool            `json:"confirm,omitzero" doc:"Visitors press a button before they are led on."`
	Budget         *Budget         `json:"budget,omitzero" doc:"The state of max_clicks; in the answer to a request for this one link only."`
	HasPassword    bool            `json:"has_password,omitzero" doc:"Visitors must give a password, which is never returned; left out without one."`
	Blocked        *LinkBlock      `json:"blocked,omitzero" doc:"Set while an operator of the installation blocks the link: visitors get no answer of it. Left out otherwise."`
	Warnings       []Warning       `json:"warnings,omitzero" doc:"Doubts about the target and the rules, in the answer to the request that set them."`
	Applied        *Applied        `json:"applied,omitzero" doc:"Which edges have the change, in the answer to a request with wait."`
}

// Alias is a further address of a link.
type Alias struct {
	ShortCode string `json:"short_code"`
	ShortURL  string `json:"short_url" format:"uri"`
	Domain    string `json:"domain" doc:"Host of the alias' domain."`
	Title     string `json:"title" doc:"What the alias is for: a text of its owner."`
	Print
	CreatedAt time.Time `json:"created_at"`
	Blocked   bool      `json:"blocked,omitzero" doc:"An operator of the installation blocks the alias. Left out otherwise."`
}

// NewAlias asks for a further address of a link.
type NewAlias struct {
	ShortCode string `json:"short_code" example:"spring-box" doc:"A code by the rules for custom_code. Once an alias has had a code, no other link gets it."`
	Domain    string `json:"domain,omitzero" maxLength:"253" example:"go.example.com" doc:"Host of a domain of the workspace, or of a shared one. Default: the shared default domain."`
	Title     string `json:"title,omitzero" maxLength:"512" example:"box in shops" doc:"What the alias is for: at most 512 bytes."`
	Print
}

// Print says where an alias was printed, so that statistics tell prints apart.
type Print struct {
	PrintedOn string `json:"printed_on,omitzero" maxLength:"10" example:"2026-03-31" doc:"Day on which the alias was printed; left out when unknown."`
	Batch     string `json:"batch,omitzero" maxLength:"100" example:"7" doc:"Batch of the print: at most 100 bytes; left out without one."`
}

// Aliases are the aliases of a link.
type Aliases struct {
	Aliases []Alias `json:"aliases"`
}

// Warning describes a doubt about a link that does not prevent its creation.
type Warning struct {
	Code    string `json:"code" enum:"host-looks-like-another,host-mixes-scripts,country-unknown,language-unknown,click-unconfirmed" doc:"Names the kind of warning. It never changes."`
	Message string `json:"message"`
}

// LinkChange names the fields of a link to change (RFC 7396, except that metadata are
// replaced as a whole). Fields that are left out keep their values.
type LinkChange struct {
	OriginalURL      Field[string]          `json:"original_url,omitzero" nullable:"false" example:"https://example.com/a?b=c" doc:"The new target."`
	Active           Field[bool]            `json:"active,omitzero" nullable:"false" doc:"False: the link answers 410 until it is activated."`
	ExpiresInSeconds Field[int64]           `json:"expires_in_seconds,omitzero" minimum:"1" maximum:"3155760000" doc:"New time to live in seconds, from now. Give at most one of the three expiry fields; null in any of them means that the link never expires. An expired link works again."`
	ExpiresInHours   Field[int64]           `json:"expires_in_hours,omitzero" minimum:"1" maximum:"876600" doc:"New time to live in hours, from now."`
	ExpiresAt        Field[time.Time]       `json:"expires_at,omitzero" doc:"When the link expires: RFC 3339, in the future, before the year 10000."`
	RedirectStatus   Field[int]             `json:"redirect_status,omitzero" enum:"301,302,307,308" doc:"Status of the redirect. Null: 302."`
	ForwardQuery     Field[bool]            `json:"forward_query,omitzero" doc:"Append the query of the request to that of the target. Null: no."`
	ForwardPath      Field[bool]            `json:"forward_path,omitzero" doc:"Append the path behind the code to the path of the target. Null: no."`
	Title            Field[string]          `json:"title,omitzero" maxLength:"512" doc:"At most 512 bytes. Null: none."`
	Description      Field[string]          `json:"description,omitzero" maxLength:"4096" doc:"At most 4,096 bytes. Null: none."`
	Notes            Field[string]          `json:"notes,omitzero" maxLength:"4096" doc:"At most 4,096 bytes. Null: none."`
	Tags             Field[[]string]        `json:"tags,omitzero" maxItems:"32" doc:"All tags: at most 32, each of 1 to 64 bytes, without control characters; kept in Unicode NFC without blanks at their ends, and each once. Null: none."`
	Metadata         Field[json.RawMessage] `json:"metadata,omitzero" doc:"All metadata: a JSON object of at most 8,192 bytes, also with its numbers written out in full. Null: none."`
	Rules            Field[[]Rule]          `json:"rules,omitzero" maxItems:"16" doc:"All rules. Null: none."`
	ValidFrom        Field[time.Time]       `json:"valid_from,omitzero" doc:"From when on the link works. Null: at once."`
	ExpiredURL       Field[string]          `json:"expired_url,omitzero" maxLength:"8192" doc:"Where visitors are led once the link has expired. Null: 410."`
	MaxClicks        Field[int64]           `json:"max_clicks,omitzero" minimum:"1" maximum:"1000000000000" doc:"How often visitors are led to the target, with the clicks that there are already. Null: without a limit."`
	MaxClicksMode    Field[string]          `json:"max_clicks_mode,omitzero" enum:"eventual,exact" doc:"How strictly max_clicks is kept. Null: eventual."`
	ExhaustedURL     Field[string]          `json:"exhausted_url,omitzero" maxLength:"8192" doc:"Where visitors are led once max_clicks is reached. Null: 410."`
	Confirm          Field[bool]            `json:"confirm,omitzero" doc:"Visitors press a button before they are led on."`
	Password         Field[string]          `json:"password,omitzero" minLength:"1" maxLength:"128" doc:"A new password that visitors must give; those who gave the old one are asked again. Null: none."`
}

// LinkPage is a page of a list of links.
type LinkPage struct {
	Links []Link `json:"urls" doc:"In the requested order. Can hold fewer than the limit, or none, on a page that is not the last: a filter that matches few links is answered in parts."`
	Next  string `json:"next_cursor" doc:"Empty on the last page."`
}

// LinkHistory is a page of the history of a link.
type LinkHistory struct {
	Changes []LinkEvent `json:"changes" doc:"Newest first. The newest 200 changes are kept, and the creation is the last entry."`
	Next    string      `json:"next_cursor" doc:"Empty on the last page."`
}

// LinkEvent is one entry of the history of a link.
type LinkEvent struct {
	ID     string        `json:"id" doc:"Names the entry within the history of the link."`
	At     time.Time     `json:"at"`
	What   string        `json:"what" enum:"created,changed,deleted,restored,expired"`
	By     *Changer      `json:"by" doc:"Null when unknown, as for the creation of a link without created_by by an API key."`
	Fields []FieldChange `json:"fields" doc:"The fields that changed, by name. Empty for created, deleted, restored and expired."`
}

// Changer identifies the one who changed a link.
type Changer struct {
	Kind string `json:"kind" enum:"user,key,system,database,stated" doc:"user: signed in. key: an API key. system: Waypost. database: a change by SQL. stated: the text of created_by, which nothing has checked."`
	ID   int64  `json:"id" minimum:"0" doc:"Number of the user or API key, and 0 for others."`
	Name string `json:"name" example:"Ada <ada@example.com>" doc:"As it was at that time."`
}

// FieldChange is the change of one field of a link.
type FieldChange struct {
	Name   string `json:"name" enum:"active,aliases,confirm,description,exhausted_url,expired_url,expires_at,forward_path,forward_query,max_clicks,max_clicks_mode,metadata,notes,original_url,password,redirect_status,rules,tags,title,valid_from"`
	Before any    `json:"before" doc:"The value before, as the link had it in JSON. Of a password, only whether there was one."`
	After  any    `json:"after"`
}

// TagPage is a page of tags.
type TagPage struct {
	Tags []TagCount `json:"tags" doc:"In the order of their bytes."`
	Next string     `json:"next_after" doc:"Empty on the last page."`
}

// TagCount counts the links with a tag.
type TagCount struct {
	Tag   string `json:"tag"`
	Links int64  `json:"links" minimum:"1" doc:"How many links have it; deleted ones do not count."`
}

// NewLinks asks for up to 1,000 links, each with its own outcome.
type NewLinks struct {
	Links []NewLink `json:"links" minItems:"1" maxItems:"1000"`
}

// LinkOutcomes is the answer to [NewLinks].
type LinkOutcomes struct {
	Results []LinkOutcome `json:"results" doc:"One for each link of the request, in its order."`
	Applied *Applied      `json:"applied,omitzero" doc:"Which edges have the links, in the answer to a request with wait."`
}

// LinkOutcome is the outcome of one link of many: a link or a problem.
type LinkOutcome struct {
	Status    int      `json:"status" example:"201" doc:"The status that this link alone would have got."`
	Link      *Link    `json:"link,omitzero" doc:"The link, if it exists, and not in a dry run."`
	ShortCode string   `json:"short_code,omitzero" doc:"The code of the link, in a minimal answer."`
	Error     *Problem `json:"error,omitzero" doc:"Why the link was not created."`
}

// ShortenRequest is the short form of [NewLink].
type ShortenRequest struct {
	URL string `json:"url" example:"https://example.com/a?b=c" doc:"The target: an http or https URL of at most 2,048 bytes."`
}

// Shortened is the short form of [Link].
type Shortened struct {
	ShortCode   string    `json:"short_code"`
	ShortURL    string    `json:"short_url" format:"uri"`
	OriginalURL string    `json:"original_url"`
	CreatedAt   time.Time `json:"created_at"`
	Applied     *Applied  `json:"applied,omitzero" doc:"Which edges have the link, in the answer to a request with wait."`
}
