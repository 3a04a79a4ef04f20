package api

import "time"

// DomainList holds domains.
type DomainList struct {
	Domains []Domain `json:"domains" doc:"Ordered by id."`
}

// Domain is a domain of links.
type Domain struct {
	ID          uint32 `json:"id"`
	Host        string `json:"host"`
	WorkspaceID int64  `json:"workspace_id,omitzero" doc:"Whose it is; only in the list of all workspaces."`
	Shared      bool   `json:"shared" doc:"All workspaces can have links in it; the default workspace changes it."`
	State       string `json:"state" enum:"approved,proved,pending,suspended" doc:"approved: served, it is an operator's or was approved by one. proved: served, its owner has proved it by DNS. pending: not served, it was never proved. suspended: not served, its proof was lost."`

	Proof *DomainProof `json:"proof,omitzero" doc:"How its owner proves it; none for an approved domain."`

	Certificate DomainCertificate `json:"certificate"`

	RootURL     string `json:"root_url" doc:"Target of the root of the domain; empty: the root names the service."`
	NotFoundURL string `json:"not_found_url" doc:"Target of unknown codes; empty: they answer 404."`

	MaintenanceURL string `json:"maintenance_url" doc:"Target of the root and of all links; empty: there is no maintenance."`

	Case          string `json:"case" enum:"sensitive,insensitive" doc:"insensitive: links are found by their codes in any case, and no two codes differ in case alone."`
	CaseSwitching bool   `json:"case_switching,omitzero" doc:"The domain is being switched to this case. Its links lead visitors on; new links are refused until it is done."`

	ExactPaths bool `json:"exact_paths" doc:"A path with a slash or punctuation behind the code of a link does not lead to that link."`

	Applied *Applied `json:"applied,omitzero" doc:"Which edges have the change, in the answer to a request with wait."`
}

// DomainCertificate describes the TLS certificate that visitors of a domain are shown, as
// edges report it.
type DomainCertificate struct {
	State string     `json:"state" enum:"none,waiting,valid,failed,unknown" doc:"none: no edge has one, because none speaks TLS, or because no visitor has come over TLS yet. waiting: the authority is asked for the first one. valid: edges have one. failed: on some edge, the last order or renewal has failed, or it has expired. unknown: no edge has reported within a minute, or it has too many to report this one."`
	Until *time.Time `json:"until" doc:"When the first one of all edges expires; null: none is valid."`
	Error string     `json:"error" doc:"Why it has failed; may be empty."`
}

// NewDomain asks for a domain.
type NewDomain struct {
	Host        string `json:"host" minLength:"1" maxLength:"253" example:"go.example.com" doc:"The name, which may be internationalised. Not an address, a local name, or a public suffix such as co.uk."`
	Shared      bool   `json:"shared,omitzero" doc:"All workspaces can have links in it; for the default workspace only."`
	RootURL     string `json:"root_url,omitzero" doc:"Target of the root of the domain: a URL like that of a link, of at most 4,000 bytes after percent-encoding. Default: none."`
	NotFoundURL string `json:"not_found_url,omitzero" doc:"Target of unknown codes, likewise."`

	Case string `json:"case,omitzero" enum:"sensitive,insensitive" default:"sensitive" doc:"insensitive: find links by their codes in any case."`

	ExactPaths bool `json:"exact_paths,omitzero" doc:"Answer 404 to a path with a slash or punctuation behind a code. Default: it leads to the link."`
}

// DomainChange names the fields of a domain to change; nil leaves a field as it is.
type DomainChange struct {
	RootURL     *string `json:"root_url,omitzero" example:"https://example.com/" doc:"Target of the root of the domain: a URL like that of a link, of at most 4,000 bytes after percent-encoding. Empty: none. It is shown percent-encoded."`
	NotFoundURL *string `json:"not_found_url,omitzero" example:"https://example.com/not-found" doc:"Target of unknown codes, likewise."`

	MaintenanceURL *string `json:"maintenance_url,omitzero" example:"https://example.com/maintenance" doc:"Target of the root and of all links while it is set, likewise. Nothing is counted meanwhile, and the links themselves do not change."`

	Case *string `json:"case,omitzero" enum:"sensitive,insensitive" doc:"Whether case counts in codes. It is refused with 409 and a list if two codes differ in case alone. The links get their new keys after the answer."`

	ExactPaths *bool `json:"exact_paths,omitzero" doc:"Answer 404 to a path with a slash or punctuation behind a code, in place of the link."`
}

// DomainProof describes the DNS record that proves a domain.
type DomainProof struct {
	RecordName    string     `json:"record_name" example:"_waypost.go.example.com" doc:"Name of the TXT record."`
	RecordValue   string     `json:"record_value" example:"waypost-5f0c7d1e9a3b4c2d8e6f7a1b2c3d4e5f" doc:"Its text, the same for all domains of the workspace. There may be other TXT records with the same name."`
	CheckedAt     *time.Time `json:"checked_at,omitzero" doc:"When the record was last looked for, which happens daily."`
	UnprovedSince *time.Time `json:"unproved_since,omitzero" doc:"Since when DNS says that the record is missing. DNS that does not answer changes nothing."`
	SuspendedAt   *time.Time `json:"suspended_at,omitzero" doc:"When a proved domain will be suspended unless its record comes back."`
}
