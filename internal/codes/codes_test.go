package codes_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"waypost"
	"waypost/internal/codes"
	"waypost/internal/patterns"
)

func TestNormalForm_HasOneUnicodeVersion(t *testing.T) {
	require.Equal(t, unicode.Version, norm.Version)
}

func TestParse_ReadsCodes(t *testing.T) {
	for typed, want := range map[string]string{
		"x": "x", "ab": "ab", "spring-sale": "spring-sale", "v1.2~b_c": "v1.2~b_c", "summer/2026": "summer/2026", "login": "login",
		"admin": "admin",
		"...":   "...", "a/.b": "a/.b", "health/x": "health/x", "robots.txt.old": "robots.txt.old",
		"café": "café", "cafe\u0301": "café", "Ǆungla": "Ǆungla", "ᄒ\u1161\u11ab": "한", "日本語": "日本語", "الربيع": "الربيع",
		"नमस्ते": "नमस्ते", "१२": "१२",
		"🦣": "🦣", "❤": "❤", "❤\ufe0f": "❤\ufe0f", "ℹ\ufe0f": "ℹ\ufe0f", "a🦣b": "a🦣b", "👩\u200d🚀": "👩\u200d🚀", "🏳\ufe0f\u200d🌈": "🏳\ufe0f\u200d🌈",
		"👍🏽": "👍🏽", "👩🏽\u200d🚀": "👩🏽\u200d🚀", "🇨🇭": "🇨🇭", "1\ufe0f\u20e3": "1\ufe0f\u20e3", "™": "™",
		"🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f": "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
		strings.Repeat("x", 128): strings.Repeat("x", 128), strings.Repeat("e\u0301", 64): strings.Repeat("é", 64),
		strings.Repeat("a/", 15) + "a": strings.Repeat("a/", 15) + "a",
	} {
		code, err := codes.Parse(typed, false)
		require.NoError(t, err, "%q", typed)
		require.Equal(t, waypost.Code(want), code)
		again, err := codes.Parse(string(code), false)
		require.NoError(t, err)
		require.Equal(t, code, again)
	}
}

func TestParse_RefusesWithAReason(t *testing.T) {
	for typed, reason := range map[string]string{
		"":                       "1 to 128 bytes",
		strings.Repeat("x", 129): "1 to 128 bytes", strings.Repeat("é", 65): "1 to 128 bytes",
		"/x": "empty segment", "//x": "empty segment", "a//b": "empty segment", "a/": "empty segment", "/": "empty segment",
		".": "segment . or ..", "..": "segment . or ..", "a/../b": "segment . or ..", "a/.": "segment . or ..", "./a": "segment . or ..",
		strings.Repeat("a/", 16) + "a": "more than 16 segments",
		"spring+":                      "plus sign", "a+b": "plus sign", "a?b": "meaning of its own", "a#b": "meaning of its own",
		"a%41": "meaning of its own",
		`a\b`:  "meaning of its own", "a:b": "meaning of its own", "a&b": "meaning of its own", "a@b": "meaning of its own",
		"a b": "a space", "a\u00a0b": "a space", "a\u2028b": "a space", "a\u3000": "a space",
		"a\x00": "control character", "a\r\nb": "control character", "a\x7f": "control character", "a\u0085": "control character",
		"a\u202eb": "direction of text (", "a\u2066b": "U+2066", "a\u200fb": "direction of text", "a\u061cb": "direction of text",
		"a\u200bb": "cannot be seen", "a\u200cb": "cannot be seen", "a\u200db": "cannot be seen", "\ufeffa": "cannot be seen",
		"a\u00adb": "cannot be seen",
		"a\u034fb": "cannot be seen", "a\u3164": "cannot be seen", "a\ufe0f": "cannot be seen", "a\u2060": "cannot be seen",
		"a\U000e0041": "cannot be seen",
		"🦣\u200d":     "not complete", "👩\u200da": "not complete", "👩\u200d/a": "not complete", "1\ufe0f": "not complete",
		"1\ufe0fa":    "not complete",
		"🏴\U000e0067": "not complete", "🏴\U000e0067a": "not complete",
		"a\u0378": "does not know", "\U0001fae9": "does not know", "a\uffff": "does not know",
		"\u0301a": "begins with a mark", "a/\u0301": "begins with a mark",
		"a\ufffd": "no letter, digit or emoji", "a→b": "no letter, digit or emoji", "½": "no letter, digit or emoji",
		"a\ue000": "no letter, digit or emoji",
		"a\xff":   "not UTF-8", "\xc0\xaf": "not UTF-8", "\xed\xa0\x80": "not UTF-8",
		"robots.txt": "answers itself", "Favicon.ICO": "answers itself", "HEALTH": "answers itself", ".well-known": "answers itself",
		".Well-Known/acme": "answers itself",
	} {
		_, err := codes.Parse(typed, false)
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "%q: %v", typed, err)
		require.ErrorContains(t, err, strings.TrimSuffix(reason, " ("), "%q", typed)
	}
}

func TestParse_OfASharedDomainKeepsToPlainCodes(t *testing.T) {
	for _, typed := range []string{"abc", strings.Repeat("x", 33), "ab.cd", "summer/2026", "café", "Metrics", "login", "robots"} {
		_, err := codes.Parse(typed, true)
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), typed)
	}
	code, err := codes.Parse("spring-sale", true)
	require.NoError(t, err)
	require.Equal(t, waypost.Code("spring-sale"), code)
}

// tried is an index of no links, which lists the codes that it is asked for, each with
// its rest behind a bar, and + for a preview.
type tried struct {
	visit waypost.Visit
	codes []string
}

func (*tried) Patterns() (*patterns.Index, error) { return nil, nil } //nolint:nilnil // there are no patterns

func (*tried) Policy([]byte, bool) (waypost.BlockPolicy, error) { return 0, nil }

func (n *tried) Record(code []byte) (*waypost.Record, error) {
	s := string(code)
	if n.visit.Rest != nil {
		s += " | " + string(n.visit.Rest)
	}
	if n.visit.Preview {
		s += " +"
	}
	n.codes = append(n.codes, s)
	return nil, nil
}

func candidates(w *codes.Walk, path string, traits waypost.DomainTraits) []string {
	n := tried{visit: waypost.ParseVisit([]byte(path))}
	if found, err := w.Find(&n.visit, traits, &n); found != (codes.Found{}) || err != nil {
		panic("found")
	}
	return n.codes
}

func TestWalk_YieldsTheCodesOfAPath(t *testing.T) {
	var w codes.Walk
	for path, want := range map[string][]string{
		"/spring": {"spring"}, "/spring?q=/x": {"spring"}, "/%73pring": {"spring"}, "/spr%69ng": {"spring"}, "/spring+": {"spring +"},
		"/%73pring+": {"spring +"},
		"/spring%2B": nil, "/spring%2b": nil, "/%2573pring": nil, "/spring%20": nil, "/spring%2Fx": nil, "/spring%": nil,
		"/spring%4":          nil,
		"/a%2Db%5Fc%2Ed%7Ee": {"a-b_c.d~e"},
		"/caf%C3%A9":         {"café"}, "/caf%c3%a9": {"café"}, "/cafe%CC%81": {"café"}, "/caf\xc3\xa9": {"café"},
		"/c%61fe%cc%81+": {"café +"},
		"/%F0%9F%A6%A3":  {"🦣"}, "/%f0%9f%a6%a3": {"🦣"}, "/%E1%84%92%E1%85%A1%E1%86%AB": {"한"},
		"/%C0%AFx": nil, "/%ff": nil, "/%E2%80%AE": nil, "/%C3": nil, "/%ED%A0%80": nil,
		"/summer/2026": {"summer/2026", "summer | /2026"}, "/s%75mmer/2%3026?q": {"summer/2026", "summer | /2%3026"},
		"/summer/2026+": {"summer/2026 +", "summer | /2026+"}, "/summer/2026/": {"summer/2026 | /", "summer | /2026/"},
		"/cafe%CC%81/b/%2e": {"café/b | /%2e", "café | /b/%2e"},
		"/a/%2e%2e/b":       {"a | /%2e%2e/b"}, "/a/../b": {"a | /../b"}, "/a//b": {"a | //b"}, "/a/b%20c": {"a | /b%20c"},
		"/a/": {"a | /"},
		"/":   nil, "": nil, "//a": nil, "/./a": nil, "/../a": nil, "/%2e%2e/a": nil, `/\a`: nil, "/+": nil, "/a+/b": nil,
		"/" + strings.Repeat("/", 8<<10): nil, "/" + strings.Repeat("x", 129): nil, "/" + strings.Repeat("x", 8<<10): nil,
		"/a/" + strings.Repeat("x", 8<<10):     {"a | /" + strings.Repeat("x", 8<<10)},
		"/" + strings.Repeat("e%CC%81", 64):    {strings.Repeat("é", 64)},
		"/" + strings.Repeat("%EA%B0%80", 43):  nil,
		"/a/" + strings.Repeat("%CC%81", 3000): {"a | /" + strings.Repeat("%CC%81", 3000)},
	} {
		require.Equal(t, want, candidates(&w, path, waypost.ExactPaths), "%.60s", path)
	}
	long := candidates(&w, "/"+strings.Repeat("a/", 4000), 0)
	require.Len(t, long, waypost.MaxCodeSegments)
	require.Equal(t, "a | /"+strings.Repeat("a/", 3999), long[15])
}

func TestWalk_ForgivesASlashAndPunctuation(t *testing.T) {
	var w codes.Walk
	for path, want := range map[string][]string{
		"/spring": {"spring"}, "/spring/": {"spring | /"}, "/spring.": {"spring.", "spring"}, "/spring%2E": {"spring.", "spring"},
		"/spring%2F": nil, "/spring-": {"spring-"}, "/spring?.": {"spring"}, "/spring%3F": nil, "/spring%2529": nil, "/spring*": nil,
		"/spring.)": {"spring.", "spring"}, "/spring).": {"spring"}, "/spring...": {"spring...", "spring..", "spring.", "spring"},
		"/spring./": {"spring. | /", "spring"}, "/spring/.": {"spring | /."}, "/spring.)+": {"spring. +", "spring +"},
		"/spring+.": {"spring +"}, "/spring+).": {"spring +"}, "/spring+.+": {"spring +"}, "/spring++": nil, "/spring/+": {"spring | /+"},
		"/a/b/": {"a/b | /", "a | /b/"}, "/a/b.": {"a/b.", "a/b", "a | /b."},
		"/a/.../": {"a/... | /", "a | /.../"}, "/a/...": {"a/...", "a | /..."},
		"/a.)/b": nil, "/a/b%20.": {"a | /b%20."}, "/a//": {"a | //"},
		"/.": nil, "/...": {"..."}, "/)": nil, "//": nil, "/+.": nil, "/%F0%9F%A6%A3!": {"🦣"}, "/cafe%CC%81%22%3e": {"café"},
		"/spring....":                      {"spring....", "spring...", "spring..", "spring.", "spring"},
		"/spring....)":                     {"spring...", "spring..", "spring.", "spring"},
		"/spring" + strings.Repeat(".", 8): {"spring........", "spring...", "spring..", "spring.", "spring"},
		"/spring" + strings.Repeat(")", 8): {"spring"}, "/spring" + strings.Repeat(")", 9): nil,
		"/spring" + strings.Repeat("%29", 8<<10): nil, "/" + strings.Repeat(".)", 4<<10): nil,
		"/" + strings.Repeat("x", 128) + ").":                          {strings.Repeat("x", 128)},
		"/" + strings.Repeat("x", 128) + ".":                           {strings.Repeat("x", 128)},
		"/" + strings.Repeat("e%CC%81", 64) + strings.Repeat("%29", 8): {strings.Repeat("é", 64)},
	} {
		require.Equal(t, want, candidates(&w, path, 0), "%.60s", path)
	}
	for _, mark := range `.,;:!)]'">` {
		encoded := fmt.Sprintf("%%%02x", mark)
		for _, glued := range []string{string(mark), encoded, strings.ToUpper(encoded)} {
			tried := candidates(&w, "/spring"+glued, 0)
			require.Equal(t, "spring", tried[len(tried)-1], glued)
		}
	}
	sixteen := strings.Repeat("a/", 15) + "a"
	require.Equal(t, sixteen+" | /", candidates(&w, "/"+sixteen+"/", 0)[0])
}

func FuzzWalk_YieldsCodesInTheirNormalForm(f *testing.F) {
	for _, seed := range []string{
		"/spring", "/cafe%CC%81/b+", "/%F0%9F%A6%A3/x/", "//a", "/%ff/%2e", "/👩\u200d🚀", "/a/..", "/%e1%84%92%e1%85%a1%e1%86%ab?x", "/%", strings.Repeat("/a", 40),
		"/" + strings.Repeat("%CC%81", 100), "/e" + strings.Repeat("%CC%81", 60), "/%F0%9D%85%9F%F0%9D%85%9E",
		"/CAF%C3%89/B..)", "/CAF%C3%89/Ⓜ/B...", "/ŉ/" + strings.Repeat("ŉ", 60) + "..)", "/ᾼ/ẞ/" + strings.Repeat("A/", 14), "/Ⓜ/ŉ....",
	} {
		f.Add([]byte(seed))
	}
	var w, again codes.Walk
	f.Fuzz(func(t *testing.T, path []byte) {
		for _, traits := range []waypost.DomainTraits{0, waypost.ExactPaths} {
			n := tried{visit: waypost.ParseVisit(path)}
			last := waypost.MaxCodeLength + 1
			var keys, folded []string
			_, err := w.Find(&n.visit, traits, &checked{&n, func(code string) {
				require.Less(t, len(code), last)
				last = len(code)
				keys = append(keys, string(codes.Fold(waypost.Code(code))))
				require.True(t, waypost.ValidCode(code), "%q", code)
				require.True(t, norm.NFC.IsNormalString(code), "%q", code)
				if n.visit.Rest != nil {
					require.True(t, strings.HasSuffix(string(n.visit.Path), string(n.visit.Rest)))
					require.Equal(t, byte('/'), n.visit.Rest[0])
				}
				require.Equal(t, waypost.Code(code), codes.NormalForm(code))
				require.Equal(t, code, candidates(&again, "/"+string(waypost.AppendEncoded(nil, code)), traits)[0], "a short URL leads to its code")
				require.Equal(t, code, candidates(&again, (&url.URL{Path: "/" + code}).EscapedPath(), traits)[0])
			}})
			require.NoError(t, err)
			require.LessOrEqual(t, len(n.codes), waypost.MaxCodeSegments+4)
			n.visit = waypost.ParseVisit(path)
			_, err = w.Find(&n.visit, traits|waypost.IgnoresCase, &checked{&n, func(code string) { folded = append(folded, code) }})
			require.NoError(t, err)
			require.Equal(t, keys, folded)
		}
	})
}

// checked looks at each code before the index is asked for it.
type checked struct {
	*tried
	check func(code string)
}

func (c *checked) Record(code []byte) (*waypost.Record, error) {
	c.check(string(code))
	return c.tried.Record(code)
}

// FuzzCheckCode_AgreesWithParse compares the prefixes of a text with its whole.
func FuzzCheckCode_AgreesWithParse(f *testing.F) {
	f.Add("café/🦣")
	f.Add("1\ufe0f\u20e3/a//b")
	f.Fuzz(func(t *testing.T, s string) {
		prefix, fault := waypost.CheckCode(s)
		require.Equal(t, fault.Reason == "", waypost.ValidCode(s))
		require.Equal(t, fault.Reason == "", waypost.ValidCode([]byte(s)))
		if fault.Reason == "" {
			require.Equal(t, len(s), prefix)
		}
		if prefix > 0 {
			require.True(t, waypost.ValidCode(s[:prefix]))
			require.True(t, prefix == len(s) || s[prefix] == '/')
		}
		code, err := codes.Parse(s, false)
		if err == nil {
			require.True(t, waypost.ValidCode(string(code)) && norm.NFC.IsNormalString(string(code)))
		}
	})
}

func TestWalk_TriesTheKeysThatADomainHas(t *testing.T) {
	var w codes.Walk
	const there, back = waypost.IgnoresCase | waypost.CaseSwitching, waypost.CaseSwitching
	for _, c := range []struct {
		path   string
		traits waypost.DomainTraits
		keys   []string
	}{
		{"/Hr", 0, []string{"Hr"}},
		{"/Hr", waypost.IgnoresCase, []string{"hr"}},
		{"/hr", waypost.IgnoresCase, []string{"hr"}},
		{"/HR+", waypost.IgnoresCase, []string{"hr +"}},
		{"/CAFE%CC%81/X", waypost.IgnoresCase | waypost.ExactPaths, []string{"café/x", "café | /X"}},
		{"/Stra%C3%9Fe", waypost.IgnoresCase, []string{"strasse"}},
		{"/Hr", there, []string{"Hr", "hr"}},
		{"/Hr", back, []string{"hr", "Hr"}},
		{"/hr", there, []string{"hr"}},
		{"/A/B", there | waypost.ExactPaths, []string{"A/B", "a/b", "A | /B", "a | /B"}},
		{"/%E2%93%82", waypost.IgnoresCase, []string{"Ⓜ"}},
	} {
		require.Equal(t, c.keys, candidates(&w, c.path, c.traits), "%s %b", c.path, c.traits)
	}
}

func TestWalk_DoesNotAllocate(t *testing.T) {
	for _, path := range paths {
		for _, traits := range []waypost.DomainTraits{0, waypost.IgnoresCase} {
			var w codes.Walk
			v := waypost.ParseVisit([]byte(path))
			require.Zero(t, testing.AllocsPerRun(100, func() {
				v := v
				_, _ = w.Find(&v, traits, noLinks{})
			}), "%.60s", path)
		}
	}
}

// noLinks is an index of no links.
type noLinks struct{}

func (noLinks) Patterns() (*patterns.Index, error) { return nil, nil } //nolint:nilnil // there are no patterns

func (noLinks) Policy([]byte, bool) (waypost.BlockPolicy, error) { return 0, nil }

func (noLinks) Record([]byte) (*waypost.Record, error) { return nil, nil } //nolint:nilnil // there is no link

var paths = map[string]string{
	"punctuation": "/" + strings.Repeat(").", 4<<10), "trimmed": "/spring).",
	"slash": "/spring/", "dots": "/" + strings.Repeat("é", 60) + "........",
	"plain": "/aZ3kQ9x", "unicode": "/caf%C3%A9", "decomposed": "/cafe%CC%81", "nested": "/summer/2026",
	"slashes":  "/" + strings.Repeat("/", 8<<10),
	"segments": "/" + strings.Repeat("a/", 4<<10), "marks": "/" + strings.Repeat("%CC%81", 2<<10),
	"letters": "/" + strings.Repeat("e%CC%81", 1<<10),
	"hangul":  "/" + strings.Repeat("%E1%84%92%E1%85%A1%E1%86%AB", 300), "x": "/" + strings.Repeat("x", 8<<10),
	"joined": "/" + strings.Repeat("a/e%CC%81/", 300),
}

func BenchmarkWalk(b *testing.B) {
	for name, path := range paths {
		for kind, traits := range map[string]waypost.DomainTraits{"": 0, ", insensitive": waypost.IgnoresCase} {
			b.Run(name+kind, func(b *testing.B) {
				b.ReportAllocs()
				var w codes.Walk
				asked := []byte(path)
				for b.Loop() {
					v := waypost.ParseVisit(asked)
					_, _ = w.Find(&v, traits, noLinks{})
				}
			})
		}
	}
}
