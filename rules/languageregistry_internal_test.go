package rules

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/language"
)

// Package language has other tables of the same sources.
func TestLanguageRegistry_AgreesWithPackageLanguage(t *testing.T) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	var codes []string
	for _, a := range letters {
		for _, b := range letters {
			codes = append(codes, string(a)+string(b))
		}
	}
	for _, code := range codes {
		base, err := language.ParseBase(code)
		if err != nil {
			require.NotContains(t, registry.kin, padded(code), code)
			continue
		}
		l, ok := ParseLanguage(base.ISO3())
		require.True(t, ok)
		same, _ := ParseLanguage(code)
		require.Equal(t, same, l, "%s has the code %s of ISO 639-3", code, base.ISO3())
		if now, err := language.Parse(code); err == nil && code != "tl" && code != "sh" && code != "mo" { // as CLDR has them
			require.Equal(t, now.String(), l.String(), "the code that is preferred to %s", code)
		}
		for _, region := range append(codes, "") {
			tag := code
			if region != "" {
				r, err := language.ParseRegion(region)
				if err != nil || !r.IsCountry() || r != r.Canonicalize() {
					continue
				}
				tag += "-" + r.String()
			}
			script, sure := language.Make(tag).Script()
			if sure == language.No || script.String() == "Zzzz" {
				continue
			}
			l, ok := ParseLanguage(tag)
			require.True(t, ok)
			got := registry.scriptOf(l.Primary, registry.kin[l.Primary], l.Region)
			require.Equal(t, script.String(), string(got[:]), tag)
		}
	}
}
