package agents_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/rules/agents"
)

// packages returns the directory of the lists that tools/agents/package.json names, which
// are fetched once.
func packages(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("public lists of agents are fetched and tried without -short only")
	}
	out, err := exec.CommandContext(t.Context(), "../../tools/agents/install.sh").CombinedOutput()
	if err != nil && os.Getenv("TEST_LONG") == "" {
		t.Skipf("public lists of agents cannot be fetched: %v %s", err, out)
	}
	require.NoError(t, err, "%s", out)
	return "../../bin/tools/agents/node_modules"
}

// agentsIn returns the agents in fixtures of matomo.
func agentsIn(t *testing.T, pattern string) (all []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	for _, file := range files {
		switch filepath.Base(file) {
		case "bots.yml", "feed_reader.yml", "library.yml", "mediaplayer.yml", "unknown.yml", "version_truncate.yml":
			if !strings.HasSuffix(pattern, "bots.yml") {
				continue // software, or unknown
			}
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) { // a YAML library takes ten times as long
			_, agent, ok := strings.Cut(line, "user_agent: ")
			if !ok {
				continue
			}
			agent = strings.TrimSpace(agent)
			if plain, err := strconv.Unquote(agent); err == nil {
				agent = plain
			}
			all = append(all, strings.ReplaceAll(strings.Trim(agent, "'"), "''", "'"))
		}
	}
	return all
}

// TestClassifier_KnowsPublicBotsAndTakesNoBrowserForOne tries agents that are no part of
// the product: bots of three lists, and browsers and apps of two.
func TestClassifier_KnowsPublicBotsAndTakesNoBrowserForOne(t *testing.T) {
	dir := packages(t)
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return text
	}
	var crawlers []struct{ Instances []string }
	require.NoError(t, json.Unmarshal(read("crawler-user-agents/crawler-user-agents.json"), &crawlers))
	var monperrus []string
	for _, c := range crawlers {
		monperrus = append(monperrus, c.Instances...)
	}
	var real []struct{ UserAgent string }
	require.NoError(t, json.Unmarshal(read("user-agents/dist/user-agents.json"), &real))
	people := agentsIn(t, filepath.Join(dir, "node-device-detector/tests/fixtures/*/*.yml"))
	for _, r := range real {
		people = append(people, r.UserAgent)
	}
	people = slices.DeleteFunc(people, func(s string) bool { // software that matomo lists with browsers
		return slices.ContainsFunc([]string{"HeadlessChrome/", " splash ", "Wget/", "okhttp/", "SimpleBrowser "}, func(name string) bool {
			return strings.Contains(s, name)
		})
	})
	var classifier *agents.Classifier
	for _, list := range []struct {
		name        string
		agents      []string
		bots        bool
		least       int     // agents
		wrong, most float64 // share
	}{
		{name: "crawler-user-agents", agents: monperrus, bots: true, least: 2000, most: 0.03},
		{name: "isbot", agents: strings.Split(string(read("isbot-agents/crawlers.txt")), "\n"), bots: true, least: 2500, most: 0.03},
		{name: "matomo", agents: agentsIn(t, filepath.Join(dir, "node-device-detector/tests/fixtures/devices/bots.yml")), bots: true, least: 400, most: 0.1},
		{name: "browsers and apps", agents: people, least: 5000, most: 0.001},
	} {
		slices.Sort(list.agents)
		list.agents = slices.DeleteFunc(slices.Compact(list.agents), func(s string) bool { return strings.TrimSpace(s) == "" })
		require.GreaterOrEqual(t, len(list.agents), list.least, list.name)
		var wrong []string
		for _, agent := range list.agents {
			requireSame(t, agent)
			if classifier.IsBot([]byte(agent)) != list.bots {
				wrong = append(wrong, agent)
			}
		}
		share := float64(len(wrong)) / float64(len(list.agents))
		t.Logf("%s: %d agents, of which %d (%.2f %%) are taken for what they are not", list.name, len(list.agents), len(wrong), 100*share)
		if share > list.most {
			t.Errorf("%s: more than %.1f %%: %s", list.name, 100*list.most, strings.Join(wrong[:min(len(wrong), 500)], "\n\t"))
		}
	}
}
