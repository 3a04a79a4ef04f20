package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost/controlplane"
)

// Nodes looks after the credentials of edges. It says EForbidden to who is no operator.
type Nodes interface {
	NewEnrolment(ctx context.Context, actor controlplane.Actor, e controlplane.NewEnrolment) (controlplane.Enrolment, error)
	Revoke(ctx context.Context, actor controlplane.Actor, node string) error
	Credentials(ctx context.Context, actor controlplane.Actor) ([]controlplane.NodeCredential, error)
}

type enrolInput struct{ Body body[newEnrolment] }

type newEnrolment struct {
	Region    string `json:"region" minLength:"1" maxLength:"32" example:"eu-west-1" doc:"In which the edge stands."`
	Role      string `json:"role,omitempty" enum:"edge,relay" default:"edge"`
	Node      string `json:"node,omitempty" maxLength:"64" example:"eu-1" doc:"The only name that the token is good for, also when an edge has it: the credential of that one is then replaced. Left out: any name that no edge has had."`
	Label     string `json:"label,omitempty" maxLength:"100" doc:"For operators, in the audit log."`
	ExpiresIn int64  `json:"expires_in_seconds,omitempty" minimum:"1" maximum:"86400" default:"3600"`
}

type enrolmentOutput struct{ Body enrolmentToken }

type enrolmentToken struct {
	Token     string    `json:"token" doc:"With it an edge gets a credential of its own, once. It is not shown again."`
	Region    string    `json:"region"`
	Role      string    `json:"role" enum:"edge,relay"`
	Node      string    `json:"node" doc:"Empty: any name that no edge has had."`
	Label     string    `json:"label"`
	ExpiresAt time.Time `json:"expires_at"`
}

type credentialsOutput struct{ Body credentialList }

type credentialList struct {
	Credentials []edgeCredential `json:"credentials" nullable:"false" doc:"The newest of each edge, by name."`
}

type edgeCredential struct {
	Node       string     `json:"node"`
	Region     string     `json:"region"`
	Role       string     `json:"role" enum:"edge,relay"`
	State      string     `json:"state" enum:"good,revoked"`
	Former     []string   `json:"former_names" nullable:"false" doc:"Names that the edge had before, whose clicks it may still bring."`
	CreatedAt  time.Time  `json:"created_at"`
	LastSeenAt *time.Time `json:"last_seen_at" doc:"True to a minute; null: never."`
	RevokedAt  *time.Time `json:"revoked_at"`
}

type nodeInput struct {
	Node string `path:"node" maxLength:"64" example:"eu-1" doc:"The name of an edge."`
}

func (s *server) registerNodes() {
	if s.nodes == nil {
		return
	}
	handle(s, withBody(huma.Operation{
		OperationID: "enrol-edge", Method: http.MethodPost, Path: "/api/admin/edge-enrolments", DefaultStatus: http.StatusCreated,
		Summary:     "Make a token with which an edge enrols, once",
		Description: "The edge makes a credential of its own and exchanges the token for it (POST /replication/v1/enrol); the control plane keeps its hash. At most 1,000 tokens are open at once. It is in the audit log.",
		Security:    s.needs(controlplane.ScopeAdmin), Responses: problems(400, 401, 403, 408, 409, 413, 415, 422),
	}, maxBody), s.enrolEdge)

	handle(s, huma.Operation{
		OperationID: "list-edge-credentials", Method: http.MethodGet, Path: "/api/admin/edge-credentials",
		Summary: "List the credentials of edges, also of such as are revoked", Security: s.needs(controlplane.ScopeAdmin), Responses: problems(401, 403),
	}, s.edgeCredentials)

	handle(s, huma.Operation{
		OperationID: "revoke-edge", Method: http.MethodDelete, Path: "/api/admin/edge-credentials/{node}", DefaultStatus: http.StatusNoContent,
		Summary:     "Revoke an edge's credential",
		Description: "Within a second no control plane lets the edge in any more, and its streams end. It goes on serving what it has. Tokens that are for its name alone are void. It is in the audit log.",
		Security:    s.needs(controlplane.ScopeAdmin), Responses: problems(401, 403, 404),
	}, s.revokeEdge)
}

func (s *server) enrolEdge(ctx context.Context, in *enrolInput) (*enrolmentOutput, error) {
	asked, err := decode[newEnrolment](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	e, err := s.nodes.NewEnrolment(ctx, actorFrom(ctx), controlplane.NewEnrolment{
		Region: asked.Region, Role: controlplane.NodeRole(asked.Role), Node: asked.Node, Label: asked.Label, For: time.Duration(asked.ExpiresIn) * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &enrolmentOutput{Body: enrolmentToken{
		Token: e.Token, Region: string(e.Region), Role: string(e.Role), Node: e.Node, Label: e.Label, ExpiresAt: e.ExpiresAt.UTC(),
	}}, nil
}

func (s *server) edgeCredentials(ctx context.Context, _ *struct{}) (*credentialsOutput, error) {
	all, err := s.nodes.Credentials(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	out := &credentialsOutput{Body: credentialList{Credentials: make([]edgeCredential, len(all))}}
	for i := range all {
		c := &all[i]
		shown := edgeCredential{
			Node: c.Node, Region: string(c.Region), Role: string(c.Role), State: "good", Former: append([]string{}, c.Former...),
			CreatedAt: c.CreatedAt, LastSeenAt: momentOf(c.LastSeenAt), RevokedAt: momentOf(c.RevokedAt),
		}
		if !c.RevokedAt.IsZero() {
			shown.State = "revoked"
		}
		out.Body.Credentials[i] = shown
	}
	return out, nil
}

func (s *server) revokeEdge(ctx context.Context, in *nodeInput) (*struct{}, error) {
	return nil, s.nodes.Revoke(ctx, actorFrom(ctx), in.Node)
}
