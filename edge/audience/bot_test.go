package audience_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/edge/audience"
)

func TestBot_BotIsKnownByWhatItSaysOfItself(t *testing.T) {
	for _, agent := range []string{
		"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "facebookexternalhit/1.1", "Facebot",
		"meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
		"Twitterbot/1.0", "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "Slackbot 1.0", "WhatsApp/2.23.20.0 A", "TelegramBot (like TwitterBot)",
		"Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)", "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
		"Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1)",
		"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/41.0.2272.96 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/103.0.5060.134 Safari/537.36",
		"Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/534+ (KHTML, like Gecko) BingPreview/1.0b", "Mediapartners-Google", "AdsBot-Google", "Google-InspectionTool/1.0",
		"Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)", "http.rb/5.1.1 (Mastodon/4.2.1; +https://mastodon.social/)",
		"Baiduspider+(+http://www.baidu.com/search/spider.htm)", "CRAWLER", "bot", "Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/120.0.0.0", "Pinterestbot", "my-bot",
	} {
		require.True(t, audience.IsBot([]byte(agent)), agent)
	}
	for _, agent := range append([]string{
		"", "-", ":", "b", "bo", "v", "x", "d", "w", "p:", "curl/8.5.0", "Go-http-client/1.1",
		"Mozilla/5.0 (Linux; Android 10; CUBOT_NOTE_20) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/108.0.0.0 Mobile Safari/537.36",
		"Mozilla/5.0 (Linux; Android 9; CUBOT X19) AppleWebKit/537.36", "Mozilla/5.0 (Linux; Android 12; Robotnik) Mobile",
		"Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0", "Bottega/1.0",
	}, browsers...) {
		require.False(t, audience.IsBot([]byte(agent)), agent)
	}
}

// browsers have the agents of most visitors.
var browsers = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/AP1A.240405.002; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/124.0.6367.82 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/463.0.0.54.103;]",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 330.0.3.29.88 (iPhone14,5; iOS 17_4; de_DE; de; scale=3.00; 1170x2532; 590000000)",
}

func FuzzIsBot(f *testing.F) {
	for _, agent := range browsers {
		f.Add([]byte(agent))
	}
	f.Fuzz(func(t *testing.T, agent []byte) {
		if audience.IsBot(agent) {
			require.True(t, audience.IsBot(append(agent, " x"...)), "more text makes no person of it")
		}
	})
}

func BenchmarkIsBot(b *testing.B) {
	agents := make([][]byte, len(browsers))
	for i, agent := range browsers {
		agents[i] = []byte(agent)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if audience.IsBot(agents[i%len(agents)]) {
			b.Fatal("a browser")
		}
	}
}
