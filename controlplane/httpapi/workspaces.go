package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
	"waypost/controlplane"
)

type workspaceOutput struct{ Body workspace }

type workspace struct {
	ID        int64             `json:"id"`
	Slug      string            `json:"slug"`
	Name      string            `json:"name"`
	Settings  workspaceSettings `json:"settings"`
	State     string            `json:"state" enum:"active,closing,closed" doc:"A deleted workspace is closing until none of its links redirects any more."`
	CreatedAt time.Time         `json:"created_at"`
	DeletedAt *time.Time        `json:"deleted_at" nullable:"true"`
}

type workspaceSettings struct {
	Dedupe       bool   `json:"dedupe" doc:"The same URL gives the same link, unless a request says otherwise."`
	Events       string `json:"events" enum:"off,sampled,all" doc:"Which clicks are kept one by one, beside the sums of all."`
	EventsSample int    `json:"events_sample" doc:"When they are sampled: one of so many."`
}

type changeWorkspaceInput struct{ Body body[workspaceChange] }

// workspaceChange is what is to change. Null is as good as leaving a field out.
type workspaceChange struct {
	Name     *string         `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"100"`
	Settings *settingsChange `json:"settings,omitempty"`
}

type settingsChange struct {
	Dedupe       *bool   `json:"dedupe,omitempty" nullable:"true"`
	Events       *string `json:"events,omitempty" nullable:"true" enum:"off,sampled,all"`
	EventsSample *int    `json:"events_sample,omitempty" nullable:"true" minimum:"1" maximum:"1000000"`
}

func (c *workspaceChange) change() controlplane.WorkspaceChange {
	change := controlplane.WorkspaceChange{Name: c.Name}
	if c.Settings != nil {
		change.Dedupe, change.Events, change.EventsSample = c.Settings.Dedupe, c.Settings.Events, c.Settings.EventsSample
	}
	return change
}

type workspacesOutput struct{ Body workspaceList }

type workspaceList struct {
	Workspaces []workspace `json:"workspaces" nullable:"false" doc:"By id, the deleted ones among them."`
	NextCursor string      `json:"next_cursor" doc:"Empty on the last page."`
}

type newWorkspaceInput struct{ Body body[newWorkspace] }

type newWorkspace struct {
	Slug string `json:"slug" minLength:"1" maxLength:"63" pattern:"^[a-z0-9][a-z0-9-]*$" example:"marketing" doc:"Stays, and is not given to another."`
	Name string `json:"name,omitempty" maxLength:"100" doc:"Default: the slug."`
}

type anyWorkspaceInput struct {
	ID int64 `path:"id" minimum:"1"`
}

type changeAnyWorkspaceInput struct {
	ID   int64 `path:"id" minimum:"1"`
	Body body[workspaceChange]
}

type newUserOfInput struct {
	ID   int64 `path:"id" minimum:"1"`
	Body body[newUser]
}

func (s *server) registerWorkspace() {
	handle(s, huma.Operation{
		OperationID: "get-workspace", Method: http.MethodGet, Path: "/api/v1/workspace",
		Summary:  "The workspace that the request acts in",
		Security: s.needs(controlplane.ScopeLinksRead, controlplane.ScopeAnalytics), Responses: problems(401, 403, 404),
	}, s.getWorkspace)
	handle(s, withBody(huma.Operation{
		OperationID: "change-workspace", Method: http.MethodPatch, Path: "/api/v1/workspace",
		Summary:  "Change the name or settings of the workspace",
		Security: s.needs(controlplane.ScopeAdmin), Responses: problems(400, 401, 403, 404, 408, 413, 415, 422),
	}, maxBody), s.changeWorkspace)
}

func (s *server) registerWorkspaces() {
	admin := s.needs(controlplane.ScopeAdmin)
	handle(s, huma.Operation{
		OperationID: "list-workspaces", Method: http.MethodGet, Path: "/api/admin/workspaces",
		Summary: "List all workspaces", Security: admin, Responses: problems(400, 401, 403, 422),
	}, s.listWorkspaces)
	handle(s, withBody(huma.Operation{
		OperationID: "create-workspace", Method: http.MethodPost, Path: "/api/admin/workspaces", DefaultStatus: http.StatusCreated,
		Summary: "Make a workspace", Security: admin, Responses: problems(400, 401, 403, 408, 409, 413, 415, 422),
	}, maxBody), s.createWorkspace)
	handle(s, withBody(huma.Operation{
		OperationID: "change-any-workspace", Method: http.MethodPatch, Path: "/api/admin/workspaces/{id}",
		Summary: "Change the name or settings of any workspace", Security: admin, Responses: problems(400, 401, 403, 404, 408, 413, 415, 422),
	}, maxBody), s.changeAnyWorkspace)
	handle(s, huma.Operation{
		OperationID: "delete-workspace", Method: http.MethodDelete, Path: "/api/admin/workspaces/{id}",
		Summary: "Delete a workspace", Security: admin,
		Description: "Its keys and sessions end at once. Its links turn into tombstones, which answer 410 on every edge, a thousand at a time; " +
			"the workspace is closed when that is done. Its slug and its codes are never given out again.",
		Responses: problems(401, 403, 404, 409, 422),
	}, s.deleteWorkspace)
	handle(s, withBody(huma.Operation{
		OperationID: "add-user-to-workspace", Method: http.MethodPost, Path: "/api/admin/workspaces/{id}/users", DefaultStatus: http.StatusCreated,
		Summary: "Put a user into any workspace", Security: admin,
		Description: "An address that has an account gets in with that; leave out name and password then. Operators look after the account from then on, and when " +
			"another workspace than theirs did before, its password and sessions end and the answer has an invitation: whoever set it up would be let in, too.",
		Responses: problems(400, 401, 403, 404, 408, 409, 413, 415, 422),
	}, maxBody), s.addUserTo)
}

func (s *server) getWorkspace(ctx context.Context, _ *struct{}) (*workspaceOutput, error) {
	w, err := s.access.Workspace(ctx, actorFrom(ctx))
	return showWorkspace(&w), err
}

func (s *server) changeWorkspace(ctx context.Context, in *changeWorkspaceInput) (*workspaceOutput, error) {
	c, err := decode[workspaceChange](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	w, err := s.access.ChangeWorkspace(ctx, actorFrom(ctx), c.change())
	return showWorkspace(&w), err
}

func (s *server) listWorkspaces(ctx context.Context, in *Paging) (*workspacesOutput, error) {
	all, next, err := s.access.Workspaces(ctx, actorFrom(ctx), in.Limit, in.Cursor)
	if err != nil {
		return nil, err
	}
	out := &workspacesOutput{Body: workspaceList{Workspaces: make([]workspace, len(all)), NextCursor: next}}
	for i := range all {
		out.Body.Workspaces[i] = showWorkspace(&all[i]).Body
	}
	return out, nil
}

func (s *server) createWorkspace(ctx context.Context, in *newWorkspaceInput) (*workspaceOutput, error) {
	n, err := decode[newWorkspace](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	w, err := s.access.CreateWorkspace(ctx, actorFrom(ctx), controlplane.NewWorkspace{Slug: n.Slug, Name: n.Name})
	return showWorkspace(&w), err
}

func (s *server) changeAnyWorkspace(ctx context.Context, in *changeAnyWorkspaceInput) (*workspaceOutput, error) {
	c, err := decode[workspaceChange](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	w, err := s.access.ChangeWorkspaceOf(ctx, actorFrom(ctx), waypost.WorkspaceID(in.ID), c.change())
	return showWorkspace(&w), err
}

func (s *server) deleteWorkspace(ctx context.Context, in *anyWorkspaceInput) (*workspaceOutput, error) {
	w, err := s.access.DeleteWorkspace(ctx, actorFrom(ctx), waypost.WorkspaceID(in.ID))
	return showWorkspace(&w), err
}

func (s *server) addUserTo(ctx context.Context, in *newUserOfInput) (*userOutput, error) {
	n, err := decode[newUser](s, in.Body.raw, "body")
	if err != nil {
		return nil, err
	}
	m, i, err := s.access.AddMemberTo(ctx, actorFrom(ctx), waypost.WorkspaceID(in.ID), n.wish())
	if err != nil {
		return nil, err
	}
	return showNewUser(&m, i), nil
}

func showWorkspace(w *controlplane.Workspace) *workspaceOutput {
	state := "active"
	switch {
	case !w.ClosedAt.IsZero():
		state = "closed"
	case !w.DeletedAt.IsZero():
		state = "closing"
	}
	return &workspaceOutput{Body: workspace{
		ID: int64(w.ID), Slug: w.Slug, Name: w.Name, State: state, CreatedAt: w.CreatedAt, DeletedAt: moment(w.DeletedAt),
		Settings: workspaceSettings{Dedupe: w.Settings.Dedupe, Events: w.Settings.Events, EventsSample: w.Settings.EventsSample},
	}}
}
