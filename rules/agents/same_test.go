package agents_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/rules/agents"
)

// described repeats the names that statistics show in the words of rules. A rare system
// or browser has no word.
func described(a *agents.Agent) (names []string) {
	switch device := a.Device(); device {
	case "mobile", "desktop", "bot":
		names = append(names, device)
	case "tablet":
		names = append(names, "mobile", "tablet")
	}
	switch a.System {
	case "iOS", "Android", "Windows", "macOS", "Linux", "ChromeOS":
		names = append(names, strings.ToLower(a.System))
	}
	if a.Set&agents.Bot != 0 {
		return names
	}
	switch a.Browser {
	case "Chrome", "Firefox", "Edge", "Safari", "Opera":
		names = append(names, strings.ToLower(a.Browser))
	case "Opera Mini":
		names = append(names, "opera")
	case "Android Browser":
		names = append(names, "android_browser")
	case "Samsung Internet":
		names = append(names, "samsung")
	}
	return names
}

// requireSame compares the names for statistics with the properties for rules, because an
// owner who reads there that most visitors have iPhones will write a rule for iPhones. Of
// bots, rules know the device and the browser that they claim.
func requireSame(t *testing.T, agent string) {
	t.Helper()
	var c *agents.Classifier
	is := c.Classify([]byte(agent))
	got := is.Set.Names()
	if is.Set&agents.Bot != 0 {
		got = slices.DeleteFunc(got, func(name string) bool {
			return !slices.Contains([]string{"bot", "ios", "android", "windows", "macos", "linux", "chromeos"}, name)
		})
	}
	want := described(&is)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(want, got) {
		t.Errorf("%s\n\tis %v for rules, and for statistics %v", agent, got, want)
	}
}

func TestClassify_IsTheSameForRulesAndStatistics(t *testing.T) {
	text, err := os.ReadFile("../../testdata/clicks.tsv")
	require.NoError(t, err)
	all := slices.Concat(bots, people)
	for _, line := range strings.Split(string(text), "\n")[1:] {
		f := strings.Split(line, "\t")
		all = append(all, f[len(f)-1])
	}
	for _, agent := range all {
		requireSame(t, agent)
	}
}
