package server

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"

	"github.com/valyala/fasthttp"
)

// asset is a small file that the server offers under every domain. Its bytes must not be
// changed.
type asset struct {
	contentType string
	etag        []byte // strong, in its quotes
	body        []byte
}

// assetAge bounds how long browsers may keep an asset.
const assetAge = "public, max-age=86400"

//go:embed favicon.png
var favicon []byte

var (
	faviconAsset = newAsset("image/png", favicon)
	// Programs that fetch previews ask whether they may. All may.
	robotsAsset = newAsset("text/plain; charset=utf-8", []byte("User-agent: *\nDisallow:\n"))
)

func newAsset(contentType string, body []byte) *asset {
	sum := sha256.Sum256(body)
	return &asset{contentType: contentType, etag: []byte(`"` + hex.EncodeToString(sum[:8]) + `"`), body: body}
}

// assetAt returns the asset at a path without its first slash, or nil. No code can be
// such a path. It does not allocate.
func assetAt(path []byte) *asset {
	switch string(path) {
	case "favicon.ico":
		return faviconAsset
	case "robots.txt":
		return robotsAsset
	}
	return nil
}

// send sends the file, or 304 to a client that has it.
func (a *asset) send(ctx *fasthttp.RequestCtx) {
	harden(ctx)
	header := &ctx.Response.Header
	header.Set("Cache-Control", assetAge)
	header.SetCanonical(headerETag, a.etag)
	if a.isIn(ctx.Request.Header.PeekCanonical(headerIfNoneMatch)) {
		ctx.Response.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	header.SetContentType(a.contentType)
	ctx.Response.SetBodyRaw(a.body)
}

var (
	headerETag        = []byte("Etag")
	headerIfNoneMatch = []byte("If-None-Match")
)

// isIn reports whether an If-None-Match header (RFC 9110, section 13.1.2) names the
// asset.
func (a *asset) isIn(ifNoneMatch []byte) bool {
	for len(ifNoneMatch) > 0 {
		tag, rest, _ := bytes.Cut(ifNoneMatch, []byte(","))
		tag = bytes.TrimPrefix(bytes.Trim(tag, " \t"), []byte("W/"))
		if bytes.Equal(tag, a.etag) || string(tag) == "*" {
			return true
		}
		ifNoneMatch = rest
	}
	return false
}
