package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost/controlplane"
)

// LinkLister lists what is there.
type LinkLister interface {
	// List gives a page of the actor's links. A cursor that List did not give is
	// EMalformed; one of a list with other filters is EInvalid, and so is a filter that
	// breaks a rule. A page may be short, or empty, and yet not the last.
	List(ctx context.Context, actor controlplane.Actor, r controlplane.ListRequest) (controlplane.Page, error)

	// Tags gives the tags of the actor's links, in the order of their bytes, and the
	// one to go on after.
	Tags(ctx context.Context, actor controlplane.Actor, prefix, after string, limit int) (tags []controlplane.TagCount, next string, err error)
}

// Narrowing is what lists and exports are narrowed by. Its name is exported for huma, which passes over embedded fields
// that are not.
type Narrowing struct {
	Words         string    `query:"q" maxLength:"256" doc:"Words of the title and description, as people search: all of them, \"a phrase\", this or that, -not that. Case does not matter; words are matched as a whole."`
	Tags          []string  `query:"tag,explode" maxItems:"8" minLength:"1" maxLength:"64" doc:"A tag that the links have. Given several times: all of them."`
	Domain        string    `query:"domain" maxLength:"253" doc:"The host that the links are of."`
	Active        string    `query:"active" enum:"true,false" doc:"Links that are enabled, or disabled."`
	Expired       string    `query:"expired" enum:"true,false" doc:"Links that have expired, or have not."`
	CreatedAfter  time.Time `query:"created_after" doc:"Links created at this moment or later (RFC 3339)."`
	CreatedBefore time.Time `query:"created_before" doc:"Links created before this moment."`
}

func (f *Narrowing) filter() controlplane.LinkFilter {
	return controlplane.LinkFilter{
		Words: f.Words, Tags: f.Tags, Domain: f.Domain, Active: truth(f.Active), Expired: truth(f.Expired),
		CreatedAfter: f.CreatedAfter, CreatedBefore: f.CreatedBefore,
	}
}

// truth is what a parameter says, nil when it is left out.
func truth(s string) *bool {
	if s == "" {
		return nil
	}
	is := s == "true"
	return &is
}

type listInput struct {
	Narrowing
	Sort   string `query:"sort" enum:"-created,created,-clicks,clicks" default:"-created" doc:"By creation or clicks, ascending or, with a minus sign, descending. Clicks of the last seconds may not have moved a link yet."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"How many links at most."`
	Cursor string `query:"cursor" maxLength:"256" doc:"The next_cursor of the page before, with the same filters and order. Left out: the first page."`
}

type listOutput struct{ Body linkPage }

type linkPage struct {
	URLs       []link `json:"urls" nullable:"false" doc:"In the order asked for. Can be fewer than the limit, or none, on a page that is not the last: a filter that fits few links is answered in parts."`
	NextCursor string `json:"next_cursor" doc:"Empty on the last page."`
}

type tagsInput struct {
	Prefix string `query:"prefix" maxLength:"64" doc:"What the tags begin with."`
	After  string `query:"after" maxLength:"64" doc:"The next_after of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"How many tags at most."`
}

type tagsOutput struct{ Body tagPage }

type tagPage struct {
	Tags      []tagCount `json:"tags" nullable:"false" doc:"In the order of their bytes."`
	NextAfter string     `json:"next_after" doc:"Empty on the last page."`
}

type tagCount struct {
	Tag   string `json:"tag"`
	Links int64  `json:"links" minimum:"1" doc:"How many links have it; deleted ones do not count."`
}

func (s *server) registerListing() {
	handle(s, huma.Operation{
		OperationID: "list-links",
		Method:      http.MethodGet,
		Path:        linksPath,
		Summary:     "List and search links",
		Description: "There is no total: counting takes a look at every link.",
		Security:    s.needs(controlplane.ScopeLinksRead),
		Responses:   problems(400, 401, 403, 422),
	}, s.list)

	handle(s, huma.Operation{
		OperationID: "list-tags",
		Method:      http.MethodGet,
		Path:        "/api/v1/tags",
		Summary:     "List tags and how many links have them",
		Security:    s.needs(controlplane.ScopeLinksRead),
		Responses:   problems(401, 403, 422),
	}, s.tags)
}

func (s *server) list(ctx context.Context, in *listInput) (*listOutput, error) {
	page, err := s.links.List(ctx, actorFrom(ctx), controlplane.ListRequest{
		LinkFilter: in.filter(), Order: controlplane.Order(in.Sort), Limit: in.Limit, Cursor: in.Cursor,
	})
	if err != nil {
		return nil, err
	}
	out := &listOutput{Body: linkPage{URLs: make([]link, len(page.Links)), NextCursor: page.Next}}
	for i := range page.Links {
		out.Body.URLs[i] = s.show(&page.Links[i])
	}
	return out, nil
}

func (s *server) tags(ctx context.Context, in *tagsInput) (*tagsOutput, error) {
	tags, next, err := s.links.Tags(ctx, actorFrom(ctx), in.Prefix, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &tagsOutput{Body: tagPage{Tags: make([]tagCount, len(tags)), NextAfter: next}}
	for i, t := range tags {
		out.Body.Tags[i] = tagCount{Tag: t.Tag, Links: t.Links}
	}
	return out, nil
}
