package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

const linksPath = "/api/v1/urls"

type createInput struct{ Body body[newLink] }

type createOutput struct {
	Location string `header:"Location" doc:"Path of the new link in this API."`
	Position string `header:"Waypost-Position" doc:"Position of the change: a replica that has reached it has the link."`
	Body     link
}

type codeInput struct {
	Code string `path:"code" doc:"The link's short code."`
}

type linkOutput struct{ Body link }

type deleteOutput struct {
	Position string `header:"Waypost-Position" doc:"Position of the change: a replica that has reached it no longer redirects the link."`
}

type listInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"How many links at most."`
	Cursor string `query:"cursor" doc:"The next_cursor of the page before. Left out: the newest links."`
}

type listOutput struct{ Body linkPage }

type linkPage struct {
	URLs       []link `json:"urls" nullable:"false" doc:"Newest first."`
	NextCursor string `json:"next_cursor" doc:"Empty on the last page."`
}

func (s *server) registerLinks() {
	handle(s, withBody(huma.Operation{
		OperationID:   "create-link",
		Method:        http.MethodPost,
		Path:          linksPath,
		Summary:       "Create a link",
		DefaultStatus: http.StatusCreated,
		Security:      s.needs(controlplane.ScopeLinksWrite),
		Responses:     problems(400, 401, 403, 408, 409, 413, 415, 422),
	}, maxBody), s.create)

	handle(s, huma.Operation{
		OperationID: "get-link",
		Method:      http.MethodGet,
		Path:        linksPath + "/{code}",
		Summary:     "Get a link",
		Security:    s.needs(controlplane.ScopeLinksRead),
		Responses:   problems(401, 403, 404, 410),
	}, s.get)

	handle(s, huma.Operation{
		OperationID:   "delete-link",
		Method:        http.MethodDelete,
		Path:          linksPath + "/{code}",
		Summary:       "Delete a link",
		DefaultStatus: http.StatusNoContent,
		Security:      s.needs(controlplane.ScopeLinksWrite),
		Responses:     problems(401, 403, 404),
	}, s.delete)

	handle(s, huma.Operation{
		OperationID: "list-links",
		Method:      http.MethodGet,
		Path:        linksPath,
		Summary:     "List links",
		Security:    s.needs(controlplane.ScopeLinksRead),
		Responses:   problems(400, 401, 403, 422),
	}, s.list)
}

func (s *server) create(ctx context.Context, in *createInput) (*createOutput, error) {
	n, err := decode[newLink](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	wish, err := n.wish(s.now(), "body")
	if err != nil {
		return nil, err
	}
	l, position, err := s.links.Create(ctx, actorFrom(ctx), wish)
	if err != nil {
		return nil, err
	}
	return &createOutput{Location: pathOf(l.Code), Position: position.String(), Body: s.show(&l)}, nil
}

func (s *server) get(ctx context.Context, in *codeInput) (*linkOutput, error) {
	if !waypost.ValidCode(in.Code) {
		return nil, errNoLink
	}
	l, err := s.links.Get(ctx, actorFrom(ctx), in.Code)
	if err != nil {
		return nil, err
	}
	return &linkOutput{Body: s.show(&l)}, nil
}

func (s *server) delete(ctx context.Context, in *codeInput) (*deleteOutput, error) {
	if !waypost.ValidCode(in.Code) {
		return nil, errNoLink
	}
	position, err := s.links.Delete(ctx, actorFrom(ctx), in.Code)
	if err != nil {
		return nil, err
	}
	return &deleteOutput{Position: position.String()}, nil
}

func (s *server) list(ctx context.Context, in *listInput) (*listOutput, error) {
	page, err := s.links.List(ctx, actorFrom(ctx), in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	out := &listOutput{Body: linkPage{URLs: make([]link, len(page.Links)), NextCursor: page.Next}}
	for i := range page.Links {
		out.Body.URLs[i] = s.show(&page.Links[i])
	}
	return out, nil
}

// errNoLink answers for a text that can be no code, without asking anybody.
var errNoLink = waypost.Errorf(waypost.ENotFound, "no such link")

// pathOf is where the API shows a link.
func pathOf(code waypost.Code) string { return linksPath + "/" + string(code) }
