package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waypost/api"
	"waypost/client"
	"waypost/internal/rulefile"
)

func (p linksCommands) rulesCommand() *cobra.Command {
	var w writeFlags
	var file string
	var remove, schema bool
	c := &cobra.Command{
		Use:   "rules CODE",
		Short: "Show or set the rules of a link as a file",
		Long: `Show the rules of a link as a YAML file with comments, or set them from one. The file holds
rules, valid_from and expired_url, and the link then has these and no others. It also holds
the state of the link that it was written for: when somebody has changed the link since,
nothing is changed. Without that line the file is set in any case.

--schema prints a JSON Schema of the file, with which editors complete and check it.`,
		Example: `  waypost links rules spring-sale > rules.yaml
  waypost links rules spring-sale --set rules.yaml --wait all
  waypost links rules spring-sale --clear
  waypost links rules --schema > rules.schema.json`,
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			err := errors.Join(w.check(), oneOf(c, "set", "clear", "schema"))
			switch {
			case err != nil:
				return err
			case schema && len(args) > 0, !schema && len(args) == 0:
				return &usageError{errors.New("name a link, or give --schema")}
			case schema:
				_, err := p.stdout.Write(rulefile.Schema)
				return err
			}
			w.Domain, args[0] = linkName(w.Domain, args[0])
			if file == "" && !remove {
				return p.withAPI(func(server *client.Client) error { return p.showRules(c, server, &w, args[0]) })
			}
			var r rulesFile
			if file != "" {
				if r, err = p.readRules(c.Context(), file); err != nil {
					return err
				}
			}
			return p.withAPI(func(server *client.Client) error {
				at := w.Write
				if at.IfMatch == "" {
					at.IfMatch = r.State
				}
				link, receipt, err := server.Links.Change(c.Context(), args[0], r.Change(), at)
				if err != nil {
					return r.locate(err)
				}
				f := rulefile.Of(&link, receipt.ETag)
				return errors.Join(p.tell(&w, args[0], receipt, link.Warnings),
					p.print(numberOf(len(link.Rules), "rule", "rules")+" set", f), w.missed())
			})
		},
	}
	f := c.Flags()
	f.StringVar(&file, "set", "", "file to set the rules from, - for standard input")
	f.BoolVar(&remove, "clear", false, "remove the rules, valid_from and expired_url")
	f.BoolVar(&schema, "schema", false, "print the JSON Schema of the file")
	f.StringVar(&w.IfMatch, "if-match", "", "change only this state of the link, by its ETag (default that in the file)")
	w.bind(c, f)
	return c
}

func (p linksCommands) showRules(c *cobra.Command, server *client.Client, w *writeFlags, code string) error {
	link, etag, err := server.Links.Read(c.Context(), w.Domain, code)
	if err != nil {
		return err
	}
	f := rulefile.Of(&link, etag)
	return p.print(printableLines(string(f.Format(code))), f)
}

// printableLines is printable for several lines.
func printableLines(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// rulesFile is a file of rules as it was read.
type rulesFile struct {
	rulefile.File
	name string
	text []byte
}

// readRules reads a file of rules, - for standard input.
func (p linksCommands) readRules(ctx context.Context, name string) (r rulesFile, err error) {
	from := p.stdin
	r.name = "standard input"
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return r, err
		}
		defer file.Close()
		from, r.name = file, name
	}
	if r.text, err = io.ReadAll(io.LimitReader(from, rulefile.MaxSize+1)); err != nil {
		return r, fmt.Errorf("read %s: %w", r.name, err)
	}
	r.File, err = rulefile.Parse(r.name, r.text, func(field, day string) (time.Time, error) { return p.moment(ctx, field, day) })
	if err != nil {
		return r, &usageError{err}
	}
	return r, nil
}

// locate adds the line of the file that an error of the API is about.
func (r *rulesFile) locate(err error) error {
	if problem, ok := errors.AsType[*client.Problem](err); ok && r.text != nil {
		if line := rulefile.Where(r.text, problem.Detail); line > 0 {
			return fmt.Errorf("%s:%d: %w", r.name, line, err)
		}
	}
	return err
}

// ruleFlags are the flags of commands that create or change a link.
type ruleFlags struct {
	validFrom, expiredURL, file string

	rules rulesFile
	from  time.Time
}

func (r *ruleFlags) bind(f *pflag.FlagSet, none string) {
	f.StringVar(&r.validFrom, "valid-from", "", "from when on the link works, such as 2026-12-01T09:00:00+01:00"+none)
	f.StringVar(&r.expiredURL, "expired-url", "", "where visitors are led once the link has expired"+none)
	f.StringVar(&r.file, "rules", "", "file of rules, - for standard input; see waypost links rules")
}

func (r *ruleFlags) read(ctx context.Context, p linksCommands) (err error) {
	if r.from, err = p.moment(ctx, "--valid-from", r.validFrom); err == nil && r.file != "" {
		r.rules, err = p.readRules(ctx, r.file)
	}
	return err
}

// fill sets the fields of a new link. Flags override the file.
func (r *ruleFlags) fill(n *client.NewLink) {
	n.Rules, n.ValidFrom, n.ExpiredURL = r.rules.Rules, r.rules.ValidFrom, r.rules.ExpiredURL
	if r.validFrom != "" {
		n.ValidFrom = r.from
	}
	if r.expiredURL != "" {
		n.ExpiredURL = r.expiredURL
	}
}

// change sets the fields of a change that were given. Flags override the file.
func (r *ruleFlags) change(c *client.LinkChange, given func(string) bool) (some bool) {
	if given("rules") {
		all := r.rules.Change()
		c.Rules, c.ValidFrom, c.ExpiredURL = all.Rules, all.ValidFrom, all.ExpiredURL
	}
	if given("valid-from") {
		if c.ValidFrom = api.Set(r.from); r.validFrom == "" {
			c.ValidFrom = api.Reset[time.Time]()
		}
	}
	if given("expired-url") {
		if c.ExpiredURL = api.Set(r.expiredURL); r.expiredURL == "" {
			c.ExpiredURL = api.Reset[string]()
		}
	}
	return given("rules") || given("valid-from") || given("expired-url")
}
