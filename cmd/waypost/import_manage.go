package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

func (p importCommands) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the imports of the workspace, newest first",
		RunE: p.asking(func(ctx context.Context, c *client.Client, _ []string) (string, any, error) {
			all, err := c.Imports.List(ctx)
			return importTable(all, p.width()), api.ImportList{Imports: all}, err
		}),
	}
}

func (p importCommands) getCommand() *cobra.Command {
	i := importing{given: func(string) bool { return false }}
	c := &cobra.Command{
		Use:     "get ID",
		Short:   "Show an import: how its file is understood, and its counts",
		Example: "  waypost import get 7f3kq2 --report refused.csv",
		RunE: func(c *cobra.Command, args []string) error {
			return p.watch(&i, func(w *importWatch) error {
				im, err := w.api.Imports.Find(c.Context(), args[0])
				if err == nil && i.report != "" {
					err = w.writeRefused(c.Context(), im.ID, 0)
				}
				if err != nil {
					return err
				}
				return p.print(importText(&im, p.width()), im)
			})
		},
	}
	c.Flags().StringVar(&i.report, "report", "", "write the refused rows to this file, to be mended and imported")
	return c
}

func (p importCommands) resumeCommand() *cobra.Command {
	var i importing
	c := &cobra.Command{
		Use:   "resume ID",
		Short: "Go on with an import that was stopped, or show one that runs",
		RunE: func(c *cobra.Command, args []string) error {
			if err := i.check(c); err != nil {
				return err
			}
			return p.watch(&i, func(w *importWatch) error {
				im, err := persist(c.Context(), func() (client.Import, error) { return w.api.Imports.Find(c.Context(), args[0]) })
				if err != nil {
					return err
				}
				return w.finish(c.Context(), im)
			})
		},
	}
	i.bind(c)
	i.bindNotations(c)
	return c
}

func (p importCommands) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop ID",
		Short: "Stop an import, so that it can be resumed or undone",
		RunE: p.asking(func(ctx context.Context, c *client.Client, args []string) (string, any, error) {
			im, err := c.Imports.Stop(ctx, args[0])
			return fmt.Sprintf("the import stops: `waypost import resume %s` goes on", args[0]), im, err
		}),
	}
}

func (p importCommands) undoCommand() *cobra.Command {
	i := importing{given: func(string) bool { return false }}
	return &cobra.Command{
		Use:   "undo ID",
		Short: "Delete the links that an import has created, unless they were changed since",
		RunE: func(c *cobra.Command, args []string) error {
			return p.watch(&i, func(w *importWatch) error {
				im, err := w.api.Imports.Undo(c.Context(), args[0])
				if err == nil {
					im, err = w.await(c.Context(), im, api.ImportUndoing)
				}
				if err != nil {
					return err
				}
				w.lines.finish()
				return p.print(undoText(&im), im)
			})
		},
	}
}

func (p importCommands) deleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "delete ID",
		Short: "Delete an import and its rows, but not its links",
		RunE: p.asking(func(ctx context.Context, c *client.Client, args []string) (string, any, error) {
			return "deleted the import " + args[0] + "; its links stay", map[string]string{"deleted": args[0]}, c.Imports.Remove(ctx, args[0])
		}),
	}
}
