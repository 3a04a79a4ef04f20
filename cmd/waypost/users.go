package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

// usersCommands makes the commands for users.
type usersCommands struct{ *program }

func (p usersCommands) command() *cobra.Command {
	c := group("users", "Manage the users of a workspace", p.listCommand(), p.addCommand(), p.setCommand(),
		p.inviteCommand(), p.resetFactorCommand(), p.removeCommand())
	c.Long = `Manage who may sign in to a workspace, and as what: a viewer reads, a member also
creates and changes links, an admin does all. It needs the scope admin, and asks the
API as ` + "`waypost links`" + ` does. With --all, operators list, change and invite the users
of all workspaces.`
	return p.bindAll(c)
}

func (p usersCommands) listCommand() *cobra.Command {
	var page pageFlags
	var everywhere bool
	c := page.bind(&cobra.Command{
		Use:   "list",
		Short: "List the users of the workspace",
		Example: `  waypost users list
  waypost users list --workspace marketing --output json
  waypost users list --all`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			if everywhere {
				all, err := client.Get[api.AccountPage](ctx, server, api.PathAllUsers+page.query())
				return accountTable(all.Users, p.width()) + page.more(all.Next), all, err
			}
			all, err := client.Get[api.MemberPage](ctx, server, api.PathUsers+page.query())
			return userTable(all.Users, p.width()) + page.more(all.Next), all, err
		}),
	})
	bindEverywhere(c, &everywhere)
	return c
}

func bindEverywhere(c *cobra.Command, everywhere *bool) {
	c.Flags().BoolVar(everywhere, "all", false, "users of all workspaces, for operators")
}

// pageFlags say which page of a list is wanted.
type pageFlags struct {
	limit  int
	cursor string
}

func (f *pageFlags) bind(c *cobra.Command) *cobra.Command {
	c.PreRunE = func(*cobra.Command, []string) error {
		if f.limit < 1 || f.limit > 1000 {
			return &usageError{fmt.Errorf("--limit: %d is not between 1 and 1000; list the rest with --cursor", f.limit)}
		}
		return nil
	}
	c.Flags().IntVar(&f.limit, "limit", 50, "how many at most, up to 1000")
	c.Flags().StringVar(&f.cursor, "cursor", "", "where the page before ended")
	return c
}

// query returns the parameters of the page.
func (f *pageFlags) query() string {
	return client.Query(map[string]string{"limit": strconv.Itoa(f.limit), "cursor": f.cursor})
}

// more points to the next page below a page that is not the last.
func (f *pageFlags) more(next string) string {
	if next == "" {
		return ""
	}
	return "\nmore with --cursor " + printable(next)
}

// largestPage is the query of a page as large as the API has one.
const largestPage = "?limit=1000"

// everyPage asks for the pages of a list, until visit returns "" in the place of the next
// cursor.
func everyPage[T any](ctx context.Context, server *client.Client, path string, visit func(page *T) (next string)) error {
	for cursor := ""; ; {
		page, err := client.Get[T](ctx, server, path+client.Query(map[string]string{"limit": "1000", "cursor": cursor}))
		if err != nil {
			return err
		}
		if cursor = visit(&page); cursor == "" {
			return nil
		}
	}
}

func userTable(users []api.Member, width int) string {
	return tableOf("ID\tEMAIL\tROLE\tSTATE\tSINCE\tNAME", users, width, func(u *api.Member) []any {
		state := accountState(u.Disabled, u.HasPassword, u.InvitedUntil)
		if u.Shared {
			state += ", shared"
		}
		return []any{u.ID, u.Email, u.Role, state, u.CreatedAt.Local().Format(time.DateOnly), u.Name}
	})
}

func (p usersCommands) addCommand() *cobra.Command {
	var n api.NewMember
	var file, to string
	c := &cobra.Command{
		Use:   "add EMAIL",
		Short: "Make a user of the workspace",
		Long: `Make a user of the workspace, and show an invitation, once: hand it to the user, who
sets a password with ` + "`waypost accept`" + ` within a week.

Operators put a user into any workspace with --to, also one who has an account, and may
choose the password with --password-file.`,
		Example: `  waypost users add ann@example.com --role member
  waypost users add ann@example.com --role admin --to marketing`,
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			n.Email = args[0]
			if file != "" {
				n.Password, err = p.password(file, "", false)
			}
			return err
		},
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (_ string, _ any, err error) {
			var m api.Member
			if to == "" {
				m, err = client.Send[api.Member](ctx, server, http.MethodPost, api.PathUsers, n)
			} else {
				var id int64
				if id, err = workspaceID(ctx, server, to); err == nil {
					m, err = client.Send[api.Member](ctx, server, http.MethodPost, client.Path(api.PathAllWorkspaces, id, "users"), n)
				}
			}
			if err != nil {
				return "", nil, thereAlready(ctx, server, to, n, err)
			}
			text := fmt.Sprintf("user %d, %s, has the role %s", m.ID, printable(m.Email), m.Role)
			return text + invitationText(m.Invitation), m, nil
		}),
	}
	c.Flags().StringVar(&n.Role, "role", "member", "admin, member or viewer")
	c.Flags().StringVar(&n.Name, "name", "", "name, for people; default: the address")
	c.Flags().StringVar(&file, "password-file", "", `file that holds the password, "-" for standard input; for operators`)
	c.Flags().StringVar(&to, "to", "", "any workspace, by slug or id, for operators")
	completeWith(c, "role", "admin", "member", "viewer")
	return c
}

// thereAlready says how to go on when a user who is to be added is in the workspace.
func thereAlready(ctx context.Context, server *client.Client, to string, n api.NewMember, err error) error {
	if bad, ok := errors.AsType[*client.Problem](err); !ok || bad.Status != http.StatusConflict || to != "" {
		return err
	}
	if _, unknown := userID(ctx, server, n.Email, false); unknown != nil {
		return err
	}
	return fmt.Errorf("%[1]s is in the workspace already: `waypost users set %[1]s --role %[2]s` changes the role", printable(n.Email), n.Role)
}

func (p usersCommands) setCommand() *cobra.Command {
	var role, name, file string
	var disable, enable, everywhere bool
	var change api.MemberChange
	c := &cobra.Command{
		Use:   "set USER",
		Short: "Change a user's role or name, or disable the account",
		Long: `Change a user, given by address or id. A new password, or --disable, ends the user's
sessions; keys of who is disabled cannot be used until the account is enabled again.
Accounts that are in several workspaces are changed by operators only, except the role,
and passwords are chosen by operators only: see ` + "`waypost users invite`" + `.`,
		Example: `  waypost users set ann@example.com --role viewer
  waypost users set 7 --disable
  waypost users set ann@example.com --all --disable`,
		ValidArgsFunction: p.completions(userNames),
		PreRunE: func(c *cobra.Command, _ []string) error {
			if disable && enable {
				return &usageError{errors.New("give --disable or --enable, not both")}
			}
			if disable || enable {
				change.Disabled = &disable
			}
			change.Role, change.Name = optional(c, "role", &role), optional(c, "name", &name)
			if file != "" {
				word, err := p.password(file, "", false)
				if err != nil {
					return err
				}
				change.Password = &word
			}
			if change == (api.MemberChange{}) {
				return &usageError{errors.New("nothing to change: give --role, --name, --password-file, --disable or --enable")}
			}
			if everywhere && change.Role != nil {
				return &usageError{errors.New("--role is that in one workspace: leave out --all")}
			}
			return nil
		},
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			id, err := userID(ctx, server, args[0], everywhere)
			if err != nil {
				return "", nil, err
			}
			if everywhere {
				a, err := client.Send[api.Account](ctx, server, http.MethodPatch, client.Path(api.PathAllUsers, id), change.AccountChange)
				return accountTable([]api.Account{a}, p.width()), a, err
			}
			m, err := client.Send[api.Member](ctx, server, http.MethodPatch, client.Path(api.PathUsers, id), change)
			return userTable([]api.Member{m}, p.width()), m, err
		}),
	}
	c.Flags().StringVar(&role, "role", "", "admin, member or viewer")
	c.Flags().StringVar(&name, "name", "", "name, for people")
	c.Flags().StringVar(&file, "password-file", "", `file that holds a new password, "-" for standard input; for operators`)
	c.Flags().BoolVar(&disable, "disable", false, "lock the user out")
	c.Flags().BoolVar(&enable, "enable", false, "let the user in again")
	bindEverywhere(c, &everywhere)
	completeWith(c, "role", "admin", "member", "viewer")
	return c
}

func (p usersCommands) resetFactorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reset-second-factor USER",
		Short: "Turn off the second factor of a user who has lost it, for operators",
		Example: `  waypost users reset-second-factor ann@example.com
  waypost users reset-second-factor 7`,
		ValidArgsFunction: p.completions(userNames),
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			id, err := userID(ctx, server, args[0], true)
			if err != nil {
				return "", nil, err
			}
			a, err := client.Send[api.Account](ctx, server, http.MethodDelete, client.Path(api.PathAllUsers, id, "second-factor"), nil)
			return fmt.Sprintf("user %d, %s, signs in without a second factor", a.ID, printable(a.Email)), a, err
		}),
	}
}

func (p usersCommands) removeCommand() *cobra.Command {
	return p.confirming(&cobra.Command{
		Use:   "remove USER...",
		Short: "Take users out of the workspace, with their keys",
		Long: `Take users out of the workspace. Their keys are revoked, and an account that is in no other
workspace ends. On a terminal it asks; elsewhere it needs --yes.`,
		Example: `  waypost users remove ann@example.com
  waypost users remove ann@example.com --yes`,
		ValidArgsFunction: p.completions(userNames),
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			for i, name := range args {
				id, err := userID(ctx, server, name, false)
				if err == nil {
					err = server.Delete(ctx, client.Path(api.PathUsers, id))
				}
				if err != nil {
					return "", nil, fmt.Errorf("remove %s: %w (removed before: %d of %d)", name, err, i, len(args))
				}
			}
			return "removed " + strings.Join(args, ", "), map[string][]string{"removed": args}, nil
		}),
	}, func(args []string) (question, answer string) {
		question = "Take " + printable(strings.Join(args, ", ")) + " out of the workspace, with all keys? Type y to go on: "
		return question, "y"
	})
}

// userID finds a user by address, or takes a number for the id itself.
func userID(ctx context.Context, server *client.Client, name string, everywhere bool) (id int64, err error) {
	if name == "" { // would find the first account of all
		return 0, &usageError{errors.New("USER is empty: an address or an id is needed")}
	}
	if id, err := strconv.ParseInt(name, 10, 64); err == nil {
		return id, nil
	}
	if everywhere {
		path := api.PathAllUsers + client.Query(map[string]string{"email": name, "limit": "1"})
		found, err := client.Get[api.AccountPage](ctx, server, path)
		if err == nil && (len(found.Users) == 0 || !strings.EqualFold(found.Users[0].Email, name)) {
			err = fmt.Errorf("there is no user %q in any workspace", name)
		}
		if err != nil {
			return 0, err
		}
		return found.Users[0].ID, nil
	}
	err = everyPage(ctx, server, api.PathUsers, func(page *api.MemberPage) string {
		for i := range page.Users {
			if strings.EqualFold(page.Users[i].Email, name) {
				id = page.Users[i].ID
				return ""
			}
		}
		return page.Next
	})
	if err == nil && id == 0 {
		err = fmt.Errorf("there is no user %q here: see `waypost users list`, or add one with `waypost users add`", name)
	}
	return id, err
}

func userNames(ctx context.Context, server *client.Client) ([]string, error) {
	page, err := client.Get[api.MemberPage](ctx, server, api.PathUsers+largestPage)
	return namesOf(page.Users, func(u *api.Member) string { return u.Email }), err
}
