package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waypost/api"
	"waypost/api/linkfields"
	"waypost/client"
	"waypost/internal/config"
)

// linkFlags are the fields of a link, for commands that create or change one.
type linkFlags struct {
	link                client.NewLink // its fields as package linkfields lists them, besides the others below
	metadata, expiresAt string
	expires             config.Duration
	passwordStdin       bool
	rules               ruleFlags
}

// bind adds the flags. Some say more when they change a link.
func (l *linkFlags) bind(f *pflag.FlagSet, changes bool) {
	changed := func(more string) string {
		if changes {
			return more
		}
		return ""
	}
	for field := range linkfields.Flagged {
		usage := field.Usage + changed(field.Changing)
		switch to := field.New(&l.link).(type) {
		case *string:
			f.StringVar(to, field.Flag, "", usage)
		case *[]string:
			f.StringArrayVar(to, field.Flag, nil, usage)
		case *int:
			f.IntVar(to, field.Flag, 0, usage)
		case *int64:
			f.Int64Var(to, field.Flag, 0, usage)
		case *bool:
			f.BoolVar(to, field.Flag, false, usage)
		}
	}
	f.StringVar(&l.metadata, "metadata", "", "JSON object to keep with the link"+changed(", in the place of the old one; null for none"))
	f.Var(&l.expires, "expires-in", "time from now until the link expires, such as 12h, 30d or 52w")
	f.StringVar(&l.expiresAt, "expires-at", "", "when the link expires, such as 2030-12-31T23:59:59Z, or a day: its end in the workspace's time zone")
	f.BoolVar(&l.passwordStdin, "password-stdin", false, "read a password that visitors must give from standard input")
	l.rules.bind(f, changed(`; "" for none`))
}

// read checks the flags, and reads the files that they name. NoTags is the advice on an
// empty tag.
func (l *linkFlags) read(p linksCommands, c *cobra.Command, noTags string) error {
	given := c.Flags().Changed
	if given("expires-in") && time.Duration(l.expires) < time.Second {
		return &usageError{fmt.Errorf("--expires-in: %s is less than a second", &l.expires)}
	}
	err := errors.Join(checkClicks(c, l.link.MaxClicks), checkTags(l.link.Tags, noTags))
	if err == nil {
		l.link.ExpiresAt, err = p.moment(c.Context(), "--expires-at", l.expiresAt)
	}
	if err == nil && given("metadata") {
		l.link.Metadata, err = jsonObject("--metadata", l.metadata)
	}
	if err == nil {
		err = l.rules.read(c.Context(), p)
	}
	if err == nil && l.passwordStdin {
		l.link.Password, err = p.password("-", "", false)
	}
	return err
}

// create returns a new link with the fields.
func (l *linkFlags) create() client.NewLink {
	n := l.link
	n.ExpiresInSeconds = l.expiresIn()
	l.rules.fill(&n)
	return n
}

// change sets the fields of a change that were given, and reports whether there are some.
func (l *linkFlags) change(change *client.LinkChange, given func(string) bool) bool {
	some := l.rules.change(change, given) || l.passwordStdin
	if l.passwordStdin {
		change.Password = api.Set(l.link.Password)
	}
	for field := range linkfields.Flagged {
		if given(field.Flag) {
			changeField(field.Change(change), field.New(&l.link))
			some = true
		}
	}
	return setAll(given, map[string]func(){
		"metadata":   func() { change.Metadata = api.Set(l.link.Metadata) },
		"expires-in": func() { change.ExpiresInSeconds = api.Set(l.expiresIn()) },
		"expires-at": func() { change.ExpiresAt = api.Set(l.link.ExpiresAt) },
	}) || some
}

// changeField sets a field of a change to the value that it has in a new link.
func changeField(field, value any) {
	switch to := field.(type) {
	case *api.Field[string]:
		*to = api.Set(*value.(*string))
	case *api.Field[[]string]:
		*to = api.Set(*value.(*[]string))
	case *api.Field[int]:
		*to = api.Set(*value.(*int))
	case *api.Field[int64]:
		*to = api.Set(*value.(*int64))
	case *api.Field[bool]:
		*to = api.Set(*value.(*bool))
	}
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
