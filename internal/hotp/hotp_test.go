package hotp_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/hotp"
)

// The codes are those of RFC 4226, appendix D.
func TestCode_IsThatOfTheStandard(t *testing.T) {
	secret := hotp.Secret([]byte("12345678901234567890"))
	for counter, want := range []string{"755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489"} {
		got, err := hotp.Code(secret, uint64(counter))
		require.NoError(t, err)
		require.Equal(t, want, got, counter)
	}
	_, err := hotp.Code("1", 1)
	require.Error(t, err)
}

func TestURL_NamesAccountAndSecret(t *testing.T) {
	text := hotp.URL("Waypost", "a b@example.com", "ABC")
	u, err := url.Parse(text)
	require.NoError(t, err)
	require.Equal(t, "otpauth", u.Scheme)
	require.Equal(t, "/Waypost:a b@example.com", u.Path)
	require.Equal(t, "ABC", u.Query().Get("secret"))
	require.NotContains(t, text, "+")
}
