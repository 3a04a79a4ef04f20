package unknown

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

func TestFitPath_IsWrittenAsACode(t *testing.T) {
	var b pathBuffer
	for sent, want := range map[string]string{
		"hr": "hr", "Summer/2026": "Summer/2026", "summer/": "summer", "hr+": "hr", "hr.": "hr", "hr+).": "hr", "hr%29/": "hr",
		"%73pring":  "spring",
		"caf%C3%A9": "café", "cafe%cc%81": "café",
		"a%20b": "a%20b", "a%2fb": "a%2Fb", "a+b": "a+b", "old/index.php": "old/index.php", "a,b": "a,b", "100%": "100%",
		strings.Repeat("%C3%A9", 64): strings.Repeat("é", 64), strings.Repeat("x", 32): strings.Repeat("x", 32),
		"our-spring-collection-for-the-whole-family-of-2026": "our-spring-collection-for-the-whole-family-of-2026",
		"unser-herbstkatalog-2026-mit-allen-neuen-artikeln":  "unser-herbstkatalog-2026-mit-allen-neuen-artikeln",
		"d41d8cd98f00b204e9800998ecf8427e":                   "d41d8cd98f00b204e9800998ecf8427e", // 32 characters: the rule of five visitors is left
	} {
		path, ok := b.fitPath([]byte(sent), 0)
		require.True(t, ok, sent)
		require.Equal(t, want, path)
	}
}

func TestFitPath_KeepsNoAddressTokenOrNoise(t *testing.T) {
	var b pathBuffer
	for name, sent := range map[string]string{
		"nothing":               "",
		"only a slash":          "/",
		"an e-mail address":     "unsubscribe/ann@example.com",
		"encoded":               "unsubscribe/ann%40example.com",
		"encoded twice":         "unsubscribe/ann%2540example.com",
		"with a wide sign":      "ann%EF%BC%A0example.com",
		"more than 128 bytes":   strings.Repeat("a/", 64) + "a",
		"as much, decoded":      strings.Repeat("%C3%A9", 65),
		"no UTF-8":              "a%ff",
		"half a character":      "a%c3",
		"a surrogate":           "%ED%A0%80",
		"a control character":   "a%00b",
		"a line break":          "a%0Ab",
		"hex":                   "reset/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c",
		"base64url":             "t/eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9-abc_DEFghi",
		"a token of dots":       "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc",
		"two UUIDs":             "550e8400-e29b-41d4-a716-446655440000-550e8400-e29b",
		"letters without words": "qwertzuiopasdfghjklyxcvbnmqwertzuiopasdfghjkl",
		"a hidden file":         ".env",
		"a hidden directory":    "a/.git/config",
		"a login of WordPress":  "blog/wp-login.php",
		"an icon":               "apple-touch-icon-precomposed.png",
		"another icon":          "favicon.png",
	} {
		path, ok := b.fitPath([]byte(sent), 0)
		require.False(t, ok, "%s: %s", name, path)
	}
}

func TestFitPath_FollowsTheTraitsOfItsDomain(t *testing.T) {
	var b pathBuffer
	for want, traits := range map[string]waypost.DomainTraits{
		"HR-Ä": 0, "hr-ä": waypost.IgnoresCase, "HR-Ä.": waypost.ExactPaths, "hr-ä.": waypost.IgnoresCase | waypost.ExactPaths,
	} {
		path, ok := b.fitPath([]byte("HR-A%CC%88."), traits)
		require.True(t, ok)
		require.Equal(t, want, path)
	}
}
