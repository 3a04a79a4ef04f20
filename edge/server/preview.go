package server

import (
	"github.com/valyala/fasthttp"

	"waypost"
)

var (
	headerETag = []byte("Etag")
	assetAge   = []byte(waypost.AssetAge)
	noneMatch  = []byte("If-None-Match")

	previewHeaders = func() (all [len(waypost.PreviewHeaders)]struct{ name, value []byte }) {
		for i, h := range waypost.PreviewHeaders {
			all[i].name, all[i].value = []byte(h.Name), []byte(h.Value)
		}
		return all
	}()
)

// sendPreview tells where a link leads. That is no visit to the link.
func (s *Server) sendPreview(ctx *fasthttp.RequestCtx, v *visitor, code []byte, res *waypost.Resolution) {
	if !fitsHeader(res.Location) {
		s.fail(ctx, v, errBadLocation)
		return
	}
	contentType, body := waypost.Preview(code, res, asksForPage(&ctx.Request.Header))
	header := &ctx.Response.Header
	for i := range previewHeaders {
		header.SetCanonical(previewHeaders[i].name, previewHeaders[i].value)
	}
	header.SetContentType(contentType)
	header.SetCanonical(headerCacheControl, noStore)
	header.SetCanonical(headerVary, accept)
	ctx.Response.SetBodyRaw(body)
	v.stripe.count(fasthttp.StatusOK)
}

// sendAsset gives a small file, or says that the client has it.
func sendAsset(ctx *fasthttp.RequestCtx, a *waypost.Asset) {
	header := &ctx.Response.Header
	header.SetCanonical(headerCacheControl, assetAge)
	header.SetCanonical(headerETag, []byte(a.ETag))
	if a.Known(ctx.Request.Header.PeekCanonical(noneMatch)) {
		ctx.Response.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	header.SetContentType(a.ContentType)
	ctx.Response.SetBodyRaw(a.Body)
}
