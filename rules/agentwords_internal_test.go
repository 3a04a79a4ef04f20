package rules

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzWordsIn_SkipsNothing compares wordsIn, which looks at landmarks, with a look at
// every byte.
func FuzzWordsIn_SkipsNothing(f *testing.F) {
	for _, text := range []string{
		"", "Android", "iPhone iPad iPod PlayStation", "CrOS CrKey", "; AFT", "BRAVIA SMART-TV", "Nintendo Xbox Tizen Web0S webOS", "X11; linux-gnu Linux",
		"Opera Mini/5 Opera 9 Opera/9", "HarmonyOS Harmony 4 SymbianOS SymbOS BB10 BlackBerry KAIOS/1", "Macintosh MSIE 8 Mobi Tablet ; wv)", "Google-", "http:",
		"Windows NT Windows 98 Windows Phone Windows Mobile", "Edg/ SamsungBrowser/ Version/4.0 bot crawl spider preview headless externalhit", "TV",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want words
		for i := range text {
			want |= wordsAt(text, i)
		}
		require.Equal(t, want, wordsIn(text, 0))
	})
}
