package server

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/valyala/fasthttp"

	"waypost"
	"waypost/rules"
)

// sendForm asks for the password of a link, or whether it is to be followed. The pages
// are the same for all links, and say nothing about the target. Their status is 200,
// because 401 would demand a scheme of HTTP authentication, and because a link that asks
// is not at fault: monitors and previews of chats must not report a fault. After a wrong
// password it is 403.
func (s *Server) sendForm(ctx *fasthttp.RequestCtx, c *conn, res *waypost.Resolution, status int) {
	pages, confirm := &passwordPages.english, confirmPages.english
	if rules.PrefersGerman(ctx.Request.Header.Peek(fasthttp.HeaderAcceptLanguage)) {
		pages, confirm = &passwordPages.german, confirmPages.german
	}
	body := (*pages)[status]
	if res.Confirm {
		body = confirm
	}
	s.send(ctx, c, &answer{status: status, contentType: pageType, body: body, cacheControl: privateNoStore, stale: -1})
	for i := range previewHeaders {
		ctx.Response.Header.Set(previewHeaders[i].name, previewHeaders[i].value)
	}
	if res.Confirm { // without a referrer, the form would name no origin
		ctx.Response.Header.Set("Referrer-Policy", "same-origin")
	}
	ctx.Response.Header.Set("Vary", fasthttp.HeaderAcceptLanguage)
	ctx.Response.Header.SetCanonical(headerPolicy, formPolicy)
}

// passwordText holds the words of the page in one language.
type passwordText struct {
	language, title, intro, label, button string
	wrong, limited, busy                  string // plain text without characters that HTML escapes
}

// passwordPages are the pages by status.
var passwordPages = struct{ english, german map[int][]byte }{
	english: preparePasswordPages(&passwordText{
		language: "en", title: "Password required", intro: "This link is protected. Enter its password to follow it.",
		label: "Password", button: "Continue",
		wrong:   "The password is wrong. Check upper and lower case, and try again.",
		limited: "There were too many attempts. Please wait a few minutes, then try again.",
		busy:    "The password could not be checked at the moment. Please try again in a few seconds.",
	}),
	german: preparePasswordPages(&passwordText{
		language: "de", title: "Passwort erforderlich", intro: "Dieser Link ist geschützt. Geben Sie sein Passwort ein, um ihm zu folgen.",
		label: "Passwort", button: "Weiter",
		wrong:   "Das Passwort ist falsch. Prüfen Sie Groß- und Kleinschreibung und versuchen Sie es noch einmal.",
		limited: "Es gab zu viele Versuche. Bitte warten Sie einige Minuten und versuchen Sie es dann noch einmal.",
		busy:    "Das Passwort konnte gerade nicht geprüft werden. Bitte versuchen Sie es in einigen Sekunden noch einmal.",
	}),
}

func preparePasswordPages(t *passwordText) map[int][]byte {
	pages := map[int][]byte{}
	for status, fault := range map[int]string{200: "", 403: t.wrong, 429: t.limited, 503: t.busy} {
		title, alert, described := t.title, "", ""
		if fault != "" {
			title = t.title + ": " + fault
			alert = `<p id="fault" role="alert">` + fault + "</p>\n"
			described = ` aria-describedby="fault"`
		}
		if status == 403 {
			described += ` aria-invalid="true"`
		}
		pages[status] = []byte(strings.NewReplacer(
			"{language}", t.language, "{title}", title, "{heading}", t.title, "{intro}", t.intro, "{label}", t.label, "{button}", t.button,
			"{alert}", alert, "{described}", described,
		).Replace(passwordPage))
	}
	return pages
}

// passwordPage sends its form to its own address, and so keeps the visitor's query.
const passwordPage = formHead + `<form method="post">
{alert}<label for="password">{label}</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="128" required autofocus{described}>
<button type="submit">{button}</button>
` + formFoot

// confirmPages ask whether a link is to be followed, by the button alone: software that
// opens links in messages presses no buttons.
var confirmPages = struct{ english, german []byte }{
	english: confirmPage("en", "Open this link?", "Press the button to go on. Programs that only check links in messages stop here.", "Open the link"),
	german: confirmPage("de", "Diesen Link öffnen?", "Mit der Schaltfläche geht es weiter. Programme, die Links in Nachrichten nur prüfen, enden hier.",
		"Link öffnen"),
}

func confirmPage(language, title, intro, button string) []byte {
	return []byte(strings.NewReplacer("{language}", language, "{title}", title, "{heading}", title, "{intro}", intro, "{button}", button).
		Replace(formHead + `<form method="post">
<button type="submit" name="confirm" value="1" autofocus>{button}</button>
` + formFoot))
}

const formHead = `<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="robots" content="noindex,nofollow">
<title>{title}</title>
<style>` + formStyle + `</style>
</head>
<body>
<main>
<h1>{heading}</h1>
<p>{intro}</p>
`

const formFoot = `</form>
</main>
</body>
</html>
`

const formStyle = pageStyle + `main{width:100%;box-sizing:border-box}
form{margin-top:1.5rem}
label,#fault{display:block;margin-bottom:.5rem;color:var(--ink)}
label{font-weight:600}
#fault{padding-left:.75rem;border-left:.25rem solid currentColor}
input,button{display:block;width:100%;box-sizing:border-box;min-height:3rem;padding:.5rem .75rem;font:inherit;color:var(--ink);
  background:var(--paper);border:2px solid var(--soft);border-radius:.25rem}
button{margin-top:1rem;color:var(--paper);background:var(--ink);border-color:var(--ink);font-weight:600;cursor:pointer}
input:focus-visible,button:focus-visible{outline:3px solid var(--ink);outline-offset:3px}
`

// formPolicy is pagePolicy for the page with the form. It cannot name its own origin as
// the only one to which the form may lead, because browsers apply that to the redirects
// behind the form, too. The page has no text of others.
var formPolicy = func() []byte {
	sum := sha256.Sum256([]byte(formStyle))
	return []byte("default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action http: https:; frame-ancestors 'none'")
}()
