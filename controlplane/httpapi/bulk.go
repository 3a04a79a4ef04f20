package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

// bulkRequest is a body of many wishes. It is read by bulkItems and never as a
// whole, so that one bad link refuses only itself.
type bulkRequest struct {
	Links []newLink `json:"links" nullable:"false" minItems:"1" maxItems:"1000"`
}

type bulkInput struct {
	Repeatable
	Waiting
	Prefer string `header:"Prefer" doc:"return=minimal (RFC 7240): of each link that was created, only its code is answered."`
	Body   body[bulkRequest]
}

type bulkOutput struct {
	Applied  string `header:"Waypost-Applied" doc:"What came of waiting; see wait."`
	Position string `header:"Waypost-Position" doc:"Position of the last change; absent when no link was created."`
	Minimal  string `header:"Preference-Applied" doc:"return=minimal, when that was asked for."`
	Body     bulkAnswer
}

type bulkAnswer struct {
	Results []bulkResult `json:"results" nullable:"false" doc:"One for each link of the request, in its order."`
}

// bulkResult is the outcome of one wish: a link or a problem.
type bulkResult struct {
	Status int      `json:"status" example:"201" doc:"The status that this link alone would have got."`
	Link   *link    `json:"link,omitempty" doc:"The link, when there is one."`
	Code   string   `json:"short_code,omitempty" doc:"The code of the link, in a minimal answer."`
	Error  *problem `json:"error,omitempty" doc:"Why it was not."`
}

func (s *server) registerBulk() {
	direct(s, withBody(huma.Operation{
		OperationID: "create-links",
		Method:      http.MethodPost,
		Path:        linksPath + "/bulk",
		Summary:     "Create many links, each with its own outcome",
		Security:    s.needs(controlplane.ScopeLinksWrite),
		Responses:   withReplay(problems(400, 401, 403, 408, 409, 413, 415, 422), "200"),
	}, maxBulkBody), s.createBulk, func(h http.Header, data []byte) *bulkInput {
		return &bulkInput{Prefer: h.Get("Prefer"), Body: body[bulkRequest]{raw: data, unchecked: true}}
	}, (*bulkOutput).show)
}

func (s *server) createBulk(ctx context.Context, in *bulkInput) (*bulkOutput, error) {
	items, err := itemsOf(&in.Body)
	if err != nil {
		return nil, err
	}
	minimal := strings.TrimSpace(in.Prefer) == minimalAnswer
	results := make([]bulkResult, len(items))
	refuse := func(i int, err error) { results[i] = s.bulkResult(ctx, &controlplane.Outcome{Err: err}) }

	now := s.now()
	var wishes []controlplane.NewLink
	var places []int // of the wishes among the items
	for i, raw := range items {
		n, quick := quickLink(raw)
		at := ""
		if !quick {
			if err := in.Body.check(); err != nil {
				return nil, err
			}
			at = "body.links[" + strconv.Itoa(i) + "]"
			if n, err = decode[newLink](s, raw, at); err != nil {
				refuse(i, err)
				continue
			}
		}
		wish, err := n.wish(now, at)
		if err != nil {
			refuse(i, err)
			continue
		}
		wishes, places = append(wishes, wish), append(places, i)
	}

	s.large(ctx, len(items))

	out, header := &bulkOutput{Body: bulkAnswer{Results: results}}, map[string]string{}
	result := func(o *controlplane.Outcome) bulkResult { return s.bulkResult(ctx, o) }
	if minimal {
		out.Minimal, header["Preference-Applied"] = minimalAnswer, minimalAnswer
		result = func(o *controlplane.Outcome) bulkResult {
			if o.Err != nil {
				return s.bulkResult(ctx, o)
			}
			return bulkResult{Status: statusOf(o), Code: string(o.Link.Code)}
		}
	}
	if len(wishes) == 0 {
		return out, nil
	}
	answer := func(outcomes []controlplane.Outcome, at waypost.Position) (controlplane.Response, error) {
		kept := &bulkOutput{Body: bulkAnswer{Results: slices.Clone(results)}}
		for j, i := range places {
			kept.Body.Results[i] = result(&outcomes[j])
		}
		header["Waypost-Position"] = at.String()
		return answerOf(http.StatusOK, header, kept.Body)
	}
	outcomes, position, err := s.make(ctx, "create-links", &in.Repeatable, in.Body.raw, wishes, answer)
	if err != nil {
		return nil, s.awaitReplay(ctx, &in.Waiting, err)
	}
	if len(outcomes) != len(wishes) {
		return nil, fmt.Errorf("%d outcomes of %d links", len(outcomes), len(wishes))
	}
	for j, i := range places {
		results[i] = result(&outcomes[j])
	}
	if !position.IsZero() {
		out.Position, out.Applied = position.String(), s.await(ctx, &in.Waiting, position)
	}
	return out, nil
}

const minimalAnswer = "return=minimal"

// itemsOf takes the links out of a bulk body.
func itemsOf(b *body[bulkRequest]) ([][]byte, error) {
	if items, ok := quickItems(b.raw); ok {
		return items, nil
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	items, err := bulkItems(b.raw)
	texts := make([][]byte, len(items))
	for i := range items {
		texts[i] = items[i]
	}
	return texts, err
}

func (s *server) bulkResult(ctx context.Context, o *controlplane.Outcome) bulkResult {
	if o.Err != nil {
		p := s.problem(ctx, "create-links", o.Err)
		return bulkResult{Status: p.Status, Error: p}
	}
	l := s.showOutcome(o)
	return bulkResult{Status: statusOf(o), Link: &l}
}

// bulkItems takes the links out of a bulk body without judging them. It stops at
// the first that is too many, whatever the body holds beyond.
func bulkItems(raw []byte) ([]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fieldErrors{{Location: "body", Message: "expected object"}}
	}
	var items []json.RawMessage
	for seen := false; dec.More(); seen = true {
		name, err := dec.Token()
		if err != nil {
			return nil, waypost.WrapError(waypost.EMalformed, "the body is no JSON", err)
		}
		if name != "links" {
			return nil, fieldErrorsOf([]error{unexpected("body", fmt.Sprint(name), unknownField)})
		}
		if seen {
			return nil, waypost.Errorf(waypost.EMalformed, "the name links occurs twice")
		}
		if t, err := dec.Token(); err != nil || t != json.Delim('[') {
			return nil, fieldErrors{{Location: "body.links", Message: "expected array"}}
		}
		for dec.More() {
			if len(items) == waypost.MaxBulk {
				return nil, fieldErrors{{Location: "body.links", Message: fmt.Sprintf("expected at most %d links", waypost.MaxBulk)}}
			}
			var item json.RawMessage
			if err := dec.Decode(&item); err != nil {
				return nil, waypost.WrapError(waypost.EMalformed, "the body is no JSON", err)
			}
			items = append(items, item)
		}
		if _, err := dec.Token(); err != nil { // the closing bracket
			return nil, waypost.WrapError(waypost.EMalformed, "the body is no JSON", err)
		}
	}
	if len(items) == 0 {
		return nil, fieldErrors{{Location: "body.links", Message: "expected at least 1 link"}}
	}
	return items, nil
}
