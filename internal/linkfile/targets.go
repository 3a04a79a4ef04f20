package linkfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"waypost/api"
)

// linkParameters are the parameters of a dynamic link with a meaning here: the stores and
// the targets of apps, and the marks of campaigns.
var linkParameters = []string{
	"apn", "isi", "afl", "ifl", "ofl", "utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content",
}

func (d *draft) setParameter(name, text string) {
	if text = strings.TrimSpace(text); text != "" {
		if d.parameters == nil {
			d.parameters = make(map[string]string)
		}
		d.parameters[name] = text
	}
}

// setDynamicLink reads a long dynamic link of Firebase, which has everything in its
// query, or the target alone.
func setDynamicLink(d *draft, v value) error {
	n := &d.link
	u, err := url.Parse(strings.TrimSpace(v.text))
	if err != nil || u.Query().Get("link") == "" {
		if n.OriginalURL == "" {
			n.OriginalURL = v.text
		}
		return nil
	}
	query := u.Query()
	n.OriginalURL = query.Get("link")
	for _, name := range linkParameters {
		if d.parameters[name] == "" {
			d.setParameter(name, query.Get(name))
		}
	}
	return nil
}

// setCountries reads targets by country: an object of JSON such as {"DE": "https://…"}.
func setCountries(d *draft, v value) error {
	if v.text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(v.text), &d.countries); err != nil {
		return fmt.Errorf("country_urls %.40q is no JSON object of countries and targets", v.text)
	}
	return nil
}

// setAliases reads further addresses: codes, short URLs, or objects as the API has them.
func setAliases(d *draft, v value) error {
	if strings.HasPrefix(strings.TrimSpace(v.text), "[") && v.list == nil || strings.Contains(v.text, `"short_code"`) {
		var aliases []api.NewAlias
		if err := json.Unmarshal([]byte(v.text), &aliases); err != nil {
			return errors.New("aliases are no JSON list of objects with short_code, domain and title")
		}
		d.link.Aliases = append(d.link.Aliases, aliases...)
		return nil
	}
	codes, err := d.mapper.split("aliases", v)
	for _, code := range codes {
		var domain string
		if strings.Contains(code, "://") {
			domain, code = splitShortURL(code)
		}
		d.link.Aliases = append(d.link.Aliases, api.NewAlias{ShortCode: code, Domain: domain})
	}
	return err
}

// finishTargets adds the rules for devices and countries, and the marks of campaigns.
func (d *draft) finishTargets() error {
	n := &d.link
	if n.OriginalURL = strings.TrimSpace(n.OriginalURL); n.OriginalURL == "" {
		return errors.New("the row has no target")
	}
	p := d.parameters
	for _, name := range linkParameters {
		if strings.HasPrefix(name, "utm_") && p[name] != "" {
			n.OriginalURL = addParameter(n.OriginalURL, name, p[name])
		}
	}
	store := func(own, fallback, base, id string) string {
		switch {
		case own != "":
			return own
		case fallback != "" || id == "":
			return fallback
		}
		return base + url.QueryEscape(id)
	}
	ios := store(strings.TrimSpace(d.ios), p["ifl"], "https://apps.apple.com/app/id", p["isi"])
	android := store(strings.TrimSpace(d.android), p["afl"], "https://play.google.com/store/apps/details?id=", p["apn"])
	add := func(to string, when api.Condition) {
		if to != "" && to != n.OriginalURL {
			d.temporary = true
			n.Rules = append(n.Rules, api.Rule{When: []api.Condition{when}, To: to})
		}
	}
	add(ios, api.Condition{Agent: []string{"ios"}})
	add(android, api.Condition{Agent: []string{"android"}})
	add(p["ofl"], api.Condition{Agent: []string{"desktop"}})
	for _, country := range slices.Sorted(maps.Keys(d.countries)) {
		add(d.countries[country], api.Condition{Country: []string{strings.ToUpper(country)}})
	}
	if status, ok := map[int]int{301: 302, 308: 307}[n.RedirectStatus]; ok && d.temporary {
		n.RedirectStatus = status
	}
	return nil
}

// addParameter adds a parameter to the query of a target that does not have it, and
// leaves all other bytes of the target as they are.
func addParameter(target, name, text string) string {
	target, fragment, hasFragment := strings.Cut(target, "#")
	_, query, hasQuery := strings.Cut(target, "?")
	if !strings.Contains("&"+query, "&"+name+"=") {
		mark := map[bool]string{false: "?", true: "&"}[hasQuery]
		target += mark + name + "=" + url.QueryEscape(text)
	}
	if hasFragment {
		target += "#" + fragment
	}
	return target
}

// pathOfTemplate matches the visitor's path in a template of golink.
var pathOfTemplate = regexp.MustCompile(`\{\{-?\s*(?:(?:PathEscape|QueryEscape)\s+\.Path|\.Path(?:\s*\|\s*(?:PathEscape|QueryEscape))?)\s*-?\}\}`)

// setTemplate reads the target of golink, a template of Go. Without an action the
// visitor's path is added to the target, and {{.Path}} makes the link a pattern.
func setTemplate(d *draft, v value) error {
	n, target := &d.link, strings.TrimSpace(v.text)
	filled := pathOfTemplate.ReplaceAllLiteralString(target, "\x00")
	switch {
	case strings.Contains(filled, "{{"):
		return fmt.Errorf("the target %.200q has a template that no link can say: only {{.Path}} is possible", target)
	case filled == target:
		n.OriginalURL, n.ForwardPath = target, true
		return nil
	}
	before, _, _ := strings.Cut(filled, "\x00")
	if _, host, _ := strings.Cut(before, "://"); !strings.Contains(host, "/") {
		return fmt.Errorf("the target %.200q has the visitor's path in its host, which no link can say", target)
	}
	// At the end of the target's path a forwarded path says the same, also without a path.
	if filled == before+"\x00" && strings.HasSuffix(before, "/") && !strings.ContainsAny(before, "?#") {
		n.OriginalURL, n.ForwardPath = before, true
		return nil
	}
	literal := strings.NewReplacer("{", "%7B", "}", "%7D", "\x00", "{path}")
	n.OriginalURL, d.isPattern = literal.Replace(filled), true // finishCode adds the star
	return nil
}
