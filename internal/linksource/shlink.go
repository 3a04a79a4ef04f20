package linksource

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const shlinkPage = 500 // links

// shlinkLink is a short URL as /rest/v3 has it.
type shlinkLink struct {
	ShortCode   string
	ShortURL    string
	LongURL     string
	DateCreated string
	Tags        []string
	Title       string
	Domain      string // "": the default one
	Meta        struct {
		ValidSince string
		ValidUntil string
		MaxVisits  int64
	}
	VisitsSummary    struct{ Total int64 }
	ForwardQuery     bool
	HasRedirectRules bool
}

type shlinkRule struct {
	LongURL    string
	Priority   int
	Conditions []shlinkCondition
}

type shlinkCondition struct{ Type, MatchKey, MatchValue string }

// readShlink reads an installation of Shlink. The oldest links are first, so that links
// that are created meanwhile move no others.
func readShlink(ctx context.Context, r *reader) error {
	r.header.Set("X-Api-Key", r.Key)
	for page := 1; ; page++ {
		var got struct {
			ShortURLs struct {
				Data       []shlinkLink
				Pagination struct{ PagesCount, TotalItems int }
			}
		}
		err := r.get(ctx, "/rest/v3/short-urls", url.Values{
			"page": {strconv.Itoa(page)}, "itemsPerPage": {strconv.Itoa(shlinkPage)}, "orderBy": {"dateCreated-ASC"},
		}, &got)
		if err != nil {
			return err
		}
		links := got.ShortURLs.Data
		for i := range links {
			l := &links[i]
			rules, err := shlinkRules(ctx, r, l)
			if err != nil {
				return err
			}
			err = r.write(&link{
				OriginalURL: l.LongURL, CustomCode: l.ShortCode, Domain: l.Domain, Title: l.Title, Tags: l.Tags, CreatedAt: l.DateCreated,
				ValidFrom: l.Meta.ValidSince, ExpiresAt: l.Meta.ValidUntil, MaxClicks: l.Meta.MaxVisits, ClickCount: l.VisitsSummary.Total,
				ForwardQuery: l.ForwardQuery, Active: true, Rules: rules,
			})
			if err != nil {
				return err
			}
		}
		r.told = got.ShortURLs.Pagination.TotalItems
		if err := r.endPage(len(links)); err != nil {
			return err
		}
		if len(links) == 0 || len(links) < shlinkPage && page >= got.ShortURLs.Pagination.PagesCount {
			return nil
		}
	}
}

// shlinkRules asks for the rules of a link.
func shlinkRules(ctx context.Context, r *reader, l *shlinkLink) (rules []rule, err error) {
	if !l.HasRedirectRules {
		return nil, nil
	}
	var got struct{ RedirectRules []shlinkRule }
	query := make(url.Values)
	if l.Domain != "" {
		query.Set("domain", l.Domain)
	}
	if err := r.get(ctx, "/rest/v3/short-urls/"+url.PathEscape(l.ShortCode)+"/redirect-rules", query, &got); err != nil {
		return nil, err
	}
	slices.SortStableFunc(got.RedirectRules, func(a, b shlinkRule) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, from := range got.RedirectRules {
		to := rule{To: from.LongURL}
		for _, c := range from.Conditions {
			to.When = append(to.When, c.condition())
		}
		rules = append(rules, to)
	}
	return rules, nil
}

// condition returns the condition as rules of links have it. An unknown kind keeps its
// name, with which the import refuses the link in words.
func (c *shlinkCondition) condition() map[string]any {
	query := func(more map[string]any) map[string]any {
		more["key"] = c.MatchKey
		return map[string]any{"query": more}
	}
	switch c.Type {
	case "device":
		return map[string]any{"agent": []string{strings.ToLower(c.MatchValue)}}
	case "language":
		return map[string]any{"language": []string{c.MatchValue}}
	case "query-param":
		return query(map[string]any{"equals": c.MatchValue})
	case "any-value-query-param":
		return query(map[string]any{})
	case "valueless-query-param":
		return query(map[string]any{"empty": true})
	case "ip-address":
		return map[string]any{"address": []string{c.MatchValue}}
	case "geolocation-country-code":
		return map[string]any{"country": []string{strings.ToUpper(c.MatchValue)}}
	case "geolocation-city-name":
		return map[string]any{"city": []string{c.MatchValue}}
	case "before-date":
		return map[string]any{"until": c.MatchValue}
	case "after-date":
		return map[string]any{"from": c.MatchValue}
	}
	return map[string]any{c.Type: c.MatchValue}
}
