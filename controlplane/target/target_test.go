package target_test

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/target"
)

// column reads one column of a file of the repository's test data.
func column(t testing.TB, name, header string) []string {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "testdata", name))
	require.NoError(t, err)
	rows, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	require.NoError(t, file.Close())
	for i, h := range rows[0] {
		if h != header {
			continue
		}
		values := make([]string, 0, len(rows)-1)
		for _, row := range rows[1:] {
			values = append(values, row[i])
		}
		return values
	}
	t.Fatalf("%s has no column %s", name, header)
	return nil
}

// requireRefusal checks an error of Check as users will see it.
func requireRefusal(t testing.TB, err error, code waypost.ErrorCode, word string, hint ...any) {
	t.Helper()
	require.Error(t, err, hint...)
	var e *waypost.Error
	require.True(t, errors.As(err, &e), hint...)
	require.Equal(t, code, e.Code, hint...)
	require.Contains(t, e.Message, word, hint...)
	require.Less(t, len(e.Message), 300, hint...)
	require.True(t, utf8.ValidString(e.Message), hint...)
	require.False(t, strings.ContainsFunc(e.Message, unicode.IsControl), hint...)
}

func TestRules_EveryRealLinkIsAccepted(t *testing.T) {
	urls := column(t, "links.csv", "original_url")
	require.Len(t, urls, 9147)
	for _, u := range urls {
		got, err := target.Rules{}.Check(u)
		require.NoError(t, err, u)
		requireSameToBrowsers(t, u, got)
	}
}

func TestRules_EveryBadTargetIsRefusedForItsOwnReason(t *testing.T) {
	urls, titles := column(t, "bad_targets.csv", "original_url"), column(t, "bad_targets.csv", "title")
	require.Len(t, refusals, len(urls))
	for i, want := range refusals {
		require.Equal(t, want.title, titles[i])
		_, err := target.Rules{}.Check(urls[i])
		requireRefusal(t, err, want.code, want.word, want.title)
	}
}

func TestRules_BytesThatAFileOfTextCannotHoldAreRefused(t *testing.T) {
	for _, c := range []struct{ url, word string }{
		{"https://example.com/a\x00b", "U+0000"},
		{"https://example.com/a\rb", "U+000D"},
		{"https://example.com/\xff", "not valid UTF-8 at byte 21"},
		{"https://example.com/\xc0\xaf", "not valid UTF-8"},
		{"https://example.com/\xed\xa0\x80", "not valid UTF-8"}, // a surrogate
		{"https://example.com/\xe2\x82", "not valid UTF-8"},     // cut off
		{"https://exam\xfeple.com/", "not valid UTF-8"},
		{"\xef\xbb\xbfhttps://example.com/", "must begin with http"}, // a byte order mark
	} {
		_, err := target.Rules{}.Check(c.url)
		requireRefusal(t, err, waypost.EMalformed, c.word, c.url)
	}
}

func TestRules_LocationIsTheOriginalButForWhatAHeaderCannotHold(t *testing.T) {
	for _, c := range []struct{ original, location, host string }{
		{"https://example.com", "", "example.com"},
		{"HTTPS://Example.COM:0443/a/../b/./c//d?", "", "example.com"},
		{"https://example.com?a=b#", "", "example.com"},
		{"https://example.com:/", "", "example.com"},
		{"https://example.com./", "", "example.com"},
		{"https://a_b.-c-.example.com/", "", "a_b.-c-.example.com"},
		{"https://r3---sn-apo3qvuoxuxbt-j5pe.example.com/", "", "r3---sn-apo3qvuoxuxbt-j5pe.example.com"},
		{"https://example.com/%zz%2e%2E%00%0d%0a%e9?%&%1#%", "", "example.com"},
		{
			"https://example.com/[]|\"<>^`{}'!$&()*+,;=:@~?[]|\"<>^`{}'\\#[]|\"<>^`{}#\\",
			"https://example.com/[]%7C%22%3C%3E%5E%60%7B%7D'!$&()*+,;=:@~" +
				"?[]%7C%22%3C%3E%5E%60%7B%7D'%5C#[]%7C%22%3C%3E%5E%60%7B%7D#%5C", "example.com",
		},
		{"https://example.com?f=Inter:400|Lora:700", "https://example.com?f=Inter:400%7CLora:700", "example.com"},
		{"https://example.com/%7c|%7C", "https://example.com/%7c%7C%7C", "example.com"},
		{"https://example.com/?a=1)](https://example.org/", "", "example.com"},
		{"https://example.com/?q=a@b", "", "example.com"},
		{"https://example.com/a b?c d#e f", "https://example.com/a%20b?c%20d#e%20f", "example.com"},
		{"https://example.com/ü?ü#ü", "https://example.com/%C3%BC?%C3%BC#%C3%BC", "example.com"},
		{"https://example.com/😀", "https://example.com/%F0%9F%98%80", "example.com"},
		{"https://example.com/\ufffd", "https://example.com/%EF%BF%BD", "example.com"},
		{"https://Bücher.Example:8443/%C3%BC/Ü", "https://xn--bcher-kva.example:8443/%C3%BC/%C3%9C", "xn--bcher-kva.example"},
		{"https://bücher.example.", "https://xn--bcher-kva.example.", "xn--bcher-kva.example"},
		{"https://XN--Bcher-KVA.example/", "", "xn--bcher-kva.example"},
		{"https://faß.example/", "https://xn--fa-hia.example/", "xn--fa-hia.example"},
		{"https://例え。テスト/", "https://xn--r8jz45g.xn--zckzah/", "xn--r8jz45g.xn--zckzah"},
		{"https://ドメイン名例.jp/パス", "https://xn--eckwd4c7cu47r2wf.jp/%E3%83%91%E3%82%B9", "xn--eckwd4c7cu47r2wf.jp"},
		{"https://מדברים.example/", "https://xn--5dbdtqb6d.example/", "xn--5dbdtqb6d.example"},
		{"https://ｅｘａｍｐｌｅ.com/", "https://example.com/", "example.com"},
		{"http://8.8.8.8/", "", "8.8.8.8"},
		{"http://８.８.８.８/", "http://8.8.8.8/", "8.8.8.8"},
		{"http://[2606:4700:0:0:0:0:0:1111]:80/", "", "2606:4700::1111"},
		{"http://[2A00:1450:4001:80B::200E]", "", "2a00:1450:4001:80b::200e"},
		{"http://[2002:808:808::1]/", "", "2002:808:808::1"},
		{"http://[64:ff9b::8.8.8.8]/", "", "64:ff9b::808:808"},
		{"https://localhost.example.com/", "", "localhost.example.com"},
		{"https://local.example/", "", "local.example"},
		{"https://internal.example/", "", "internal.example"},
		{"https://in-addr.arpa/", "", "in-addr.arpa"},
		{"https://0x7f.example.a1/", "", "0x7f.example.a1"},
		{"https://1.2.3.4.example/", "", "1.2.3.4.example"},
	} {
		got, err := target.Rules{}.Check(c.original)
		require.NoError(t, err, c.original)
		if c.location == "" {
			c.location = c.original
		}
		require.Equal(t, target.Target{Original: c.original, Location: c.location, Host: c.host}, got)
		requireSameToBrowsers(t, c.original, got)
	}
}

func TestRules_HostWithoutASchemeIsReachedByHTTPS(t *testing.T) {
	for original, location := range map[string]string{
		"example.com":              "https://example.com",
		"example.com:8443/a b?c#d": "https://example.com:8443/a%20b?c#d",
		"www.bücher.example?x=a:b": "https://www.xn--bcher-kva.example?x=a:b",
		"8.8.8.8/":                 "https://8.8.8.8/",
		"example.com/http://a.b":   "https://example.com/http://a.b",
	} {
		got, err := target.Rules{}.Check(original)
		require.NoError(t, err, original)
		require.Equal(t, "https://"+original, got.Original)
		require.Equal(t, location, got.Location)
		again, err := target.Rules{}.Check(got.Original)
		require.NoError(t, err)
		require.Equal(t, got, again, "an export can be imported")
	}
	for _, original := range []string{
		"example", "localhost:8080", ".com", "a.", "javascript.x:alert(1)", "mailto:a@b.example", "a@b.example", "just some. words",
		"//example.com", "/etc/passwd.txt", "127.0.0.1:80", "go.localhost",
	} {
		_, err := target.Rules{}.Check(original)
		require.Error(t, err, original)
	}
	_, err := target.Rules{MaxLength: 20}.Check("example.com/a")
	requireRefusal(t, err, waypost.ETooLarge, "21 bytes long", "with the scheme")
}

func TestRules_EndsOfReservedBlocksAreMet(t *testing.T) {
	for _, address := range []string{
		"1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0",
		"192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255",
		"198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "[2001:200::]", "[2001:db7:ffff::]", "[2001:db9::]",
		"[2003::]", "[3ffe:ffff::]", "[3fff:1000::]",
	} {
		_, err := target.Rules{}.Check("http://" + address + "/")
		require.NoError(t, err, address)
	}
	for _, address := range []string{
		"0.255.255.255", "10.255.255.255", "100.127.255.255", "127.255.255.255", "169.254.0.0", "172.16.0.0", "192.0.0.255",
		"192.0.2.255", "192.88.99.0", "192.88.99.255", "192.168.255.255", "198.19.255.255", "198.51.100.255", "203.0.113.255", "239.255.255.255",
		"[1fff::]", "[2001:1ff:ffff::]", "[2001:db8:ffff::]", "[3fff:fff::]", "[4000::]", "[fdff::]", "[febf::]",
		"[64:ff9b::192.168.0.1]", "[64:ff9b::1:808:808]", "[2002:c0a8:1::1]", "[::8.8.8.8]", "[::ffff:8.8.8.8]",
	} {
		_, err := target.Rules{}.Check("http://" + address + "/")
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), address)
	}
}

func TestRules_PrivateTargetsAreAcceptedWhereTheOperatorAllowsThem(t *testing.T) {
	rules := target.Rules{AllowPrivate: true}
	for _, u := range []string{
		"http://localhost:8080/", "http://printer.local/", "http://127.0.0.1/", "http://10.1.2.3/", "http://[::1]/",
		"http://[fe80::1]/", "http://[::ffff:10.0.0.1]/", "http://192.0.2.1/",
	} {
		got, err := rules.Check(u)
		require.NoError(t, err, u)
		require.Equal(t, u, got.Location)
		requireSameToBrowsers(t, u, got)
	}
	for _, u := range []string{"http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://127.0.0.1./"} {
		_, err := rules.Check(u)
		requireRefusal(t, err, waypost.EInvalid, "four decimal numbers", u)
	}
}

// By UTS #46, 4, a label is an error if nothing is behind its xn--.
func TestRules_LabelsThatVanishInUnicodeAreRefused(t *testing.T) {
	for _, host := range []string{
		"xn--.example.net", "shop.xn--.example.net", "shop.XN--.example.net", "shop.example.xn--", "shop.example.xn--.",
		"xn--bcher-kva.xn--", "bücher.xn--", "bücher.xn--.", "xn--.bücher.example", "bücher.xn--.example", "shop.ｘｎ－－.example.net",
		"shop.example.xn\u00ad--", "shop.xn--\u200b.example.net", "shop.xn--.8.8.8.8", "xn---.example.net", "xn--ascii-.example.net",
	} {
		_, err := target.Rules{}.Check("https://" + host + "/offer")
		requireRefusal(t, err, waypost.EMalformed, "internationalised", host)
		_, err = target.HostName(host)
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), host)
	}
	for _, host := range []string{"bücher.example。", "xn--bcher-kva.example.", "shop.xn-.example.net", "shop.axn--.example.net"} {
		_, err := target.Rules{}.Check("https://" + host + "/offer")
		require.NoError(t, err, host)
	}
}

func TestRules_LinkToADomainOfOursIsRefusedHoweverItIsWritten(t *testing.T) {
	rules := target.Rules{OwnHosts: func(host string) bool { return host == "go.example" || host == "xn--bcher-kva.example" }}
	for _, u := range []string{
		"https://go.example/abc", "http://GO.Example:8080", "https://go.example./", "https://ｇｏ.example/", "https://go。example/",
		"https://bücher.example/", "https://BÜCHER.example/", "https://xn--bcher-kva.example/", "https://g\u00ado.example/",
	} {
		_, err := rules.Check(u)
		requireRefusal(t, err, waypost.EInvalid, "domain of this service", u)
	}
	for _, u := range []string{"https://www.go.example/", "https://go.example.com/", "https://example.com/?u=https://go.example/"} {
		_, err := rules.Check(u)
		require.NoError(t, err, u)
	}
}

func TestRules_LengthIsCountedInBytesOfTheOriginal(t *testing.T) {
	fill := func(length int, with string) string {
		const start = "https://example.com/"
		return start + strings.Repeat(with, (length-len(start))/len(with))
	}
	for _, c := range []struct{ most, limit int }{{0, waypost.MaxURLLength}, {waypost.MaxShortURLLength, waypost.MaxShortURLLength}} {
		rules := target.Rules{MaxLength: c.most}
		_, err := rules.Check(fill(c.limit, "a"))
		require.NoError(t, err)
		_, err = rules.Check(fill(c.limit+1, "a"))
		requireRefusal(t, err, waypost.ETooLarge, "bytes long")
	}
	got, err := target.Rules{}.Check(fill(waypost.MaxURLLength, "ü"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(got.Location), waypost.MaxPayload)
}

func TestRules_LocationThatNoRecordCouldHoldIsRefused(t *testing.T) {
	// These 58 bytes become 240 of punycode, more than three for each.
	host := strings.Repeat("㌖.", 14) + "jp"
	original := "http://" + host + "/"
	original += strings.Repeat("ü", (waypost.MaxURLLength-len(original))/2)
	_, err := target.Rules{}.Check(original)
	requireRefusal(t, err, waypost.ETooLarge, "percent-encoded")
}

func TestRules_MessagesQuoteOnlyALittleOfWhatWasSent(t *testing.T) {
	long := strings.Repeat("ä\u202e", 2000)
	for _, u := range []string{
		long, long + ":", "https://" + long + "/", "https://example.com:" + long, "https://[::1]" + long,
		"https://[" + long + "]", "https://%" + long,
	} {
		_, err := target.Rules{}.Check(u)
		requireRefusal(t, err, waypost.CodeOf(err), "the ", u)
	}
}
