package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/blocks"
)

// Blocks blocks codes. EForbidden: the actor is not an operator.
type Blocks interface {
	Set(ctx context.Context, actor controlplane.Actor, n blocks.Request) ([]waypost.Block, error)
	List(actor controlplane.Actor, limit int, cursor string) (page []waypost.Block, next string, err error)
	Of(host string, code waypost.Code) *waypost.Block
	Known(ctx context.Context) (digest uint64, all bool, err error)
}

// blocksAPI serves the blocks of codes.
type blocksAPI struct {
	blocks Blocks
	urls   shortURLs
}

type blockInput struct {
	Code string `path:"code" doc:"The link's short code."`
	inDomain
	Body api.NewBlock
}

type unblockInput struct {
	Code string `path:"code" doc:"The link's short code."`
	inDomain
	Reason string `query:"reason" minLength:"1" maxLength:"200" doc:"Why the block ends. Required."`
	All    bool   `query:"all_addresses" doc:"Also end the blocks of the link's own address and of its aliases. Addresses without a block are skipped."`
}

type blocksInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"How many entries at most."`
	Cursor string `query:"cursor" maxLength:"64" doc:"The next_cursor of the previous page. Default: the newest entries."`
}

func registerBlocks(rt *router, a *blocksAPI) {
	admin := []controlplane.Scope{controlplane.ScopeAdmin}
	handle(rt, operation{
		id: "list-blocks", method: http.MethodGet, path: api.PathBlocks, summary: "List the codes that are blocked, in all workspaces", scopes: admin,
	}, a.list)
	handle(rt, operation{
		id: "block-link", method: http.MethodPut, path: api.PathBlocks + "/{code}", summary: "Block the code of a link of any workspace",
		description: "Edges answer 451 or 410 within a second, whatever the link is like, and whatever its owner does. " +
			"A block that is there gets the new policy and reason. It is in the audit log of the link's workspace as well.",
		scopes: admin, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, a.block)
	handle(rt, operation{
		id: "unblock-link", method: http.MethodDelete, path: api.PathBlocks + "/{code}", summary: "End the block of a code",
		description: "The link answers again as its owner has it. It is in the audit log of the link's workspace as well.",
		scopes:      admin, status: http.StatusOK, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, a.unblock)
}

func (a *blocksAPI) block(ctx context.Context, in *blockInput) (*body[api.Block], error) {
	policy, err := waypost.ParseBlockPolicy(cmp.Or(in.Body.Policy, waypost.BlockGone.String()))
	if err != nil {
		return nil, err
	}
	return a.set(ctx, blocks.Request{
		Domain: in.Domain, Code: in.Code, All: in.Body.All, Blocked: true, Policy: policy, Reason: in.Body.Reason,
	})
}

func (a *blocksAPI) unblock(ctx context.Context, in *unblockInput) (*body[api.Block], error) {
	return a.set(ctx, blocks.Request{Domain: in.Domain, Code: in.Code, All: in.All, Reason: in.Reason})
}

func (a *blocksAPI) set(ctx context.Context, n blocks.Request) (*body[api.Block], error) {
	made, err := a.blocks.Set(ctx, actorFrom(ctx), n)
	if err != nil {
		return nil, err
	}
	first := a.shown(&made[0])
	for i := range made[1:] {
		other := a.shown(&made[1+i])
		first.Others = append(first.Others, other.Domain+"/"+other.ShortCode)
	}
	return bodyOf(first), nil
}

func (a *blocksAPI) list(ctx context.Context, in *blocksInput) (*body[api.BlockPage], error) {
	page, next, err := a.blocks.List(actorFrom(ctx), in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	return bodyOf(api.BlockPage{Blocks: mapped(page, a.shown), Next: next}), nil
}

func (a *blocksAPI) shown(b *waypost.Block) api.Block {
	return api.Block{
		ShortCode: string(b.Code), Domain: cmp.Or(b.Host, a.urls.host), Blocked: b.Blocked, Policy: b.Policy.String(), Reason: b.Reason,
		At: time.UnixMilli(b.At).UTC(), Version: int64(b.Version),
	}
}

// blockOf returns the block of a link as its owner sees it, nil for none.
func (a *linksAPI) blockOf(l *waypost.Link) *api.LinkBlock {
	b := a.blocks.Of(l.Host, l.Code)
	if b == nil {
		return nil
	}
	return &api.LinkBlock{Policy: b.Policy.String(), Reason: b.Reason, Since: time.UnixMilli(b.At).UTC()}
}

// maxEdgeBlocks bounds a request of an edge, in bytes.
const maxEdgeBlocks = 1 << 20

// BlockTaker compares the blocks of an edge with those here. EInvalid: a block cannot
// be read.
type BlockTaker interface {
	Exchange(ctx context.Context, x *api.EdgeBlocks, most int) (api.EdgeBlocksAnswer, error)
}

// EdgeBlocks compares blocks with edges, one [api.EdgeBlocks] a POST of at most 1 MiB,
// and answers with [api.EdgeBlocksAnswer].
func EdgeBlocks(to BlockTaker, log *slog.Logger) http.Handler {
	return edgePosts(maxEdgeBlocks, "refused an edge's blocks of codes", log, func(ctx context.Context, body *api.EdgeBlocks) (any, error) {
		if !waypost.ValidNode(body.Node) || len(body.Blocks) > api.MaxEdgeBlocks {
			return nil, waypost.Errorf(waypost.EInvalid, "the request needs the name of the edge, and has at most %d blocks", api.MaxEdgeBlocks)
		}
		if err := edgeFrom(ctx).maySpeak(ctx, body.Node); err != nil {
			return nil, err
		}
		answer, err := to.Exchange(ctx, body, api.MaxEdgeBlocks)
		return &answer, err
	})
}
