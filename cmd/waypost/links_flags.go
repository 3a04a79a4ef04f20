package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waypost/api"
	"waypost/client"
	"waypost/internal/config"
)

// linkFlags are the fields of a link, for commands that create or change one.
type linkFlags struct {
	title, description, metadata, expiresAt string
	maxClicksMode, exhausted                string
	tags                                    []string
	expires                                 config.Duration
	status                                  int
	maxClicks                               int64
	forwardQuery, forwardPath               bool
	passwordStdin                           bool
	rules                                   ruleFlags

	expiry   time.Time
	object   json.RawMessage // metadata
	password string
}

// bind adds the flags. Some say more when they change a link.
func (l *linkFlags) bind(f *pflag.FlagSet, changes bool) {
	changed := func(more string) string {
		if changes {
			return more
		}
		return ""
	}
	none := changed(`; "" for none`)
	f.StringVar(&l.title, "title", "", "title, for people"+none)
	f.StringVar(&l.description, "description", "", "description, for people"+none)
	f.StringArrayVar(&l.tags, "tag", nil, "tag"+changed(", in the place of those that are there")+"; may be given several times")
	f.StringVar(&l.metadata, "metadata", "", "JSON object to keep with the link"+changed(", in the place of the old one; null for none"))
	f.Var(&l.expires, "expires-in", "time from now until the link expires, such as 12h, 30d or 52w")
	f.StringVar(&l.expiresAt, "expires-at", "", "when the link expires, such as 2030-12-31T23:59:59Z, or a day: when that begins in UTC")
	f.IntVar(&l.status, "status", 0, "status of the redirect: 301, 302, 307 or 308; a new link has 302 without it")
	f.BoolVar(&l.forwardQuery, "forward-query", false, "add the query that a visitor brings to the target's"+changed(", or --forward-query=false"))
	f.BoolVar(&l.forwardPath, "forward-path", false, "add what follows the code in the path to the target's"+changed(", or --forward-path=false"))
	f.Int64Var(&l.maxClicks, "max-clicks", 0, "how often visitors are led to the target, in all"+changed(", with the clicks that there are already"))
	f.StringVar(&l.maxClicksMode, "max-clicks-mode", "", "how strictly: exact or eventual; a new link is eventual without it")
	f.StringVar(&l.exhausted, "exhausted-url", "", "where visitors are led once --max-clicks is used up"+none)
	f.BoolVar(&l.passwordStdin, "password-stdin", false, "read a password that visitors must give from standard input")
	l.rules.bind(f, none)
}

// read checks the flags, and reads the files that they name. NoTags is the advice on an
// empty tag.
func (l *linkFlags) read(p linksCommands, c *cobra.Command, noTags string) error {
	given := c.Flags().Changed
	if given("expires-in") && time.Duration(l.expires) < time.Second {
		return &usageError{fmt.Errorf("--expires-in: %s is less than a second", &l.expires)}
	}
	err := errors.Join(checkClicks(c, l.maxClicks), checkTags(l.tags, noTags))
	if err == nil {
		l.expiry, err = moment("--expires-at", l.expiresAt)
	}
	if err == nil && given("metadata") {
		l.object, err = jsonObject("--metadata", l.metadata)
	}
	if err == nil {
		err = l.rules.read(p)
	}
	if err == nil && l.passwordStdin {
		l.password, err = p.password("-", "", false)
	}
	return err
}

// create returns a new link with the fields.
func (l *linkFlags) create() client.NewLink {
	n := client.NewLink{
		Title: l.title, Description: l.description, Tags: l.tags, Metadata: l.object, RedirectStatus: l.status,
		ExpiresInSeconds: l.expiresIn(), ExpiresAt: l.expiry, ForwardQuery: l.forwardQuery, ForwardPath: l.forwardPath,
		MaxClicks: l.maxClicks, MaxClicksMode: l.maxClicksMode, ExhaustedURL: l.exhausted, Password: l.password,
	}
	l.rules.fill(&n)
	return n
}

// change sets the fields of a change that were given, and reports whether there are some.
func (l *linkFlags) change(change *client.LinkChange, given func(string) bool) bool {
	some := l.rules.change(change, given) || l.passwordStdin
	if l.passwordStdin {
		change.Password = api.Set(l.password)
	}
	return setAll(given, map[string]func(){
		"title":           func() { change.Title = api.Set(l.title) },
		"description":     func() { change.Description = api.Set(l.description) },
		"tag":             func() { change.Tags = api.Set(l.tags) },
		"metadata":        func() { change.Metadata = api.Set(l.object) },
		"status":          func() { change.RedirectStatus = api.Set(l.status) },
		"forward-query":   func() { change.ForwardQuery = api.Set(l.forwardQuery) },
		"forward-path":    func() { change.ForwardPath = api.Set(l.forwardPath) },
		"expires-in":      func() { change.ExpiresInSeconds = api.Set(l.expiresIn()) },
		"expires-at":      func() { change.ExpiresAt = api.Set(l.expiry) },
		"max-clicks":      func() { change.MaxClicks = api.Set(l.maxClicks) },
		"max-clicks-mode": func() { change.MaxClicksMode = api.Set(l.maxClicksMode) },
		"exhausted-url":   func() { change.ExhaustedURL = api.Set(l.exhausted) },
	}) || some
}

// expiresIn returns the time until the link expires in seconds; 0: not given.
func (l *linkFlags) expiresIn() int64 { return int64(time.Duration(l.expires) / time.Second) }

// setAll calls the functions of the flags that are given, and reports whether there are
// some.
func setAll(given func(string) bool, functions map[string]func()) (some bool) {
	for flag, set := range functions {
		if given(flag) {
			set()
			some = true
		}
	}
	return some
}
