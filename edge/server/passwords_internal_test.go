package server

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"waypost/rules"
)

func TestPasswordPages_SayWhatIsWrongAndLoadNothing(t *testing.T) {
	for name, pages := range map[string]map[int][]byte{"en": passwordPages.english, "de": passwordPages.german} {
		require.Len(t, pages, 4)
		for status, page := range pages {
			text := string(page)
			require.Contains(t, text, `<html lang="`+name+`">`)
			require.Contains(t, text, `<label for="password">`)
			require.Contains(t, text, `autocomplete="current-password"`)
			require.NotContains(t, text, "http")
			require.NotContains(t, text, "<script")
			require.NotRegexp(t, `\{[a-z]+\}`, text, "everything is filled in")
			require.Equal(t, status != 200, strings.Contains(text, `role="alert"`))
			require.Equal(t, status != 200, strings.Contains(text, `aria-describedby="fault"`))
			require.Equal(t, status == 403, strings.Contains(text, `aria-invalid="true"`))
			require.Less(t, len(page), 3<<10)
		}
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(string(passwordPages.english[200]))[1]
	sum := sha256.Sum256([]byte(style))
	require.Contains(t, string(formPolicy), "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"';")
}

func TestHashing_NeighboursHaveTwoOfThePlaces(t *testing.T) {
	h := newHashing()
	var all [5]leaky
	for i := range 4 {
		require.True(t, h.places.TryAcquire(&all[i], 1))
		require.True(t, h.places.TryAcquire(&all[i], 1))
		require.False(t, h.places.TryAcquire(&all[i], 1))
	}
	require.False(t, h.places.TryAcquire(&all[4], 1), "all places are taken")
	h.places.Release(&all[1], 1)
	require.True(t, h.places.TryAcquire(&all[4], 1))
	h.places.Release(&all[2], 1)
	_, busy := h.compare(&rules.Password{Memory: 8, Passes: 1, Lanes: 1}, nil, &all[0])
	require.True(t, busy)
	_, busy = h.compare(&rules.Password{Memory: 8, Passes: 1, Lanes: 1}, nil, &all[2])
	require.False(t, busy)
	require.Equal(t, 7, h.places.Held(), "the place is free again")
}

func TestWantsGerman_ByThePreferredLanguage(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "de": true, "de-AT,de;q=0.9,en;q=0.8": true, "en-US,en;q=0.9,de;q=0.8": false, "de,en": false, "fr": false,
	} {
		require.Equal(t, want, wantsGerman([]byte(header)), header)
	}
}

// FuzzPasswordIn compares with the parser of net/url for the forms that browsers send.
func FuzzPasswordIn(f *testing.F) {
	for _, s := range []string{
		"password=x", "a=b&password=%C3%BC+%26", "password=", "password=%", "password=%f", "password=u%CC%88", "&&=&password", "password=\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, form []byte) {
		password, ok := passwordIn(form)
		if !ok {
			require.Empty(t, password)
			return
		}
		require.NotEmpty(t, password)
		require.LessOrEqual(t, len(password), rules.MaxPassword)
		require.True(t, utf8.Valid(password))
		require.True(t, norm.NFC.IsNormal(password))
		if values, err := url.ParseQuery(string(form)); err == nil && len(values) == 1 {
			require.Equal(t, norm.NFC.String(values.Get("password")), string(password))
		}
	})
}
