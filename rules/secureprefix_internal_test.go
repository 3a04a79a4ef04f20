package rules

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVariantOf_CookieOfTLSCountsFirst(t *testing.T) {
	for header, want := range map[string]uint8{
		"waypost_variant=1": 1, "__Secure-waypost_variant=2": 2, "waypost_variant=1; __Secure-waypost_variant=2": 2,
		"__Secure-waypost_variant=2; waypost_variant=1": 2, "__Host-waypost_variant=2": 0, "__secure-waypost_variant=2": 0,
	} {
		require.Equal(t, want, variantOf([]byte(header), 0), header)
	}
}

func TestPasses_CookieOfTLSCountsBehindManyOthers(t *testing.T) {
	var p Password
	verifier := make([]byte, passwordSize)
	good := "__Secure-" + PassCookie + "=" + string(p.AppendPass(nil, 100))
	header := ""
	for range 2 * maxPasses {
		header += PassCookie + "=0; "
	}
	require.True(t, passes(verifier, &Facts{Cookie: []byte(header + good), At: 1000}))
	require.False(t, passes(verifier, &Facts{Cookie: []byte(header + "__Host" + good), At: 1000}))
	require.False(t, passes(verifier, &Facts{Cookie: []byte(header + good), At: 200_000}))
}
