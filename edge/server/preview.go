package server

import (
	"bytes"
	"encoding/json"
	"html"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"waypost"
)

// sendPreview shows the target of a link. A preview is no visit to the link.
func (s *Server) sendPreview(ctx *fasthttp.RequestCtx, c *conn, code []byte, res *waypost.Resolution) {
	if !fitsHeader(res.Location) {
		s.fail(ctx, c, errBadLocation)
		return
	}
	for i := range previewHeaders {
		ctx.Response.Header.Set(previewHeaders[i].name, previewHeaders[i].value)
	}
	contentType, body := previewBody(code, res, wantsPage(&ctx.Request.Header))
	s.send(ctx, c, &answer{status: fasthttp.StatusOK, contentType: contentType, body: body, cacheControl: noStore, vary: true, stale: -1})
}

// previewHeaders make sure that the target does not learn where its visitor comes from,
// and that no search engine lists previews.
var previewHeaders = [...]struct{ name, value string }{
	{"Referrer-Policy", "no-referrer"},
	{"X-Robots-Tag", "noindex, nofollow"},
}

// previewBody returns a page for browsers, and a JSON object for all other clients.
func previewBody(code []byte, r *waypost.Resolution, page bool) (contentType string, body []byte) {
	p := preview{
		Code: string(code), Location: string(r.Location), Status: r.Status,
		ForwardQuery: r.Flags&waypost.ForwardQuery != 0, ForwardPath: r.Flags&waypost.ForwardPath != 0,
	}
	if r.ExpiresAt != 0 {
		at := time.UnixMilli(r.ExpiresAt).UTC()
		p.ExpiresAt = &at
	}
	if page {
		return pageType, p.page()
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&p); err != nil { // a time beyond the year 9999
		return errorBody(500, false)
	}
	return "application/json", b.Bytes()
}

type preview struct {
	Code         string     `json:"short_code"`
	Location     string     `json:"location"`
	Status       int        `json:"redirect_status"`
	ExpiresAt    *time.Time `json:"expires_at"`
	ForwardQuery bool       `json:"forward_query"`
	ForwardPath  bool       `json:"forward_path"`
}

// page shows the target as text and as a link, byte for byte. All text that a user chose
// is escaped.
func (p *preview) page() []byte {
	notes := ""
	if p.ExpiresAt != nil {
		notes += "<p>Until " + p.ExpiresAt.Format("2006-01-02 15:04 MST") + ".</p>\n"
	}
	if p.ForwardQuery || p.ForwardPath {
		notes += "<p>The part of a short address behind the code is added to this one.</p>\n"
	}
	location := html.EscapeString(p.Location)
	link := `<a href="` + location + `" rel="noreferrer nofollow">` + location + `</a>`
	if !waypost.ValidLocation(p.Location) { // a record that has gone bad is shown as text
		link = location
	}
	return []byte(strings.NewReplacer(
		"{code}", html.EscapeString(p.Code), "{host}", html.EscapeString(hostPart(p.Location)),
		"{link}", link, "{notes}", notes,
	).Replace(previewPage))
}

// hostPart returns the host of a Location.
func hostPart(location string) string {
	_, rest, _ := strings.Cut(location, "://")
	if end := strings.IndexAny(rest, `/\?#`); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

const previewPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="robots" content="noindex,nofollow">
<title>{code} leads to {host}</title>
<style>` + pageStyle + `</style>
</head>
<body>
<main>
<small>{code} leads to</small>
<h1>{host}</h1>
<p>{link}</p>
{notes}</main>
</body>
</html>
`
