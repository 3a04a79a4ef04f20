package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"waypost/api"
	"waypost/controlplane"
)

// linkFilter narrows lists and exports.
type linkFilter struct {
	Words         string    `query:"q" maxLength:"256" doc:"Words of the title and description: all of them, \"a phrase\", this or that, -not that. Matched as whole words, in any case."`
	Search        string    `query:"search" maxLength:"256" doc:"Text that is being typed: links whose titles, descriptions or tags have words that begin with each of its words, or whose code, host or URL begins with it. Case counts for codes and tags only. Words of one or two characters are matched as a whole, and codes from three characters on."`
	Tags          []string  `query:"tag" maxItems:"8" minLength:"1" maxLength:"64" doc:"A tag of the links. Given several times: all of them."`
	Domain        string    `query:"domain" maxLength:"253" doc:"Host of the links' domain."`
	Active        string    `query:"active" enum:"true,false" doc:"Active or inactive links."`
	Expired       string    `query:"expired" enum:"true,false" doc:"Links that have expired, or have not."`
	CreatedAfter  time.Time `query:"created_after" doc:"Links created at this time or later (RFC 3339)."`
	CreatedBefore time.Time `query:"created_before" doc:"Links created before this time."`
	ExpiresBefore time.Time `query:"expires_before" doc:"Links that expire before this time. With expired=false: those that expire from now until then."`
}

func (f *linkFilter) filter() controlplane.LinkFilter {
	return controlplane.LinkFilter{
		Words: f.Words, Typed: strings.TrimSpace(f.Search), Tags: f.Tags, Domain: f.Domain, Active: truth(f.Active), Expired: truth(f.Expired),
		CreatedAfter: f.CreatedAfter, CreatedBefore: f.CreatedBefore, ExpiresBefore: f.ExpiresBefore,
	}
}

// truth reads "true" or "false"; nil for "".
func truth(s string) *bool { return known(s == "true", s != "") }

type listInput struct {
	linkFilter
	Deleted string `query:"deleted" enum:"true,false" default:"false" doc:"Deleted links that can be restored, instead of the others: the newest deletion first, without filters or another order."`
	Sort    string `query:"sort" enum:"-created,created,-clicks,clicks" default:"-created" doc:"By creation or clicks, ascending or, with a minus sign, descending. Clicks of the last seconds may not have moved a link yet."`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"How many links at most."`
	Cursor  string `query:"cursor" maxLength:"256" doc:"The next_cursor of the previous page, with the same filters and order. Default: the first page."`
}

type tagsInput struct {
	Prefix string `query:"prefix" maxLength:"64" doc:"Common prefix of the tags."`
	After  string `query:"after" maxLength:"64" doc:"The next_after of the previous page."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"How many tags at most."`
}

func registerListing(rt *router, a *linksAPI) {
	read := []controlplane.Scope{controlplane.ScopeLinksRead}
	handle(rt, operation{
		id: "list-links", method: http.MethodGet, path: api.PathLinks, summary: "List and search links",
		description: "There is no total, because counting would read every link.", scopes: read,
	}, a.list)
	handle(rt, operation{
		id: "list-tags", method: http.MethodGet, path: api.PathTags, summary: "List tags and how many links have them", scopes: read,
	}, a.tags)
}

func (a *linksAPI) list(ctx context.Context, in *listInput) (*body[api.LinkPage], error) {
	r := controlplane.ListRequest{LinkFilter: in.filter(), Order: controlplane.Order(in.Sort), Limit: in.Limit, Cursor: in.Cursor}
	if in.Deleted == "true" {
		if r.Order != controlplane.NewestFirst {
			return nil, invalid("query.sort", "deleted links have no other order")
		}
		r.Order = controlplane.NewestDeleted
	}
	page, err := a.links.List(ctx, actorFrom(ctx), r)
	if err != nil {
		return nil, err
	}
	shown := make([]api.Link, len(page.Links))
	for i := range page.Links {
		a.show(&shown[i], &page.Links[i])
	}
	return bodyOf(api.LinkPage{Links: shown, Next: page.Next}), nil
}

func (a *linksAPI) tags(ctx context.Context, in *tagsInput) (*body[api.TagPage], error) {
	tags, next, err := a.links.Tags(ctx, actorFrom(ctx), in.Prefix, in.After, in.Limit)
	return answered(api.TagPage{Tags: filled(tags), Next: next}, err)
}
