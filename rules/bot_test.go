package rules_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/rules"
)

var bots = []string{
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
	"Mozilla/5.0 (compatible; Bluesky Cardyb/2.0; +mailto:support@example.com)", "Embedly/1.0", "Iframely", "Lemmy/0.19", "Mastodon/4.3", "Misskey/13", "Nextcloud",
	"vkShare", "meta-externalfetcher/1.1", "Slack-ImgProxy", "Uptime-Kuma/1.23.1", "StatusCake", "Site Monitor 2", "link checker",
	"Reader/2.1 (me@example.com)",
}

// browsers have the agents of most visitors.
var browsers = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/AP1A.240405.002; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/124.0.6367.82 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/463.0.0.54.103;]",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 330.0.3.29.88 (iPhone14,5; iOS 17_4; de_DE; de; scale=3.00; 1170x2532; 590000000)",
	"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15",
	"Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0",
}

func TestIsBot_BotIsKnownByWhatItSaysOfItself(t *testing.T) {
	for _, agent := range bots {
		require.True(t, rules.IsBot([]byte(agent)), agent)
	}
	for _, agent := range append([]string{
		"", "-", ":", "b", "bo", "v", "x", "d", "w", "p:", "curl/8.5.0", "Go-http-client/1.1", "/", "1/", "My WhatsApp/1.0",
		"Mozilla/5.0 (Linux; Android 10; CUBOT_NOTE_20) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/108.0.0.0 Mobile Safari/537.36",
		"Mozilla/5.0 (Linux; Android 9; CUBOT X19) AppleWebKit/537.36", "Mozilla/5.0 (Linux; Android 12; Robotnik) Mobile",
		"Bottega/1.0",
	}, browsers...) {
		require.False(t, rules.IsBot([]byte(agent)), agent)
	}
}

func TestParseAgent_PreviewIsABotOfAChatOrASocialNetwork(t *testing.T) {
	for _, agent := range []string{
		"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "Facebot", "facebookexternalhit/1.1;line-poker/1.0",
		"facebookexternalhit/1.1; kakaotalk-scrap/1.0; +https://devtalk.kakao.com/t/scrap/33984",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
		"Twitterbot/1.0", "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "Slack-ImgProxy (+https://api.slack.com/robots)",
		"WhatsApp/2.23.20.0 A", "WhatsApp/2", "TelegramBot (like TwitterBot)", "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
		"LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)", "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5",
		"Mozilla/5.0 (compatible; Pinterestbot/1.0; +https://www.pinterest.com/bot.html)", "http.rb/5.1.1 (Mastodon/4.2.1; +https://mastodon.social/)",
		"Mozilla/5.0 (compatible; redditbot/1.0; +http://www.reddit.com/feedback)", "Mozilla/5.0 (compatible; vkShare; +http://vk.com/dev/Share)",
		"Iframely/1.3.1 (+https://iframely.com/docs/about)", "Mozilla/5.0 (compatible; Embedly/0.2; +http://support.embed.ly/)", "Synapse (bot; +https://github.com/matrix-org/synapse)",
	} {
		require.NotZero(t, rules.ParseAgent([]byte(agent))&rules.AgentPreview, agent)
	}
	for _, agent := range append([]string{
		"", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
		"Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/120.0.0.0", "Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Snapchat/12.91.0.39 (like Safari/8618.2.12.10.9, panda)",
		"meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)", "notfacebot/1.0 (+http://example.com)",
	}, browsers...) {
		require.Zero(t, rules.ParseAgent([]byte(agent))&rules.AgentPreview, agent)
	}
}

// plainlyBot repeats IsBot in the simplest way.
func plainlyBot(agent string) bool {
	lower := []byte(agent)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	s := string(lower)
	for _, part := range []string{
		"http:", "https:", "mailto:", "preview", "crawl", "spider", "headless", "externalhit", "google-", "-google",
		"meta-external", "slack-imgproxy",
		"cardyb", "embedly", "iframely", "lemmy", "mastodon", "misskey", "nextcloud", "vkshare", "monitor", "uptime", "statuscake", "checker",
	} {
		if strings.Contains(s, part) {
			return true
		}
	}
	for i := range s[:max(len(s)-1, 0)] {
		if s[i] == '@' && 'a' <= s[i+1] && s[i+1] <= 'z' {
			return true
		}
	}
	for rest, from := s, 0; ; {
		i := strings.Index(rest, "bot")
		if i < 0 {
			return strings.HasPrefix(s, "whatsapp/")
		}
		from += i
		rest = rest[i+len("bot"):]
		if (rest == "" || rest[0] < 'a' || rest[0] > 'z') && !strings.HasSuffix(s[:from], "cu") {
			return true
		}
		from += len("bot")
	}
}

func FuzzIsBot(f *testing.F) {
	for _, agent := range append(browsers, bots...) {
		f.Add([]byte(agent))
	}
	f.Add([]byte("cubot bot"))
	f.Fuzz(func(t *testing.T, agent []byte) {
		is := rules.IsBot(agent)
		require.Equal(t, plainlyBot(string(agent)), is)
		if len(agent) <= waypost.MaxAgent {
			set := rules.ParseAgent(agent)
			require.Equal(t, is, set&rules.AgentBot != 0)
			require.True(t, is || set&rules.AgentPreview == 0, "only bots fetch previews")
		}
	})
}

func TestIsBot_DoesNotAllocate(t *testing.T) {
	person, bot := []byte(browsers[3]), []byte(bots[0])
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if rules.IsBot(person) || !rules.IsBot(bot) {
			panic("taken for another")
		}
	}))
}

func BenchmarkIsBot(b *testing.B) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if rules.IsBot([]byte(browsers[i%5])) {
			b.Fatal("a browser")
		}
	}
}
