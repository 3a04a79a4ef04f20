package rules_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/rules"
)

// languages parses tags that a test knows to be right.
func languages(t testing.TB, tags ...string) (all []rules.Language) {
	t.Helper()
	for _, tag := range tags {
		l, ok := rules.ParseLanguage(tag)
		require.True(t, ok, tag)
		require.Equal(t, tag, l.String())
		all = append(all, l)
	}
	return all
}

func TestParseLanguage_ReadsTagsInAnyCase(t *testing.T) {
	for tag, want := range map[string]string{
		"de": "de", "DE": "de", "de-ch": "de-CH", "DE_CH": "de-CH", "gsw": "gsw", "gsw-CH": "gsw-CH", "es-419": "es-419", "Es-mX": "es-MX",
	} {
		l, ok := rules.ParseLanguage(tag)
		require.True(t, ok, tag)
		require.Equal(t, want, l.String())
	}
	for _, tag := range []string{
		"", "*", "d", "deut", "d3", "de-", "de--", "de-C", "de-CHE", "de-41", "de-4199", "de-CH-", "de-CH-1996", "zh-hans-", "zh-yue-cmn",
		"x-klingon", "de CH", " de", "de-ch ", "dé", "de-Ü", "-de", "q=1", strings.Repeat("de-", 1000),
	} {
		l, ok := rules.ParseLanguage(tag)
		require.False(t, ok, tag)
		require.Zero(t, l, tag)
	}
}

func TestParseLanguage_ReadsAllCodesOfALanguageAsOne(t *testing.T) {
	for tag, want := range map[string]string{
		"iw": "he", "iw-IL": "he-IL",
		"in": "id", "ji": "yi", "jw": "jv", "mo": "ro", "tl": "fil", "deu": "de", "nob": "nb", "zho": "zh", "zh-cmn-hant-tw": "cmn-Hant-TW",
		"zh-yue": "yue", "ar-arz-EG": "arz-EG", "ZH-HANT": "zh-Hant", "sr-latn-rs": "sr-Latn-RS", "en-UK": "en-GB", "my-BU": "my-MM",
		"ger": "de", "fre-CH": "fr-CH", "chi-hant": "zh-Hant", "rum": "ro",
	} {
		l, ok := rules.ParseLanguage(tag)
		require.True(t, ok, tag)
		require.Equal(t, want, l.String())
	}
}

func TestLanguages_MatchByEveryCodeScriptAndMacrolanguage(t *testing.T) {
	for _, of := range []struct {
		header, fits, fitsNot string
	}{
		{"nb-NO,nb;q=0.9,no;q=0.8,nn;q=0.7", "no nb no-NO nob", "nn no-SE"},
		{"nn-NO,nn;q=0.9", "no nn", "nb"},
		{"no", "no nb", "nn"},
		{"he-IL", "iw he heb iw-IL", "yi"},
		{"iw", "he", ""},
		{"in-ID", "id ind", "ms"},
		{"id", "in", "ms"},
		{"fil-PH", "tl fil", ""},
		{"zh-TW,zh;q=0.9", "zh zh-Hant zh-TW zh-Hant-TW cmn", "zh-CN yue zh-HK"},
		{"zh-CN", "zh zh-Hans zh-CN", "zh-Hant zh-TW"},
		{"zh", "zh zh-Hans", "zh-Hant zh-CN"},
		{"zh-Hant", "zh zh-Hant zh-TW", "zh-HK zh-Hans"},
		{"zh-Hant-HK", "zh-HK zh-Hant", "zh-TW"},
		{"zh-HK", "zh-Hant zh-HK", "zh-Hans"},
		{"zh-SG", "zh-Hans", "zh-Hant"},
		{"yue-HK", "zh yue zh-HK zh-Hant zh-yue", "cmn zh-Hans"},
		{"cmn-Hans-CN", "zh zh-CN zh-Hans", "yue"},
		{"sr", "sr sr-Cyrl", "sr-Latn hr"},
		{"sr-Latn", "sr sr-Latn sr-RS", "sr-Cyrl"},
		{"sr-ME", "sr-Latn", "sr-Cyrl"},
		{"uz-AF", "uz uz-Arab", "uz-Latn"},
		{"de-CH", "de de-Latn deu", "de-Cyrl"},
		{"ru", "ru-Cyrl", "ru-Latn"},
		{"ckb-IQ", "ku ckb", "kmr"},
		{"en-GB", "en-UK en", "en-US"},
	} {
		var l rules.Languages
		l.Parse([]byte(of.header))
		for tags, want := range map[string]bool{of.fits: true, of.fitsNot: false} {
			for tag := range strings.FieldsSeq(tags) {
				lang, ok := rules.ParseLanguage(tag)
				require.True(t, ok, tag)
				require.Equal(t, want, l.Match(lang), "%s for a browser with %s", tag, of.header)
			}
		}
	}
}

func TestLanguages_AreThoseWithAWeightOfAtLeast09(t *testing.T) {
	for header, want := range map[string]string{
		"":                                    "",
		"*":                                   "",
		"de":                                  "de",
		"de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7": "de-DE de",
		"en-GB, fr-CH ; q=0.95 ,it;Q=0.90, es;q=0.89": "en-GB fr-CH it",
		"de;q=1.000,en;q=1,fr;q=0,it;q=0.899":         "de en",
		"*;q=1, pt-BR":                                "pt-BR",
		"zh-Hant-TW, sr-Latn, es-419":                 "zh-Hant-TW sr-Latn es-419",
		"de;q=, en;q=a, fr;q=-1, it;q, es;x=1, pt;q=1x, nl;q=0.9;x, sv; q=0.9x, fi;q=10": "",
		",, ,;q=1,de,": "de",
		"i-klingon, x-a, d, deutsch, de1, 12, de-CH-1996, de-x-CH": "de-CH de",
		"\tde\t,\ten":                          "de en",
		"aa,bb,cc,dd,ee,ff,gg,hh,ii,jj":        "aa bb cc dd ee ff gg hh",
		"en_US":                                "en-US",
		"de;,en;q=1.,fr;q=0.,it;q=0.9,es;q=09": "en it",
	} {
		l := new(rules.Languages)
		l.Parse([]byte("xx"))
		l.Parse([]byte(header))
		var got []string
		for _, lang := range l.All() {
			got = append(got, lang.String())
		}
		require.Equal(t, want, strings.Join(got, " "), header)
	}
}

func TestLanguages_LongHeaderEndsAtALanguage(t *testing.T) {
	var l rules.Languages
	l.Parse([]byte(strings.Repeat(" ", 505) + "de,fr-CH,en")) // cut inside of fr-CH
	require.Equal(t, languages(t, "de"), l.All())
	l.Parse([]byte(strings.Repeat("x", 1000)))
	require.Empty(t, l.All())
}

func TestLanguages_MatchAsksForTheRegionOnlyIfOneIsWanted(t *testing.T) {
	var l rules.Languages
	require.False(t, l.Match(languages(t, "de")[0]))
	l.Parse([]byte("de-CH,fr;q=0.9,en;q=0.8"))
	for tag, want := range map[string]bool{"de": true, "de-CH": true, "de-AT": false, "fr": true, "fr-FR": false, "en": false} {
		require.Equal(t, want, l.Match(languages(t, tag)[0]), tag)
	}
}

func TestLanguages_ParseDoesNotAllocate(t *testing.T) {
	header, want := []byte("de-DE,iw;q=0.9,zh-yue-Hant,zh-Hant,en-US;q=0.8,en;q=0.7"), languages(t, "fr")[0]
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var l rules.Languages
		l.Parse(header)
		if l.Match(want) {
			panic("no French is wanted")
		}
	}))
}

func FuzzLanguages(f *testing.F) {
	for _, header := range []string{"de-DE,de;q=0.9,en-US;q=0.8", "*;q=1", "zh-Hant-TW", ";;,,==", "de;q=0.9"} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		var l rules.Languages
		l.Parse([]byte(header))
		for _, has := range l.All() {
			require.True(t, l.Match(has))
			again, ok := rules.ParseLanguage(has.String())
			require.True(t, ok, "%q", has)
			require.Equal(t, has, again)
			require.True(t, l.Match(rules.Language{Primary: has.Primary}))
		}
		if one, ok := rules.ParseLanguage(header); ok {
			require.Equal(t, []rules.Language{one}, l.All(), "a tag is a header too")
		}
	})
}

func BenchmarkLanguages(b *testing.B) {
	header, want := []byte("de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7"), languages(b, "fr")[0]
	b.ReportAllocs()
	var l rules.Languages
	for b.Loop() {
		l.Parse(header)
		if l.Match(want) {
			b.Fatal("no French is wanted")
		}
	}
}
