//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"waypost/bench/corpus"
)

// lists names the lists that the console and programs ask for. A query is of link n.
var lists = []struct {
	name  string
	query func(g *growth, n uint64) string
}{
	{"newest first", func(*growth, uint64) string { return "" }},
	{"by clicks", func(*growth, uint64) string { return "sort=-clicks" }},
	{"two words of titles", func(_ *growth, n uint64) string {
		title := strings.Fields(titleOf(n))
		return "search=" + title[0] + "+" + title[1]
	}},
	{"beginning of a code", func(_ *growth, n uint64) string { return "search=" + string(corpus.AppendCode(nil, n)[:5]) }},
	{"beginning of a host", func(g *growth, n uint64) string { return "search=" + url.QueryEscape(g.host(n)) }},
	{"beginning of a URL", func(g *growth, n uint64) string {
		target := string(g.targets.Append(nil, n))
		return "search=" + url.QueryEscape(target[:min(len(target), 40)])
	}},
}

// host returns the beginning of the host of a link's target.
func (g *growth) host(n uint64) string {
	u, err := url.Parse(string(g.targets.Append(nil, n)))
	if err != nil {
		return "example"
	}
	return u.Host[:max(3, len(u.Host)-2)]
}

// list asks for pages of a list of random links, and returns how long each took.
func (g *growth) list(ctx context.Context, query func(*growth, uint64) string) (times []time.Duration, err error) {
	random := rand.New(rand.NewPCG(2, uint64(g.links)))
	for range g.samples {
		where := g.s.State.API + "/api/v1/urls?limit=50&" + query(g, random.Uint64N(uint64(g.links)))
		began := time.Now()
		status, err := g.get(ctx, where, g.s.State.APIKey)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("the answer to %s is %d", where, status)
		}
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// words are those of titles. A title has three, and every word is in many titles.
var words = strings.Fields(`autumn banner brochure catalogue coupon display event flyer invoice label leaflet letter manual menu
	newsletter packaging partner poster promotion receipt review sample season shelf signup spring summer survey ticket winter`)

func titleOf(n uint64) string {
	word := func(k uint64) string { return words[k%uint64(len(words))] }
	return word(n) + " " + word(n/30+7) + " " + word(n/900+13) + " " + strconv.FormatUint(n, 10)
}
