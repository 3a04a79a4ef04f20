package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waypost/internal/config"
)

// manCommand writes manual pages for packages. It is hidden, because users have the pages
// or --help.
func (p *program) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write a manual page for each command", Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			forgetDefault(c.Root(), config.DefaultDataDir(p.getenv))
			pages := manPages(c.Root())
			var err error
			for name, page := range pages {
				err = errors.Join(err, os.WriteFile(filepath.Join(args[0], name), []byte(page), 0o644))
			}
			if err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return p.print(fmt.Sprintf("wrote %d manual pages", len(pages)), map[string]int{"pages": len(pages)})
		},
	}
}

// forgetDefault removes a default that differs between users from all flags, so that
// pages do not depend on the user who builds a package.
func forgetDefault(c *cobra.Command, value string) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.DefValue == value {
			f.DefValue = ""
		}
	})
	for _, sub := range c.Commands() {
		forgetDefault(sub, value)
	}
}

// manPages returns the pages of a command and of those below it, by file name.
func manPages(c *cobra.Command) map[string]string {
	pages := map[string]string{manName(c) + ".1": manPage(c)}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			for name, page := range manPages(sub) {
				pages[name] = page
			}
		}
	}
	return pages
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage writes the help of a command in the macros of man(7).
func manPage(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s\n", roff(strings.ToUpper(manName(c))), quotedRoff("Waypost "+productVersion()))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", roff(c.UseLine()))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", roff(cmp.Or(c.Long, c.Short)))
	manFlags(&b, "OPTIONS", c.NonInheritedFlags())
	manFlags(&b, "OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	var also []string
	if c.HasParent() {
		also = append(also, manName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			also = append(also, manName(sub))
		}
	}
	for i, name := range also {
		also[i] = ".BR " + roff(name) + " (1)"
	}
	if len(also) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(also, ",\n"))
	}
	return b.String()
}

func manFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value, usage := pflag.UnquoteUsage(f)
		if value != "" {
			name += " " + value
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", roff(name), roff(usage))
	})
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`)

// roff keeps text from being read as macros, and its hyphens from becoming dashes.
func roff(text string) string {
	lines := strings.Split(roffEscapes.Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// quotedRoff makes one argument of a macro.
func quotedRoff(text string) string { return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"` }
