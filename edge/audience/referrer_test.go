package audience_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/audience"
)

func TestReferrer_OfAReferrerTheHostIsTold(t *testing.T) {
	long := strings.Repeat("a.", 63) + "example"
	for referrer, host := range map[string]string{
		"https://www.Example.COM/path?q=1#x":      "www.example.com",
		"http://example.com":                      "example.com",
		"http://example.com.":                     "example.com",
		"HTTPS://example.com:8443/":               "example.com",
		"https://user:secret@example.com/":        "example.com",
		"https://user@evil@example.com/":          "example.com",
		"https://example.com?x":                   "example.com",
		"https://example.com\\@other.example/":    "example.com",
		"http://localhost:3000/":                  "localhost",
		"http://a_b.example/":                     "a_b.example",
		"http://192.0.2.1:80/x":                   "192.0.2.1",
		"http://[2001:DB8::1]:8080/":              "[2001:db8::1]",
		"android-app://com.google.android.gm/":    "com.google.android.gm",
		"http://xn--90adhhccf5aeewt7j.xn--p1ai/":  "xn--90adhhccf5aeewt7j.xn--p1ai",
		"https://Bücher.example/":                 "xn--bcher-kva.example",
		"https://例え.テスト/":                         "xn--r8jz45g.xn--zckzah",
		"http://ru.drugspowerstore.com/":          "ru.drugspowerstore.com",
		"":                                        "",
		"-":                                       "",
		"example.com/path":                        "",
		"about:blank":                             "",
		"https://":                                "",
		"https:///path":                           "",
		"https://@/":                              "",
		"https://.":                               "",
		"https://a..b/":                           "",
		"https://.example.com/":                   "",
		"https://example.com:port/":               "",
		"https://exa mple.com/":                   "",
		"https://exam%70le.com/":                  "",
		"https://<script>/":                       "",
		"https://\xff\xfe/":                       "",
		"http://[::1":                             "",
		"http://[fe80::1%eth0]/":                  "",
		"http://[192.0.2.1]/":                     "",
		"ftp://example.com/":                      "",
		"javascript://example.com/%0aalert(1)":    "",
		"file:///etc/passwd":                      "",
		"data:text/html,https://example.com/":     "",
		"https://" + strings.Repeat("a", 64):      "",
		"https://" + long + ".com/":               "",
		"https://" + long[:127] + "x/":            long[:127] + "x",
		"https://" + strings.Repeat("ü", 300):     "",
		"https://" + strings.Repeat("a", 100_000): "",
	} {
		require.Equal(t, host, audience.Host(referrer), "%.80q", referrer)
	}
	a := audience.New(audience.Config{Salts: noSalts{}})
	p, _ := a.Profile(&waypost.Click{Referrer: []byte("https://www.Example.COM/path")})
	require.Equal(t, waypost.ClickProfile{Device: "unknown", Referrer: "www.example.com"}, p)
}
