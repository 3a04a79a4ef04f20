//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"waypost"
	"waypost/bench"
	"waypost/bench/corpus"
)

const ignoresCase = waypost.DomainID(2)

// addresses are the kinds of addresses. A generated code is in the place of $ in a path,
// and in the code of its link; "" for no link.
var addresses = []struct {
	name, path, code string
	domain           waypost.DomainID
	most             float64 // ns more than a generated code
}{
	{"a generated code", "$", "$", waypost.DefaultDomain, 0},
	{"ASCII, case ignored", "X$", "x$", ignoresCase, 150},
	{"Unicode", "caf%C3%A9-cr%C3%A8me-$", "café-crème-$", waypost.DefaultDomain, 500},
	{"Unicode, case ignored", "Caf%C3%A9-cr%C3%A8me-$", "café-crème-$", ignoresCase, 500},
	{"three segments", "summer/sale/$", "summer/sale/$", waypost.DefaultDomain, 500},
	{"a pattern", "docs/some/$", "docs/*", waypost.DefaultDomain, 500},
	{"an alias", "alias-$", "alias-$", waypost.DefaultDomain, 500},
	{"no link, but 10,000 patterns", "x/x/x/$/z", "", waypost.DefaultDomain, 2000},
}

// addressRecords returns the records of that many links of each kind.
func addressRecords(targets *corpus.Targets, links int) (all []waypost.Record) {
	add := func(kind waypost.Kind, domain waypost.DomainID, flags waypost.LinkFlags, name, payload string) {
		all = append(all, waypost.Record{Kind: kind, Status: 302, Flags: flags, Domain: domain, Name: []byte(name), Payload: []byte(payload)})
	}
	for n := range uint64(links) {
		generated := string(corpus.AppendCode(nil, n))
		for _, a := range addresses {
			code := strings.Replace(a.code, "$", generated, 1)
			if a.domain == ignoresCase {
				code = strings.ToLower(code)
			}
			if a.name == "an alias" {
				add(waypost.KindLink, a.domain, waypost.AliasOf, code, "1/"+generated)
			} else if code != a.code { // it has a link of its own
				add(waypost.KindLink, a.domain, 0, code, string(targets.Append(nil, n)))
			}
		}
	}
	add(waypost.KindPattern, waypost.DefaultDomain, 0, "docs/*", "https://docs.example.org/{path}")
	shapes := strings.Fields("x/x/x x/x/{c} x/{b}/x x/{b}/{c} {a}/x/x {a}/x/{c} {a}/{b}/x {a}/{b}/{c}")
	for n := range 10_000 {
		add(waypost.KindPattern, waypost.DefaultDomain, 0, fmt.Sprintf("%s/{d}/%d", shapes[n%8], n), constantTarget)
	}
	add(waypost.KindDomain, 0, 0, "2", `{"host":"case.example","ignores_case":true}`)
	return all
}

// byAddress measures redirects of all kinds of addresses on one edge.
func (l *lab) byAddress(ctx context.Context, links int) (s bench.Section, err error) {
	t, err := l.newEdgeWith(ctx, l.self, links, "-addresses")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	const more = "ns more than a generated code"
	s.Title, s.Notes = fmt.Sprintf("Redirects by kind of address, %s links of each", bench.Grouped(links)), []string{l.howSaturated("two header lines, because wrk reads many long requests slowly")}
	cases := make([]*contender, len(addresses))
	for i, a := range addresses {
		head, tail, _ := strings.Cut(a.path, "$")
		host := "wayp.example"
		if a.domain == ignoresCase {
			host = "case.example"
		}
		tail += " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: Mozilla/5.0\r\n\r\n"
		cases[i] = &contender{name: a.name, target: t, links: links, head: corpus.Head + head, tail: tail, unknown: a.code == ""}
	}
	err = l.compete(ctx, cases)
	for i, c := range cases {
		var rounds []float64
		for n, cpu := range c.cpu {
			rounds = append(rounds, 1e3*(cpu-cases[0].cpu[n]))
		}
		s.Cases = append(s.Cases, bench.Case{Name: c.name, What: "`/" + addresses[i].path + "`", Measures: []bench.Measure{
			{Name: measureCPU, Rounds: c.cpu}, {Name: more, Rounds: rounds}, {Name: measureRate, Rounds: c.rate},
		}})
	}
	for _, a := range addresses[1:] {
		s.AddGoal(a.name, more, a.most)
	}
	return s, err
}
