//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"waypost/bench"
	"waypost/bench/corpus"
	"waypost/rules"
)

// The rules of links. Those of twoRules match no visitor, so that each leads where the
// link leads. Of sixteenRules the last is a split, to which all visitors come.
const (
	twoRules     = "two"
	sixteenRules = "sixteen"
)

// programmeOf compiles rules of a kind; nil for "".
func programmeOf(kind string) ([]byte, error) {
	const other = "https://www.example.org/another-place"
	when := func(c rules.Condition) rules.Rule { return rules.Rule{When: []rules.Condition{c}, To: other} }
	agent := func(name string) rules.Rule { return when(rules.Condition{Agent: []string{name}}) }
	language := func(tag string) rules.Rule { return when(rules.Condition{Language: []string{tag}}) }
	query := func(key string) rules.Rule { return when(rules.Condition{Query: &rules.Parameter{Key: key}}) }
	network := func(prefix string) rules.Rule { return when(rules.Condition{Address: []string{prefix}}) }
	source := rules.Source{Rules: []rules.Rule{agent("ios"), agent("android")}}
	switch kind {
	case "":
		return nil, nil
	case twoRules:
	case sixteenRules:
		split := rules.Split{By: rules.ByVisitor}
		for i := range 4 { // to one target, so that the answers can be checked
			split.Variants = append(split.Variants, rules.Variant{Weight: 1 + i, To: constantTarget})
		}
		source.Rules = append(source.Rules, agent("samsung"), agent("bot"), agent("windows"), language("de"), language("fr"), language("pt-BR"),
			language("ja"), query("ref"), query("utm_source"), network("192.0.2.0/24"), network("203.0.113.0/24"), network("2001:db8::/32"),
			when(rules.Condition{Until: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}), rules.Rule{Split: &split})
	default:
		return nil, fmt.Errorf("unknown rules %q", kind)
	}
	return rules.Compile(&source, &rules.Compiling{
		Target: func(url string) (original, location string, err error) { return url, url, nil },
		Status: http.StatusFound, Now: time.Now(),
	})
}

// ruled measures what rules add to a redirect. Each kind of links has an edge of its own.
func (l *lab) ruled(ctx context.Context, links int) (_ bench.Section, err error) {
	c := &crowd{}
	defer func() { err = errors.Join(err, c.stop()) }()
	f, err := newFeed(l.o.Targets, links)
	if err != nil {
		return bench.Section{}, err
	}
	own := expectation{status: http.StatusFound, location: func(dst []byte, n uint64) []byte { return f.location(dst, n, 0) }}
	const nameTwo, nameSixteen = "2 rules", "16 rules with a split"
	without := ""
	if l.o.Before != "" {
		without = nameBefore
	}
	for _, one := range []struct {
		contender
		build, rules string
	}{
		{contender{name: nameBefore, what: "links without rules, by another build.", expect: own}, l.o.Before, ""},
		{contender{name: nameRedirect, what: "links without rules.", base: without, expect: own}, l.self, ""},
		{contender{
			name: nameTwo, what: "each link has two rules by agent, which match no visitor.", base: nameRedirect, expect: own,
		}, l.self, twoRules},
		{contender{
			name: nameSixteen, what: "each link has 16 rules, by agent, language, query, address and date; the last, the only one that matches, is a split by visitor into 4.",
			base: nameRedirect, expect: expectation{status: http.StatusFound, constant: constantTarget},
		}, l.self, sixteenRules},
	} {
		if one.build == "" {
			continue
		}
		one.access, one.links = corpus.Uniform, links
		if one.target, err = l.startEdge(ctx, edgeOptions{build: one.build, links: links, ship: l.sink.url, rules: one.rules}); err != nil {
			return bench.Section{}, err
		}
		c.cases = append(c.cases, &one.contender)
	}
	s, err := l.saturate(ctx, c, fmt.Sprintf("Rules, %s links, uniform", bench.Grouped(links)))
	if err != nil {
		return s, err
	}
	for _, h := range kindsOfHeaders {
		of := func(name string) string { return name + ", " + headersOf[h] }
		s.AddRatioGoal(of(nameRedirect), measureCPU, 1.01)
		addMore(&s, of(nameTwo), of(nameRedirect), 0.4)
		addMore(&s, of(nameSixteen), of(nameRedirect), 1)
	}
	return s, nil
}

// addMore adds a bound for the CPU time that a case takes more than another, the median
// over the rounds.
func addMore(s *bench.Section, name, than string, most float64) {
	rounds, base := s.Find(name, measureCPU), s.Find(than, measureCPU)
	if len(rounds) == 0 || len(rounds) != len(base) {
		return
	}
	more := make([]float64, len(rounds))
	for i := range rounds {
		more[i] = rounds[i] - base[i]
	}
	s.Goals = append(s.Goals, bench.Goal{What: name + ", " + measureCPU + " more than " + than, Most: most, Figure: bench.Median(more)})
}
