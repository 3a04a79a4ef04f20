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

type shortenInput struct {
	Repeatable
	Waiting
	Body body[shortenRequest]
}

type shortenOutput struct {
	Applied  string `header:"Waypost-Applied" doc:"What came of waiting; see wait."`
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
		Responses:     created(problems(400, 401, 403, 408, 409, 413, 415, 422), "", ""),
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
	// A new code always, whatever the workspace has set: that is what this form promises.
	always := false
	wish := controlplane.NewLink{OriginalURL: req.URL, Dedupe: &always}
	answer := func(outcomes []controlplane.Outcome, at waypost.Position) (controlplane.Response, error) {
		out := s.shortened(&outcomes[0], at)
		return answerOf(http.StatusCreated, map[string]string{"Location": out.Location, "Waypost-Position": out.Position}, out.Body)
	}
	outcomes, position, err := s.make(ctx, "shorten", &in.Repeatable, in.Body.raw, []controlplane.NewLink{wish}, answer)
	if err != nil {
		return nil, s.awaitReplay(ctx, &in.Waiting, err)
	}
	if err := outcomes[0].Err; err != nil {
		return nil, err
	}
	out := s.shortened(&outcomes[0], position)
	out.Applied = s.await(ctx, &in.Waiting, position)
	return out, nil
}

func (s *server) shortened(o *controlplane.Outcome, at waypost.Position) *shortenOutput {
	l := s.show(&o.Link)
	return &shortenOutput{Location: pathOf(&o.Link), Position: at.String(), Body: shortened{l.ShortCode, l.ShortURL, l.OriginalURL, l.CreatedAt}}
}
