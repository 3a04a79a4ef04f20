package httpapi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/httpapi"
)

func FuzzEntityTagsAreReadOrRefused(f *testing.F) {
	for _, seed := range []string{
		``, `*`, `"1-2-3.4"`, `W/"a", "b"`, `"a" , ,"b"`, `"`, `W/`, `a`, `"a""b"`,
		`"4294967296-1-1.1"`, `"1-2-3"`, "\t\"a\"",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		tags, anyTag, err := httpapi.ReadTags(header)
		versions, err2 := httpapi.Versions(header)
		if err != nil {
			require.Equal(t, waypost.EMalformed, waypost.CodeOf(err))
			require.Error(t, err2)
			return
		}
		require.NoError(t, err2)
		require.LessOrEqual(t, len(tags), 32)
		for _, tag := range tags {
			require.Contains(t, header, tag)
			inner, quoted := strings.CutPrefix(strings.TrimPrefix(tag, "W/"), `"`)
			require.True(t, quoted)
			require.Equal(t, len(inner)-1, strings.IndexByte(inner, '"'), "%q", tag)
		}
		if anyTag || len(tags) == 0 {
			require.Equal(t, -1, versions, "nothing is demanded")
		} else {
			require.GreaterOrEqual(t, versions, 0)
			require.LessOrEqual(t, versions, len(tags))
		}
	})
}
