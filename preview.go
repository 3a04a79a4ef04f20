package waypost

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"strings"
	"time"
)

// Preview gives the body of the answer to where a code leads, which r is the
// redirect of: a page for browsers, or a JSON object for everyone else. Edges and
// the control plane share it.
func Preview(code []byte, r *Resolution, page bool) (contentType string, body []byte) {
	p := preview{
		Code: string(code), Location: string(r.Location), Status: r.Status,
		ForwardQuery: r.Flags&ForwardQuery != 0, ForwardPath: r.Flags&ForwardPath != 0,
	}
	if r.ExpiresAt != 0 {
		at := time.UnixMilli(r.ExpiresAt).UTC()
		p.ExpiresAt = &at
	}
	if page {
		return "text/html; charset=utf-8", p.page()
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&p); err != nil { // a time beyond the year 9999
		return ErrorBody(500, false)
	}
	return "application/json", b.Bytes()
}

// PreviewHeaders are for every preview, beside what says that it must not be stored.
// The page loads nothing, runs nothing, and does not tell the target where its
// visitor has been.
var PreviewHeaders = [...]struct{ Name, Value string }{
	{"Content-Security-Policy", "default-src 'none'; style-src '" + styleHash + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	{"Referrer-Policy", "no-referrer"},
	{"X-Content-Type-Options", "nosniff"},
	{"X-Robots-Tag", "noindex, nofollow"},
}

type preview struct {
	Code         string     `json:"short_code"`
	Location     string     `json:"location"`
	Status       int        `json:"redirect_status"`
	ExpiresAt    *time.Time `json:"expires_at"`
	ForwardQuery bool       `json:"forward_query"`
	ForwardPath  bool       `json:"forward_path"`
}

// page shows the target as text and as a link, byte for byte. Everything that a user
// chose is escaped.
func (p *preview) page() []byte {
	notes := ""
	if p.ExpiresAt != nil {
		notes += "<p>Until " + p.ExpiresAt.Format("2006-01-02 15:04 MST") + ".</p>\n"
	}
	if p.ForwardQuery || p.ForwardPath {
		notes += "<p>What stands behind the code in a short address is added to this one.</p>\n"
	}
	location := html.EscapeString(p.Location)
	link := `<a href="` + location + `" rel="noreferrer nofollow">` + location + `</a>`
	if !ValidLocation(p.Location) { // a record that went bad; no page makes more of it
		link = location
	}
	return []byte(strings.NewReplacer(
		"{code}", html.EscapeString(p.Code), "{host}", html.EscapeString(hostOf(p.Location)),
		"{link}", link, "{notes}", notes,
	).Replace(previewPage))
}

// hostOf is the part of a Location that says whose it is.
func hostOf(location string) string {
	_, rest, _ := strings.Cut(location, "://")
	if end := strings.IndexAny(rest, `/\?#`); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

var styleHash = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}()

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
