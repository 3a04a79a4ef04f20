package codes_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"waypost"
	"waypost/internal/codes"
)

func TestFold_HasTheUnicodeVersionOfTheNormalForm(t *testing.T) {
	require.Equal(t, unicode.Version, cases.UnicodeVersion)
}

func TestFold_MapsCodesToTheirKey(t *testing.T) {
	for code, key := range map[string]string{
		"hr": "hr", "HR": "hr", "Summer/2026": "summer/2026", "a-_.~Z": "a-_.~z", "CAFÉ": "café", "Straße": "strasse", "STRASSE": "strasse",
		"ΣΊΣΥΦΟΣ": "σίσυφοσ", "İ": "i\u0307", "\u212a": "k", "Ǆ": "ǆ", "ΐ": "ΐ", "ᾳ": "αι", "ᾼ": "αι", "🦣": "🦣", "日本": "日本",
		"Ⓜ": "Ⓜ", "Ⓜ\ufe0f": "Ⓜ\ufe0f", // which is an emoji, and its small form is none
		strings.Repeat("ŉ", 64): strings.Repeat("ŉ", 64), // would have more than 128 bytes
	} {
		require.Equal(t, waypost.Code(key), codes.Fold(waypost.Code(code)), code)
		require.Equal(t, key, string(codes.AppendFold([]byte("x"), []byte(code))[1:]), code)
	}
}

func TestFold_MapsAllFormsOfALetterToOne(t *testing.T) {
	for r := rune(1); r <= unicode.MaxRune; r++ {
		code := waypost.Code(string(r))
		if !waypost.ValidCode(string(code)) || r == 'Ⓜ' {
			continue
		}
		key := codes.Fold(codes.NormalForm(string(code)))
		require.Equal(t, key, codes.Fold(key), "%U", r)
		if !isCherokee(r) {
			require.Equal(t, norm.NFC.String(cases.Fold().String(string(r))), string(key), "%U", r)
		}
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			require.Equal(t, key, codes.Fold(codes.NormalForm(string(other))), "%U %U", r, other)
		}
	}
}

func isCherokee(r rune) bool { return unicode.Is(unicode.Cherokee, r) }

func TestAppendFold_DoesNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 256)
	for _, code := range [][]byte{[]byte("HR"), []byte("CAFÉ/Straße"), []byte("Привет/京都")} {
		require.Zero(t, testing.AllocsPerRun(100, func() { dst = codes.AppendFold(dst[:0], code) }), "%s", code)
	}
}

func FuzzFold_YieldsKeysThatStay(f *testing.F) {
	for _, seed := range []string{
		"HR", "CAFÉ/Straße", "α\u0345\u0301", "Ⓜ", "ꭰ", "ͅ", "ẞß", "ΠΡΙΒΕТ",
		"Привет", "H\u0331ΪΟ\u0301", "京都Kyōto", "ZĲĳŉ", strings.Repeat("ΐ", 64),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		code, err := codes.Parse(text, false)
		if err != nil {
			return
		}
		key := codes.Fold(code)
		require.True(t, waypost.ValidCode(string(key)), "%q", key)
		require.True(t, norm.NFC.IsNormalString(string(key)), "%q", key)
		require.Equal(t, key, codes.Fold(key), "%q", code)
		if want := norm.NFC.String(cases.Fold().String(string(code))); key != code && !strings.ContainsFunc(want, isCherokee) {
			require.Equal(t, want, string(key))
		}
		require.Equal(t, strings.Count(string(code), "/"), strings.Count(string(key), "/"))
	})
}
