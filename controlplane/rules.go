package controlplane

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/language"

	"waypost"
	"waypost/api"
	"waypost/rules"
)

// RulesChange is a change to the rules, limits and password of a link: nil fields stay as
// they are.
type RulesChange struct {
	Rules         *[]rules.Rule
	ValidFrom     *time.Time // zero: at once
	ExpiredURL    *string
	MaxClicks     *int64 // 0: any number
	MaxClicksMode *string
	ExhaustedURL  *string
	Confirm       *bool
	Password      *string // "": none
}

func (c *RulesChange) isZero() bool { return *c == RulesChange{} }

// compile sets the rules of a link, and their programme with a password, nil for none. A
// programme that it had before keeps the key of its splits, so that visitors keep their
// variants.
func (s *Links) compile(l *waypost.Link, source *rules.Source, password *rules.Password) error {
	if source.IsZero() && source.MaxClicksMode == "" && password == nil {
		l.Rules, l.Programme = source.Encode(), nil
		return nil
	}
	with := rules.Compiling{
		Status: l.RedirectStatus, Now: s.now(), Password: password,
	}
	setTargets(&with, s.domains.targetRules(l.Workspace), l.Code)
	if key, ok := rules.SplitKey(l.Programme); ok {
		with.Key = key
	} else {
		_, _ = rand.Read(with.Key[:]) // never fails
	}
	programme, err := rules.Compile(source, &with)
	if err != nil {
		return err
	}
	l.Rules, l.Programme = source.Encode(), programme
	if l.Rules == nil {
		l.Rules = []byte("{}") // of a link that has a password alone
	}
	if len(l.Rules) > maxRulesText {
		return waypost.Errorf(waypost.EInvalid, "rules must be at most %d bytes of JSON", maxRulesText)
	}
	return nil
}

// warningsOfRules returns the warnings about the source of a programme.
func (s *Links) warningsOfRules(source *rules.Source, programme []byte) []api.Warning {
	all := source.Rules
	var warnings []api.Warning
	if unknown := unknownLanguages(all); len(unknown) > 0 {
		warnings = append(warnings, api.Warning{
			Code:    WarnNoLanguage,
			Message: "rules ask for languages that no browser names, because they are not registered: " + strings.Join(unknown, ", "),
		})
	}
	if source.MaxClicks == 1 && !source.Confirm && !rules.HasPassword(programme) {
		warnings = append(warnings, api.Warning{
			Code: WarnUnconfirmed,
			Message: "software that opens links in messages may use up the one click before the recipient does: " +
				"with confirm, visitors press a button first",
		})
	}
	places := slices.ContainsFunc(all, func(r rules.Rule) bool {
		return slices.ContainsFunc(r.When, func(c rules.Condition) bool { return len(c.Country) > 0 || len(c.City) > 0 })
	})
	if places && !s.locates() {
		warnings = append(warnings, api.Warning{
			Code:    WarnNoPlaces,
			Message: "rules ask for the country or city of visitors, which no edge knows: none has a GeoIP database (edge.geoip)",
		})
	}
	return warnings
}

// unknownLanguages returns the languages of rules that match no visitor, because their
// code, script or region is not registered. The code of a country, such as jp, has the
// language of that country behind it.
func unknownLanguages(all []rules.Rule) (unknown []string) {
	for _, r := range all {
		for _, c := range r.When {
			for _, tag := range c.Language {
				l, _ := rules.ParseLanguage(tag)
				if _, err := language.Parse(l.String()); err == nil {
					continue
				}
				meant, sure := language.Make("und-" + l.String()).Base()
				if sure == language.High {
					tag += " (" + meant.String() + "?)"
				}
				if !slices.Contains(unknown, tag) {
					unknown = append(unknown, tag)
				}
			}
		}
	}
	return unknown
}

// maxRulesText bounds rules as JSON, in bytes.
const maxRulesText = 64 << 10

// judgeRules reports whether the rules of a link, with their targets, are allowed today.
func (s *Links) judgeRules(l waypost.Link) error {
	source, err := rules.ParseSource(l.Rules)
	if err != nil {
		return fmt.Errorf("the rules of the link %s cannot be read: %w", l.Code, err)
	}
	return s.compile(&l, &source, passwordOf(&l))
}

// changeRules makes a change of a link's rules, and compiles them again if the change
// concerns the rules or, for a link with rules, the status of redirects. Password is the
// verifier of the change's password.
func (s *Links) changeRules(l *waypost.Link, c *LinkChange, password *rules.Password) error {
	if c.Rules.isZero() && (c.RedirectStatus == nil || l.Rules == nil) {
		return nil
	}
	source, err := rules.ParseSource(l.Rules)
	if err != nil {
		return fmt.Errorf("the rules of the link %s cannot be read: %w", l.Code, err)
	}
	change := &c.Rules
	if change.Rules != nil {
		source.Replace(*change.Rules, func(url string) string {
			t, err := checkTarget(s.domains.targetRules(l.Workspace), l.Code, url)
			if err != nil {
				return url
			}
			return t.Original
		})
	}
	set(&source.ValidFrom, change.ValidFrom)
	set(&source.ExpiredURL, change.ExpiredURL)
	set(&source.MaxClicks, change.MaxClicks)
	set(&source.MaxClicksMode, change.MaxClicksMode)
	set(&source.ExhaustedURL, change.ExhaustedURL)
	set(&source.Confirm, change.Confirm)
	if source.MaxClicks == 0 && change.MaxClicksMode == nil && change.ExhaustedURL == nil {
		source.MaxClicksMode, source.ExhaustedURL = "", "" // they go with the budget
	}
	if change.Password == nil {
		password = passwordOf(l)
	}
	return s.compile(l, &source, password)
}
