package rules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/rules"
)

// kept returns the ids of the rules that a link has when an owner sends some.
func kept(t *testing.T, s *rules.Source, next ...rules.Rule) (ids []int) {
	t.Helper()
	s.Replace(next, func(url string) string { return url })
	_, err := rules.Compile(s, compiling())
	require.NoError(t, err)
	stored, err := rules.ParseSource(s.Encode())
	require.NoError(t, err)
	*s = stored
	for _, r := range s.Rules {
		ids = append(ids, r.ID)
	}
	return ids
}

func when(agent string) []rules.Condition { return []rules.Condition{{Agent: []string{agent}}} }

func TestSource_IDsOfRulesDoNotComeBack(t *testing.T) {
	var s rules.Source
	require.Equal(t, []int{1, 2}, kept(t, &s, rules.Rule{Name: "spring", To: home}, rules.Rule{Name: "summer", To: home}))
	require.Equal(t, []int{1, 3}, kept(t, &s, s.Rules[0], rules.Rule{Name: "autumn", To: home}), "another rule instead of 2")
	require.Empty(t, kept(t, &s))
	require.Equal(t, []int{4}, kept(t, &s, rules.Rule{Name: "winter", To: home}), "after none were left")
	require.Equal(t, []int{2, 4}, kept(t, &s, rules.Rule{ID: 2, Name: "summer", To: home}, s.Rules[0]), "an owner may bring one back")
	require.Equal(t, []int{9, 10}, kept(t, &s, rules.Rule{ID: 9, To: home}, rules.Rule{Name: "later", To: home}), "or choose")
	for n := 11; n <= rules.MaxID; n++ {
		require.Equal(t, []int{9, n}, kept(t, &s, s.Rules[0], rules.Rule{Name: "other", When: when("ios"), To: home}))
		s.Rules[1].Name = "before"
	}
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 10} {
		require.Equal(t, []int{9, n}, kept(t, &s, s.Rules[0], rules.Rule{Name: "other", When: when("ios"), To: home}), "the oldest come back")
		s.Rules[1].Name = "before"
	}
}

func TestSource_RulesWithoutIDsContinueThoseBefore(t *testing.T) {
	split := func(to ...string) *rules.Split {
		s := &rules.Split{}
		for _, url := range to {
			s.Variants = append(s.Variants, rules.Variant{Weight: 1, To: url})
		}
		return s
	}
	var s rules.Source
	require.Equal(t, []int{1, 2, 3}, kept(t, &s,
		rules.Rule{Name: "named", When: when("ios"), To: home}, rules.Rule{When: when("android"), To: home}, rules.Rule{Split: split(home, home+"2")}))
	require.Equal(t, []int{3, 2, 1, 4}, kept(t, &s,
		rules.Rule{Split: split(home+"3", home+"2")}, rules.Rule{When: when("android"), To: home + "4"},
		rules.Rule{Name: "named", When: when("windows"), To: home}, rules.Rule{When: when("ios"), To: home}))
	variants := s.Rules[0].Split.Variants
	require.Equal(t, []int{3, 2}, []int{variants[0].ID, variants[1].ID}, "and so do their variants")
	require.Equal(t, []int{1, 5, 6}, kept(t, &s,
		rules.Rule{ID: 1, To: home}, rules.Rule{Name: "named", To: home}, rules.Rule{Name: "named", When: when("ios"), To: home}), "each id once")
}
