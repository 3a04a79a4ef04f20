package controlplane

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"waypost"
	"waypost/api"
)

// Bounds of the templates of a workspace.
const (
	maxUTMTemplates  = 50
	maxUTMParameters = 10       // of a template
	maxUTMChoices    = 50       // values of a parameter, each at most waypost.MaxUTM bytes
	maxUTMSize       = 16 << 10 // bytes of all, because many requests read the settings
)

var utmName = regexp.MustCompile(`^utm_[a-z0-9_]{1,28}$`)

// checkUTMTemplates returns templates as they are stored, or the reason against them.
// Templates guide people who write targets, and no target is held to them.
func checkUTMTemplates(all []api.UTMTemplate) ([]api.UTMTemplate, error) {
	if len(all) > maxUTMTemplates {
		return nil, waypost.Errorf(waypost.EInvalid, "utm_templates has more than %d templates", maxUTMTemplates)
	}
	kept := make([]api.UTMTemplate, 0, len(all))
	for i, t := range all {
		t.Tag = canonicalTag(t.Tag)
		if err := checkUTMTemplate(&t, kept); err != nil {
			return nil, waypost.Errorf(waypost.EInvalid, "utm_templates[%d]: %s", i, waypost.MessageOf(err))
		}
		kept = append(kept, t)
	}
	if text, err := json.Marshal(kept); err != nil || len(text) > maxUTMSize {
		return nil, waypost.Errorf(waypost.EInvalid, "utm_templates has more than %d bytes", maxUTMSize)
	}
	return kept, nil
}

// checkUTMTemplate returns the reason against a template that follows others.
func checkUTMTemplate(t *api.UTMTemplate, before []api.UTMTemplate) error {
	switch {
	case len(t.Tag) > waypost.MaxTag || strings.ContainsFunc(t.Tag, unicode.IsControl):
		return waypost.Errorf(waypost.EInvalid, "the tag must have at most %d bytes, without control characters", waypost.MaxTag)
	case slices.ContainsFunc(before, func(b api.UTMTemplate) bool { return b.Tag == t.Tag }):
		return waypost.Errorf(waypost.EInvalid, "an earlier template has the same tag")
	case len(t.Parameters) == 0 || len(t.Parameters) > maxUTMParameters:
		return waypost.Errorf(waypost.EInvalid, "a template has 1 to %d parameters", maxUTMParameters)
	}
	for j, p := range t.Parameters {
		switch {
		case !utmName.MatchString(p.Name):
			return waypost.Errorf(waypost.EInvalid, "the name of a parameter is utm_ and 1 to 28 characters of a-z, 0-9 and _")
		case slices.ContainsFunc(t.Parameters[:j], func(b api.UTMParameter) bool { return b.Name == p.Name }):
			return waypost.Errorf(waypost.EInvalid, "%s is there twice", p.Name)
		case len(p.Values) > maxUTMChoices:
			return waypost.Errorf(waypost.EInvalid, "%s has more than %d values", p.Name, maxUTMChoices)
		}
		for _, v := range p.Values {
			if v == "" || len(v) > waypost.MaxUTM || strings.TrimSpace(v) != v || strings.Contains(v, ",") ||
				strings.ContainsFunc(v, unicode.IsControl) {
				return waypost.Errorf(waypost.EInvalid,
					"a value of %s has 1 to %d bytes, no commas, no control characters, and no blanks at its ends", p.Name, waypost.MaxUTM)
			}
		}
	}
	return nil
}
