package rules

import (
	"reflect"
	"slices"
)

// Ids name rules and variants in the statistics, so that the ids of a deleted rule must
// not come back with another. A source remembers the last ones that were given, and
// the next follow on them. After MaxID of them the oldest come back, unless a rule has
// them: refusing would stop owners for the sake of figures that are that old.

// Replace takes other rules in the place of the present ones. A rule without an id that
// continues one of these gets its id: with the same name, or, if it has no name, with
// the same conditions. So do its variants, by name or target. Stored returns a target
// as it is stored.
func (s *Source) Replace(next []Rule, stored func(url string) string) {
	before := s.Rules
	s.Rules = slices.Clone(next)
	taken := func(id int) bool {
		return slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.ID == id })
	}
	for i := range s.Rules {
		r := &s.Rules[i]
		at := slices.IndexFunc(before, func(b Rule) bool {
			return r.ID == b.ID || r.ID == 0 && !taken(b.ID) && r.Name == b.Name && (r.Name != "" || reflect.DeepEqual(r.When, b.When))
		})
		if at < 0 {
			s.LastRule = max(s.LastRule, r.ID)
		} else {
			r.ID = before[at].ID
		}
		if r.Split == nil {
			continue
		}
		split := *r.Split
		split.Variants = slices.Clone(split.Variants)
		r.Split = &split
		var known []Variant
		if at >= 0 && before[at].Split != nil {
			known = before[at].Split.Variants
		}
		s.continueVariants(split.Variants, known, stored)
	}
}

func (s *Source) continueVariants(next, before []Variant, stored func(url string) string) {
	taken := func(id int) bool {
		return slices.ContainsFunc(next, func(v Variant) bool { return v.ID == id })
	}
	for i := range next {
		v := &next[i]
		at := slices.IndexFunc(before, func(b Variant) bool {
			return v.ID == b.ID || v.ID == 0 && !taken(b.ID) && v.Name == b.Name && (v.Name != "" || stored(v.To) == b.To)
		})
		if at < 0 {
			s.LastVariant = max(s.LastVariant, v.ID)
		} else {
			v.ID = before[at].ID
		}
	}
}

// number sets the ids of rules and variants that have none.
func (s *Source) number() error {
	var ids, variants []*int
	for i := range s.Rules {
		ids = append(ids, &s.Rules[i].ID)
		if s.Rules[i].Split != nil {
			for j := range s.Rules[i].Split.Variants {
				variants = append(variants, &s.Rules[i].Split.Variants[j].ID)
			}
		}
	}
	if err := numberAll("rules", ids, &s.LastRule); err != nil {
		return err
	}
	return numberAll("variants", variants, &s.LastVariant)
}

// numberAll sets the ids that are 0. Last is the one that was given last.
func numberAll(what string, ids []*int, last *int) error {
	if len(ids) > MaxID {
		return invalid("rules", "at most %d %s", MaxID, what)
	}
	taken := [MaxID + 1]bool{}
	highest := 0
	for _, id := range ids {
		switch {
		case *id == 0:
		case *id < 0 || *id > MaxID:
			return invalid("rules", "the id of %s must be between 1 and %d", what, MaxID)
		case taken[*id]:
			return invalid("rules", "two %s of the link have the id %d", what, *id)
		default:
			taken[*id] = true
			highest = max(highest, *id)
		}
	}
	if *last == 0 {
		*last = highest // of a new link
	}
	for _, id := range ids {
		if *id != 0 {
			continue
		}
		for *last = *last%MaxID + 1; taken[*last]; {
			*last = *last%MaxID + 1
		}
		*id = *last
		taken[*id] = true
	}
	return nil
}
