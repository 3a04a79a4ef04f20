package target

import (
	"strings"
	"unicode"

	"go.mau.fi/util/confusable"
	"golang.org/x/net/idna"
)

// Likeness describes why a host may be taken for another.
type Likeness struct {
	Host  string // as people see it
	Label string // the suspicious part
	Looks string // an ASCII text that it looks like; "" for a name that only mixes scripts
}

// LooksLikeAnother checks the internationalised parts of a Location's host by UTS #39. It
// finds a part that looks like ASCII but is not, and a part that mixes scripts that no
// language writes together. The result is a hint for people, and never a reason to refuse
// a link, because a name may look like another by chance.
func LooksLikeAnother(location string) (Likeness, bool) {
	start, end, err := findHost(location)
	if err != nil || !hasPunycode(location[start:end]) {
		return Likeness{}, false
	}
	name, err := idna.Punycode.ToUnicode(strings.ToLower(location[start:end]))
	if err != nil {
		return Likeness{}, false
	}
	for label := range strings.SplitSeq(name, ".") {
		if isASCII(label) {
			continue
		}
		if looks := confusable.Skeleton(label); isASCII(looks) && looks != "" {
			return Likeness{Host: name, Label: label, Looks: looks}, true
		}
		if mixesScripts(label) {
			return Likeness{Host: name, Label: label}, true
		}
	}
	return Likeness{}, false
}

// scriptsTogether lists scripts that one language writes together. Each may be mixed with
// Latin letters (UTS #39, "highly restrictive").
var scriptsTogether = [][]*unicode.RangeTable{
	{unicode.Han, unicode.Hiragana, unicode.Katakana},
	{unicode.Han, unicode.Hangul},
	{unicode.Han, unicode.Bopomofo},
}

// mixesScripts reports whether a label mixes scripts that no language writes together.
func mixesScripts(label string) bool {
	tables := map[*unicode.RangeTable]bool{}
	for _, r := range label {
		if unicode.In(r, unicode.Common, unicode.Inherited) {
			continue
		}
		for name, table := range unicode.Scripts {
			if name != "Common" && name != "Inherited" && unicode.Is(table, r) {
				tables[table] = true
				break
			}
		}
	}
	if len(tables) < 2 {
		return false
	}
	for _, together := range scriptsTogether {
		rest := len(tables)
		if tables[unicode.Latin] {
			rest--
		}
		for _, table := range together {
			if tables[table] {
				rest--
			}
		}
		if rest == 0 {
			return false
		}
	}
	return true
}
