package client

import (
	"context"
	"net/http"
	"strconv"
)

const domainsPath = "/api/admin/domains"

// Domain is a domain as the API shows it.
type Domain struct {
	ID          uint32 `json:"id"`
	Host        string `json:"host"`
	Shared      bool   `json:"shared"`
	RootURL     string `json:"root_url"`
	NotFoundURL string `json:"not_found_url"`
}

// DomainChange says what to change: nil leaves a field as it is, "" empties it.
type DomainChange struct {
	RootURL     *string `json:"root_url,omitempty"`
	NotFoundURL *string `json:"not_found_url,omitempty"`
}

// Domains lists the domains that links can have, by id.
func (c *Client) Domains(ctx context.Context) ([]Domain, error) {
	var answer struct {
		Domains []Domain `json:"domains"`
	}
	err := c.do(ctx, http.MethodGet, domainsPath, nil, &answer)
	return answer.Domains, err
}

// ChangeDomain changes where a domain leads.
func (c *Client) ChangeDomain(ctx context.Context, id uint32, change DomainChange) (Domain, error) {
	var d Domain
	err := c.do(ctx, http.MethodPatch, domainsPath+"/"+strconv.FormatUint(uint64(id), 10), change, &d)
	return d, err
}
