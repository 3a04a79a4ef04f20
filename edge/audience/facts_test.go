package audience_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/audience"
	"waypost/rules"
)

// described repeats a profile in the words of rules. A rare system or browser has none.
func described(p waypost.ClickProfile, os string) (names []string) {
	switch p.Device {
	case "mobile", "desktop", "bot":
		names = append(names, p.Device)
	case "tablet":
		names = append(names, "mobile", "tablet")
	}
	switch os {
	case "iOS", "Android", "Windows", "macOS", "Linux", "ChromeOS":
		names = append(names, strings.ToLower(os))
	}
	switch p.Browser {
	case "Chrome", "Firefox", "Edge", "Safari", "Opera":
		names = append(names, strings.ToLower(p.Browser))
	case "Opera Mini":
		names = append(names, "opera")
	case "Android Browser":
		names = append(names, "android_browser")
	case "Samsung Internet":
		names = append(names, "samsung")
	}
	slices.Sort(names)
	return names
}

// TestFacts_AgentsAreTheSameForRulesAndStatistics holds rules against statistics, because
// who reads there that most visitors have iPhones will write a rule for iPhones. Of bots,
// rules know the device and the browser that they claim, and statistics their name.
func TestFacts_AgentsAreTheSameForRulesAndStatistics(t *testing.T) {
	a := audience.New(audience.Config{Salts: noSalts{}})
	for _, agent := range agents(t) {
		p, _ := a.Profile(&waypost.Click{Agent: []byte(agent)})
		set := rules.ParseAgent([]byte(agent))
		got := set.Names()
		if p.Bot {
			p.Browser = ""
			got = slices.DeleteFunc(got, func(name string) bool {
				is, _ := rules.AgentNamed(name)
				return is&(rules.AgentMobile|rules.AgentTablet|rules.AgentDesktop|rules.AgentPreview|browsers) != 0
			})
		}
		slices.Sort(got)
		if want := described(p, p.OS); !slices.Equal(want, got) {
			t.Errorf("%s\n\tis      %v\n\tand not %v", agent, want, got)
		}
	}
}

const browsers = rules.AgentChrome | rules.AgentFirefox | rules.AgentEdge | rules.AgentSafari | rules.AgentOpera |
	rules.AgentAndroidBrowser | rules.AgentSamsung

// agents returns those that a person has described, and those of real traffic.
func agents(t *testing.T) (all []string) {
	t.Helper()
	for _, p := range people(t) {
		all = append(all, p.agent)
	}
	text, err := os.ReadFile("../../testdata/clicks.tsv")
	require.NoError(t, err)
	for _, line := range strings.Split(string(text), "\n")[1:] {
		f := strings.Split(line, "\t")
		all = append(all, f[len(f)-1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}
