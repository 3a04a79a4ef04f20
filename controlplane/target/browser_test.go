package target_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/controlplane/target"
)

// encoded replaces the characters that browsers leave as they are in some part of a URL,
// and that no URI may hold.
var encoded = strings.NewReplacer("|", "%7C", "{", "%7B", "}", "%7D", "^", "%5E", "`", "%60", "\\", "%5C")

// requireSameToBrowsers checks what must hold for all that is accepted, with an
// implementation of the WHATWG URL standard as the browser.
func requireSameToBrowsers(t require.TestingT, original string, got target.Target) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	if got.Original != original {
		require.Equal(t, "https://"+original, got.Original)
		original = got.Original
	}
	for i := range len(got.Location) {
		if c := got.Location[i]; c < 0x21 || c > 0x7e || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			t.Errorf("Location %q holds the byte %#x", got.Location, c)
			t.FailNow()
		}
	}

	first, err := whatwg.Parse(original)
	require.NoError(t, err, "%q", original)
	second, err := whatwg.Parse(got.Location)
	require.NoError(t, err, "%q", got.Location)
	require.Equal(t, encoded.Replace(first.Href(false)), encoded.Replace(second.Href(false)), "%q", original)
	require.Empty(t, first.Username()+first.Password(), "%q", original)

	again, err := target.Rules{AllowPrivate: true, MaxLength: waypost.MaxPayload}.Check(got.Location)
	require.NoError(t, err, "%q", got.Location)
	require.Equal(t, got.Location, again.Location)
	require.Equal(t, got.Host, again.Host)
}

// The parts are such as may be accepted, but that a browser, a registry or a careless
// parser might see differently.
func TestRules_WhateverIsAcceptedIsTheSameToABrowser(t *testing.T) {
	runes := []rune("aZ09-._~:/?#[]@!$&'()*+,;=% |\"<>^`{}üß例😀\u00ad\u200d\u3002\uff0e\u0301\u05d0\ufeff\uffff")
	rest := rapid.StringOfN(rapid.RuneFrom(runes), 0, 12, -1)
	label := rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z0-9_-]{1,6}`),
		rapid.SampledFrom([]string{"bücher", "faß", "0x7f", "127", "localhost", "XN--Bcher-KVA", "ｅｘ", "١٢", "שלום", "г\u00ad"}),
		rapid.StringOfN(rapid.Rune(), 1, 3, -1),
		rapid.StringMatching(`xn--[a-z0-9-]{0,8}`),
	)
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		original := rapid.SampledFrom([]string{"http://", "https://", "HTTPS://", "hTTp://"}).Draw(t, "scheme")
		for range rapid.IntRange(0, 2).Draw(t, "labels") {
			original += label.Draw(t, "label") + rapid.SampledFrom([]string{".", ".", "\u3002", "\uff0e"}).Draw(t, "dot")
		}
		original += rapid.SampledFrom([]string{"com", "example", "рф", "com.", "8.8.8.8", "0-0"}).Draw(t, "top level")
		original += rapid.SampledFrom([]string{"", "", ":80", ":", ":00443"}).Draw(t, "port")
		original += rapid.SampledFrom([]string{"", "/", "?", "#", "?\\", "#\\"}).Draw(t, "separator")
		if strings.ContainsAny(original[len("https://"):], "/?#") {
			original += rest.Draw(t, "rest")
		}

		got, err := target.Rules{AllowPrivate: true}.Check(original)
		if err != nil {
			return
		}
		accepted++
		requireSameToBrowsers(t, original, got)
	})
	require.Positive(t, accepted, "nothing was accepted, so nothing was compared")
}

// TestRules_AgreeWithTheWebPlatformTests reads the addresses that come with an
// implementation of the standard, also with bytes behind them that few of these have.
func TestRules_AgreeWithTheWebPlatformTests(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/nlnwa/whatwg-url").Output()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "urltestdata.json"))
	require.NoError(t, err)
	var all []json.RawMessage
	require.NoError(t, json.Unmarshal(text, &all))
	web := regexp.MustCompile(`(?i)^https?://`)
	accepted, refused := 0, 0
	for _, one := range all {
		var c struct {
			Input, Base, Href string
			Failure           bool
		}
		if json.Unmarshal(one, &c) != nil { // a comment
			continue
		}
		for _, address := range []string{c.Input, c.Href, c.Href + "|{}^`"} {
			if !web.MatchString(address) {
				continue
			}
			got, err := target.Rules{AllowPrivate: true}.Check(address)
			switch {
			case err != nil:
				refused++
			case c.Failure:
				t.Errorf("%q is accepted", address)
			default:
				accepted++
				requireSameToBrowsers(t, address, got)
			}
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	require.Greater(t, accepted, 200)
}

func FuzzWhateverIsAcceptedIsTheSameToABrowser(f *testing.F) {
	for _, seed := range column(f, "bad_targets.csv", "original_url") {
		f.Add(seed)
	}
	for i, seed := range column(f, "links.csv", "original_url") {
		if i%200 == 0 {
			f.Add(seed)
		}
	}
	for _, seed := range []string{
		"https://Bücher.Example:8443/%C3%BC/Ü?a b#c", "http://８.８.８.８/", "http://[2A00:1450:4001:80B::200E]",
		"http://080.0-0", "http://100000000000000000000A0", "https://xn--bcher-kva.example/", "https://例え。テスト/",
		"https://example.com/[]|\"<>^`{}'?[]|\"<>^`{}'\\#[]|\"<>^`{}#\\",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, original string) {
		for _, rules := range []target.Rules{{}, {AllowPrivate: true}} {
			got, err := rules.Check(original)
			if err == nil {
				requireSameToBrowsers(t, original, got)
			}
		}
	})
}
