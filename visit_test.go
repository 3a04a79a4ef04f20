package waypost_test

import (
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"github.com/stretchr/testify/require"

	"waypost"
)

func TestAVisitIsTakenApartAsItWasSent(t *testing.T) {
	for asked, want := range map[string]waypost.Visit{
		"/spring":            {Code: []byte("spring")},
		"/spring+":           {Code: []byte("spring"), Preview: true},
		"/spring+?a=b":       {Code: []byte("spring"), Query: []byte("a=b"), Preview: true},
		"/spring%2B":         {Code: []byte("spring%2B")},
		"/spring?a=/b?c":     {Code: []byte("spring"), Query: []byte("a=/b?c")},
		"/spring/":           {Code: []byte("spring"), Rest: []byte("/")},
		"/spring/a/b+?c":     {Code: []byte("spring"), Rest: []byte("/a/b+"), Query: []byte("c")},
		"/spring+/a":         {Code: []byte("spring+"), Rest: []byte("/a")},
		"//spring":           {Code: []byte{}, Rest: []byte("/spring")},
		"/+":                 {Code: []byte{}, Preview: true},
		"/":                  {Code: []byte{}},
		"/?spring":           {Code: []byte{}, Query: []byte("spring")},
		"":                   {},
		"/%73pring/%2e%2e/x": {Code: []byte("%73pring"), Rest: []byte("/%2e%2e/x")},
	} {
		v := waypost.ParseVisit([]byte(asked))
		require.Equal(t, string(want.Code), string(v.Code), asked)
		require.Equal(t, string(want.Rest), string(v.Rest), asked)
		require.Equal(t, want.Rest == nil, v.Rest == nil, asked)
		require.Equal(t, string(want.Query), string(v.Query), asked)
		require.Equal(t, want.Preview, v.Preview, asked)
	}
}

// follow returns the status and Location of a visit to a link with the given flags.
func follow(flags waypost.LinkFlags, target, asked string) (int, string) {
	v := waypost.ParseVisit([]byte("/spring" + asked))
	link := waypost.Resolution{Status: 302, Location: []byte(target), Flags: flags, Link: true}
	res, _ := link.Follow(nil, &v)
	return res.Status, string(res.Location)
}

func TestALinkForwardsWhatItsOwnerChose(t *testing.T) {
	const none, query, path, both = 0, waypost.ForwardQuery, waypost.ForwardPath, waypost.ForwardQuery | waypost.ForwardPath
	for name, c := range map[string]struct {
		flags                   waypost.LinkFlags
		target, asked, location string
	}{
		"a query is left out by default":                     {none, "https://a.example/x", "?q=1", "https://a.example/x"},
		"a query is left out when only the path goes on":     {path, "https://a.example/x", "/y?q=1", "https://a.example/x/y"},
		"a query is added":                                   {query, "https://a.example/x", "?q=1", "https://a.example/x?q=1"},
		"a query of a target without a path is added":        {query, "https://a.example", "?q=1", "https://a.example?q=1"},
		"the target's own parameters stay first":             {query, "https://a.example/x?a=b", "?q=1&a=c", "https://a.example/x?a=b&q=1&a=c"},
		"the fragment stays last":                            {query, "https://a.example/x?a=b#top?n#o", "?q=1", "https://a.example/x?a=b&q=1#top?n#o"},
		"the fragment stays last without a query":            {query, "https://a.example/#top?no=query", "?q=1", "https://a.example/?q=1#top?no=query"},
		"an empty query of the target is filled":             {query, "https://a.example/x?", "?q=1", "https://a.example/x?q=1"},
		"an open end of the target's query is used":          {query, "https://a.example/x?to=&", "?q=1", "https://a.example/x?to=&q=1"},
		"an empty query changes nothing":                     {query, "https://a.example/x", "?", "https://a.example/x"},
		"encoded bytes stay as they are":                     {query, "https://a.example/x", "?q=%0d%0A%2f+%zz'", "https://a.example/x?q=%0d%0A%2f+%zz'"},
		"bytes that no URI may hold are encoded":             {both, "https://a.example/x", "/[a|b]{`^`}\"<>?q={\\|}<\">^`[']", "https://a.example/x/[a%7Cb]%7B%60%5E%60%7D%22%3C%3E?q=%7B%5C%7C%7D%3C%22%3E%5E%60[']"},
		"bytes outside ASCII are encoded":                    {both, "https://a.example/x", "/caf\xc3\xa9?q=\xff", "https://a.example/x/caf%C3%A9?q=%FF"},
		"a path is added":                                    {path, "https://a.example/x", "/y/z", "https://a.example/x/y/z"},
		"a path is added to a target that ends in a slash":   {path, "https://a.example/x/", "/y/z", "https://a.example/x/y/z"},
		"a path is added to a target without a path":         {path, "https://a.example", "/.evil.example", "https://a.example/.evil.example"},
		"a path is added behind a port":                      {path, "https://a.example:8443", "/1", "https://a.example:8443/1"},
		"a path goes before query and fragment":              {both, "https://a.example?a=b/c#d/e", "/y?q=1", "https://a.example/y?a=b/c&q=1#d/e"},
		"a slash alone is added":                             {path, "https://a.example/x", "/", "https://a.example/x/"},
		"a slash alone is not doubled":                       {path, "https://a.example/x/", "/", "https://a.example/x/"},
		"slashes of the visitor stay":                        {path, "https://web.example/save/", "/https://b.example//c", "https://web.example/save/https://b.example//c"},
		"dots that are no segment stay":                      {path, "https://a.example/x", "/a..b/.../.c/d.;v=1", "https://a.example/x/a..b/.../.c/d.;v=1"},
		"a plus sign behind a path is a part of it":          {path, "https://a.example/x", "/c++", "https://a.example/x/c++"},
		"without anything to forward the target is the same": {both, "HTTPS://a.example/x/../y?a b", "", "HTTPS://a.example/x/../y?a b"},
	} {
		t.Run(name, func(t *testing.T) {
			status, location := follow(c.flags, c.target, c.asked)
			require.Equal(t, 302, status)
			require.Equal(t, c.location, location)
		})
	}
}

func TestAPathThatIsNotForwardedIsNotFound(t *testing.T) {
	for _, flags := range []waypost.LinkFlags{0, waypost.ForwardQuery} {
		for _, rest := range []string{"/", "/x", "/../x", "//"} {
			status, location := follow(flags, "https://a.example/", rest)
			require.Equal(t, 404, status, rest)
			require.Empty(t, location)
		}
	}
	v := waypost.ParseVisit([]byte("/spring/x"))
	res, _ := waypost.Resolution{Status: 410, Flags: waypost.ForwardPath}.Follow(nil, &v)
	require.Equal(t, 410, res.Status, "a link that is gone is gone with all that was below it")
}

func TestFollow_AppendsNothingToATargetThatIsNotTheLinksOwn(t *testing.T) {
	for flags, want := range map[waypost.LinkFlags]int{0: 404, waypost.ForwardQuery: 404, waypost.ForwardPath | waypost.ForwardQuery: 302} {
		over := waypost.Resolution{Status: 302, Location: []byte("https://a.example/over"), Flags: flags}
		v := waypost.ParseVisit([]byte("/spring/rest?q=1"))
		res, _ := over.Follow(nil, &v)
		require.Equal(t, want, res.Status)
		if want == 302 {
			require.Equal(t, "https://a.example/over", string(res.Location))
		}
	}
}

func TestWhatCouldLeadElsewhereIsNotForwarded(t *testing.T) {
	for _, asked := range []string{
		"/..", "/.", "/../x", "/x/..", "/x/../y", "/x/./y", "/.//y", "/%2e%2e/x", "/.%2E/x", "/%2e", "/x/%2E./",
		"/..%2fx", "/x%2f..%2fy", "/%2F..", "/..%5cx", "/x%5C..", "/..;/x", "/..%3bx", "/.;a",
		`/\evil.example`, `/x\..\y`, "/x#y", "/x\x00", "/x\r\ny", "/x\ty", "/x y", "/x\x7f", "/%00", "/%0d%0aSet-Cookie:a", "/%1f", "/%7F",
		"/%", "/%a", "/%zz", "/100%",
		"?a b", "?a\x00", "?a\r\nX: y", "?a#b", "?a\x7f", "?\t",
	} {
		status, location := follow(waypost.ForwardQuery|waypost.ForwardPath, "https://a.example/x", asked)
		require.Equal(t, 400, status, "%q", asked)
		require.Empty(t, location)
	}
}

func TestALocationThatWouldBeTooLongIsNotMade(t *testing.T) {
	const target = "https://a.example/"
	room := waypost.MaxPayload - len(target) - len("?")
	for query, status := range map[string]int{
		strings.Repeat("q", room):                    302,
		strings.Repeat("q", room+1):                  414,
		strings.Repeat("\xff", room/3):               302,
		strings.Repeat("\xff", room/3+1):             414,
		strings.Repeat("q", room-2) + "\xc3":         414,
		strings.Repeat("q", 10*waypost.MaxPayload):   414,
		strings.Repeat("\x00", 2*waypost.MaxPayload): 400,
	} {
		got, location := follow(waypost.ForwardQuery, target, "?"+query)
		require.Equal(t, status, got, len(query))
		require.LessOrEqual(t, len(location), waypost.MaxPayload)
	}
}

func TestATargetWithoutAHostTakesNothing(t *testing.T) {
	for _, target := range []string{
		"", "https://", "https:///a.example", `https://\a.example`, "https://?x",
		"/x", "a.example", "ftp://a.example", "://a", "https://a.example/\r\n",
	} {
		_, location := follow(waypost.ForwardPath|waypost.ForwardQuery, target, "/evil.example/?q")
		require.Empty(t, location, "%q", target)
	}
}

func TestForwardingDoesNotAllocate(t *testing.T) {
	link := waypost.Resolution{
		Status: 302, Location: []byte("https://a.example/x?a=b#c"), Flags: waypost.ForwardQuery | waypost.ForwardPath, Link: true,
	}
	asked, buf := []byte("/spring/a/b?q=1"), make([]byte, 0, 256)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		v := waypost.ParseVisit(asked)
		if res, _ := link.Follow(buf, &v); res.Status != 302 {
			panic(res.Status)
		}
	}))
}

// FuzzFollow holds a forwarded Location against what a browser makes of it: it is of
// the target's origin, below the target's path, and keeps the target's own query in
// front and its fragment.
func FuzzFollow(f *testing.F) {
	for _, target := range []string{
		"https://a.example", "https://a.example/x/?a=b#c", "http://[::1]:8080/x", `https://a.example\b`,
		"https://:80/", "https:///b", "http://a.example?b", "https://u@a.example#/",
	} {
		for _, asked := range []string{
			"/.evil.example", "/@evil.example/", "//evil.example", "/..%2f../?q",
			`/\evil.example?`, ":80/", "/%2e%2e/x?y#z", "?q=1",
		} {
			f.Add(target, asked)
		}
	}
	f.Fuzz(func(t *testing.T, target, asked string) {
		v := waypost.ParseVisit([]byte("/spring" + asked))
		link := waypost.Resolution{Status: 302, Location: []byte(target), Flags: waypost.ForwardQuery | waypost.ForwardPath, Link: true}
		res, _ := link.Follow(nil, &v)
		if res.Status != 302 || len(res.Location) == 0 || string(res.Location) == target {
			return
		}
		got := string(res.Location)
		require.True(t, waypost.ValidLocation(got), "%q", got)
		require.LessOrEqual(t, len(got), waypost.MaxPayload)
		before, err := whatwg.Parse(target)
		if err != nil {
			return
		}
		after, err := whatwg.Parse(got)
		require.NoError(t, err, "%q and %q make %q", target, asked, got)
		require.Equal(t, before.Protocol()+before.Username()+"@"+before.Host(), after.Protocol()+after.Username()+"@"+after.Host(), "%q and %q make %q", target, asked, got)
		require.Equal(t, before.Hash(), after.Hash())
		require.True(t, strings.HasPrefix(after.Search(), before.Search()), "%q in front of %q", before.Search(), after.Search())
		below := strings.HasPrefix(after.Pathname(), strings.TrimSuffix(before.Pathname(), "/"))
		require.True(t, below, "%q above %q", before.Pathname(), after.Pathname())
	})
}
