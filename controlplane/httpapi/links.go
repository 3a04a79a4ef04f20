package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

const linksPath = "/api/v1/urls"

type createInput struct {
	Repeatable
	Waiting
	Body body[newLink]
}

type createOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the link in this API."`
	Position string `header:"Waypost-Position" doc:"Position of the change: a replica that has reached it has the link."`
	ETag     string `header:"ETag" doc:"Names this state of the link, for If-Match and If-None-Match."`
	Applied  string `header:"Waypost-Applied" doc:"What came of waiting; see wait."`
	Body     link
}

type codeInput struct {
	Code string `path:"code" doc:"The link's short code."`
}

type linkOutput struct {
	ETag string `header:"ETag" doc:"Names this state of the link, for If-Match and If-None-Match."`
	Body link
}

type deleteOutput struct {
	Applied  string `header:"Waypost-Applied" doc:"What came of waiting; see wait."`
	Position string `header:"Waypost-Position" doc:"Position of the change: a replica that has reached it no longer redirects the link."`
}

func (s *server) registerLinks() {
	direct(s, withBody(huma.Operation{
		OperationID:   "create-link",
		Method:        http.MethodPost,
		Path:          linksPath,
		Summary:       "Create a link",
		Description:   "Every request makes a new link, unless dedupe asks for the one link of a target: then 200 gives the one that is there.",
		DefaultStatus: http.StatusCreated,
		Security:      s.needs(controlplane.ScopeLinksWrite),
		Responses:     created(problems(400, 401, 403, 408, 409, 413, 415, 422), "Link", "The link that the target has already"),
	}, maxBody), s.create, func(_ http.Header, data []byte) *createInput {
		return &createInput{Body: body[newLink]{raw: data, unchecked: true}}
	}, (*createOutput).show)

	handle(s, huma.Operation{
		OperationID: "get-link",
		Method:      http.MethodGet,
		Path:        linksPath + "/{code}",
		Summary:     "Get a link",
		Security:    s.needs(controlplane.ScopeLinksRead),
		Responses:   withNotModified(problems(400, 401, 403, 404, 410, 422)),
	}, s.get)

	handle(s, huma.Operation{
		OperationID:   "delete-link",
		Method:        http.MethodDelete,
		Path:          linksPath + "/{code}",
		Summary:       "Delete a link",
		DefaultStatus: http.StatusNoContent,
		Security:      s.needs(controlplane.ScopeLinksWrite),
		Responses:     problems(401, 403, 404, 422),
	}, s.delete)
}

func (s *server) create(ctx context.Context, in *createInput) (*createOutput, error) {
	n, quick := quickLink(in.Body.raw)
	if !quick {
		err := in.Body.check()
		if err == nil {
			n, err = decode[newLink](s, in.Body.raw, "body")
		}
		if err != nil {
			return nil, err
		}
	}
	wish, err := n.wish(s.now(), "body")
	if err != nil {
		return nil, err
	}
	answer := func(outcomes []controlplane.Outcome, at waypost.Position) (controlplane.Response, error) {
		out := s.created(&outcomes[0], at)
		return answerOf(out.Status, map[string]string{"Location": out.Location, "Waypost-Position": out.Position, "ETag": out.ETag}, out.Body)
	}
	outcomes, position, err := s.make(ctx, "create-link", &in.Repeatable, in.Body.raw, []controlplane.NewLink{wish}, answer)
	if err != nil {
		return nil, s.awaitReplay(ctx, &in.Waiting, err)
	}
	if err := outcomes[0].Err; err != nil {
		return nil, err
	}
	out := s.created(&outcomes[0], position)
	out.Applied = s.await(ctx, &in.Waiting, position)
	return out, nil
}

// created is the answer to a wish that was fulfilled.
func (s *server) created(o *controlplane.Outcome, at waypost.Position) *createOutput {
	return &createOutput{Status: statusOf(o), Location: pathOf(&o.Link), Position: at.String(), ETag: etag(&o.Link), Body: s.showOutcome(o)}
}

// statusOf tells a new link from one that was there.
func statusOf(o *controlplane.Outcome) int {
	if o.Found {
		return http.StatusOK
	}
	return http.StatusCreated
}

func (s *server) get(ctx context.Context, in *getInput) (*linkOutput, error) {
	if !waypost.ValidCode(in.Code) {
		return nil, errNoLink
	}
	l, err := s.links.Find(ctx, actorFrom(ctx), in.Domain, in.Code)
	if err != nil {
		return nil, err
	}
	tag := etag(&l)
	same, err := noneMatch(in.NoneMatch, tag)
	if err != nil {
		return nil, err
	}
	if same {
		return nil, &notModified{tag}
	}
	return &linkOutput{ETag: tag, Body: s.show(&l)}, nil
}

func (s *server) delete(ctx context.Context, in *removeInput) (*deleteOutput, error) {
	if !waypost.ValidCode(in.Code) {
		return nil, errNoLink
	}
	position, err := s.links.Remove(ctx, actorFrom(ctx), in.Domain, in.Code)
	if err != nil {
		return nil, err
	}
	return &deleteOutput{Position: position.String(), Applied: s.await(ctx, &in.Waiting, position)}, nil
}

// errNoLink answers for a text that can be no code, without asking anybody.
var errNoLink = waypost.Errorf(waypost.ENotFound, "no such link")

// pathOf is where the API shows a link.
func pathOf(l *waypost.Link) string {
	path := linksPath + "/" + string(l.Code)
	if l.Host != "" {
		path += "?" + url.Values{"domain": {l.Host}}.Encode()
	}
	return path
}
