package fastpath

import (
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
