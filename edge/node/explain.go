package node

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"strings"

	"waypost"
	"waypost/api"
	"waypost/edge/server"
	"waypost/rules"
)

// answerVisitor answers a visitor whom an order describes, as the server would, by the
// replica and the GeoIP database of this edge. It counts nothing.
func (e *edge) answerVisitor(_ context.Context, order api.EdgeOrder) api.EdgeOutcome {
	q := order.Question
	if q == nil {
		return api.EdgeOutcome{Error: "the order has no question"}
	}
	x := &api.EdgeExplained{Status: waypost.NotFound.Status, Steps: []api.EdgeStep{}}
	if built := e.clicks.placesBuilt(); !built.IsZero() {
		x.PlacesBuilt = &built
	}
	out := api.EdgeOutcome{Explained: x}
	if at := e.store.reported(); !at.IsZero() {
		out.Position = &api.Sequence{Epoch: at.Epoch.Ordinal, Seq: at.Seq}
	}
	domain, traits, known := e.store.Domain([]byte(q.Host))
	if !known && q.Host != "" {
		return out
	}
	visit := waypost.ParseVisit([]byte("/" + q.Path))
	visit.Query = []byte(q.Query)
	var finder server.Finder
	found, err := finder.Find(e.store, e.blocks, domain, traits, []byte(q.Host), &visit)
	if err != nil {
		return api.EdgeOutcome{Error: err.Error()}
	}
	res := waypost.NotFound
	if found.Policy != 0 || found.Record != nil {
		x.Code, x.Match = string(visit.Code), string(found.Match)
	}
	if found.Policy != 0 {
		x.Gate, x.Status = "blocked", found.Policy.Status()
		return out
	}
	if found.Record != nil {
		facts := e.factsOf(q, found.Record)
		x.Country, x.City = strings.TrimRight(string(facts.Country[:]), "\x00"), facts.City
		var trace rules.Trace
		res, trace = rules.Explain(found.Record, &facts)
		x.Gate, x.Budget, x.Keep, x.Variant = trace.Gate, res.Budget != 0, res.Keep, res.Variant
		for _, s := range trace.Steps {
			x.Steps = append(x.Steps, api.EdgeStep(s))
		}
		res, _ = res.Follow(nil, &visit)
	}
	before := res
	res = e.store.Targets(domain).InsteadOf(res)
	x.NotFound = before.Status == waypost.NotFound.Status && res.Redirects()
	x.Maintenance = (before.Link || before.Asks()) && !res.Link && !res.Asks()
	if rules.RefusesBot(&res, e.cfg.Server.Agents, []byte(q.UserAgent)) {
		res, x.Budget, x.Keep, x.Variant = waypost.Resolution{Status: 403}, false, false, 0
	}
	x.Status, x.Location = res.Status, string(res.Location)
	return out
}

// factsOf returns the facts about the visitor of a question, who visits a link.
func (e *edge) factsOf(q *api.EdgeQuestion, record *waypost.Record) (f rules.Facts) {
	r := rules.Request{
		At: q.At.UnixMilli(), UserAgent: []byte(q.UserAgent), AcceptLanguage: []byte(q.Language), Cookie: []byte(q.Cookie),
		Query: []byte(q.Query), Link: rules.CookieNumber(record),
		Chance: uint16(rand.Uint32()), Agents: e.cfg.Server.Agents, //nolint:gosec // chance, no secret
	}
	r.Address, _ = netip.ParseAddr(q.Address)
	f.Read(rules.AllFacts, &r)
	f.Confirmed = true
	if e.clicks.geoDB != nil && r.Address.IsValid() {
		f.Country, f.City = e.clicks.geoDB.Locate(r.Address)
	}
	if q.Country != "" {
		f.Country, f.City = [2]byte{}, ""
		copy(f.Country[:], q.Country)
	}
	if q.City != "" {
		f.City = q.City
	}
	return f
}
