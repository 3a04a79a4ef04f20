package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

// bulkRequest is a body of many wishes. It is read by bulkItems and never as a
// whole, so that one bad link refuses only itself.
type bulkRequest struct {
	Links []newLink `json:"links" nullable:"false" minItems:"1" maxItems:"1000"`
}

type bulkInput struct{ Body body[bulkRequest] }

type bulkOutput struct {
	Position string `header:"Waypost-Position" doc:"Position of the last change; absent when no link was created."`
	Body     bulkAnswer
}

type bulkAnswer struct {
	Results []bulkResult `json:"results" nullable:"false" doc:"One for each link of the request, in its order."`
}

// bulkResult is the outcome of one wish: a link or a problem.
type bulkResult struct {
	Status int      `json:"status" example:"201" doc:"The status that this link alone would have got."`
	Link   *link    `json:"link,omitempty" doc:"The link, when it was created."`
	Error  *problem `json:"error,omitempty" doc:"Why it was not."`
}

func (s *server) registerBulk() {
	handle(s, withBody(huma.Operation{
		OperationID: "create-links",
		Method:      http.MethodPost,
		Path:        linksPath + "/bulk",
		Summary:     "Create many links, each with its own outcome",
		Security:    s.needs(controlplane.ScopeLinksWrite),
		Responses:   problems(400, 401, 403, 408, 413, 415, 422),
	}, maxBulkBody), s.createBulk)
}

func (s *server) createBulk(ctx context.Context, in *bulkInput) (*bulkOutput, error) {
	items, err := bulkItems(in.Body.raw)
	if err != nil {
		return nil, err
	}
	results := make([]bulkResult, len(items))
	refuse := func(i int, err error) {
		p := s.problem(ctx, "create-links", err)
		results[i] = bulkResult{Status: p.Status, Error: p}
	}

	now := s.now()
	var wishes []controlplane.NewLink
	var places []int // of the wishes among the items
	for i, raw := range items {
		at := "body.links[" + strconv.Itoa(i) + "]"
		n, err := decode[newLink](s, raw, at)
		if err != nil {
			refuse(i, err)
			continue
		}
		wish, err := n.wish(now, at)
		if err != nil {
			refuse(i, err)
			continue
		}
		wishes, places = append(wishes, wish), append(places, i)
	}

	out := &bulkOutput{Body: bulkAnswer{Results: results}}
	if len(wishes) == 0 {
		return out, nil
	}
	outcomes, position, err := s.links.CreateBulk(ctx, actorFrom(ctx), wishes)
	if err != nil {
		return nil, err
	}
	if len(outcomes) != len(wishes) {
		return nil, fmt.Errorf("%d outcomes of %d links", len(outcomes), len(wishes))
	}
	for j, i := range places {
		if err := outcomes[j].Err; err != nil {
			refuse(i, err)
			continue
		}
		l := s.show(&outcomes[j].Link)
		results[i] = bulkResult{Status: http.StatusCreated, Link: &l}
	}
	if !position.IsZero() {
		out.Position = position.String()
	}
	return out, nil
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
			return nil, fieldErrorsOf([]error{unexpected("body", fmt.Sprint(name))})
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
