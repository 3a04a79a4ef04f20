package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

func (p usersCommands) inviteCommand() *cobra.Command {
	var everywhere bool
	c := &cobra.Command{
		Use:   "invite USER",
		Short: "Let a user set a new password, instead of the old one",
		Long: `Show a new invitation for a user, given by address or id, once: hand it over, and its
owner sets a password with ` + "`waypost accept`" + ` within a week. The old password is good no
longer, and all sessions of the user end; the user's API keys go on.`,
		Example: `  waypost users invite ann@example.com
  waypost users invite ann@example.com --all`,
		ValidArgsFunction: p.completions(userNames),
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			id, err := userID(ctx, server, args[0], everywhere)
			if err != nil {
				return "", nil, err
			}
			text := fmt.Sprintf("user %d, %s, may set a new password", id, args[0])
			if everywhere {
				a, err := client.Send[api.Account](ctx, server, http.MethodPost, client.Path(api.PathAllUsers, id, "invitation"), nil)
				return text + invitationText(a.Invitation), a, err
			}
			m, err := client.Send[api.Member](ctx, server, http.MethodPost, client.Path(api.PathUsers, id, "invitation"), nil)
			return text + invitationText(m.Invitation), m, err
		}),
	}
	bindEverywhere(c, &everywhere)
	return c
}

// invitationText describes the invitation of a user, if there is one.
func invitationText(i *api.Invitation) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf("\ninvitation: %s (it is not shown again; for `waypost accept`, until %s)", i.Token, i.ExpiresAt.Local().Format(time.DateTime))
}

// accountState describes whether a user can sign in, or why not.
func accountState(disabled, hasPassword bool, invitedUntil *time.Time) string {
	switch {
	case disabled:
		return "disabled"
	case invitedUntil != nil && invitedUntil.After(time.Now()):
		return "invited"
	case !hasPassword:
		return "no password"
	}
	return "active"
}

func accountTable(all []api.Account, width int) string {
	return tableOf("ID\tEMAIL\tSTATE\tLOOKED AFTER BY\tWORKSPACES\tNAME", all, width, func(a *api.Account) []any {
		in := make([]string, len(a.Workspaces))
		for j, w := range a.Workspaces {
			in[j] = w.Slug + " (" + w.Role + ")"
		}
		state := accountState(a.Disabled, a.HasPassword, a.InvitedUntil)
		return []any{a.ID, a.Email, state, cmp.Or(a.Home, "operators"), strings.Join(in, ", "), a.Name}
	})
}

func (p sessionCommands) acceptCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "accept [INVITATION]",
		Short: "Set the password of the account that one was invited to",
		Long: `Set the password of an account by the invitation that an administrator has handed over,
at the API of --api or WAYPOST_API. Without the argument, a terminal is asked for it. The
password is typed on the terminal, or comes from --password-file or standard input.`,
		Example: `  waypost accept --api https://control.example.com`,
		RunE: func(c *cobra.Command, args []string) error {
			cfg, base, server, err := p.anonymous()
			if err != nil {
				return err
			}
			defer server.Close()
			token := strings.Join(args, "")
			if token == "" {
				if token, err = p.answerOf("Invitation: "); err != nil {
					return err
				}
			}
			if token == "" {
				return &usageError{errors.New("the invitation is missing")}
			}
			word, err := p.password(file, "New password: ", true)
			if err != nil {
				return err
			}
			accepted := api.AcceptInvitation{Token: token, Password: word}
			u, err := client.Send[api.User](c.Context(), server, http.MethodPost, api.PathInvitation, accepted)
			if err != nil {
				return err
			}
			err = p.print(fmt.Sprintf("the password of %s is set: sign in with `waypost login --api %s --email %s`", printable(u.Email), base, printable(u.Email)), u)
			return errors.Join(err, p.tellWinner(c, cfg, base))
		},
	}
	c.Flags().StringVar(&file, "password-file", "", `file that holds the password, "-" for standard input`)
	return p.bind(c, apiSettings...)
}
