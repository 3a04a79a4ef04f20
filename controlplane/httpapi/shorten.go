package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

// shortenRequest is the short old form of [newLink].
type shortenRequest struct {
	URL string `json:"url" example:"https://example.com/a?b=c" doc:"The target: an http or https URL of at most 2,048 bytes."`
}

type shortenInput struct{ Body body[shortenRequest] }

type shortenOutput struct {
	Location string `header:"Location" doc:"Path of the new link in this API."`
	Position string `header:"Waypost-Position" doc:"Position of the change: a replica that has reached it has the link."`
	Body     shortened
}

type shortened struct {
	ShortCode   string    `json:"short_code"`
	ShortURL    string    `json:"short_url" format:"uri"`
	OriginalURL string    `json:"original_url"`
	CreatedAt   time.Time `json:"created_at"`
}

func (s *server) registerShorten() {
	handle(s, withBody(huma.Operation{
		OperationID:   "shorten",
		Method:        http.MethodPost,
		Path:          "/shorten",
		Summary:       "Create a link, in the short old form",
		Description:   "Every request makes a new code, also for a URL that has one.",
		DefaultStatus: http.StatusCreated,
		Security:      s.needs(controlplane.ScopeLinksWrite),
		Responses:     problems(400, 401, 403, 408, 413, 415, 422),
	}, maxBody), s.shorten)
}

func (s *server) shorten(ctx context.Context, in *shortenInput) (*shortenOutput, error) {
	req, err := decode[shortenRequest](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	if len(req.URL) > waypost.MaxShortURLLength {
		return nil, waypost.Errorf(waypost.ETooLarge, "url must be at most %d bytes", waypost.MaxShortURLLength)
	}
	l, position, err := s.links.Create(ctx, actorFrom(ctx), controlplane.NewLink{OriginalURL: req.URL})
	if err != nil {
		return nil, err
	}
	shown := s.show(&l)
	return &shortenOutput{
		Location: pathOf(l.Code),
		Position: position.String(),
		Body:     shortened{shown.ShortCode, shown.ShortURL, shown.OriginalURL, shown.CreatedAt},
	}, nil
}
