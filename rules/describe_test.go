package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/rules"
	"waypost/rules/agents"
)

func TestCondition_StringSaysItInWords(t *testing.T) {
	from, until := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC), time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC)
	text := "x y"
	for _, c := range []struct {
		when    rules.Condition
		is, not string
	}{
		{rules.Condition{Agent: []string{"ios"}}, "agent is ios", "agent is not ios"},
		{rules.Condition{Country: []string{"DE", "AT"}}, "country is one of DE, AT", "country is none of DE, AT"},
		{rules.Condition{City: []string{"Paris"}}, "city is Paris", "city is not Paris"},
		{rules.Condition{Language: []string{"de", "pt-BR"}}, "language is one of de, pt-BR", "language is none of de, pt-BR"},
		{rules.Condition{Address: []string{"10.0.*.1"}}, "address is 10.0.*.1", "address is not 10.0.*.1"},
		{rules.Condition{Query: &rules.Parameter{Key: "a"}}, `query parameter "a" is there`, `query parameter "a" is not there`},
		{rules.Condition{Query: &rules.Parameter{Key: "a", Equals: &text}}, `query parameter "a" is "x y"`, `query parameter "a" is not "x y"`},
		{
			rules.Condition{Query: &rules.Parameter{Key: "a", Empty: true}},
			`query parameter "a" is there without a value`, `query parameter "a" is not there without a value`,
		},
		{rules.Condition{From: from}, "time is 2026-12-01T08:00:00Z or later", "time is before 2026-12-01T08:00:00Z"},
		{rules.Condition{Until: until}, "time is before 2026-12-24T00:00:00Z", "time is 2026-12-24T00:00:00Z or later"},
		{
			rules.Condition{From: from, Until: until},
			"time is from 2026-12-01T08:00:00Z until 2026-12-24T00:00:00Z",
			"time is before 2026-12-01T08:00:00Z, or 2026-12-24T00:00:00Z or later",
		},
		{
			rules.Condition{Week: &rules.Schedule{Zone: "Europe/Berlin", Hours: []string{"mon-fri 09:00-17:30"}}},
			"time is within mon-fri 09:00-17:30 in Europe/Berlin", "time is outside of mon-fri 09:00-17:30 in Europe/Berlin",
		},
	} {
		require.Equal(t, c.is, c.when.String())
		c.when.Not = true
		require.Equal(t, c.not, c.when.String())
	}
}

func TestSampleAgent_IsOfItsKind(t *testing.T) {
	var classifier *agents.Classifier
	for word, want := range map[string][]string{
		"iphone":   {"ios", "mobile", "safari"},
		"ipad":     {"ios", "mobile", "tablet", "safari"},
		"android":  {"android", "mobile", "chrome"},
		"windows":  {"desktop", "windows", "chrome"},
		"mac":      {"desktop", "macos", "safari"},
		"linux":    {"desktop", "linux", "firefox"},
		"chromeos": {"desktop", "chromeos", "chrome"},
		"bot":      {"bot"},
		"preview":  {"bot", "preview"},
	} {
		require.Equal(t, want, classifier.Classify([]byte(rules.SampleAgent(word))).Set.Names(), word)
	}
	require.Equal(t, "curl/8.1", rules.SampleAgent("curl/8.1"))
	require.Equal(t, []string{"agent", "cookie", "chance"}, (rules.FactAgent | rules.FactCookie | rules.FactChance).Names())
}

func TestRead_AsksTheClassifierOfTheRequest(t *testing.T) {
	own, err := agents.New([]string{"AcmeProbe"})
	require.NoError(t, err)
	for classifier, want := range map[*agents.Classifier]agents.Set{nil: 0, own: agents.Bot} {
		var f rules.Facts
		f.Read(rules.FactAgent, &rules.Request{UserAgent: []byte("Mozilla/5.0 AcmeProbe"), Agents: classifier})
		require.Equal(t, want, f.Agent)
	}
}
