package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"waypost/api"
	"waypost/client"
	"waypost/internal/config"
)

// Exit codes. A process that ends with exitUsage is not started again, so exitUsage must
// differ from 2, with which a panic and SIGQUIT end.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 64 // the command line or the configuration has to be mended; EX_USAGE of sysexits.h
)

// program is one run of the command.
type program struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	environ []string

	flags      config.Flags
	configFile string
	output     string // "text" or "json", or another format of the command
	yes        bool   // a command that confirms is not to ask
	warned     bool   // of unknown variables
}

// usageError is a mistake in the command line or the configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// run returns the exit code. A failure is one line on standard error with the remedy;
// only a mistake in a configuration file shows its place below that.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.rootCommand()
	root.SetArgs(args)
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	text, code := err.Error(), exitFailure
	usage, ok := errors.AsType[*usageError](err)
	switch {
	case ok:
		code = exitUsage
	case strings.HasPrefix(text, "unknown command "): // cobra's own, at the root
		code, usage = exitUsage, &usageError{err}
		var meant string
		text, meant, _ = strings.Cut(text, "\n")
		if _, meant, _ = strings.Cut(meant, "?"); strings.TrimSpace(meant) != "" {
			text += didYouMean(strings.Fields(meant))
		}
	default:
		text = oneLine(text)
	}
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		text = inFlags(command, text) + advice(command, problem)
	}
	if command.Name() == "help" {
		command = root
	}
	if usage != nil && !strings.Contains(text, "\n") {
		text += fmt.Sprintf(" (see `%s --help`)", command.CommandPath())
	}
	if _, err := fmt.Fprintf(p.stderr, "waypost: %s\n", text); err != nil {
		return exitFailure
	}
	return code
}

// advice returns the remedy for a refusal, for all commands that do not sign in.
func advice(c *cobra.Command, problem *client.Problem) string {
	if path := c.CommandPath(); problem.Status != http.StatusUnauthorized || path == "waypost login" || path == "waypost accept" {
		return ""
	}
	return ": run `waypost login`, or set WAYPOST_API_KEY or --api-key-file"
}

// apiName matches the names of fields in messages of the API, with their place in the
// request. A place within rules is that in a file of rules.
var apiName = regexp.MustCompile(`\bbody\.rules[\[.]\S*[^\s:]|\b(?:body|query)\.[a-z_]+|\b[a-z]+(?:_[a-z]+)+\b`)

// flagNames are the flags that have other names than the fields of the API.
var flagNames = map[string]string{
	"custom_code": "code", "redirect_status": "status", "original_url": "target", "tags": "tag",
	"expires_in_seconds": "expires-in", "expires_in_hours": "expires-in", "root_url": "root", "not_found_url": "not-found",
	"maintenance_url": "maintenance",
}

// inFlags replaces fields of the API by the flags of a command, and by words where it has
// no such flag.
func inFlags(c *cobra.Command, text string) string {
	if c.Flags().Lookup("workspace") != nil {
		text = strings.ReplaceAll(text, "the header "+api.HeaderWorkspace, "--workspace")
	}
	return apiName.ReplaceAllStringFunc(text, func(name string) string {
		if place := strings.TrimPrefix(name, "body."); strings.ContainsAny(place, "[.") && place != name {
			return place
		}
		field, inBody := strings.CutPrefix(strings.TrimPrefix(name, "query."), "body.")
		flag := cmp.Or(flagNames[field], strings.ReplaceAll(field, "_", "-"))
		switch {
		case c.Flags().Lookup(flag) != nil:
			return "--" + flag
		case flag == "target":
			return "the URL"
		case inBody:
			return "the " + strings.ReplaceAll(field, "_", " ")
		}
		return name
	})
}

// oneLine joins the lines of an error that has several causes, each once.
func oneLine(text string) string {
	var parts []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(parts, line) {
			parts = append(parts, line)
		}
	}
	return strings.ReplaceAll(strings.Join(parts, "; "), ":; ", ": ")
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "waypost",
		Short: "A link redirect platform: one control plane, many edges",
		Long: `Waypost is a link redirect platform. A control plane owns the links in PostgreSQL
and streams every change to edges, each of which answers redirects from its own
full replica.

Settings come from one YAML file (--config or WAYPOST_CONFIG), WAYPOST_* variables
over it, and flags over both. Exit codes: 0 done, 1 failed, 64 wrong usage.`,
		Example: `  waypost dev                                   everything on this machine
  waypost links create https://example.com      a first link
  waypost control --config /etc/waypost.yaml    a control plane
  waypost edge --config /etc/waypost.yaml       an edge`,
		Version:       productVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			more := c.Annotations[moreFormats]
			switch {
			case p.output == "text", p.output == "json", more != "" && slices.Contains(strings.Fields(more), p.output):
				return nil
			case more != "":
				return &usageError{fmt.Errorf("--output: %q is none of text, json, %s", p.output, strings.ReplaceAll(more, " ", ", "))}
			}
			return &usageError{fmt.Errorf("--output: %q is neither text nor json", p.output)}
		},
	}
	root.PersistentFlags().StringVar(&p.configFile, "config", "", "configuration file, YAML (WAYPOST_CONFIG)")
	root.PersistentFlags().StringVarP(&p.output, "output", "o", "text", "format of the output: text or json")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return &usageError{flagError(c, err)} })
	servers, session, clicks := serverCommands{p}, sessionCommands{p}, clicksCommands{p}
	root.AddCommand(servers.devCommand(), servers.controlCommand(), servers.edgeCommand(), servers.migrateCommand(),
		servers.backupCommand(), servers.restoreCommand(), certsCommands{p}.command(),
		linksCommands{p}.command(), importCommands{p}.command(),
		clicks.statsCommand(), clicks.command(), domainsCommands{p}.command(), edgesCommands{p}.command(),
		edgesCommands{p}.verifyCommand(), rangesCommands{p}.command(), keysCommands{p}.command(), workspacesCommands{p}.command(),
		usersCommands{p}.command(), p.auditCommand(), doctorCommands{p}.command(),
		session.loginCommand(), session.acceptCommand(), session.logoutCommand(), session.command(),
		session.whoamiCommand(), session.passwordCommand(), servers.adminCommand(), p.versionCommand(), p.manCommand())
	root.CompletionOptions.HiddenDefaultCmd = false
	polish(root)
	refuseUnknownHelp(root)
	p.completeNames(root)
	return root
}

// flagError describes the fault of a flag's value. Settings do that themselves; for
// flags of the library's kinds it is said here. An unknown flag gets the nearest one.
func flagError(c *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if nearest := config.Nearest(unknown.GetSpecifiedName(), names); nearest != "" {
			return fmt.Errorf("%w%s", err, didYouMean([]string{"--" + nearest}))
		}
		return err
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	name, value, cause := invalid.GetFlag().Name, invalid.GetValue(), invalid.Unwrap()
	switch {
	case errors.Is(cause, strconv.ErrRange):
		return fmt.Errorf("--%s: %s is out of range", name, value)
	case errors.Is(cause, strconv.ErrSyntax) && invalid.GetFlag().Value.Type() == "bool":
		return fmt.Errorf("--%s: %q is neither true nor false", name, value)
	case errors.Is(cause, strconv.ErrSyntax):
		return fmt.Errorf("--%s: %q is no whole number", name, value)
	case strings.HasPrefix(cause.Error(), "time: "):
		return fmt.Errorf("--%s: %q is no duration such as 30s, 10m or 2h", name, value)
	}
	return fmt.Errorf("--%s: %w", name, cause)
}

// refuseUnknownHelp makes help about an unknown command a wrong usage.
func refuseUnknownHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // the command was just added
	}
	show := help.Run
	help.Run = nil
	help.RunE = func(c *cobra.Command, args []string) error {
		about, rest, err := root.Find(args)
		if err == nil && about.HasSubCommands() {
			err = aCommand(about, rest)
		}
		if err == nil {
			show(c, args)
		}
		return err
	}
}

// polish sets for all commands below c the options that they share.
func polish(c *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.HasSubCommands() && !strings.Contains(sub.Use, " ") { // it takes no arguments of its own
			sub.Args, sub.SuggestionsMinimumDistance = aCommand, 2
		} else if sub.Args == nil {
			sub.Args = arguments(countOf(sub.Use))
		}
		sub.SuggestFor = alsoCalled[sub.Name()]
		// --help shows no duration of 0 as a default, because the text of the flag explains it.
		sub.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "duration" && f.DefValue == "0s" {
				f.DefValue = ""
			}
		})
		polish(sub)
	}
}

// moreFormats annotates commands that have more formats than text and json, which
// they are given by their names, with spaces between.
const moreFormats = "formats"

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(commands...)
	return c
}

// alsoCalled lists other names for the commands of a group.
var alsoCalled = map[string][]string{
	"add":    {"create", "new", "invite"},
	"create": {"add", "new", "make", "shorten"},
	"delete": {"remove", "rm", "del"},
	"get":    {"show", "view", "describe", "info"},
	"list":   {"ls", "all"},
	"remove": {"delete", "rm", "del"},
	"revoke": {"delete", "remove", "rm"},
	"search": {"find"},
	"set":    {"update", "edit", "change"},
	"show":   {"get", "list", "view"},
	"update": {"set", "edit", "change"},
}

// aCommand refuses an unknown command of a group, and lists the known ones.
func aCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	tail := ": it has " + strings.Join(names, ", ")
	if meant := c.SuggestionsFor(args[0]); len(meant) > 0 {
		tail = didYouMean(meant)
	}
	return &usageError{fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), tail)}
}

// numberOf returns a number with the word for it.
func numberOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func didYouMean(names []string) string {
	slices.Sort(names)
	return ": did you mean " + strings.Join(slices.Compact(names), " or ") + "?"
}

// countOf returns the check for as many arguments as a usage line has before its flags.
func countOf(use string) cobra.PositionalArgs {
	use, _, _ = strings.Cut(use, " --")
	words := strings.Fields(use)[1:]
	needed := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word[0] == '[' })
	switch {
	case strings.Contains(use, "..."):
		return cobra.MinimumNArgs(len(needed))
	case len(words) == 0:
		return cobra.NoArgs
	}
	return cobra.RangeArgs(len(needed), len(words))
}

// arguments makes a wrong number of arguments a wrong usage.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		err := check(c, args)
		if err == nil {
			return nil
		}
		if _, first, ok := strings.Cut(c.Use, " "); ok && len(args) == 0 {
			first, _, _ = strings.Cut(first, " ")
			err = fmt.Errorf("%s is missing", strings.TrimSuffix(first, "..."))
		} else if strings.HasPrefix(err.Error(), "accepts ") {
			_, takes, _ := strings.Cut(c.Use, " ")
			err = fmt.Errorf("%d arguments are too many, it takes %s", len(args), takes)
		}
		return &usageError{fmt.Errorf("%w: the command is `%s`", err, c.UseLine())}
	}
}

// bind adds to a command the flags of whole sections or single settings.
func (p *program) bind(c *cobra.Command, names ...string) *cobra.Command {
	p.flags.Bind(c.Flags(), p.getenv, names...)
	return c
}

// bindAll adds to the commands of a group the flags of commands that ask the API.
func (p *program) bindAll(c *cobra.Command) *cobra.Command {
	for _, sub := range c.Commands() {
		p.bind(sub, apiSettings...)
	}
	return c
}

// settings loads the configuration and lets check validate the command's part of it.
func (p *program) settings(check func(config.Config) error) (config.Config, error) {
	cfg, err := config.Load(config.Sources{File: p.configFile, Environ: p.environ, Flags: &p.flags})
	if check == nil {
		p.warnOfVariables()
		p.oneSystem(&cfg)
	} else if err == nil {
		err = check(cfg)
	}
	if err != nil {
		return config.Config{}, &usageError{err}
	}
	return cfg, nil
}

// oneSystem lets a flag that says which system is meant, --api, --data-dir or
// --database-url, go before variables and a file that say another.
func (p *program) oneSystem(cfg *config.Config) {
	api, key := p.flags.Given("client.api"), p.flags.Given("client.api_key")
	dir := p.flags.Given("dev.data_dir")
	database := p.flags.Given("control.database_url")
	if (dir || database) && !api && cfg.Client.API != "" {
		cfg.Client.API = ""
		if !key { // it is for that API
			cfg.Client.APIKey = ""
		}
	}
	if dir && !database {
		cfg.Control.DatabaseURL = ""
	}
}

// noSystem is the error where no development system runs in the directory of --data-dir,
// and nil without that flag.
func (p *program) noSystem(cfg config.Config) error {
	if !p.flags.Given("dev.data_dir") {
		return nil
	}
	dir := printable(cfg.Dev.DataDir)
	return fmt.Errorf("no development system runs in %s: start it with `waypost dev --data-dir %s`, or leave --data-dir out", dir, dir)
}

// warnOfVariables names on standard error the variables that are no settings. Nodes warn
// in their log.
func (p *program) warnOfVariables() {
	if p.warned {
		return
	}
	p.warned = true
	for _, name := range config.UnknownVariables(p.environ) {
		_, _ = fmt.Fprintf(p.stderr, "waypost: warning: unknown environment variable %s\n", name)
	}
}

// node makes the command of a long-running process out of its check and its run,
// with --check-config, which does the first only. Contents of files that may change
// while the process runs are validated by look, if it is set, for --check-config
// alone: a start that they stop is tried again.
func (p *program) node(
	c *cobra.Command, check, look func(config.Config) error, run func(context.Context, config.Config) error,
) *cobra.Command {
	checkOnly := c.Flags().Bool("check-config", false, "only say whether the configuration is right, and change nothing")
	c.Args = arguments(cobra.NoArgs)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := p.settings(check)
		if err != nil {
			return err
		}
		if *checkOnly {
			p.warnOfVariables()
			if look != nil {
				if err := look(cfg); err != nil {
					return &usageError{err}
				}
			}
			return p.print("the configuration is right", map[string]bool{"valid": true})
		}
		return run(c.Context(), cfg)
	}
	return c
}

// print writes a result in the format that was asked for.
func (p *program) print(text string, value any) error {
	if p.output == "json" {
		encoder := json.NewEncoder(p.stdout)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}
	_, err := fmt.Fprintln(p.stdout, text)
	return err
}

func (p *program) getenv(name string) string {
	for _, entry := range p.environ {
		if key, value, ok := strings.Cut(entry, "="); ok && key == name {
			return value
		}
	}
	return ""
}

// onTerminal reports whether w is one.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
