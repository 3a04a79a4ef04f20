package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// Views keeps saved views of statistics, and reads public ones.
type Views interface {
	Views(ctx context.Context, actor controlplane.Actor) ([]controlplane.View, error)
	SaveView(ctx context.Context, actor controlplane.Actor, name, query string) (controlplane.View, error)
	PublishView(ctx context.Context, actor controlplane.Actor, name, host, code, tag string, days int,
		zone *time.Location) (controlplane.View, string, error)
	RenameView(ctx context.Context, actor controlplane.Actor, id int64, name string) error
	DeleteView(ctx context.Context, actor controlplane.Actor, id int64) error
	PublicStats(ctx context.Context, secret string) (controlplane.View, controlplane.Stats, error)
}

func registerViews(rt *router, a *statisticsAPI) {
	write := []controlplane.Scope{controlplane.ScopeLinksWrite}
	handle(rt, operation{
		id: "list-views", method: http.MethodGet, path: api.PathViews, summary: "List the saved views of statistics",
		scopes: []controlplane.Scope{controlplane.ScopeAnalytics},
	}, a.views)
	handle(rt, operation{
		id: "save-view", method: http.MethodPost, path: api.PathViews, summary: "Save filters, or publish the clicks of a link or tag",
		description: "A public view is a page with the clicks of a link, or of the links that have a tag when it is read, by day, countries and devices, and without referrers, addresses and " +
			"names of people. Everyone can read it who has its path, until it is deleted. A workspace has at most 100 views.",
		status: http.StatusCreated, scopes: write, problems: []int{http.StatusNotFound, http.StatusConflict},
	}, a.saveView)
	handle(rt, operation{
		id: "rename-view", method: http.MethodPatch, path: api.PathViews + "/{id}", summary: "Rename a saved view", scopes: write,
		problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, in *bodyByID[api.ViewChange]) (*struct{}, error) {
		return &struct{}{}, a.clicks.RenameView(ctx, actorFrom(ctx), in.ID, in.Body.Name)
	})
	handle(rt, operation{
		id: "delete-view", method: http.MethodDelete, path: api.PathViews + "/{id}", summary: "Delete a saved view, or withdraw a public one",
		scopes: write, problems: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *byID) (*struct{}, error) {
		return &struct{}{}, a.clicks.DeleteView(ctx, actorFrom(ctx), in.ID)
	})
	handle(rt, operation{
		id: "public-view", method: http.MethodGet, path: api.PathPublic + "/{secret}", summary: "Read a public view, as a page",
		description: "In German or English, as Accept-Language asks. Countries and devices with fewer than five clicks are among the others. " +
			"A page may be a minute old. Unknown and withdrawn addresses have the same answer.",
		problems: []int{http.StatusNotFound, http.StatusTooManyRequests},
		answers: map[int]answer{http.StatusOK: {
			Description: "The page", Content: map[string]media{"text/html": {textSchema}},
			Headers: map[string]header{"Vary": textHeader("The answer depends on Accept-Language.")},
		}},
	}, a.public)
}

func (a *statisticsAPI) views(ctx context.Context, _ *struct{}) (*body[api.Views], error) {
	all, err := a.clicks.Views(ctx, actorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return bodyOf(api.Views{Views: mapped(all, viewOf)}), nil
}

func (a *statisticsAPI) saveView(ctx context.Context, in *body[api.NewView]) (*body[api.View], error) {
	n := &in.Body
	if !n.Public {
		if n.Domain != "" || n.ShortCode != "" || n.Tag != "" || n.Days != 0 || n.TZ != "" {
			return nil, invalid("body.public", "must be true with a link, a tag, days or tz")
		}
		v, err := a.clicks.SaveView(ctx, actorFrom(ctx), n.Name, n.Query)
		return bodyOf(viewOf(&v)), err
	}
	switch {
	case n.Query != "":
		return nil, invalid("body.query", "a public view has no filters")
	case n.Tag != "" && (n.Domain != "" || n.ShortCode != ""):
		return nil, invalid("body.tag", "a public view is of a link or of a tag")
	}
	zone, ok := waypost.LoadZone(cmp.Or(n.TZ, "UTC"))
	if !ok {
		return nil, invalid("body.tz", "must be the name of a time zone in the IANA database, such as Europe/Berlin")
	}
	v, secret, err := a.clicks.PublishView(ctx, actorFrom(ctx), n.Name, n.Domain, n.ShortCode, n.Tag,
		cmp.Or(n.Days, controlplane.DefaultDays), zone)
	shown := viewOf(&v)
	shown.Path = api.PathPublic + "/" + secret
	return bodyOf(shown), err
}

func viewOf(v *controlplane.View) api.View {
	return api.View{
		ID: v.ID, Name: v.Name, Query: v.Query, Public: v.Link != 0 || v.Tag != "", Tag: v.Tag,
		Domain: v.Host, ShortCode: string(v.Code), CreatedAt: v.CreatedAt.UTC(),
	}
}
