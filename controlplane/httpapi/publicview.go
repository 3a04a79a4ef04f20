package httpapi

import (
	"bytes"
	"context"
	_ "embed"
	"html/template"
	"net/http"
	"strings"
	"time"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/limit"
	"waypost/rules"
)

type publicInput struct {
	Secret string `path:"secret" doc:"The secret of a public view."`
}

type publicOutput struct{ Instead responder }

// public answers everyone who has the secret of a view. Requests are counted by network,
// and wrong secrets as other guesses.
func (a *statisticsAPI) public(ctx context.Context, in *publicInput) (*publicOutput, error) {
	from := callFrom(ctx).client
	if d, _ := a.auth.limits.Requests.Take("public " + limit.Network(from).String()); !d.OK {
		return nil, tooMany("too many requests from this network", d.Retry)
	}
	var p publicPage
	err := a.auth.checkCredential(ctx, presented{kind: "page", from: from}, func(ctx context.Context) (err error) {
		p.view, p.stats, err = a.clicks.PublicStats(ctx, in.Secret)
		if waypost.CodeOf(err) == waypost.ENotFound {
			return waypost.Errorf(waypost.EUnauthorized, "no page")
		}
		return err
	})
	if waypost.CodeOf(err) == waypost.EUnauthorized {
		return nil, controlplane.ErrNoView
	}
	return &publicOutput{&p}, err
}

// publicPage is the page of a public view.
type publicPage struct {
	view  controlplane.View
	stats controlplane.Stats
}

//go:embed publicview.html
var publicSource string

var publicTemplate = template.Must(template.New("page").Parse(publicSource))

// publicWords are the words of the page in English and German.
var publicWords = [2]map[string]string{
	{
		"lang": "en", "clicks": "Clicks", "people": "by people", "bots": "by bots", "day": "Day", "country": "Country", "device": "Device",
		"other": "others", "unknown": "unknown", "desktop": "computer", "mobile": "phone", "tablet": "tablet", "bot": "bot",
		"complete": "complete until", "date": "2 Jan 2006", "small": "Names with fewer than five clicks are among the others.",
	},
	{
		"lang": "de", "clicks": "Klicks", "people": "von Menschen", "bots": "von Bots", "day": "Tag", "country": "Land", "device": "Gerät",
		"other": "weitere", "unknown": "unbekannt", "desktop": "Computer", "mobile": "Telefon", "tablet": "Tablet", "bot": "Bot",
		"complete": "vollständig bis", "date": "02.01.2006", "small": "Namen mit weniger als fünf Klicks stehen bei den weiteren.",
	},
}

// publicRow is a row of a table: clicks, and the part of the longest bar in percent.
type publicRow struct {
	Name   string
	Clicks string
	Part   float64
}

func (p *publicPage) respond(w http.ResponseWriter, r *http.Request) {
	words := publicWords[0]
	if rules.PrefersGerman([]byte(r.Header.Get("Accept-Language"))) {
		words = publicWords[1]
	}
	grouped := func(n int64) string {
		text := number(n)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "\u202f" + text[i:] // a thin blank
		}
		return text
	}
	rows := func(of []controlplane.NamedClicks) (shown []publicRow) {
		most := int64(1)
		for _, n := range of {
			most = max(most, n.Clicks)
		}
		for _, n := range of {
			shown = append(shown, publicRow{n.Name, grouped(n.Clicks), 100 * float64(n.Clicks) / float64(most)})
		}
		return shown
	}
	s := &p.stats
	days := make([]controlplane.NamedClicks, len(s.Series))
	for i, step := range s.Series {
		days[i] = controlplane.NamedClicks{Name: s.Span.Bounds[i].Format(words["date"]), Clicks: step.Clicks}
	}
	complete := ""
	if !s.Complete.Until.IsZero() {
		complete = words["complete"] + " " + s.Complete.Until.In(s.Span.Zone).Format(words["date"]+", 15:04")
	}
	var text bytes.Buffer
	if err := publicTemplate.Execute(&text, map[string]any{
		"W": words, "Title": p.view.Name, "Clicks": grouped(s.Clicks), "People": grouped(s.Clicks - s.Bots), "Bots": grouped(s.Bots),
		"Complete": complete, "Zone": s.Span.Zone.String(), "Days": rows(days),
		"Countries": rows(publicNames(controlplane.Countries, s, words)), "Devices": rows(publicNames(controlplane.Devices, s, words)),
	}); err != nil {
		panic("httpapi: " + err.Error()) // numbers and texts fit the template
	}
	h := w.Header()
	h.Set("Cache-Control", "public, max-age="+seconds(time.Minute))
	h.Set("Vary", "Accept-Language")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	writeBody(w, http.StatusOK, "text/html; charset=utf-8", text.Bytes())
}

// minPublic is the smallest number of clicks that a public view shows of a name.
const minPublic = 5

// publicNames returns a breakdown in which small names are among the others. Others that
// are still few have further names, so that no difference shows a small number.
func publicNames(d controlplane.Dimension, s *controlplane.Stats, words map[string]string) []controlplane.NamedClicks {
	all := breakdownOf(d, &s.Breakdowns[d])
	shown := make([]controlplane.NamedClicks, 0, len(all))
	others := int64(0)
	for _, n := range all {
		if n.Name == othersName || n.Clicks < minPublic {
			others += n.Clicks
			continue
		}
		name := n.Name
		if known := words[strings.ToLower(name)]; known != "" && len(name) > 2 {
			name = known
		}
		shown = append(shown, controlplane.NamedClicks{Name: name, Clicks: n.Clicks})
	}
	for others > 0 && others < minPublic && len(shown) > 0 {
		others += shown[len(shown)-1].Clicks
		shown = shown[:len(shown)-1]
	}
	if others > 0 {
		shown = append(shown, controlplane.NamedClicks{Name: words["other"], Clicks: others})
	}
	return shown
}
