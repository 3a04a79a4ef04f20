package redirectfile_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/redirectfile"
)

// said writes what was read as lines: LINE CODE TARGET STATUS, with p for a forwarded
// path and q for a forwarded query, or LINE and the reason.
func said(t *testing.T, format redirectfile.Format, text string) []string {
	t.Helper()
	file, err := redirectfile.Read(strings.NewReader(text), format, "https://www.example.com")
	require.NoError(t, err)
	var lines, refused []string
	for _, r := range file.Redirects {
		if r.Reason != "" {
			refused = append(refused, fmt.Sprint(r.Line, ": ", r.Reason))
			continue
		}
		flags := ""
		if r.ForwardPath {
			flags += "p"
		}
		if r.ForwardQuery {
			flags += "q"
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprint(r.Line, " ", r.Host, " ", r.Code, " ", r.Target, " ", r.Status, " ", flags)))
	}
	return append(lines, refused...)
}

func TestRead_UnderscoreRedirects(t *testing.T) {
	const text = `# the old site
/home              /
/team/             https://team.example.net/?a=1  302
/news/*            /blog/:splat
/docs/*            https://docs.example.net/d/:splat#top 301!
/:year/:month/:day /archive/:year-:month/:day:x 308
/docs/intro        /intro
/shop id=:id       /items/:id
/de/*              /en/:splat 302 Language=de
/app/*             /index.html 200
/gone              /x 404
/a*b               /x
/caf%C3%A9         /cafe
https://old.example.org/x /y
home               /x
/                  /start
/home/             /again
/see               /other 303
`
	require.Equal(t, []string{
		"2  home https://www.example.com/ 301 q",
		"3  team https://team.example.net/?a=1 302 q",
		"4  news/* https://www.example.com/blog/{path} 301 q",
		"5  docs/* https://docs.example.net/d/{path}#top 301 q",
		"6  {year}/{month}/{day} https://www.example.com/archive/{year}-{month}/{day}:x 308 q",
		"13  café https://www.example.com/cafe 301 q",
		"14 old.example.org x https://www.example.com/y 301 q",
		"7: line 5 comes first for an address that both fit, and here this line would: the most literal path decides",
		"8: it depends on the query (id=:id): give the link a rule with a condition on its query",
		"9: it has a condition (Language=de): give the link rules for countries and languages",
		"10: the status 200 answers with another page's content, and a link only redirects",
		"11: the status 404 is no redirect: an address without a link answers 404, a disabled link 410",
		"12: * is possible as the last segment only",
		"15: the path \"home\" does not begin with a slash",
		"16: it is the root of the domain, which has a target of its own: root_url of the domain",
		"17: line 2 has the same address",
		"18: a link has the status 301, 302, 307 or 308, and not 303",
	}, said(t, redirectfile.Netlify, text))
	require.Equal(t, []string{
		"1  a/* https://www.example.com/b/{path} 302 q", "2  a https://www.example.com/b?x 302",
	}, said(t, redirectfile.CloudflarePages, "/a/* /b/:splat\n/a /b?x\n"), "Pages: 302, * needs its slash, and a target's own query stays alone")
}

func TestRead_BulkRedirectsOfCloudflare(t *testing.T) {
	const text = `example.com/about,https://example.org/news
https://Example.com/new,https://example.org/soon,302,TRUE
example.com/shop/,https://store.example.org/,301,FALSE,TRUE,TRUE,TRUE
example.com/all,https://one.example.org/,307,,,TRUE,FALSE
example.com/,https://example.org/,308,,,TRUE
example.com/q?x=1,https://example.org/
example.com/bad,https://example.org/,maybe
only
`
	require.Equal(t, []string{
		"1 example.com about https://example.org/news 301",
		"2 example.com new https://example.org/soon 302 q",
		"3 example.com shop https://store.example.org/ 301 p",
		"4 example.com all/* https://one.example.org/ 307",
		"5 example.com * https://example.org/{path} 308",
		"6: the source has a query or a fragment: give the link a rule with a condition on its query",
		"7: the cell 3, \"maybe\", is neither a status nor true or false",
		"8: it has 1 cells: a source, a target, and up to five options are expected",
	}, said(t, redirectfile.CloudflareBulk, text))
	file, err := redirectfile.Read(strings.NewReader(text), redirectfile.CloudflareBulk, "")
	require.NoError(t, err)
	require.Len(t, file.Notes, 1, "subdomains are told")
}

func TestRead_Nginx(t *testing.T) {
	const text = `map $uri $moved {
    default "";
    /old            /new;
    "/Über uns"     https://$host/about;   # decoded
    ~^/docs/(.*)$   https://docs.example.net/$1;
    ~^/(\d+)$       /n/$1;
    ~*^/x$          /y;
    include more.map;
}
map $host $other { a.example https://b.example/; }
server {
    server_name www.example.com;
    if ($moved) { return 301 $moved$is_args$args; }
    location = /imprint { return 308 https://law.example.net/i?lang=de; }
    location /app { proxy_pass http://app; }
    location /down { return 302 https://x.example/; }
    rewrite ^/team/([^/]+)/([^/]+)/?$ https://people.example.net/$2/$1? permanent;
    rewrite ^/a\.html$ /a redirect;
    rewrite ^/inner$ /other last;
    rewrite /anywhere https://x.example/ redirect;
    rewrite ^/begins https://x.example/ redirect;
    rewrite ^/old(/.*)?$ https://x.example$1 permanent;
    rewrite ^/who/(.*)$ https://x.example/$remote_addr permanent;
    if ($arg_a) { rewrite ^/if$ https://x.example/ redirect; }
    rewrite "^/y/[0-9]{4}$" https://x.example/ redirect;
}
`
	require.Equal(t, []string{
		"3  old https://www.example.com/new 301 q",
		"4  Über uns https://www.example.com/about 301 q",
		"5  docs/* https://docs.example.net/{path} 301 q",
		"14  imprint https://law.example.net/i?lang=de 308",
		"17  team/{p1}/{p2} https://people.example.net/{p2}/{p1} 301",
		"18  a.html https://www.example.com/a 302 q",
		"22  old/* https://x.example/{path} 301 q",
		"6: the regular expression says more than a pattern can: a segment as it is, ([^/]+) for any one, (.*) at the end",
		"7: the regular expression ignores case: let the domain ignore it (case: insensitive), and import the line with ~",
		"8: a map has lines of an address and a target: import a file that it includes separately",
		"10: the map is not one of $uri or $request_uri",
		"16: it is not within location = and a path: say it as a pattern, or as the root_url or not_found_url of the domain",
		"19: it changes the address within nginx, and redirects no visitor",
		"20: the regular expression does not begin with ^/, so that it fits in the middle of addresses, too",
		"21: the regular expression has no $ at its end, so that it also fits addresses which only begin so",
		"23: the target has the variable $remote_addr, which a link does not know",
		"24: it is within an if, which a link does not have: give the link rules",
		"25: the regular expression says more than a pattern can: a segment as it is, ([^/]+) for any one, (.*) at the end",
	}, said(t, redirectfile.Nginx, text))
	_, err := redirectfile.Read(strings.NewReader(`map $uri $x { "/a`), redirectfile.Nginx, "")
	require.ErrorContains(t, err, "line 1")
}

func TestRead_Apache(t *testing.T) {
	const text = `# moved
<VirtualHost *:80>
  ServerName www.example.com
  Redirect permanent /docs https://docs.example.net/d
  Redirect /one "https://one.example.net/x y"
  RedirectTemp /two /second
  RedirectMatch 301 ^/blog/([^/]+)/(.*)$ https://blog.example.net/$2?by=$1
  RedirectMatch ^/docs/old$ https://x.example/
  Redirect gone /away
  Redirect seeother /there https://x.example/
  RedirectMatch "^/(?i)x$" https://x.example/
  RewriteRule ^/r$ https://x.example/ [R=301]
  Redirect 301 \
    /three https://three.example.net/
  Redirect / https://new.example.net/
`
	require.Equal(t, []string{
		"4  docs https://docs.example.net/d 301 pq",
		"5  one https://one.example.net/x y 302 pq",
		"6  two https://www.example.com/second 302 pq",
		"7  blog/{p1}/* https://blog.example.net/{path}?by={p1} 301 q",
		"13  three https://three.example.net/ 301 pq",
		"15  * https://new.example.net/{path} 302 q",
		"8: line 4 comes first for an address that both fit, and here this line would: the most literal path decides",
		"9: the status 410 is no redirect: disable a link, or leave it out",
		"10: a link has the status 301, 302, 307 or 308, and not 303",
		"11: the regular expression says more than a pattern can: a segment as it is, ([^/]+) for any one, (.*) at the end",
		"12: rules of mod_rewrite are not read: say it as RedirectMatch, or as a pattern",
	}, said(t, redirectfile.Apache, text))
}

// TestWrite_CanBeReadAgain writes links in each format, and reads the same links.
func TestWrite_CanBeReadAgain(t *testing.T) {
	links := []redirectfile.Link{
		{Code: "*", Target: "https://rest.example/{path}", Status: 302, ForwardQuery: true},
		{Code: "a.b/café", Target: "https://x.example/:year", Status: 301, ForwardQuery: true},
		{Code: "{year}/{slug}", Target: "https://x.example/{slug}?y={year}", Status: 308},
		{Code: "docs/*", Target: "https://docs.example/d/{path}#top", Status: 301, ForwardQuery: true},
		{Code: "docs/intro", Target: "https://docs.example/%7Bx%7D", Status: 301, ForwardQuery: true},
		{Code: "fwd", Target: "https://fwd.example/f?x=1", Status: 307, ForwardPath: true},
		{Code: "both", Target: "https://both.example/?x=1", Status: 302, ForwardQuery: true},
		{Code: "{env}/x", Target: "https://x.example/{env}_id", Status: 302, ForwardQuery: true},
		{Code: "q/{a}", Target: "https://x.example/{query.a}", Status: 302},
		{Code: "rules", Target: "https://x.example/", Status: 302, More: "it has rules"},
	}
	for format, left := range map[redirectfile.Format][]string{
		redirectfile.Netlify: {"q/{a}", "rules", "{env}/x"}, redirectfile.Nginx: {"q/{a}", "rules", "both"},
	} {
		var out bytes.Buffer
		unsaid, err := redirectfile.Write(&out, format, links)
		require.NoError(t, err)
		var codes []string
		for _, u := range unsaid {
			codes = append(codes, u.Code)
		}
		require.ElementsMatch(t, left, codes, format)
		copied := out
		file, err := redirectfile.Read(&copied, format, "")
		require.NoError(t, err)
		require.Len(t, file.Redirects, len(links)-len(left))
		for _, r := range file.Redirects {
			known := slices.ContainsFunc(links, func(l redirectfile.Link) bool { return sameLink(format, l, r) })
			require.True(t, known, "%s: %v\n%s", format, r, out.String())
		}
	}
}

// sameLink compares what visitors see. The placeholders of regular expressions are
// numbered, and a link with forwarded paths is a pattern.
func sameLink(format redirectfile.Format, l redirectfile.Link, r redirectfile.Redirect) bool {
	code, target := l.Code, l.Target
	if l.ForwardPath {
		code, target = "fwd/*", "https://fwd.example/f/{path}?x=1"
	}
	if format == redirectfile.Nginx {
		numbered := strings.NewReplacer("{year}", "{p1}", "{slug}", "{p2}", "{env}", "{p1}")
		code, target = numbered.Replace(code), numbered.Replace(target)
	}
	return code == r.Code && target == r.Target && l.Status == r.Status && (format == redirectfile.Netlify || l.ForwardQuery == r.ForwardQuery)
}

func FuzzRead_EndsAndNamesEveryLine(f *testing.F) {
	for _, text := range []string{"/a/* /b/:splat", "map $uri $x { ~^/a(/.*)?$ /b$1; }", `Redirect "/a" b`, "a.example/x,https://b.example/", "rewrite ^/([^/]+)$ https://x/$1 redirect;"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		for _, format := range redirectfile.Formats() {
			file, err := redirectfile.Read(strings.NewReader(text), format, "https://www.example.com")
			if err != nil {
				continue
			}
			for _, r := range file.Redirects {
				require.True(t, r.Line >= 1 && r.Line <= lines && (r.Code == "") != (r.Reason == ""))
				require.True(t, r.Reason != "" || strings.Contains(r.Target, "://"))
			}
		}
	})
}
