package server

import (
	"fmt"
	"strings"

	"waypost"
)

// errorBody returns the body of an error: a small page for browsers, or a problem
// document (RFC 9457) for all other clients. The bytes are prepared once and must not be
// changed. An unknown status has the body of 500.
func errorBody(status int, html bool) (contentType string, body []byte) {
	b, ok := errorBodies[status]
	if !ok {
		b = errorBodies[500]
	}
	if html {
		return pageType, b.html
	}
	return "application/problem+json", b.problem
}

type preparedBody struct{ html, problem []byte }

var errorBodies = prepareErrorBodies([]errorText{
	{400, waypost.EMalformed, "Bad request", "The request could not be understood."},
	{403, waypost.EForbidden, "Not shown here", "This link shows its target only to visitors who follow it."},
	{404, waypost.ENotFound, "Link not found", "There is no link at this address. Check that it was copied completely."},
	{405, "method-not-allowed", "Method not allowed", "Links answer GET and HEAD."},
	{408, "request-timeout", "Request timeout", "The request took too long to arrive."},
	{410, waypost.EGone, "Link no longer available", "This link has expired or was taken down."},
	{413, waypost.ETooLarge, "Content too large", "Links take no request body."},
	{414, waypost.ETooLarge, "Address too long", "The address of the request is too long."},
	{431, waypost.ETooLarge, "Header fields too large", "The header of the request is too large."},
	{500, waypost.EInternal, "Internal error", "Something went wrong on our side."},
	{503, waypost.EUnavailable, "Temporarily unavailable", "Please try again in a moment."},
})

type errorText struct {
	status        int
	code          waypost.ErrorCode
	title, detail string // plain ASCII without characters that JSON or HTML escape
}

func prepareErrorBodies(texts []errorText) map[int]preparedBody {
	bodies := make(map[int]preparedBody, len(texts))
	for _, t := range texts {
		again := ""
		if t.status == 503 {
			again = fmt.Sprintf("<meta http-equiv=\"refresh\" content=\"%s\">\n", retrySeconds)
		}
		page := strings.NewReplacer("{status}", fmt.Sprint(t.status), "{title}", t.title, "{detail}", t.detail, "{again}", again)
		bodies[t.status] = preparedBody{
			html: []byte(page.Replace(errorPage)),
			problem: fmt.Appendf(nil, `{"type":%q,"title":%q,"status":%d,"detail":%q}`,
				waypost.ProblemType(t.code), t.title, t.status, t.detail),
		}
	}
	return bodies
}

const errorPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="robots" content="noindex">
{again}<title>{title}</title>
<style>` + pageStyle + `</style>
</head>
<body>
<main>
<small>{status}</small>
<h1>{title}</h1>
<p>{detail}</p>
</main>
</body>
</html>
`

const pageType = "text/html; charset=utf-8"

// pagePolicy lets a page load nothing and run nothing, and apply pageStyle alone, by its
// SHA-256.
const pagePolicy = "default-src 'none'; style-src 'sha256-481w2GbYNSyAR37pGJibTmeag/T2F6/9Jx4AQD4rsa0='; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageStyle is the style of all pages.
const pageStyle = `
:root{color-scheme:light dark;--paper:#faf9f6;--ink:#1d1c1a;--soft:#66635c}
@media(prefers-color-scheme:dark){:root{--paper:#171614;--ink:#eeece7;--soft:#a5a198}}
body{margin:0;min-height:100vh;display:grid;place-items:center;background:var(--paper);color:var(--ink);
  font:1.0625rem/1.6 system-ui,sans-serif}
main{max-width:28rem;min-width:0;padding:2rem}
h1{margin:0 0 .5rem;font-size:1.75rem;line-height:1.2;overflow-wrap:anywhere}
p{margin:0}
p,small{color:var(--soft)}
small{display:block;margin-bottom:.75rem;letter-spacing:.12em}
a{color:inherit;overflow-wrap:anywhere}
`
