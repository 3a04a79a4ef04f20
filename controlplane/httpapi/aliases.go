package httpapi

import (
	"cmp"
	"context"
	"net/http"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/internal/codes"
)

type aliasesInput struct {
	Code string `path:"code" doc:"A short code of the link."`
	inDomain
}

type aliasesOutput struct{ Body api.Aliases }

type addAliasInput struct {
	aliasesInput
	waiting
	Body api.NewAlias
}

type addAliasOutput struct {
	Status int
	changeLinkOutput
}

type removeAliasInput struct {
	aliasesInput
	Alias       string `path:"alias" doc:"The short code of the alias."`
	AliasDomain string `query:"alias_domain" maxLength:"253" example:"go.example.com" doc:"Host of the alias' domain. Default: the shared default domain."`
	waiting
}

func registerAliases(rt *router, a *linksAPI) {
	const path = api.PathLinks + "/{code}/aliases"
	write := []controlplane.Scope{controlplane.ScopeLinksWrite}
	handle(rt, operation{
		id: "list-aliases", method: http.MethodGet, path: path, summary: "List the aliases of a link",
		scopes: []controlplane.Scope{controlplane.ScopeLinksRead}, problems: []int{http.StatusNotFound},
	}, a.aliases)
	has := rt.document.success(&binding{out: outputOf(typeOf[addAliasOutput]())}, http.StatusOK)
	has.Description = "The link, which has the alias already"
	handle(rt, operation{
		id: "add-alias", method: http.MethodPost, path: path, summary: "Add an alias to a link",
		description: "Up to 16 further addresses lead to one link: each change of the link, its click budget, its password and its splits are " +
			"those of all. Statistics count them together, and apart under codes. An address of the link that an operator blocks keeps it from new aliases.",
		status: http.StatusCreated, scopes: write, problems: []int{http.StatusNotFound, http.StatusConflict},
		answers: map[int]answer{http.StatusOK: has},
	}, a.addAlias)
	handle(rt, operation{
		id: "remove-alias", method: http.MethodDelete, path: path + "/{alias}", summary: "Remove an alias of a link",
		description: "The alias answers 404. Its code never names a link again, and its clicks stay among those of the link.",
		status:      http.StatusOK, scopes: write, problems: []int{http.StatusNotFound},
	}, a.removeAlias)
}

func (a *linksAPI) aliases(ctx context.Context, in *aliasesInput) (*aliasesOutput, error) {
	l, err := a.links.Read(ctx, actorFrom(ctx), in.Domain, in.Code)
	if err != nil {
		return nil, err
	}
	return &aliasesOutput{api.Aliases{Aliases: append([]api.Alias{}, a.aliasesOf(&l)...)}}, nil
}

func (a *linksAPI) addAlias(ctx context.Context, in *addAliasInput) (*addAliasOutput, error) {
	l, at, err := a.links.AddAlias(ctx, actorFrom(ctx), in.Domain, in.Code, newAliasOf(&in.Body))
	out, err := a.changed(ctx, &l, at, &in.waiting, err)
	if err != nil {
		return nil, err
	}
	if at.IsZero() {
		return &addAliasOutput{http.StatusOK, *out}, nil
	}
	return &addAliasOutput{http.StatusCreated, *out}, nil
}

func newAliasOf(n *api.NewAlias) controlplane.NewAlias {
	return controlplane.NewAlias{Domain: n.Domain, Code: n.ShortCode, Title: n.Title, Print: waypost.Print(n.Print)}
}

func (a *linksAPI) removeAlias(ctx context.Context, in *removeAliasInput) (*changeLinkOutput, error) {
	l, at, err := a.links.RemoveAlias(ctx, actorFrom(ctx), in.Domain, in.Code, in.AliasDomain, in.Alias)
	return a.changed(ctx, &l, at, &in.waiting, err)
}

// changed is the answer with a link that was changed, unless that failed.
func (a *linksAPI) changed(ctx context.Context, l *waypost.Link, at waypost.Position, w *waiting, err error) (*changeLinkOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &changeLinkOutput{ETag: etag(l)}
	a.show(&out.Body, l)
	if !at.IsZero() {
		out.Position = at.String()
		out.Body.Applied = await(ctx, a.waiter, w, at)
		out.Applied = appliedText(out.Body.Applied)
	}
	return out, nil
}

func (a *linksAPI) aliasesOf(l *waypost.Link) (shown []api.Alias) {
	for i := range l.Aliases {
		x := &l.Aliases[i]
		shown = append(shown, api.Alias{
			ShortCode: string(x.Code), ShortURL: a.urls.at(x.Host, x.Code), Domain: cmp.Or(x.Host, a.urls.host), Title: x.Title,
			Print:     api.Print(x.Print),
			CreatedAt: x.AddedAt.UTC(), Blocked: a.blocks.Of(x.Host, x.Code) != nil,
		})
	}
	return shown
}

// askedURL returns the short URL by which a request has named a link.
func (a *linksAPI) askedURL(l *waypost.Link, domain, code string) string {
	host := waypost.HostName(domain)
	for i := range l.Aliases {
		x := &l.Aliases[i]
		if codes.Fold(x.Code) == codes.Fold(codes.NormalForm(code)) && x.Code != l.Code &&
			cmp.Or(x.Host, a.urls.host) == cmp.Or(host, a.urls.host) {
			return a.urls.at(x.Host, x.Code)
		}
	}
	return a.urls.of(l)
}
