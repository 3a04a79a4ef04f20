package api

// DomainList holds the domains that links can have.
type DomainList struct {
	Domains []Domain `json:"domains" doc:"Ordered by id."`
}

// Domain is a domain of links.
type Domain struct {
	ID          uint32 `json:"id"`
	Host        string `json:"host"`
	Shared      bool   `json:"shared" doc:"All workspaces can have links in it; the default workspace changes it."`
	RootURL     string `json:"root_url" doc:"Target of the root of the domain; empty: the root names the service."`
	NotFoundURL string `json:"not_found_url" doc:"Target of unknown codes; empty: they answer 404."`
}

// NewDomain asks for a domain.
type NewDomain struct {
	Host        string `json:"host" minLength:"1" maxLength:"253" example:"go.example.com" doc:"The name, which may be internationalised. Not an address, a local name, or a public suffix such as co.uk."`
	Shared      bool   `json:"shared,omitzero" doc:"All workspaces can have links in it; for the default workspace only."`
	RootURL     string `json:"root_url,omitzero" doc:"Target of the root of the domain: a URL like that of a link, of at most 4,096 bytes after percent-encoding. Default: none."`
	NotFoundURL string `json:"not_found_url,omitzero" doc:"Target of unknown codes, likewise."`
}

// DomainChange names the fields of a domain to change; nil leaves a field as it is.
type DomainChange struct {
	RootURL     *string `json:"root_url,omitzero" example:"https://example.com/" doc:"Target of the root of the domain: a URL like that of a link, of at most 4,096 bytes after percent-encoding. Empty: none. It is shown percent-encoded."`
	NotFoundURL *string `json:"not_found_url,omitzero" example:"https://example.com/not-found" doc:"Target of unknown codes, likewise."`
}
