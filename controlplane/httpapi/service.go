package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

type serviceOutput struct{ Body service }

type service struct {
	Service string `json:"service" enum:"waypost"`
	Version string `json:"version"`
}

type healthOutput struct {
	Status int
	Body   health
}

type health struct {
	Status      string    `json:"status" enum:"healthy,unhealthy"`
	Timestamp   time.Time `json:"timestamp"`
	Version     string    `json:"version"`
	KGSPoolSize int64     `json:"kgs_pool_size" doc:"Codes that this region can still issue."`
	Database    string    `json:"database" enum:"connected,disconnected"`
}

func (s *server) registerService() {
	root := problems()
	if s.domains != nil {
		root["302"] = &huma.Response{
			Description: "Under the name of a domain whose root leads somewhere",
			Headers: map[string]*huma.Param{
				"Location":      textHeader("The root's target."),
				"Cache-Control": textHeader("It is not to be kept."),
			},
		}
	}
	handle(s, huma.Operation{
		OperationID: "service",
		Method:      http.MethodGet,
		Path:        "/",
		Summary:     "Name and version of the service",
		Responses:   root,
	}, func(context.Context, *struct{}) (*serviceOutput, error) {
		return &serviceOutput{Body: service{Service: "waypost", Version: s.version}}, nil
	})

	answers := problems()
	answers["503"] = &huma.Response{
		Description: "The database is out of reach",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/Health"}}},
	}
	handle(s, huma.Operation{
		OperationID: "health",
		Method:      http.MethodGet,
		Path:        "/health",
		Summary:     "Whether links can be created",
		Responses:   answers,
	}, s.health)
}

func (s *server) health(ctx context.Context, _ *struct{}) (*healthOutput, error) {
	h := s.links.Health(ctx)
	out := &healthOutput{Status: http.StatusOK, Body: health{
		Status:      "healthy",
		Timestamp:   s.now().UTC(),
		Version:     s.version,
		KGSPoolSize: h.KeyPoolSize,
		Database:    "connected",
	}}
	if !h.Database {
		out.Status, out.Body.Status, out.Body.Database = http.StatusServiceUnavailable, "unhealthy", "disconnected"
	}
	return out, nil
}
