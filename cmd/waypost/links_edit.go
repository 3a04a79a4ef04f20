package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waypost/api"
	"waypost/client"
	"waypost/internal/config"
)

// writeFlags are the flags of all commands that change links.
type writeFlags struct {
	client.Write
	require bool              // the command fails unless all edges, or all of the region, have the change
	applied map[string]string // outcomes of waiting, by link
}

func (w *writeFlags) bind(c *cobra.Command, flags *pflag.FlagSet) {
	flags.StringVar(&w.Domain, "domain", "", "host of the link's domain (default the shared one)")
	flags.StringVar(&w.Wait, "wait", "", "wait until edges have the change: the edges of this region, or all")
	flags.Var((*config.Duration)(&w.Timeout), "wait-timeout", "for how long to wait, up to 10s (default 2s)")
	flags.BoolVar(&w.require, "require-wait", false, "exit with 1 unless every edge that may be serving, silent ones too, has the change (with --wait)")
	completeWith(c, "wait", "region", "all")
}

func (w *writeFlags) check() error {
	switch {
	case w.Wait != "" && w.Wait != "region" && w.Wait != "all":
		return &usageError{fmt.Errorf("--wait: %q is neither region nor all", w.Wait)}
	case w.Timeout != 0 && w.Wait == "":
		return &usageError{errors.New("--wait-timeout: there is nothing to wait for without --wait")}
	case w.require && w.Wait == "":
		return &usageError{errors.New("--require-wait: there is nothing to wait for without --wait")}
	case w.Timeout < 0 || w.Timeout > 10*time.Second:
		return &usageError{fmt.Errorf("--wait-timeout: %s is not between 50ms and 10s", w.Timeout)}
	}
	return nil
}

// tell reports on standard error the outcome of waiting for a change of a link, and the
// warnings.
func (p linksCommands) tell(w *writeFlags, link string, r client.Receipt, warnings []api.Warning) error {
	for _, w := range warnings {
		if _, err := fmt.Fprintf(p.stderr, "waypost: warning: %s\n", printable(w.Message)); err != nil {
			return err
		}
	}
	if r.Applied == "" {
		return nil
	}
	if w.applied == nil {
		w.applied = make(map[string]string)
	}
	w.applied[link] = r.Applied
	_, err := fmt.Fprintf(p.stderr, "waypost: %s\n", appliedText(r.Applied))
	return err
}

// missed is the error of --require-wait.
func (w *writeFlags) missed() error {
	for _, link := range slices.Sorted(maps.Keys(w.applied)) {
		if outcome, _, _ := strings.Cut(w.applied[link], ";"); w.require && outcome != "all" && outcome != "region" {
			return fmt.Errorf("%s: the change is made, and is not known to be on every edge that may be serving (%s)", printable(link), printable(w.applied[link]))
		}
	}
	return nil
}

// appliedText describes the outcome of waiting, such as "all; edges=2".
func appliedText(applied string) string {
	outcome, rest, _ := strings.Cut(applied, "; ")
	edges, _ := strings.CutPrefix(rest, "edges=")
	switch n, err := strconv.Atoi(edges); {
	case outcome == "region" && err == nil:
		return numberOf(n, "edge", "edges") + " of this region: all have the change"
	case outcome == "all" && err == nil:
		return numberOf(n, "edge", "edges") + ": all have the change"
	case outcome == "none":
		return "no edge is there to wait for"
	case outcome == "reachable":
		silent, _ := strings.CutPrefix(rest, "silent=")
		return "the change is made, and silent edges may serve without it: " + printable(strings.ReplaceAll(silent, ",", ", ")) +
			"; if one is gone for good: waypost edges gone NODE"
	}
	return "the change is made, but not all edges had it in time (" + printable(applied) + ")"
}

func (p linksCommands) createCommand() *cobra.Command {
	var l linkFlags
	var w writeFlags
	var code string
	var aliases []string
	var dedupe bool
	c := &cobra.Command{
		Use:   "create URL",
		Short: "Create a link and print its short URL",
		Long: `Create a link and print its short URL. The request carries an idempotency key, so that
it is sent again if its answer is lost, and still makes one link. With --idempotency-key you
choose the key, for scripts that may run again.`,
		Example: `  waypost links create https://example.com/a/long/path
  waypost links create https://example.com --code spring-sale --title "Spring sale" --tag sale --tag 2026
  waypost links create https://example.com --code spring-sale --alias spring-box --alias go.example.com/s
  waypost links create https://example.com --expires-in 2d --status 307
  waypost links create https://example.com/docs --code guide --forward-path --forward-query
  waypost links create https://example.com/a?utm_source=mail --dedupe --wait all
  waypost links create https://example.com/invitation --max-clicks 1 --max-clicks-mode exact
  waypost links create https://example.com --valid-from 2026-12-01T09:00:00+01:00 --rules rules.yaml`,
		RunE: func(c *cobra.Command, args []string) error {
			err := errors.Join(w.check(), oneOf(c, "expires-in", "expires-at"), notEmpty(c, "expires-at"), notEmpty(c, "valid-from"))
			if err == nil {
				err = l.read(p, c, "")
			}
			if err != nil {
				return err
			}
			return p.withAPI(func(server *client.Client) error {
				n := l.create()
				n.OriginalURL, n.CustomCode, n.Domain = args[0], code, w.Domain
				for _, a := range aliases {
					host, code := linkName("", a)
					n.Aliases = append(n.Aliases, client.NewAlias{ShortCode: code, Domain: cmp.Or(host, w.Domain)})
				}
				n.Dedupe = optional(c, "dedupe", &dedupe)
				link, receipt, err := server.Links.Make(c.Context(), n, w.Write)
				if err != nil {
					return l.rules.rules.locate(err)
				}
				if receipt.Found {
					_, err = fmt.Fprintf(p.stderr, "waypost: found: %s was there already, and is unchanged\n", printable(link.ShortURL))
				}
				return errors.Join(err, p.tell(&w, link.ShortURL, receipt, link.Warnings), p.print(link.ShortURL, link), w.missed())
			})
		},
	}
	f := c.Flags()
	f.StringVar(&code, "code", "", "code of your own instead of a generated one")
	f.StringArrayVar(&aliases, "alias", nil, "further code, or HOST/CODE, that leads to the link; may be given several times")
	f.BoolVar(&dedupe, "dedupe", false, "give the one link of the target, which may be there already (default as the workspace has it)")
	l.bind(f, false)
	f.StringVar(&w.Key, "idempotency-key", "", "name of the request: sent again within a day, it makes no second link")
	w.bind(c, f)
	return c
}

func (p linksCommands) updateCommand() *cobra.Command {
	var l linkFlags
	var w writeFlags
	var target string
	c := &cobra.Command{
		Use:   "update CODE",
		Short: "Change a link",
		Long: `Change a link: what is not given stays as it is. A link that has expired lives again with
a later expiry, until it is cleaned up.`,
		Example: `  waypost links update spring-sale --target https://example.com/summer
  waypost links update spring-sale --never-expires --tag summer --tag 2026
  waypost links update spring-sale --disable --wait all`,
		RunE: func(c *cobra.Command, args []string) error {
			err := errors.Join(w.check(), oneOf(c, "enable", "disable"), oneOf(c, "tag", "no-tags"),
				oneOf(c, "expires-in", "expires-at", "never-expires"), oneOf(c, "max-clicks", "no-max-clicks"),
				oneOf(c, "password-stdin", "no-password"))
			if err == nil {
				err = l.read(p, c, ": --no-tags takes all away")
			}
			if err != nil {
				return err
			}
			var change client.LinkChange
			some := l.change(&change, c.Flags().Changed)
			if c.Flags().Changed("target") {
				change.OriginalURL, some = api.Set(target), true
			}
			on := func(flag string) bool { return c.Flags().Lookup(flag).Value.String() == "true" }
			some = setAll(on, map[string]func(){
				"no-tags":       func() { change.Tags = api.Reset[[]string]() },
				"never-expires": func() { change.ExpiresAt = api.Reset[time.Time]() },
				"no-max-clicks": func() { change.MaxClicks = api.Reset[int64]() },
				"no-password":   func() { change.Password = api.Reset[string]() },
				"enable":        func() { change.Active = api.Set(true) },
				"disable":       func() { change.Active = api.Set(false) },
			}) || some
			if !some {
				return &usageError{errors.New("nothing to change: name a field, for example --target URL")}
			}
			return p.withAPI(func(server *client.Client) error {
				var code string
				w.Domain, code = linkName(w.Domain, args[0])
				if w.IfMatch == "" {
					w.IfMatch = l.rules.rules.State
				}
				link, receipt, err := server.Links.Change(c.Context(), code, change, w.Write)
				if err != nil {
					return l.rules.rules.locate(err)
				}
				return errors.Join(p.tell(&w, code, receipt, link.Warnings), p.print(describe(link), link), w.missed())
			})
		},
	}
	f := c.Flags()
	f.StringVar(&target, "target", "", "the new target")
	f.Bool("no-tags", false, "take all tags away")
	f.Bool("never-expires", false, "let the link live forever")
	f.Bool("no-max-clicks", false, "lead visitors to the target without a limit")
	f.Bool("enable", false, "let a disabled link redirect again")
	f.Bool("disable", false, "let the link answer 410 until it is enabled")
	f.Bool("no-password", false, "let visitors follow the link without a password")
	l.bind(f, true)
	f.StringVar(&w.IfMatch, "if-match", "", "change only this state of the link, by its ETag")
	w.bind(c, f)
	return c
}

func (p linksCommands) getCommand() *cobra.Command {
	var domain string
	c := &cobra.Command{
		Use:     "get CODE",
		Short:   "Show a link",
		Example: `  waypost links get spring-sale --output json`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			host, code := linkName(domain, args[0])
			link, err := server.Links.Find(ctx, host, code)
			return describe(link), link, err
		}),
	}
	c.Flags().StringVar(&domain, "domain", "", "host of the link's domain (default the shared one)")
	return c
}

func (p linksCommands) deleteCommand() *cobra.Command {
	var w writeFlags
	c := &cobra.Command{
		Use:   "delete CODE...",
		Short: "Delete links, which can be restored for 30 days",
		Long: `Delete links. Edges then answer 410, and the codes name no other link, ever. For 30 days
"waypost links restore" undoes it. On a terminal the command asks; elsewhere it needs --yes.`,
		Example: `  waypost links delete spring-sale
  waypost links delete spring-sale summer-sale --yes --wait all`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			question := fmt.Sprintf("Delete %s? For 30 days it can be undone. Type y to go on: ", printable(strings.Join(args, ", ")))
			if err := p.confirm(question, "y"); err != nil {
				return err
			}
			return p.each(args, "delete", "deleted", &w, func(server *client.Client, code string, at client.Write) (client.Receipt, error) {
				return server.Links.Remove(c.Context(), code, at)
			})
		},
	}
	c.Flags().BoolVar(&p.yes, "yes", false, "do not ask")
	w.bind(c, c.Flags())
	return c
}

func (p linksCommands) restoreCommand() *cobra.Command {
	var w writeFlags
	c := &cobra.Command{
		Use:   "restore CODE...",
		Short: "Restore links that were deleted in the last 30 days",
		Long: `Restore links that were deleted in the last 30 days, with all their fields and clicks. A
link that has expired is not restored, and neither is one with a target that is no longer
allowed.`,
		Example: `  waypost links restore spring-sale
  waypost links restore spring-sale summer-sale --wait all`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			return p.each(args, "restore", "restored", &w, func(server *client.Client, code string, at client.Write) (client.Receipt, error) {
				_, receipt, err := server.Links.Restore(c.Context(), code, at)
				return receipt, err
			})
		},
	}
	w.bind(c, c.Flags())
	return c
}

// each does something to every one of the links, also behind one for which the API
// refuses it. Done is the past of do.
func (p linksCommands) each(links []string, do, done string, w *writeFlags,
	one func(server *client.Client, code string, at client.Write) (client.Receipt, error),
) error {
	return p.withAPI(func(server *client.Client) error {
		did, failed := []string{}, []error(nil)
		for _, link := range links {
			at := w.Write
			var code string
			at.Domain, code = linkName(w.Domain, link)
			receipt, err := one(server, code, at)
			if err = errors.Join(err, p.tell(w, link, receipt, nil)); err == nil {
				did = append(did, link)
				continue
			}
			failed = append(failed, fmt.Errorf("%s %s: %w", do, printable(link), err))
			if _, refused := errors.AsType[*client.Problem](err); !refused {
				break
			}
		}
		if len(did) > 0 || p.output == "json" {
			shown := map[string]any{done: did}
			if w.applied != nil {
				shown["applied"] = w.applied
			}
			failed = append(failed, p.print(done+" "+strings.Join(did, ", "), shown))
		}
		return errors.Join(append(failed, w.missed())...)
	})
}

// checkTags refuses an empty tag. Instead is the advice behind the message.
func checkTags(tags []string, instead string) error {
	if slices.Contains(tags, "") {
		return &usageError{errors.New("--tag: a tag is empty" + instead)}
	}
	return nil
}

// checkClicks refuses a budget without clicks, which a new link would not have at all.
func checkClicks(c *cobra.Command, most int64) error {
	if c.Flags().Changed("max-clicks") && most < 1 {
		return &usageError{fmt.Errorf("--max-clicks: %d is less than 1", most)}
	}
	return nil
}

// oneOf refuses flags that contradict one another.
func oneOf(c *cobra.Command, flags ...string) error {
	var given []string
	for _, flag := range flags {
		if c.Flags().Changed(flag) {
			given = append(given, "--"+flag)
		}
	}
	if len(given) > 1 {
		return &usageError{fmt.Errorf("%s contradict one another", strings.Join(given, " and "))}
	}
	return nil
}

// notEmpty refuses a flag with nothing in it, as a variable of a shell that was not set
// leaves it: a link without the limit would be made.
func notEmpty(c *cobra.Command, flag string) error {
	if f := c.Flags().Lookup(flag); f.Changed && f.Value.String() == "" {
		return &usageError{fmt.Errorf("--%s is empty: leave it out for none", flag)}
	}
	return nil
}

// moment reads the time of a flag, or of a field of a file. Empty text is the zero time.
// For a day, moment asks the API for the workspace's time zone, and reports the time on
// standard error.
func (p linksCommands) moment(ctx context.Context, flag, text string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	zone := time.UTC
	if api.IsDay(text) {
		if zone, err = p.zone(ctx); err != nil {
			return at, err
		}
	}
	if at, err = api.ParseMoment(text, zone, flag == "--expires-at" || flag == "until"); err != nil {
		return at, &usageError{fmt.Errorf("%s: %w", flag, err)}
	}
	if api.IsDay(text) {
		_, err = fmt.Fprintf(p.stderr, "waypost: %s %s is %s (%s)\n", flag, text, at.In(zone).Format(time.RFC3339), zone)
	}
	return at, err
}

// zone asks for the time zone of the workspace.
func (p linksCommands) zone(ctx context.Context) (zone *time.Location, err error) {
	zone = time.UTC
	err = p.withAPI(func(server *client.Client) error {
		me, err := client.Get[api.Me](ctx, server, api.PathMe)
		if err == nil && me.Workspace != nil {
			zone, err = time.LoadLocation(me.Workspace.TimeZone)
		}
		return err
	})
	return zone, err
}

// jsonObject reads a JSON object, or null.
func jsonObject(flag, text string) (json.RawMessage, error) {
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, &usageError{fmt.Errorf("%s: this is no JSON object: %w", flag, err)}
	}
	return json.RawMessage(text), nil
}
