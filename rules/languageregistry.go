package rules

import "strings"

// languageRegistry knows which codes name the same language, and the scripts that
// languages are written in. Its maps are only read.
type languageRegistry struct {
	preferred map[[3]byte][3]byte // codes of languages that programs send in place of others
	regions   map[[3]byte][3]byte // likewise of regions

	// The macrolanguage of a language; of a macrolanguage the language that is usually
	// meant.
	kin map[[3]byte][3]byte

	scripts map[placedLanguage][4]byte // others than Latin; without a region: in all others
	usual   map[writtenLanguage][3]byte
}

type placedLanguage struct{ primary, region [3]byte }

type writtenLanguage struct {
	primary [3]byte
	script  [4]byte
}

var (
	registry = newLanguageRegistry()
	latin    = [4]byte{'L', 'a', 't', 'n'}
)

func newLanguageRegistry() *languageRegistry {
	r := &languageRegistry{
		preferred: make(map[[3]byte][3]byte), regions: make(map[[3]byte][3]byte), kin: make(map[[3]byte][3]byte),
		scripts: make(map[placedLanguage][4]byte), usual: make(map[writtenLanguage][3]byte),
	}
	for _, entry := range entriesOf(replacedLanguages) {
		for _, old := range entry[1:] {
			r.preferred[padded(old)] = padded(entry[0])
		}
	}
	for _, entry := range entriesOf(replacedRegions) {
		r.regions[padded(entry[1])] = padded(entry[0])
	}
	for _, entry := range entriesOf(macrolanguages) {
		if entry[1] != "-" {
			r.kin[padded(entry[0])] = padded(entry[1])
		}
		for _, member := range entry[1:] {
			if member != "-" {
				r.kin[padded(member)] = padded(entry[0])
			}
		}
	}
	for _, entry := range entriesOf(usualScripts) {
		for _, tag := range entry[1:] {
			primary, region, _ := strings.Cut(tag, "-")
			r.scripts[placedLanguage{padded(primary), padded(region)}] = [4]byte([]byte(entry[0]))
		}
	}
	for _, entry := range entriesOf(usualRegions) {
		primary, script, _ := strings.Cut(entry[0], "-")
		r.usual[writtenLanguage{padded(primary), [4]byte([]byte(script))}] = padded(entry[1])
	}
	return r
}

// entriesOf returns the words of each entry of a table.
func entriesOf(table string) (all [][]string) {
	for text := range strings.FieldsFuncSeq(table, func(r rune) bool { return r == ',' || r == '\n' }) {
		all = append(all, strings.Fields(text))
	}
	return all
}

func padded(code string) (b [3]byte) {
	copy(b[:], code)
	return b
}

// scriptOf returns the script that is usual for a language in a region, or without one.
func (r *languageRegistry) scriptOf(primary, kin, region [3]byte) [4]byte {
	for _, place := range [...]placedLanguage{{primary, region}, {primary: primary}, {kin, region}, {primary: kin}} {
		if script, ok := r.scripts[place]; ok {
			return script
		}
	}
	return latin
}

// regionOf returns the region where a language is usual in a script, all 0 if it is not
// known.
func (r *languageRegistry) regionOf(primary, kin [3]byte, script [4]byte) [3]byte {
	if region, ok := r.usual[writtenLanguage{primary, script}]; ok {
		return region
	}
	return r.usual[writtenLanguage{kin, script}]
}
