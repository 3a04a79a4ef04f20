package waypost

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
)

// Asset is a small file that servers of links give to everybody, under every
// domain. Its bytes must not be changed.
type Asset struct {
	ContentType string
	ETag        string // strong, in its quotes
	Body        []byte
}

// AssetAge is for how long browsers may keep an asset.
const AssetAge = "public, max-age=86400"

//go:embed favicon.png
var favicon []byte

var (
	faviconAsset = newAsset("image/png", favicon)
	// Programs that fetch previews ask whether they may, and all may.
	robotsAsset = newAsset("text/plain; charset=utf-8", []byte("User-agent: *\nDisallow:\n"))
)

func newAsset(contentType string, body []byte) *Asset {
	sum := sha256.Sum256(body)
	return &Asset{ContentType: contentType, ETag: `"` + hex.EncodeToString(sum[:8]) + `"`, Body: body}
}

// AssetAt gives the asset at a path without its first slash, nil when there is none. No
// code can have such a path. It does not allocate.
func AssetAt[T string | []byte](path T) *Asset {
	switch string(path) {
	case "favicon.ico":
		return faviconAsset
	case "robots.txt":
		return robotsAsset
	}
	return nil
}

// Known reports whether an If-None-Match header (RFC 9110, section 13.1.2) says
// that the client has the asset, so that 304 is the answer.
func (a *Asset) Known(ifNoneMatch []byte) bool {
	for len(ifNoneMatch) > 0 {
		tag, rest, _ := bytes.Cut(ifNoneMatch, []byte(","))
		tag = bytes.TrimPrefix(bytes.Trim(tag, " \t"), []byte("W/"))
		if string(tag) == a.ETag || string(tag) == "*" {
			return true
		}
		ifNoneMatch = rest
	}
	return false
}
