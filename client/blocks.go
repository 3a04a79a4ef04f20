package client

import (
	"context"
	"net/http"
	"net/url"

	"waypost/api"
)

// Blocks blocks the codes of links of any workspace, for operators. A domain is named by
// its host; "" is the shared default domain.
type Blocks struct{ c *Client }

// Set blocks a code.
func (b Blocks) Set(ctx context.Context, domain, code string, n NewBlock) (Block, error) {
	return ask[Block](ctx, b.c, http.MethodPut, blockPath(domain, code, url.Values{}), n)
}

// End ends the block of a code, or with all those of all addresses of its link.
func (b Blocks) End(ctx context.Context, domain, code, reason string, all bool) (Block, error) {
	query := url.Values{"reason": {reason}}
	if all {
		query.Set("all_addresses", "true")
	}
	return ask[Block](ctx, b.c, http.MethodDelete, blockPath(domain, code, query), nil)
}

// List returns a page of at most limit blocked codes, newest first.
func (b Blocks) List(ctx context.Context, limit int, cursor string) (BlockPage, error) {
	return ask[BlockPage](ctx, b.c, http.MethodGet, api.PathBlocks+"?"+page(limit, cursor), nil)
}

func blockPath(domain, code string, query url.Values) string {
	if domain != "" {
		query.Set("domain", domain)
	}
	path := api.PathBlocks + "/" + url.PathEscape(code)
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}
