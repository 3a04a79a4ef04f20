package controlplane_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

// PostgreSQL refuses some JSON, which would cost the others of a transaction their turn,
// and writes out numbers in full, so that 8 KB could come back as 100 MB.
func TestLinks_MetadataThatAreAcceptedAreKeptAndComeBackNoLonger(t *testing.T) {
	s := start(t)
	create := func(text string) (waypost.Link, error) {
		l, _, err := s.Links.Create(t.Context(), actor, wish(func(n *controlplane.NewLink) { n.Metadata = json.RawMessage(text) }))
		return l, err
	}
	for _, text := range []string{
		`{"a":1e131071}`, `{"a":-1E+9000}`, `{"a":1e-16384}`, `{"a":1e99999999999999999999}`,
		`{"a":[` + strings.Repeat("1e100,", 1000) + `0]}`, `{"a":"\ud800"}`, `{"a":"\udc00\ud800"}`, `{"\ud83d":1}`, `{"a":"x\u0000"}`,
		"{\"a\":\"\xff\"}", `[1]`, `null`,
	} {
		_, err := create(text)
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), text)
		require.NotContains(t, err.Error(), "SQLSTATE", text)
	}
	for _, text := range []string{
		`{"a":1e300,"b":-2.5E-10}`, `{"a":1e8000}`, `{"a":"\ud83d\ude00","b":"\\u0000 \\ud800 \" \/"}`, `{"a":[` + strings.Repeat("1e100,",
			75) + `0]}`,
	} {
		l, err := create(text)
		require.NoError(t, err, text)
		got, err := s.Links.Find(t.Context(), actor, "", string(l.Code))
		require.NoError(t, err)
		require.Less(t, len(got.Metadata), 2*waypost.MaxMetadata)
		if len(text) < 100 && !strings.Contains(text, "8000") {
			require.JSONEq(t, text, string(got.Metadata))
		}
	}
}

func TestLinks_TagWithControlCharactersIsRefused(t *testing.T) {
	s := start(t)
	for _, tag := range []string{"\x02", "a\x02b", "\x01", "\x7f", "a\nb", "a\u0085b"} {
		_, _, err := s.Links.Create(t.Context(), actor, wish(func(n *controlplane.NewLink) { n.Tags = []string{tag} }))
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "%q", tag)
		require.Contains(t, err.Error(), "control characters")
		_, err = s.Links.List(t.Context(), actor, controlplane.ListRequest{Limit: 1, LinkFilter: controlplane.LinkFilter{Tags: []string{tag}}})
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "%q", tag)
	}
}

func FuzzMetadata(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":"\ud83d\ude00"}`, `{"a":"\ud800"}`, `{"a":-1.5e+10,"b":[1E5]}`, `{"\\":"\""}`, `{"a":"\u12"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if controlplane.CheckMetadata(text) == nil && !json.Valid(text) {
			t.Fatalf("accepted: %q", text)
		}
	})
}
