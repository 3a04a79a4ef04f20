package main

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

// linkName returns the host of a link's domain, "" for the shared one, and its code. An
// argument is a code, or a short URL as people paste it; its host counts unless a flag
// names the domain.
func linkName(domain, argument string) (host, code string) {
	host, u := pastedURL(argument)
	if u == nil {
		return domain, strings.TrimSuffix(argument, "+")
	}
	return cmp.Or(domain, host), strings.TrimSuffix(strings.Trim(u.Path, "/"), "+")
}

// askedPath returns the same host, and the path that a visitor asks for, with its query.
func askedPath(domain, argument string) (host, path string) {
	host, u := pastedURL(argument)
	if u == nil {
		return domain, strings.TrimPrefix(argument, "/")
	}
	return cmp.Or(domain, host), strings.TrimPrefix(u.RequestURI(), "/")
}

// pastedURL reads a short URL, with its scheme or without. It returns nil for a code,
// which may have slashes, and for what the API refuses.
func pastedURL(argument string) (host string, u *url.URL) {
	first, _, slash := strings.Cut(argument, "/")
	if !slash || first != "localhost" && !strings.ContainsAny(first, ".:") {
		return "", nil
	}
	text := argument
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "", nil
	}
	if host = u.Hostname(); host == "localhost" { // another name of a development system
		host = ""
	}
	return host, u
}

// namesOf returns the names of what was listed.
func namesOf[T any](all []T, name func(*T) string) []string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = name(&all[i])
	}
	return names
}

// linkCodes, tagNames, domainHosts and edgeNames complete words for the shell.

func linkCodes(ctx context.Context, server *client.Client) ([]string, error) {
	page, err := server.Links.List(ctx, 1000, "")
	return namesOf(page.Links, func(l *client.Link) string { return l.ShortCode }), err
}

func tagNames(ctx context.Context, server *client.Client) ([]string, error) {
	tags, _, err := server.Links.Tags(ctx, "", "", 1000)
	return namesOf(tags, func(t *api.TagCount) string { return t.Tag }), err
}

func domainHosts(ctx context.Context, server *client.Client) ([]string, error) {
	domains, err := listDomains(ctx, server, false)
	return namesOf(domains, func(d *api.Domain) string { return d.Host }), err
}

func edgeNames(ctx context.Context, server *client.Client) ([]string, error) {
	edges, err := server.Edges.List(ctx)
	return namesOf(edges, func(e *client.Edge) string { return e.Node }), err
}

// completeNames lets the shell complete arguments and flags of a command and of those
// below it with names that the API knows.
func (p *program) completeNames(c *cobra.Command) {
	if c.ValidArgsFunction == nil && !c.HasSubCommands() {
		_, argument, _ := strings.Cut(c.Use, " ")
		switch argument, _, _ = strings.Cut(argument, " "); argument {
		case "CODE", "CODE...":
			c.ValidArgsFunction = p.completions(linkCodes)
		case "DOMAIN":
			c.ValidArgsFunction = p.completions(domainHosts)
		case "NODE":
			c.ValidArgsFunction = p.completions(edgeNames)
		case "FILE", "[FILE|-]": // the shell's own completion of files
		default:
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	for flag, names := range map[string]func(context.Context, *client.Client) ([]string, error){
		"domain": domainHosts, "edge": edgeNames, "tag": tagNames,
	} {
		if _, there := c.GetFlagCompletionFunc(flag); c.Flags().Lookup(flag) != nil && !there {
			_ = c.RegisterFlagCompletionFunc(flag, p.completions(names)) // the flag is there
		}
	}
	for _, sub := range c.Commands() {
		p.completeNames(sub)
	}
}
