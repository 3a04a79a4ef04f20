package server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAcceptsHTML_PrefersPagesOnlyWhenAsked(t *testing.T) {
	for name, c := range map[string]struct {
		accept string
		want   bool
	}{
		"a browser does":                                {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true},
		"the name alone does":                           {"text/html", true},
		"the name next to JSON does":                    {"application/json, text/html", true},
		"the name behind many others does":              {strings.Repeat("image/png,", 400) + "text/html", true},
		"upper case does":                               {"TEXT/HTML;Q=0.9", true},
		"any text does":                                 {"text/*", true},
		"a small weight does, with nothing against it":  {"text/html;q=0.001", true},
		"a greater weight than that of JSON does":       {"application/json;q=0.5, text/html;level=1;q=0.6", true},
		"JSON of no weight does not stand against it":   {"text/html;q=0.1, application/json;q=0", true},
		"a weight that cannot be read is none":          {"text/html;q=high, application/json;q=0.9", true},
		"nothing does not":                              {"", false},
		"anything does not":                             {"*/*", false},
		"JSON does not":                                 {"application/json", false},
		"a problem document does not":                   {"application/problem+json, text/html;q=0.9", false},
		"the weight zero does not":                      {"text/html;q=0", false},
		"the weight zero does not, in whatever writing": {"text/html ; q=0.000 , */*", false},
		"a smaller weight than that of JSON does not":   {"application/json;q=0.6;v=1, text/html;q=0.599", false},
		"a smaller weight than any application's":       {"text/html;q=0.5,application/*", false},
		"the name itself goes before any text":          {"text/html;q=0, text/*", false},
		"plain text does not":                           {"text/plain", false},
		"a name cut short does not":                     {"text/htm", false},
		"a longer name does not":                        {"text/html2, xtext/html", false},
		"commas and semicolons alone do not":            {",;,;;q=,q=1,;q=", false},
	} {
		t.Run(name, func(t *testing.T) {
			accept := []byte(c.accept)
			require.Equal(t, c.want, acceptsHTML(accept))
			require.Zero(t, testing.AllocsPerRun(10, func() { acceptsHTML(accept) }))
		})
	}
}
