package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

type bulkInput struct {
	repeatable
	waiting
	DryRun string       `query:"dry_run" enum:"true,false" default:"false" doc:"Create nothing, and answer with the outcome that each link would have now: 201, 200 for an existing link of the target, or an error. There are no links and no codes in the answer."`
	Prefer string       `header:"Prefer" list:"true" doc:"return=minimal (RFC 7240): of each created link, the answer holds the code only."`
	Body   api.NewLinks `raw:"true"` // decoded link by link, so that a bad link refuses only itself
	Raw    []byte
}

type bulkOutput struct {
	Instead  responder
	Applied  string `header:"Waypost-Applied" doc:"Outcome of waiting; see wait."`
	Position string `header:"Waypost-Position" doc:"Position of the last change; absent when no link was created."`
	Minimal  string `header:"Preference-Applied" doc:"return=minimal, when that was requested."`
	Body     api.LinkOutcomes
}

const minimalAnswer = "return=minimal"

func registerBulk(rt *router, a *linksAPI) {
	done := rt.document.success(&binding{out: outputOf(typeOf[bulkOutput]())}, http.StatusOK)
	item := rt.document.schemas.of(typeOf[api.NewLink](), "")
	handle(rt, operation{
		id: "create-links", method: http.MethodPost, path: api.PathLinks + "/bulk", summary: "Create many links, each with its own outcome",
		scopes: []controlplane.Scope{controlplane.ScopeLinksWrite}, problems: []int{http.StatusConflict}, maxBody: maxLinksBody,
		answers: map[int]answer{http.StatusOK: withReplay(done)},
	}, func(ctx context.Context, in *bulkInput) (*bulkOutput, error) {
		b := bulk{a: a, rt: rt, minimal: strings.TrimSpace(in.Prefer) == minimalAnswer}
		if err := b.read(ctx, item, in.Raw); err != nil {
			return nil, err
		}
		if in.DryRun == "true" {
			return b.dryRun(ctx)
		}
		return b.create(ctx, in)
	})
}

// bulk is a request for many links.
type bulk struct {
	a       *linksAPI
	rt      *router
	minimal bool

	results []api.LinkOutcome // by place in the request
	links   []controlplane.NewLink
	places  []int // of the links in the request
}

// read decodes the links, and sets the results of links that cannot be created.
func (b *bulk) read(ctx context.Context, item *schema, text []byte) error {
	items, err := itemsOf(text)
	if err != nil {
		return err
	}
	b.a.auth.charge(ctx, len(items))
	b.results = make([]api.LinkOutcome, len(items))
	b.links, b.places = make([]controlplane.NewLink, 0, len(items)), make([]int, 0, len(items))
	now := b.a.now()
	for i, text := range items {
		at := "body.links[" + strconv.Itoa(i) + "]"
		var n api.NewLink
		err := item.decode(text, &n, at)
		if err == nil {
			next := len(b.links)
			b.links = b.links[:next+1] // it has room for all items
			if err = setNewLink(&b.links[next], &n, now, at); err == nil {
				b.places = append(b.places, i)
				continue
			}
			b.links = b.links[:next]
		}
		b.results[i] = b.result(ctx, &controlplane.Outcome{Err: err})
	}
	return nil
}

func (b *bulk) create(ctx context.Context, in *bulkInput) (*bulkOutput, error) {
	out, header := &bulkOutput{}, map[string]string{}
	if b.minimal {
		out.Minimal, header["Preference-Applied"] = minimalAnswer, minimalAnswer
	}
	if len(b.links) == 0 {
		out.Body.Results = b.results
		return out, nil
	}
	answer := func(outcomes []controlplane.Outcome, at waypost.Position) (controlplane.Response, error) {
		header[api.HeaderPosition] = at.String()
		return answerOf(http.StatusOK, header, &api.LinkOutcomes{Results: b.with(ctx, outcomes)})
	}
	made, err := b.a.createAll(ctx, "create-links", in.IdempotencyKey, in.Raw, b.links, answer)
	if err != nil {
		return nil, err
	}
	if made.Replayed != nil {
		return &bulkOutput{Instead: b.a.replay(ctx, &in.waiting, made.Replayed)}, nil
	}
	if len(made.Outcomes) != len(b.links) {
		return nil, fmt.Errorf("%d outcomes of %d links", len(made.Outcomes), len(b.links))
	}
	out.Body.Results = b.with(ctx, made.Outcomes)
	if !made.At.IsZero() {
		out.Position, out.Body.Applied = made.At.String(), await(ctx, b.a.waiter, &in.waiting, made.At)
		out.Applied = appliedText(out.Body.Applied)
	}
	return out, nil
}

// dryRun answers without creating anything.
func (b *bulk) dryRun(ctx context.Context) (*bulkOutput, error) {
	outcomes, err := b.a.links.DryRun(ctx, actorFrom(ctx), b.links)
	if err != nil {
		return nil, err
	}
	for j, i := range b.places {
		if o := &outcomes[j]; o.Err != nil {
			b.results[i] = b.result(ctx, o)
		} else {
			b.results[i] = api.LinkOutcome{Status: statusOf(o)}
		}
	}
	return &bulkOutput{Body: api.LinkOutcomes{Results: b.results}}, nil
}

// with returns the results, completed by the results of the links that were to be
// created.
func (b *bulk) with(ctx context.Context, outcomes []controlplane.Outcome) []api.LinkOutcome {
	results := slices.Clone(b.results)
	for j, i := range b.places {
		results[i] = b.result(ctx, &outcomes[j])
	}
	return results
}

func (b *bulk) result(ctx context.Context, o *controlplane.Outcome) api.LinkOutcome {
	switch {
	case o.Err != nil:
		p := b.rt.problem(ctx, "create-links", o.Err)
		return api.LinkOutcome{Status: p.Status, Error: &p.Problem}
	case b.minimal:
		return api.LinkOutcome{Status: statusOf(o), ShortCode: string(o.Link.Code)}
	}
	l := &api.Link{}
	b.a.showOutcome(l, o)
	return api.LinkOutcome{Status: statusOf(o), Link: l}
}

// itemsOf takes the links out of a body without judging them. Their text is JSON,
// although names may occur twice in it and it may not be UTF-8.
func itemsOf(text []byte) ([][]byte, error) {
	d := decoder{path: []segment{{name: "body"}}, dec: jsontext.NewDecoder(
		bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	items, err := d.items(text)
	if err != nil {
		return nil, malformed(err)
	}
	if _, err := d.dec.ReadToken(); err != io.EOF { //nolint:errorlint // never wrapped
		return nil, malformed(err)
	}
	if len(d.wrong) > 0 {
		return nil, d.wrong.sorted()
	}
	return items, nil
}

func (d *decoder) items(text []byte) (items [][]byte, err error) {
	if ok, err := d.expect('{', "object"); err != nil || !ok {
		return nil, err
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, err
	}
	seen := false
	for d.dec.PeekKind() == '"' {
		token, err := d.dec.ReadToken()
		if err != nil {
			return nil, err
		}
		switch name := token.String(); {
		case name != "links":
			err = d.within(segment{name: shortened(name)}, func() error {
				d.fault(unknownName("field", []string{"links"}))
				return d.dec.SkipValue()
			})
		case seen:
			err = &jsontext.SyntacticError{ByteOffset: d.dec.InputOffset(), Err: jsontext.ErrDuplicateName}
		default:
			seen = true
			err = d.within(segment{name: "links"}, func() (err error) { items, err = d.list(text); return err })
		}
		if err != nil {
			return nil, err
		}
	}
	if len(items) == 0 && len(d.wrong) == 0 {
		_ = d.within(segment{name: "links"}, func() error { d.fault("expected at least 1 link"); return nil })
	}
	_, err = d.dec.ReadToken()
	return items, err
}

func (d *decoder) list(text []byte) (items [][]byte, err error) {
	if ok, err := d.expect('[', "array"); err != nil || !ok {
		return nil, err
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, err
	}
	n := 0
	for ; d.dec.PeekKind() != ']' && d.dec.PeekKind() != 0; n++ {
		value, err := d.dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if n < waypost.MaxBulk {
			end := int(d.dec.InputOffset())
			items = append(items, text[end-len(value):end])
		}
	}
	if n > waypost.MaxBulk {
		d.fault(fmt.Sprintf("expected at most %d links", waypost.MaxBulk))
	}
	_, err = d.dec.ReadToken()
	return items, err
}
