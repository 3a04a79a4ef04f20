package linksource

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const shlinkPage = 500 // links

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
				Data       []link
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
		for _, l := range links {
			if err := addShlinkRules(ctx, r, l); err != nil {
				return err
			}
		}
		r.told = got.ShortURLs.Pagination.TotalItems
		if err := r.writePage(links); err != nil {
			return err
		}
		if len(links) == 0 || len(links) < shlinkPage && page >= got.ShortURLs.Pagination.PagesCount {
			return nil
		}
	}
}

// addShlinkRules asks for the rules of a link, and adds them as an import reads them.
func addShlinkRules(ctx context.Context, r *reader, l link) error {
	if string(l["hasRedirectRules"]) != "true" {
		return nil
	}
	var code, domain string
	if err := errors.Join(json.Unmarshal(l["shortCode"], &code), json.Unmarshal(l["domain"], &domain)); err != nil {
		return fmt.Errorf("a link has no shortCode or domain: %w", err)
	}
	query := make(url.Values)
	if domain != "" {
		query.Set("domain", domain)
	}
	var got struct{ RedirectRules []shlinkRule }
	if err := r.get(ctx, "/rest/v3/short-urls/"+url.PathEscape(code)+"/redirect-rules", query, &got); err != nil {
		return err
	}
	slices.SortStableFunc(got.RedirectRules, func(a, b shlinkRule) int { return cmp.Compare(a.Priority, b.Priority) })
	var rules []map[string]any
	for _, from := range got.RedirectRules {
		when := make([]map[string]any, len(from.Conditions))
		for i := range when {
			when[i] = from.Conditions[i].condition()
		}
		rules = append(rules, map[string]any{"to": from.LongURL, "when": when})
	}
	text, err := json.Marshal(rules)
	l["rules"] = text
	return err
}

// condition returns the condition as rules of links have it. An unknown kind keeps its
// name, with which the import refuses the link in words.
func (c *shlinkCondition) condition() map[string]any {
	one := []string{c.MatchValue}
	switch c.Type {
	case "device":
		return map[string]any{"agent": []string{strings.ToLower(c.MatchValue)}}
	case "language":
		return map[string]any{"language": one}
	case "query-param":
		return map[string]any{"query": map[string]any{"key": c.MatchKey, "equals": c.MatchValue}}
	case "any-value-query-param":
		return map[string]any{"query": map[string]any{"key": c.MatchKey}}
	case "valueless-query-param":
		return map[string]any{"query": map[string]any{"key": c.MatchKey, "empty": true}}
	case "ip-address":
		return map[string]any{"address": one}
	case "geolocation-country-code":
		return map[string]any{"country": []string{strings.ToUpper(c.MatchValue)}}
	case "geolocation-city-name":
		return map[string]any{"city": one}
	case "before-date":
		return map[string]any{"until": c.MatchValue}
	case "after-date":
		return map[string]any{"from": c.MatchValue}
	}
	return map[string]any{c.Type: c.MatchValue}
}
