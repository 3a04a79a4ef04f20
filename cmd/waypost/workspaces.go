package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

// workspacesCommands makes the commands for workspaces.
type workspacesCommands struct{ *program }

func (p workspacesCommands) command() *cobra.Command {
	c := group("workspaces", "Show and change workspaces", p.showCommand(), p.listCommand(), p.createCommand(),
		p.setCommand(), p.deleteCommand())
	c.Long = `Show and change the own workspace, as its administrator, or, as an operator, any:
operators are the administrators of the workspace "default". It asks the API as
` + "`waypost links`" + ` does.`
	return p.bindAll(c)
}

func (p workspacesCommands) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Show the workspace that commands act in",
		Example: `  waypost workspaces show --output json`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			w, err := client.Get[api.Workspace](ctx, server, api.PathWorkspace)
			return workspaceTable([]api.Workspace{w}, p.width()), w, err
		}),
	}
}

func (p workspacesCommands) listCommand() *cobra.Command {
	var page pageFlags
	return page.bind(&cobra.Command{
		Use:     "list",
		Short:   "List all workspaces, for operators",
		Example: `  waypost workspaces list`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			all, err := client.Get[api.WorkspacePage](ctx, server, api.PathAllWorkspaces+page.query())
			return workspaceTable(all.Workspaces, p.width()) + page.more(all.Next), all, err
		}),
	})
}

func workspaceTable(all []api.Workspace, width int) string {
	return tableOf("ID\tSLUG\tSTATE\tDEDUPE\tEVENTS\tUTM\tTIME ZONE\tCREATED\tNAME", all, width, func(s *api.Workspace) []any {
		events := s.Settings.Events
		if events == "sampled" {
			events = fmt.Sprintf("1 of %d", s.Settings.EventsSample)
		}
		yes := map[bool]string{true: "yes", false: "no"}
		return []any{
			s.ID, s.Slug, s.State, yes[s.Settings.Dedupe], events, yes[s.Settings.UTM], s.Settings.TimeZone,
			s.CreatedAt.Local().Format(time.DateOnly), s.Name,
		}
	})
}

func (p workspacesCommands) createCommand() *cobra.Command {
	var name, admin string
	c := &cobra.Command{
		Use:   "create SLUG",
		Short: "Make a workspace, for operators",
		Long: `Make a workspace. With --admin it gets an administrator, for whom an invitation is
shown, once, unless the address has an account that operators look after.`,
		Example: `  waypost workspaces create marketing --name "Marketing" --admin ann@example.com`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			w, err := client.Send[api.Workspace](ctx, server, http.MethodPost, api.PathAllWorkspaces, api.NewWorkspace{Slug: args[0], Name: name})
			if err != nil {
				return "", nil, err
			}
			text, value := fmt.Sprintf("workspace %d, %s", w.ID, w.Slug), map[string]any{"workspace": w}
			if admin != "" {
				path, first := client.Path(api.PathAllWorkspaces, w.ID, "users"), api.NewMember{Email: admin, Role: "admin"}
				m, err := client.Send[api.Member](ctx, server, http.MethodPost, path, first)
				if err != nil {
					return "", nil, fmt.Errorf("the workspace %s is there, but has no administrator: %w: try `waypost users add %s --role admin --to %s`", w.Slug, err, admin, w.Slug)
				}
				value["admin"] = m
				text += "\nadministrator: " + printable(m.Email)
				text += invitationText(m.Invitation)
			}
			return text, value, nil
		}),
	}
	c.Flags().StringVar(&name, "name", "", "name, for people; default: the slug")
	c.Flags().StringVar(&admin, "admin", "", "address of its first administrator")
	return c
}

func (p workspacesCommands) setCommand() *cobra.Command {
	var name, events, zone string
	var dedupe, utm bool
	var sample int
	var change api.WorkspaceChange
	c := &cobra.Command{
		Use:   "set [WORKSPACE]",
		Short: "Change the own workspace's name and settings, or, for operators, any",
		Example: `  waypost workspaces set --dedupe --events sampled --events-sample 50
  waypost workspaces set marketing --name "Marketing, EMEA"`,
		ValidArgsFunction: p.completions(workspaceNames),
		PreRunE: func(c *cobra.Command, _ []string) error {
			change.Name = optional(c, "name", &name)
			settings := api.SettingsChange{
				Dedupe: optional(c, "dedupe", &dedupe), UTM: optional(c, "utm", &utm), TimeZone: optional(c, "time-zone", &zone),
				Events: optional(c, "events", &events), EventsSample: optional(c, "events-sample", &sample),
			}
			if settings != (api.SettingsChange{}) {
				change.Settings = &settings
			}
			if change == (api.WorkspaceChange{}) {
				return &usageError{errors.New("nothing to change: give --name, --dedupe, --events, --events-sample, --utm or --time-zone")}
			}
			return nil
		},
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (text string, value any, err error) {
			path := api.PathWorkspace
			if len(args) > 0 {
				id, err := workspaceID(ctx, server, args[0])
				if err != nil {
					return "", nil, err
				}
				path = client.Path(api.PathAllWorkspaces, id)
			}
			w, err := client.Send[api.Workspace](ctx, server, http.MethodPatch, path, change)
			return workspaceTable([]api.Workspace{w}, p.width()), w, err
		}),
	}
	c.Flags().StringVar(&name, "name", "", "name, for people")
	c.Flags().BoolVar(&dedupe, "dedupe", false, "reuse the link of the same URL; --dedupe=false: make a new one every time")
	c.Flags().StringVar(&events, "events", "", "which clicks are kept one by one: off, sampled or all")
	c.Flags().BoolVar(&utm, "utm", false, "count clicks by the utm parameters of the request")
	c.Flags().StringVar(&zone, "time-zone", "", "time zone of days without a time, such as Europe/Berlin")
	c.Flags().IntVar(&sample, "events-sample", 0, "keep one click in this many, when events are sampled")
	return c
}

func (p workspacesCommands) deleteCommand() *cobra.Command {
	return p.confirming(&cobra.Command{
		Use:   "delete WORKSPACE",
		Short: "Delete a workspace and all its links, for operators",
		Long: `Delete a workspace: its keys and sessions end at once, and all its links answer 410 on
every edge as soon as they have become tombstones, a thousand at a time. It cannot be
undone. On a terminal it asks for the slug; elsewhere it needs --yes.`,
		Example:           `  waypost workspaces delete marketing --yes`,
		ValidArgsFunction: p.completions(workspaceNames),
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			id, err := workspaceID(ctx, server, args[0])
			if err != nil {
				return "", nil, err
			}
			w, err := client.Send[api.Workspace](ctx, server, http.MethodDelete, client.Path(api.PathAllWorkspaces, id), nil)
			return fmt.Sprintf("workspace %s is %s", w.Slug, w.State), w, err
		}),
	}, func(args []string) (question, answer string) {
		return fmt.Sprintf("All links of %s stop for good. Type its name to go on: ", args[0]), args[0]
	})
}

// workspaceID finds a workspace by its slug, or else takes a number for the id itself.
func workspaceID(ctx context.Context, server *client.Client, name string) (int64, error) {
	var id int64
	err := everyPage(ctx, server, api.PathAllWorkspaces, func(page *api.WorkspacePage) string {
		for i := range page.Workspaces {
			if page.Workspaces[i].Slug == name {
				id = page.Workspaces[i].ID
				return ""
			}
		}
		return page.Next
	})
	if err != nil || id != 0 {
		return id, err
	}
	if id, err := strconv.ParseInt(name, 10, 64); err == nil {
		return id, nil
	}
	return 0, fmt.Errorf("there is no workspace %q: see `waypost workspaces list`", name)
}

func workspaceNames(ctx context.Context, server *client.Client) ([]string, error) {
	page, err := client.Get[api.WorkspacePage](ctx, server, api.PathAllWorkspaces+largestPage)
	return namesOf(page.Workspaces, func(w *api.Workspace) string { return w.Slug }), err
}
