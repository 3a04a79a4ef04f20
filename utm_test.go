package waypost_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

func TestUTM_IsReadFromTheQuery(t *testing.T) {
	long := strings.Repeat("x", waypost.MaxUTM)
	for query, want := range map[string]waypost.UTMValues{
		"":                                       {},
		"a=b&utm=c&utm_=d&utm_id=7&UTM_SOURCE=x": {},
		"utm_source=Mail&utm_medium=e-mail&utm_campaign=Spring+Sale&utm_term=%C3%9Cber&utm_content=a%2Fb": {"mail", "e-mail", "spring sale", "über", "a/b"},
		"a=b&utm_campaign=x":                      {2: "x"},
		"utm_content=5":                           {4: "5"},
		"utm_source":                              {},
		"utm_source=":                             {},
		"utm_source=&utm_source=second":           {},
		"utm_source=first&utm_source=second":      {"first"},
		"utm_source=100%&utm_medium=%zz":          {"100%", "%zz"},
		"utm_source=a%0Ab&utm_medium=x":           {1: "x"}, // a control character
		"utm_source=a%00&utm_medium=%C2%85":       {},
		"utm_source=%ff&utm_medium=%C3&utm_term=": {},
		"utm_source=" + long + "yz":               {long},
		"utm_source=" + long[1:] + "%C3%A4":       {long[1:]}, // a character that does not fit as a whole
		"utm_source=" + long[2:] + "%C3%84":       {long[2:] + "ä"},
		"utm_source=" + long + "%00":              {long},
		"&&utm_source=a&&":                        {"a"},
		"utm_source=a=b;utm_medium=c":             {"a=b;utm_medium=c"},
	} {
		text := waypost.AppendUTM([]byte("before"), []byte(query))
		require.Equal(t, "before", string(text[:6]))
		u := waypost.UTM(text[6:])
		require.Equal(t, want, u.Values(), query)
		require.True(t, u.Valid())
		require.Equal(t, u, waypost.PackUTM(want))
		if want != (waypost.UTMValues{}) {
			require.True(t, waypost.HasUTM([]byte(query)))
		} else {
			require.Len(t, text, 6, "nothing is kept of %s", query)
		}
	}
	longest := waypost.AppendUTM(nil, []byte(strings.ReplaceAll("utm_source=L&utm_medium=L&utm_campaign=L&utm_term=L&utm_content=L", "L", long)))
	require.Len(t, longest, waypost.MaxUTMText)
	for _, text := range []string{"a\nb\nc\nd\ne\nf", long + "x", "\xff", "a\x7f", "\n", "a\n", "\n\n\n\n\na"} {
		require.False(t, waypost.UTM(text).Valid(), text)
	}
	buf, query := make([]byte, 0, waypost.MaxUTMText), []byte("a=b&utm_source=Mail&utm_medium=%C3%9Cber&utm_content=x")
	require.Zero(t, testing.AllocsPerRun(100, func() { waypost.AppendUTM(buf, query) }))
}

func FuzzUTM(f *testing.F) {
	f.Add([]byte("utm_source=%C3%84+b&utm_medium=x&utm_content=%zz"))
	f.Add([]byte("utm_term=" + strings.Repeat("%C4%B0", 40)))
	f.Fuzz(func(t *testing.T, query []byte) {
		text := waypost.AppendUTM(nil, query)
		require.LessOrEqual(t, len(text), waypost.MaxUTMText)
		u := waypost.UTM(text)
		require.True(t, u.Valid())
		for i, name := range [...]string{"utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"} {
			if u.Values()[i] != "" {
				require.Contains(t, string(query), name)
			}
		}
	})
}
