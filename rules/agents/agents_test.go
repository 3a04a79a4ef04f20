package agents_test

import (
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/rules/agents"
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
	"Mozilla/5.0 (compatible; Bluesky Cardyb/2.0; +mailto:support@example.com)", "Bluesky Cardyb/2.0; +mailto:support@example.com",
	"Embedly/1.0", "Iframely", "Lemmy/0.19", "Mastodon/4.3", "Misskey/13", "Nextcloud Server Crawler",
	"vkShare", "meta-externalfetcher/1.1", "Slack-ImgProxy", "Uptime-Kuma/1.23.1", "StatusCake", "Site Monitor 2", "link checker",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/98.0.4758.102 Safari/537.36 StatusCake",
	"Reader/2.1 (me@example.com)", "curl/8.5.0", "Go-http-client/1.1", "python-requests/2.32.3",
	"Feedbin - 1 subscribers", "some words of somebody",
	"Mozilla/5.0 (compatible; Freshping/1.0)", "Mozilla/5.0 (compatible; Gatus)", "Mozilla/4.0 (compatible; ms-office; MSOffice 16)",
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

// people have agents that resemble those of bots.
var people = append([]string{
	"", "-", ":", "/", "1/", "Mozilla/5.0", "Mozilla/4.0 (compatible;)",
	"Mozilla/5.0 (Linux; Android 10; CUBOT_NOTE_20) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/108.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (Linux; Android 9; CUBOT X19) AppleWebKit/537.36", "Mozilla/5.0 (Linux; Android 12; Robotnik) Mobile",
	"Mozilla/5.0 (Linux; U; Android 4.2.2; it-it; S222 Build/CUBOT) AppleWebKit/534.30 (KHTML, like Gecko) Version/4.0 Mobile Safari/534.30",
	"Mozilla/5.0 (Android) Nextcloud-android/3.29.0", "Mozilla/5.0 (iOS) Nextcloud-iOS/5.4.0", "MastodonAndroid/2.5.5", "Mastodon/369 CFNetwork/1496.0.7 Darwin/23.5.0",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Snapchat/12.91.0.39 (like Safari/8618.2.12.10.9, panda)",
	"Mozilla/5.0 (Linux; Android 4.4.2; ViewSonic V500 Build/KVT49L) AppleWebKit/535.19 (KHTML, like Gecko) Chrome/18.0.1025.166 Mobile Safari/535.19",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 YaBrowser/24.6.0.0 Safari/537.36",
	"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/111.0.0.0 Mobile Safari/537.36 (Ecosia android@111.0.5563.116)",
}, browsers...)

func TestIsBot_BotIsKnownByWhatItSaysOfItself(t *testing.T) {
	var c *agents.Classifier
	for _, agent := range bots {
		require.True(t, c.IsBot([]byte(agent)), agent)
	}
	for _, agent := range people {
		require.False(t, c.IsBot([]byte(agent)), agent)
	}
}

func TestClassifier_PreviewIsABotOfAChatOrASocialNetwork(t *testing.T) {
	var c *agents.Classifier
	for _, agent := range []string{
		"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "Facebot", "facebookexternalhit/1.1;line-poker/1.0",
		"facebookexternalhit/1.1; kakaotalk-scrap/1.0; +https://devtalk.kakao.com/t/scrap/33984",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
		"Twitterbot/1.0", "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "Slack-ImgProxy (+https://api.slack.com/robots)",
		"WhatsApp/2.23.20.0 A", "WhatsApp/2", "TelegramBot (like TwitterBot)", "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
		"LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)", "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5",
		"Mozilla/5.0 (compatible; Pinterestbot/1.0; +https://www.pinterest.com/bot.html)", "http.rb/5.1.1 (Mastodon/4.2.1; +https://mastodon.social/)",
		"Mastodon/4.3.0 (http.rb/5.2.0; +https://mastodon.social/)", "Bluesky Cardyb/2.0; +mailto:support@example.com", "Embedly/1.0", "Iframely", "Misskey/13",
		"Mozilla/5.0 (compatible; redditbot/1.0; +http://www.reddit.com/feedback)", "Mozilla/5.0 (compatible; vkShare; +http://vk.com/dev/Share)",
		"Iframely/1.3.1 (+https://iframely.com/docs/about)", "Mozilla/5.0 (compatible; Embedly/0.2; +http://support.embed.ly/)", "Synapse (bot; +https://github.com/matrix-org/synapse)",
		"Pleroma 2.6.0; https://social.example <me@social.example>", "Akkoma 3.10.4", "GoToSocial/0.14 (+https://social.example)", "Friendica 'Fern' 2024",
		"Pixelfed/0.11", "Matrix-Media-Repo/1.3", "XING-contenttabreceiver/2.0", "Mozilla/5.0 (compatible; ZoomBot; http://zoom.us)", "Rocket.Chat/6.0",
		"Mozilla/5.0 (compatible; KeybaseBot; +https://keybase.io)", "Discourse Forum Onebox v3.2", "PieFed/1.0; +https://feed.example", "Viber/15.0",
	} {
		require.Equal(t, agents.Bot|agents.Preview, c.Classify([]byte(agent)).Set&(agents.Bot|agents.Preview), agent)
	}
	for _, agent := range append([]string{
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
		"Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/120.0.0.0", "Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)",
		"meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)", "notfacebot/1.0 (+http://example.com)",
	}, people...) {
		require.Zero(t, c.Classify([]byte(agent)).Set&agents.Preview, agent)
	}
}

// TestClassify_IsWhatAPersonSays has one agent for each property and each exception.
// Package audience compares hundreds of agents with what statistics say.
func TestClassify_IsWhatAPersonSays(t *testing.T) {
	var c *agents.Classifier
	for agent, want := range map[string]string{
		"":            "",
		"curl/8.5.0":  "bot",
		"Mozilla/5.0": "",
		"curl/7.19.7 (x86_64-redhat-linux-gnu) libcurl/7.19.7":                                                                          "linux bot",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) GSA/300.0 Mobile/15E148 Safari/604.1": "ios mobile tablet",
		browsers[0]: "windows desktop chrome",
		browsers[1]: "windows desktop edge",
		browsers[2]: "ios mobile safari",
		browsers[3]: "android mobile",
		browsers[4]: "ios mobile",
		browsers[5]: "android mobile chrome",
		browsers[6]: "macos desktop safari",
		browsers[7]: "linux desktop firefox",
		"Mozilla/5.0 (iPad; CPU OS 16_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.6 Mobile/15E148 Safari/604.1":                         "ios mobile tablet safari",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/126.0.6478.54 Mobile/15E148 Safari/604.1":         "ios mobile chrome",
		"Mozilla/5.0 (Linux; Android 13; SAMSUNG SM-X906B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/25.0 Chrome/121.0.0.0 Safari/537.36":            "android mobile tablet samsung",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/29.0 Chrome/136.0.0.0 Safari/537.36":                    "windows desktop samsung",
		"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36":                                         "chromeos desktop chrome",
		"Mozilla/5.0 (X11; FreeBSD amd64; rv:126.0) Gecko/20100101 Firefox/126.0":                                                                                "desktop firefox",
		"Opera/9.80 (Android; Opera Mini/36.2.2254/191.303; U; en) Presto/2.12.423 Version/12.16":                                                                "android mobile opera",
		"Mozilla/5.0 (Linux; U; Android 4.3; es-es; GT-I9300 Build/JSS15J) AppleWebKit/534.30 (KHTML, like Gecko) Version/4.0 Mobile Safari/534.30":              "android mobile android_browser",
		"Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/52.0.2743.116 Mobile Edge/15.15063": "mobile edge",
		"Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/94.0.4606.128 Safari/537.36 WebAppManager":                             "",
		"Mozilla/5.0 (Linux; Android 9; BRAVIA 4K UR2) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/88.0.4324.152 Safari/537.36":                                "android chrome",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Vivaldi/6.8.3381.44":                    "windows desktop",
		"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Mobile Safari/537.36 (compatible; Googlebot/2.1)":      "android mobile chrome bot",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/131.0 Version/17.5 Safari/605.1.15":                      "ios mobile tablet chrome",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) EdgiOS/131.0 Version/17.5 Safari/605.1.15":                     "ios mobile tablet edge",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/131.0 Safari/605.1.15":                                   "ios mobile tablet firefox",
		"Twitterbot/1.0": "bot preview",
	} {
		require.ElementsMatch(t, strings.Fields(want), c.Classify([]byte(agent)).Set.Names(), agent)
		require.Equal(t, named(t, strings.Fields(want)...), c.Classify([]byte(agent)).Set, agent)
	}
}

// named returns the set of names.
func named(t testing.TB, names ...string) (set agents.Set) {
	t.Helper()
	for _, name := range names {
		is, ok := agents.Named(name)
		require.True(t, ok, name)
		set |= is
	}
	return set
}

func TestNamed_KnowsTheNamesThatNamesReturns(t *testing.T) {
	all := agents.Preview<<1 - 1
	names := all.Names()
	require.Equal(t, []string{
		"ios", "android", "mobile", "tablet", "desktop", "windows", "macos", "linux", "chromeos",
		"chrome", "firefox", "edge", "safari", "opera", "android_browser", "samsung", "bot", "preview",
	}, names)
	require.Equal(t, all, named(t, names...))
	require.Empty(t, agents.Set(0).Names())
	for _, name := range []string{"", "iOS", "phone", "ios "} {
		_, ok := agents.Named(name)
		require.False(t, ok, name)
	}
}

func TestNew_OperatorsAddTheirOwnBots(t *testing.T) {
	agent := []byte("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 AcmeProbe/3 Chrome/126.0.0.0 Safari/537.36")
	var packaged *agents.Classifier
	require.False(t, packaged.IsBot(agent))
	c, err := agents.New([]string{"another one", "ACMEprobe"})
	require.NoError(t, err)
	require.True(t, c.IsBot(agent))
	require.Equal(t, agents.Bot|agents.Windows|agents.Desktop|agents.Chrome, c.Classify(agent).Set)
	for _, bad := range []string{"", "ab", strings.Repeat("x", 41)} {
		_, err := agents.New([]string{bad})
		require.Error(t, err, bad)
	}
}

func TestClassify_ReadsWhatTheJournalKeeps(t *testing.T) {
	var c *agents.Classifier
	agent := "Mozilla/" + strings.Repeat(" ", waypost.MaxAgent-len("Mozilla/Windows NT")) + "Windows NT Chrome/"
	require.Equal(t, agents.Windows|agents.Desktop, c.Classify([]byte(agent)).Set)
}

func TestClassify_DoesNotAllocate(t *testing.T) {
	var c *agents.Classifier
	for _, agent := range slices.Concat(browsers, bots) {
		text := []byte(agent)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			c.Classify(text)
			c.IsBot(text)
		}), agent)
	}
}

func FuzzClassify(f *testing.F) {
	for _, agent := range slices.Concat(people, bots) {
		f.Add([]byte(agent))
	}
	var c *agents.Classifier
	f.Fuzz(func(t *testing.T, agent []byte) {
		is := c.Classify(agent)
		set := is.Set
		one := func(of agents.Set) {
			require.LessOrEqual(t, bits.OnesCount32(uint32(set&of)), 1, "%v", set.Names())
		}
		one(agents.IOS | agents.Android | agents.Windows | agents.MacOS | agents.Linux | agents.ChromeOS)
		one(named(t, "chrome", "firefox", "edge", "safari", "opera", "android_browser", "samsung"))
		one(agents.Mobile | agents.Desktop)
		if set&agents.Tablet != 0 {
			require.NotZero(t, set&agents.Mobile)
		}
		require.True(t, set&agents.Bot != 0 || set&agents.Preview == 0, "only bots fetch previews")
		require.Equal(t, is, c.Classify(agent[:min(len(agent), waypost.MaxAgent)]))
		require.Equal(t, set&agents.Bot != 0, c.IsBot(agent))
	})
}

// BenchmarkClassify reads agents of 120 bytes, and the longest.
func BenchmarkClassify(b *testing.B) {
	benchmark(b, func(c *agents.Classifier, agent []byte) { c.Classify(agent) })
}

// BenchmarkIsBot reads what BenchmarkClassify reads.
func BenchmarkIsBot(b *testing.B) {
	benchmark(b, func(c *agents.Classifier, agent []byte) { c.IsBot(agent) })
}

func benchmark(b *testing.B, read func(*agents.Classifier, []byte)) {
	b.Helper()
	c, err := agents.New(nil)
	require.NoError(b, err)
	long := []string{strings.Repeat(browsers[4], 3)[:waypost.MaxAgent]}
	for name, all := range map[string][]string{"browsers": browsers, "bots": bots, "long": long} {
		b.Run(name, func(b *testing.B) {
			var texts [][]byte
			for _, agent := range all {
				text := []byte(agent)
				if name != "long" {
					text = append(text, strings.Repeat(" (X; y/1.2)", 12)...)[:120]
				}
				texts = append(texts, text)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				read(c, texts[i%len(texts)])
			}
		})
	}
}
