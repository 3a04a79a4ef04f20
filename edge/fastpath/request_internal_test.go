package fastpath

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEndOfText_IsTheFirstControlCharacter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		edges := rapid.SampledFrom([]byte{'\r', '\n', '\t', 0, 0x1f, 0x20, 0x21, 0x7e, 0x7f, 0x80, 0xff})
		b := rapid.SliceOfN(rapid.OneOf(rapid.ByteRange(0x20, 0xff), edges), 0, 40).Draw(t, "b")
		from := rapid.IntRange(0, len(b)).Draw(t, "from")
		want := from
		for want < len(b) && b[want] >= ' ' && b[want] != 0x7f {
			want++
		}
		require.Equal(t, want, endOfText(b, from))
	})
}

func TestIsNamed_IsEqualFoldForEachByteOfAName(t *testing.T) {
	names := []string{"host", "x-moz", "accept", "referer", "x-purpose", "user-agent", "accept-language", "transfer-encoding"}
	for _, lower := range names {
		require.True(t, isNamed([]byte(strings.ToUpper(lower)), lower))
		require.False(t, isNamed([]byte(lower+"x"), lower))
		for i := range lower {
			for c, allowed := range TokenBytes {
				name := []byte(lower)
				if name[i] = byte(c); allowed != 0 {
					require.Equal(t, EqualFold(name, lower), isNamed(name, lower), "%s", name)
				}
			}
		}
	}
}
