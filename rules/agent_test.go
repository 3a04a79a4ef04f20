package rules_test

import (
	"math/bits"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/rules"
)

// named returns the set of names.
func named(t testing.TB, names ...string) (set rules.AgentSet) {
	t.Helper()
	for _, name := range names {
		is, ok := rules.AgentNamed(name)
		require.True(t, ok, name)
		set |= is
	}
	return set
}

// TestParseAgent_IsWhatAPersonSays has one agent for each property and each exception.
// Package audience compares hundreds of agents with what the statistics say.
func TestParseAgent_IsWhatAPersonSays(t *testing.T) {
	for agent, want := range map[string]string{
		"":            "",
		"curl/8.5.0":  "",
		"Mozilla/5.0": "",
		"curl/7.19.7 (x86_64-redhat-linux-gnu) libcurl/7.19.7": "linux",
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
		require.ElementsMatch(t, strings.Fields(want), rules.ParseAgent([]byte(agent)).Names(), agent)
		require.Equal(t, named(t, strings.Fields(want)...), rules.ParseAgent([]byte(agent)), agent)
	}
}

func TestAgentNamed_KnowsTheNamesThatNamesReturns(t *testing.T) {
	all := rules.AgentPreview<<1 - 1
	names := all.Names()
	require.Equal(t, []string{
		"ios", "android", "mobile", "tablet", "desktop", "windows", "macos", "linux", "chromeos",
		"chrome", "firefox", "edge", "safari", "opera", "android_browser", "samsung", "bot", "preview",
	}, names)
	require.Equal(t, all, named(t, names...))
	require.Empty(t, rules.AgentSet(0).Names())
	for _, name := range []string{"", "iOS", "phone", "ios "} {
		_, ok := rules.AgentNamed(name)
		require.False(t, ok, name)
	}
}

func TestParseAgent_ReadsWhatTheJournalKeeps(t *testing.T) {
	agent := strings.Repeat(" ", waypost.MaxAgent-len("Windows NT")) + "Windows NT Chrome/"
	require.Equal(t, rules.AgentWindows, rules.ParseAgent([]byte(agent)))
}

func TestParseAgent_DoesNotAllocate(t *testing.T) {
	for _, agent := range append(browsers, bots...) {
		text := []byte(agent)
		require.Zero(t, testing.AllocsPerRun(100, func() { rules.ParseAgent(text) }), agent)
	}
}

func FuzzParseAgent(f *testing.F) {
	for _, agent := range append(browsers, bots...) {
		f.Add([]byte(agent))
	}
	f.Fuzz(func(t *testing.T, agent []byte) {
		set := rules.ParseAgent(agent)
		one := func(of rules.AgentSet) {
			require.LessOrEqual(t, bits.OnesCount32(uint32(set&of)), 1, "%v", set.Names())
		}
		one(rules.AgentIOS | rules.AgentAndroid | rules.AgentWindows | rules.AgentMacOS | rules.AgentLinux | rules.AgentChromeOS)
		one(named(t, "chrome", "firefox", "edge", "safari", "opera", "android_browser", "samsung"))
		one(rules.AgentMobile | rules.AgentDesktop)
		if set&rules.AgentTablet != 0 {
			require.NotZero(t, set&rules.AgentMobile)
		}
		if set&rules.AgentPreview != 0 {
			require.NotZero(t, set&rules.AgentBot)
		}
		require.Equal(t, set, rules.ParseAgent(agent[:min(len(agent), waypost.MaxAgent)]))
	})
}

func BenchmarkParseAgent(b *testing.B) {
	names := []string{"Chrome", "Edge", "iPhone", "Facebook on Android", "Instagram on iOS", "Chrome on Android", "Safari", "Firefox"}
	for i, name := range names {
		text := []byte(browsers[i])
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rules.ParseAgent(text)
			}
		})
	}
	b.Run("bot", func(b *testing.B) {
		text := []byte(bots[14])
		for b.Loop() {
			rules.ParseAgent(text)
		}
	})
}
