package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

type forgetClicksInput struct {
	Code   string `path:"code" doc:"The link's short code."`
	Domain string `query:"domain" maxLength:"253" example:"go.example.com" doc:"The host of the link's domain. Left out: the domain that all share."`
}

type forgottenOutput struct{ Body forgottenClicks }

// forgottenClicks is what was deleted.
type forgottenClicks struct {
	Clicks    int64 `json:"clicks" minimum:"0" doc:"How many the link had in all time."`
	BotClicks int64 `json:"bot_clicks" minimum:"0" doc:"Of these, by bots."`
	Events    int64 `json:"events" minimum:"0" doc:"Of these, how many had been kept one by one."`
}

type forgetVisitorsInput struct {
	Day string `path:"day" maxLength:"10" example:"2026-03-31" doc:"A day in UTC."`
}

type forgetVisitorsOutput struct {
	Position string `header:"Waypost-Position" doc:"Position of the change: an edge that has reached it has the salt no longer."`
}

type giveUpInput struct {
	Node string `path:"node" maxLength:"64" example:"eu-1" doc:"The name of an edge."`
}

func (s *server) registerForget() {
	if s.statistics == nil {
		return
	}
	handle(s, huma.Operation{
		OperationID: "forget-clicks",
		Method:      http.MethodDelete,
		Path:        linksPath + "/{code}/clicks",
		Summary:     "Delete a link's clicks",
		Description: "Deletes everything that was counted of a link, whether it lives, has expired or was deleted, and takes it from the clicks and breakdowns of the workspace. What stays: the workspace's estimates of unique visitors, which hold no link and cannot be subtracted from; the totals by edge; and an entry in the audit log. Clicks that come later, also such as edges had not shipped yet, count again from zero.",
		Security:    s.needs(controlplane.ScopeAdmin),
		Responses:   problems(401, 403, 404, 422),
	}, s.forgetClicks)

	handle(s, huma.Operation{
		OperationID:   "forget-visitors",
		Method:        http.MethodDelete,
		Path:          "/api/admin/visitor-salts/{day}",
		Summary:       "Destroy the salt that visitors of a day are told apart by",
		Description:   "Without it nothing that is kept anywhere leads back to a visitor of that day. Clicks of the day that come later count without a visitor. The salt of a day is destroyed by itself two days after; this is for doing it earlier. It is in the audit log.",
		DefaultStatus: http.StatusNoContent,
		Security:      s.needs(controlplane.ScopeAdmin),
		Responses:     problems(401, 403, 404, 422),
	}, s.forgetVisitors)

	handle(s, huma.Operation{
		OperationID:   "give-up-edge",
		Method:        http.MethodDelete,
		Path:          "/api/admin/edges/{node}",
		Summary:       "Say that an edge is gone for good, with its disk",
		Description:   "Statistics wait no longer for its clicks: it holds `complete_until` back no more, and is not among those `behind`. Nothing is deleted; should the edge come back all the same, it is waited for again, and what it brings is counted. 409 for an edge that was heard of within the last minute. It is in the audit log.",
		DefaultStatus: http.StatusNoContent,
		Security:      s.needs(controlplane.ScopeAdmin),
		Responses:     problems(401, 403, 404, 409),
	}, s.giveUpEdge)
}

func (s *server) giveUpEdge(ctx context.Context, in *giveUpInput) (*struct{}, error) {
	return nil, s.statistics.GiveUpEdge(ctx, actorFrom(ctx), in.Node)
}

func (s *server) forgetClicks(ctx context.Context, in *forgetClicksInput) (*forgottenOutput, error) {
	if !waypost.ValidCode(in.Code) {
		return nil, errNoLink
	}
	f, err := s.statistics.ForgetClicks(ctx, actorFrom(ctx), in.Domain, in.Code)
	if err != nil {
		return nil, err
	}
	return &forgottenOutput{Body: forgottenClicks{Clicks: f.Clicks, BotClicks: f.Bots, Events: f.Events}}, nil
}

func (s *server) forgetVisitors(ctx context.Context, in *forgetVisitorsInput) (*forgetVisitorsOutput, error) {
	day, err := time.Parse(time.DateOnly, in.Day)
	if err != nil {
		return nil, fieldErrors{{Location: "path.day", Message: "must be a date such as 2026-03-31"}}
	}
	position, err := s.statistics.ForgetVisitors(ctx, actorFrom(ctx), day)
	if err != nil {
		return nil, err
	}
	return &forgetVisitorsOutput{Position: position.String()}, nil
}
