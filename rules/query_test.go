package rules_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/rules"
)

func TestConditionOfTheQuery_HasOneUnicodeForm(t *testing.T) {
	const composed, decomposed = "Zürich", "Zu\u0308rich"
	for _, key := range []string{"ort", composed, decomposed} {
		for _, value := range []string{composed, decomposed} {
			r := record(t, rules.Source{Rules: []rules.Rule{to("a", rules.Condition{Query: &rules.Parameter{Key: key, Equals: &value}})}})
			resolves := func(query string) string {
				res := rules.Resolve(r, visit{query: query}.facts(r))
				return string(res.Location)
			}
			for _, sent := range []string{composed, decomposed} {
				sentKey := key
				if key != "ort" {
					sentKey = sent
				}
				require.Equal(t, "https://example.com/a", resolves("x=%FF&"+sentKey+"="+sent))
				require.Equal(t, "https://example.com/a", resolves(url.QueryEscape(sentKey)+"="+url.QueryEscape(sent)))
				require.Equal(t, home, resolves(sentKey+"="+sent+"%CC%88"))
				require.Equal(t, home, resolves(sentKey+"="+sent[:len(sent)-1]))
			}
			require.Equal(t, home, resolves(key+"=Zurich"))
		}
	}
}

func TestConditionOfTheQuery_DoesNotAllocate(t *testing.T) {
	value := "Zürich"
	r := record(t, rules.Source{Rules: []rules.Rule{to("a", rules.Condition{Query: &rules.Parameter{Key: "ort", Equals: &value}})}})
	facts := visit{query: "ort=Zu%CC%88rich"}.facts(r)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if res := rules.Resolve(r, facts); res.Rule != 1 {
			panic("the rule fits")
		}
	}))
}
