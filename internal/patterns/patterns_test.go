package patterns_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/internal/codes"
	"waypost/internal/patterns"
)

// found returns the pattern that fits a path, and its values.
func found(x *patterns.Index, asked string) string {
	var m patterns.Match
	v := waypost.ParseVisit([]byte(asked))
	if !m.Find(x, &v, codes.AppendSegment) {
		return ""
	}
	m.Lead(&v)
	s := string(v.Code)
	for _, h := range v.Held {
		s += " " + string(h.Name) + "=" + string(h.Value)
	}
	if v.Preview {
		s += " +"
	}
	return s
}

func TestMatch_FindsTheBestPattern(t *testing.T) {
	x := patterns.New([]string{
		"docs/*", "docs/intro", "docs/{page}/edit", "{x}/y", "jira/{ticket}", "{year}/{month}/{slug}", "café/{dish}", "a/b/*", "a/{x}/c", "{z}/*",
	})
	require.Equal(t, 9, x.Len(), "docs/intro is no pattern")
	for asked, want := range map[string]string{
		"/docs": "docs/* path=", "/docs/": "docs/* path=", "/docs/a/b": "docs/* path=a/b", "/docs/a/b?q=1": "docs/* path=a/b",
		"/docs//a":        "docs/* path=/a",
		"/docs/x/edit":    "docs/{page}/edit page=x",
		"/docs/x/edit/":   "docs/* path=x/edit/",
		"/docs//edit":     "docs/* path=/edit",
		"/docs/a%2Fb":     "docs/* path=a%2Fb",
		"/d%6fcs/a":       "docs/* path=a",
		"/docs%2Fa":       "{z}/* z=docs%2Fa path=",
		"/jira/A-1":       "jira/{ticket} ticket=A-1",
		"/jira/A-1/x":     "{year}/{month}/{slug} year=jira month=A-1 slug=x",
		"/jira/":          "{z}/* z=jira path=",
		"/jira/A-1+":      "jira/{ticket} ticket=A-1 +",
		"/docs/c++":       "docs/* path=c++",
		"/docs+":          "docs/* path= +",
		"/2024/05/a%2Fb":  "{year}/{month}/{slug} year=2024 month=05 slug=a%2Fb",
		"/cafe%CC%81/x":   "café/{dish} dish=x",
		"/caf%c3%a9/x%20": "café/{dish} dish=x%20",
		"/q/y":            "{x}/y x=q",
		"/docs/y":         "docs/* path=y", // a literal comes first, from the left
		"/a/b/c":          "a/b/* path=c",
		"/a/d/c":          "a/{x}/c x=d",
		"/a/d/e/f":        "{z}/* z=a path=d/e/f",
		"//a":             "", "/": "", "": "",
		"/+": "",
	} {
		require.Equal(t, want, found(x, asked), asked)
	}
	x = patterns.New([]string{"docs/intro/{a}", "{x}/y"})
	require.Equal(t, "{x}/y x=docs", found(x, "/docs/y"), "the search comes back from docs")
	x = patterns.New([]string{"*"})
	for asked, want := range map[string]string{
		"/": "* path=", "/a/b/": "* path=a/b/", "//evil.example": "* path=/evil.example", "/+": "* path= +", "/a+": "* path=a+",
	} {
		require.Equal(t, want, found(x, asked), asked)
	}
	require.Nil(t, patterns.New([]string{"intro"}))
	require.Empty(t, found(nil, "/a"))
}

func TestMatch_RanksLinksThatForwardPaths(t *testing.T) {
	for pattern, precedes := range map[string]map[int]bool{
		"a/b/{x}/d": {1: true, 2: true, 3: false},
		"a/b/*":     {1: true, 2: false},
		"a/{x}/*":   {1: true, 2: false},
		"*":         {1: false}, "{x}/b/c/d": {1: false, 2: false},
	} {
		var m patterns.Match
		v := waypost.ParseVisit([]byte("/a/b/c/d"))
		require.True(t, m.Find(patterns.New([]string{pattern}), &v, codes.AppendSegment), pattern)
		for segments, want := range precedes {
			require.Equal(t, want, m.Precedes(segments), "%s and a link of %d segments", pattern, segments)
		}
	}
}

func TestIndex_RefusesASecondPatternOfOneShape(t *testing.T) {
	x := patterns.New([]string{"jira/{a}"})
	require.False(t, x.Add("jira/{b}"))
	require.True(t, x.Add("jira/{b}/*"))
	require.True(t, x.Add("jira/*"))
	require.False(t, x.Add("jira/x"))
	require.Equal(t, "jira/{}/*", patterns.Shape("jira/{b}/*"))
	require.Equal(t, []string{"b", "path"}, patterns.Names("jira/{b}/*"))
	require.Equal(t, "jira", string(patterns.Prefix([]byte("jira/{b}/*"))))
	require.Empty(t, patterns.Prefix([]byte("*")))
}

func TestIndex_BoundsTheVisitsOfALookUp(t *testing.T) {
	x := patterns.New(nearlyMatching(4))
	require.LessOrEqual(t, x.Visits(), patterns.MaxVisits)
	var most int
	for _, asked := range []string{"/a/a/a/a/a/z", "/a/a/a/a/a", "/a/b/a/b/z", "/" + strings.Repeat("a/", 4000)} {
		var m patterns.Match
		v := waypost.ParseVisit([]byte(asked))
		m.Find(x, &v, codes.AppendSegment)
		most = max(most, patterns.VisitsOf(&m))
	}
	require.Greater(t, most, 30)
	require.LessOrEqual(t, most, x.Visits())
	deep := patterns.New(nearlyMatching(6))
	require.Greater(t, deep.Visits(), patterns.MaxVisits)
	var m patterns.Match
	v := waypost.ParseVisit([]byte("/a/a/a/a/a/a/a/z"))
	require.False(t, m.Find(deep, &v, codes.AppendSegment))
	require.LessOrEqual(t, patterns.VisitsOf(&m), patterns.MaxVisits)
}

// nearlyMatching returns patterns of every mixture of a literal and a placeholder at that
// many places, with a last segment that no path has.
func nearlyMatching(places int) (all []string) {
	for mask := range 1 << places {
		var segments []string
		for i := range places {
			if mask>>i&1 == 0 {
				segments = append(segments, "a")
			} else {
				segments = append(segments, fmt.Sprintf("{p%d}", i))
			}
		}
		all = append(all, strings.Join(append(segments, "{last}", "q"), "/"))
	}
	return all
}

// slowly is an obvious matcher: all patterns that fit, sorted by the rule.
func slowly(all []string, path string) string {
	path = strings.TrimSuffix(path, "+")
	asked := strings.Split(path, "/")
	if path == "" {
		asked = nil
	}
	var fit []string
	for _, code := range all {
		if fits(strings.Split(code, "/"), asked) {
			fit = append(fit, code)
		}
	}
	if len(fit) == 0 {
		return ""
	}
	rank := func(segments []string, i int) int {
		switch {
		case i < len(segments) && segments[i] == "*":
			return 2
		case i < len(segments) && segments[i][0] == '{':
			return 1
		}
		return 0 // a literal, or the end, which no longer pattern shares
	}
	return slices.MinFunc(fit, func(a, b string) int {
		one, other := strings.Split(a, "/"), strings.Split(b, "/")
		for i := range max(len(one), len(other)) {
			if d := rank(one, i) - rank(other, i); d != 0 {
				return d
			}
		}
		return 0
	})
}

func fits(pattern, asked []string) bool {
	for i, segment := range pattern {
		switch {
		case segment == "*":
			return true
		case i >= len(asked):
			return false
		case segment[0] == '{':
			if asked[i] == "" {
				return false
			}
		default:
			text, err := url.PathUnescape(asked[i])
			if err != nil || string(codes.NormalForm(text)) != segment {
				return false
			}
		}
	}
	return len(pattern) == len(asked)
}

func FuzzMatch_AgreesWithASlowMatcher(f *testing.F) {
	f.Add("docs/* docs/{a} {x}/y * {a}/{b}/c", "docs/y")
	f.Add("café/{a} {b}/* a/{b}/c a/b/*", "cafe%CC%81/x+")
	f.Add("a/{b}/{c}/d {a}/b/c/e a/b/{c}/*", "a/b/c/e")
	f.Add("{a}/{b}", "/x")
	f.Fuzz(func(t *testing.T, list, path string) {
		var all []string
		shapes := map[string]bool{}
		for code := range strings.FieldsSeq(list) {
			if waypost.IsPattern(code) && waypost.ValidCode(code) && string(codes.NormalForm(code)) == code && !shapes[patterns.Shape(code)] {
				shapes[patterns.Shape(code)] = true
				all = append(all, code)
			}
		}
		one := new(patterns.Index)
		for _, code := range all {
			visits := one.VisitsWith(code)
			require.True(t, one.Add(code))
			require.Equal(t, one.CountVisits(), visits)
			require.Equal(t, visits, one.Visits())
		}
		x := patterns.New(all)
		require.Equal(t, len(all), x.Len())
		if x == nil || x.Visits() > patterns.MaxVisits || strings.ContainsAny(path, "?%") {
			return
		}
		v := waypost.ParseVisit([]byte("/" + path))
		var m patterns.Match
		want := slowly(all, path)
		require.Equal(t, want != "", m.Find(x, &v, codes.AppendSegment), "%q", path)
		if want == "" {
			return
		}
		m.Lead(&v)
		require.Equal(t, want, string(v.Code), "%q", path)
		var rebuilt []string
		for segment := range strings.SplitSeq(string(v.Code), "/") {
			if segment == "*" || segment[0] == '{' {
				held := v.Held[0]
				v.Held = v.Held[1:]
				if segment != "*" {
					require.Equal(t, segment, "{"+string(held.Name)+"}")
				}
				segment = string(held.Value)
			}
			rebuilt = append(rebuilt, segment)
		}
		require.Empty(t, v.Held)
		if !strings.ContainsFunc(path, func(r rune) bool { return r >= 0x80 }) {
			require.Equal(t, strings.TrimRight(path, "/+"), strings.TrimRight(strings.Join(rebuilt, "/"), "/+"))
		}
	})
}

// FuzzCheckPattern_AgreesWithItsParts compares the judgement of a pattern with the
// judgements of its segments.
func FuzzCheckPattern_AgreesWithItsParts(f *testing.F) {
	for _, seed := range []string{"docs/*", "*", "{a}/{b}/c", "{a}/{a}", "a/*/b", "{path}", "{A}", "a{b}", "", "/", "{", "{}", "é/*", "x*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		valid := waypost.CheckPattern(s).Reason == ""
		require.Equal(t, valid, waypost.CheckPattern([]byte(s)).Reason == "")
		if valid {
			require.True(t, waypost.IsPattern(s) && waypost.ValidCode(s))
			require.True(t, patterns.New([]string{s}).Len() == 1)
			require.LessOrEqual(t, len(s), waypost.MaxCodeLength)
			for segment := range strings.SplitSeq(s, "/") {
				if segment != "*" && segment[0] != '{' {
					_, fault := waypost.CheckCode(segment)
					require.Empty(t, fault.Reason)
				}
			}
		}
		if _, fault := waypost.CheckCode(s); fault.Reason == "" {
			require.False(t, valid || waypost.IsPattern(s), "no code is a pattern")
		}
	})
}

// lead returns the status and Location of a visit to the pattern of a target.
func lead(code, target string, flags waypost.LinkFlags, asked string) (int, string) {
	var m patterns.Match
	v := waypost.ParseVisit([]byte(asked))
	if !m.Find(patterns.New([]string{code}), &v, codes.AppendSegment) {
		return 404, ""
	}
	m.Lead(&v)
	res, _ := waypost.Resolution{Status: 302, Location: []byte(target), Flags: flags, Link: true}.Follow(nil, &v)
	return res.Status, string(res.Location)
}

func TestFollow_FillsTemplatesIn(t *testing.T) {
	const n = "https://n.example"
	long := strings.Repeat("x", 7<<10)
	for _, c := range []struct {
		code, target, asked string
		status              int
		location            string
	}{
		{"docs/*", n + "/d/{path}", "/docs", 302, n + "/d/"},
		{"docs/*", n + "/d/{path}", "/docs/", 302, n + "/d/"},
		{"docs/*", n + "/d/{path}", "/docs/a/b?q=1", 302, n + "/d/a/b"},
		{"{y}/{m}/{slug}", n + "/{slug}?y={y}", "/2024/05/a%2Fb", 302, n + "/a%2Fb?y=2024"},
		{"{y}/{m}/{slug}", n + "/{slug}?y={y}#{m}", "/2024/05/a", 302, n + "/a?y=2024#05"},
		{"go/*", n + "/{path}", "/go///evil.example", 302, n + "///evil.example"},
		{"go/*", n + "/{path}", `/go/\evil`, 400, ""},
		{"go/*", n + "/{path}", "/go/%5C..%5Cevil", 400, ""},
		{"go/*", n + "/d/{path}", "/go/../x", 400, ""},
		{"go/*", n + "/d/{path}", "/go/%2e%2E/x", 400, ""},
		{"go/*", n + "/d/{path}", "/go/%0d%0aSet-Cookie", 400, ""},
		{"go/{x}", n + "/d/.{x}", "/go/.", 400, ""},
		{"go/{x}", n + "/d/.{query.q}/a", "/go/a?q=.", 400, ""},
		{"go/{x}", n + "/{query.q}", "/go/a?q=//evil.example", 302, n + "/%2F%2Fevil.example"},
		{"go/{x}", n + "/{query.q}", "/go/a?q=a+b%2B%3f", 302, n + "/a%20b%2B%3f"},
		{"go/{x}", n + "/{query.q}", "/go/a", 302, n + "/"},
		{"go/{x}", n + "/{query.q}x", "/go/a?q=%", 302, n + "/%25x"},
		{"go/{x}", n + "/?q={query.q}&r={x}", "/go/a&b=c+d?Q=1&%71=%26=&q=2", 302, n + "/?q=%26%3D&r=a%26b%3Dc%2Bd"},
		{"go/{x}", n + "/#{query.q}", "/go/a?q=a/b?c", 302, n + "/#a/b?c"},
		{"go/{x}", n + "/{x}", "/go/a;b=c@d:e", 302, n + "/a;b=c@d:e"},
		{"go/{x}", n + "/{x}", "/go/caf\xc3\xa9{x}|", 302, n + "/caf%C3%A9%7Bx%7D%7C"},
		{"go/{env}/{env_id}", n + "/{env_id}/{env}", "/go/1/2", 302, n + "/2/1"},
		{"go/{x}", n + "/%7Bx%7D", "/go/1", 302, n + "/%7Bx%7D"},
		{"go/{x}", n, "/go/1", 302, n},
		{"go/{x}", n + "/{other}", "/go/1", 302, ""}, // only a change by hand can write these
		{"go/{x}", n + "{x}/", "/go/.evil.example", 302, ""},
		{"go/{x}", n + "/{x", "/go/1", 302, ""},
		{"go/*", n + "/" + strings.Repeat("{path}", 100), "/go/" + long, 414, ""},
	} {
		status, location := lead(c.code, c.target, 0, c.asked)
		require.Equal(t, c.status, status, "%s to %.80s asked %.40s", c.code, c.target, c.asked)
		require.Equal(t, c.location, location, "%s to %.80s asked %.40s", c.code, c.target, c.asked)
	}
	for target, want := range map[string]string{
		n + "/{path}": n + "/a?q=1", n + "/{path}?x={query.q}#{path}": n + "/a?x=1&q=1#a", n + "/?": n + "/?q=1",
	} {
		_, location := lead("go/*", target, waypost.ForwardQuery, "/go/a?q=1")
		require.Equal(t, want, location)
	}
	status, _ := lead("go/*", n+"/{path}", waypost.ForwardQuery, "/go/a?q=\x01")
	require.Equal(t, 400, status)
}

func FuzzFollow_KeepsTheHostOfATemplate(f *testing.F) {
	f.Add("/d/{path}?a={query.q}#{x}", "/a//evil.example?q=//b")
	f.Add("/{x}{path}", "/.././%2e?q")
	f.Add("/{query.q}/{x}?{path}", `/\a/b?q=\..\@evil.example`)
	f.Fuzz(func(t *testing.T, template, asked string) {
		target := "https://n.example" + string(waypost.AppendEncoded(nil, "/"+template))
		for _, name := range []string{"x", "path", "query.q"} {
			target = strings.ReplaceAll(target, "%7B"+name+"%7D", "{"+name+"}")
		}
		status, location := lead("{x}/*", target, waypost.ForwardQuery, "/"+asked)
		if status != 302 || location == "" {
			return
		}
		require.True(t, waypost.ValidLocation(location), "%q", location)
		require.True(t, strings.HasPrefix(location, "https://n.example/"), "%q", location)
		parsed, err := whatwg.Parse(location)
		require.NoError(t, err)
		require.Equal(t, "n.example", parsed.Hostname())
		require.Equal(t, "https:", parsed.Protocol())
		require.Empty(t, parsed.Username())
		if u, err := url.Parse(location); err == nil {
			require.Equal(t, "n.example", u.Host)
		}
	})
}

// many returns ten thousand patterns, which all but one path nearly match.
func many() (all []string) {
	for i := range 625 {
		for _, mixed := range []string{
			"{a}/{b}/{c}/%d", "x/{b}/{c}/%d", "{a}/x/{c}/%d", "x/x/{c}/%d", "{a}/{b}/x/%d", "x/{b}/x/%d", "{a}/x/x/%d", "x/x/x/%d/{d}",
			"{a}/{b}/{c}/{d}/%d", "x/{b}/{c}/{d}/%d", "{a}/x/{c}/{d}/%d", "x/x/{c}/{d}/%d", "{a}/{b}/x/{d}/%d", "x/{b}/x/{d}/%d", "{a}/x/x/{d}/%d",
			"x/x/x/{d}/%d",
		} {
			all = append(all, fmt.Sprintf(mixed, i))
		}
	}
	return all
}

func TestMatch_DoesNotAllocate(t *testing.T) {
	x := patterns.New(many())
	require.Equal(t, 10_000, x.Len())
	require.LessOrEqual(t, x.Visits(), patterns.MaxVisits)
	for _, asked := range []string{
		"/x/x/x/y/z", "/x/x/x/y/7", "/cafe%CC%81/x/x/x/7", "/" + strings.Repeat("e%CC%81", 100) + "/a", "/" + strings.Repeat("/", 8<<10),
	} {
		var m patterns.Match
		path := []byte(asked)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			v := waypost.ParseVisit(path)
			if m.Find(x, &v, codes.AppendSegment) {
				m.Lead(&v)
			}
		}), asked)
	}
}

func BenchmarkMatch(b *testing.B) {
	x := patterns.New(many())
	for name, asked := range map[string]string{
		"miss": "/x/x/x/y/z", "found": "/x/x/x/y/7", "unicode": "/cafe%CC%81/x/x/x/7", "slashes": "/" + strings.Repeat("/", 8<<10),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			path := []byte(asked)
			var m patterns.Match
			for b.Loop() {
				v := waypost.ParseVisit(path)
				if m.Find(x, &v, codes.AppendSegment) {
					m.Lead(&v)
				}
			}
		})
	}
}

func BenchmarkFollow_OfATemplate(b *testing.B) {
	b.ReportAllocs()
	var m patterns.Match
	x := patterns.New([]string{"jira/{ticket}"})
	asked, res, buf := []byte("/jira/ABC-123"), waypost.Resolution{Status: 302, Location: []byte("https://jira.example/browse/{ticket}?from=go"), Link: true}, []byte{}
	for b.Loop() {
		v := waypost.ParseVisit(asked)
		m.Find(x, &v, codes.AppendSegment)
		m.Lead(&v)
		_, buf = res.Follow(buf[:0], &v)
	}
}

func BenchmarkNew_OfTenThousandPatterns(b *testing.B) {
	all := many()
	for b.Loop() {
		patterns.New(all)
	}
}

func TestAppendAddress_NamesThePathOfAVisit(t *testing.T) {
	for code, cases := range map[string]map[string]string{
		"docs/*":        {"/docs/a/b": "docs/a/b", "/docs/a%2Fb/%63": "docs/a%2Fb/%63", "/docs": "docs/"},
		"jira/{ticket}": {"/jira/A-1": "jira/A-1", "/j%69ra/A%20b": "jira/A%20b"},
		"été/{x}/y":     {"/%C3%A9t%C3%A9/z/y": "%C3%A9t%C3%A9/z/y"},
		"*":             {"/a/b": "a/b"},
	} {
		x := patterns.New([]string{code})
		for path, want := range cases {
			var m patterns.Match
			v := waypost.ParseVisit([]byte(path))
			require.True(t, m.Find(x, &v, codes.AppendSegment), path)
			m.Lead(&v)
			require.Equal(t, "/p?"+want, string(patterns.AppendAddress([]byte("/p?"), &v)), path)
		}
	}
}
