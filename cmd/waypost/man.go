package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"waypost/internal/config"
)

// manCommand writes manual pages for packages. It is hidden, because users have the pages
// or --help.
func (p *program) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write a manual page for each command", Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			prepareManual(c.Root(), config.DefaultDataDir(p.getenv))
			header := &doc.GenManHeader{Section: "1", Source: "Waypost " + productVersion()}
			if err := doc.GenManTree(c.Root(), header, args[0]); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "*.1"))
			if err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return p.print(fmt.Sprintf("wrote %d manual pages", len(pages)), map[string]int{"pages": len(pages)})
		},
	}
}

// prepareManual keeps the lines of descriptions as they are. It removes a default that
// differs between users from all flags, so that all users build the same pages.
func prepareManual(c *cobra.Command, value string) {
	c.DisableAutoGenTag = true
	if c.Long != "" {
		c.Long = "```\n" + c.Long + "\n```"
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.DefValue == value {
			f.DefValue = ""
		}
	})
	for _, sub := range c.Commands() {
		prepareManual(sub, value)
	}
}
