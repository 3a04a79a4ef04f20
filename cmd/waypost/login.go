package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/api"
	"waypost/client"
	"waypost/internal/config"
	"waypost/internal/credentials"
	"waypost/internal/dev"
)

// sessionCommands makes the commands for logins.
type sessionCommands struct{ *program }

// anonymous returns a client without credentials for the server that commands use.
func (p sessionCommands) anonymous() (cfg config.Config, base string, server *client.Client, err error) {
	if cfg, err = p.settings(nil); err != nil {
		return cfg, "", nil, err
	}
	if base, _, err = p.server(cfg); err != nil {
		return cfg, "", nil, err
	}
	if server, err = newClient(base, ""); err != nil {
		return cfg, "", nil, &usageError{err}
	}
	return cfg, base, server, nil
}

// tellWinner reports on standard error the credential that commands prefer to a login at
// base, if there is something.
func (p sessionCommands) tellWinner(c *cobra.Command, cfg config.Config, base string) error {
	state, err := dev.ReadState(cfg.Dev.DataDir)
	running := err == nil
	var what string
	switch {
	case cfg.Client.APIKey != "":
		what = "commands use the API key that they are given (WAYPOST_API_KEY, WAYPOST_API_KEY_FILE, --api-key-file or the configuration file), and the session only without it"
	case cfg.Client.API == "" && running && state.APIKey != "":
		what = fmt.Sprintf("commands use the API key of the development system in %s, and the session only with --api %s or WAYPOST_API=%s", cfg.Dev.DataDir, base, base)
	case c.Flags().Changed("api") && p.getenv("WAYPOST_API") != cfg.Client.API && running:
		what = fmt.Sprintf("commands without --api go to the development system in %s, and use the session only with --api %s or WAYPOST_API=%s", cfg.Dev.DataDir, base, base)
	default:
		return nil
	}
	_, err = fmt.Fprintf(p.stderr, "waypost: %s: see `waypost whoami`\n", printable(what))
	return err
}

func (p sessionCommands) loginCommand() *cobra.Command {
	var email, file, code string
	c := &cobra.Command{
		Use:   "login",
		Short: "Sign in to a server, and keep the session for the commands after",
		Long: `Sign in to the API of --api or WAYPOST_API, or else to the development system that
runs in --data-dir, and keep the session below ~/.config/waypost (XDG_CONFIG_HOME), which
only this user can read. Commands use it for that server unless they are given an API key,
which this command reports; without --api they use the server of the last login.
A session ends after twelve hours without use.

The password is typed on the terminal, or comes from --password-file or standard
input. A user with a second factor is asked for a code as well, unless --code has it.
A user of several workspaces chooses one with --workspace.`,
		Example: `  waypost login --api https://control.example.com --email ann@example.com
  waypost login --api https://control.example.com --email ann@example.com --workspace marketing --password-file pass.txt`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, base, server, err := p.anonymous()
			if err != nil {
				return err
			}
			defer server.Close()
			place, err := credentials.File(p.getenv)
			if err != nil {
				return err
			}
			if email == "" {
				if email, err = p.answerOf("E-mail address: "); err != nil {
					return err
				}
			}
			if email == "" {
				return &usageError{errors.New("--email is missing: it says who signs in")}
			}
			word, err := p.password(file, "Password: ", false)
			if err != nil {
				return err
			}
			signIn := func() (api.Session, error) {
				n := api.SignIn{Email: email, Password: word, Code: code}
				return client.Send[api.Session](c.Context(), server, http.MethodPost, api.PathSession, n)
			}
			in, err := signIn()
			if refused, ok := errors.AsType[*client.Problem](err); ok && refused.Type == waypost.ProblemType(waypost.ESecondFactor) && code == "" {
				if code, err = p.answerOf("Code of the second factor: "); err == nil && code == "" {
					err = &usageError{errors.New("--code is missing: the user has a second factor")}
				}
				if err == nil {
					in, err = signIn()
				}
			}
			if refused, ok := errors.AsType[*client.Problem](err); ok && refused.Status == http.StatusUnauthorized {
				return fmt.Errorf("%s does not let you in: %s", base, refused.Detail)
			}
			if err != nil {
				return err
			}
			workspace, err := chooseWorkspace(cfg.Client.Workspace, in.Workspaces)
			if err != nil {
				return errors.Join(err, signOut(c, base, in.Token))
			}
			err = credentials.Change(place, func(s *credentials.Store) {
				s.Current = credentials.Server(base)
				s.Servers[s.Current] = credentials.Login{Token: in.Token, Email: in.User.Email, Workspace: workspace, ExpiresAt: in.ExpiresAt}
			})
			if err != nil {
				return errors.Join(err, signOut(c, base, in.Token))
			}
			text := fmt.Sprintf("signed in to %s as %s", base, printable(in.User.Email))
			if workspace != "" {
				text += ", in the workspace " + workspace
			}
			err = p.print(text, map[string]any{
				"server": base, "user": in.User, "workspace": workspace, "workspaces": in.Workspaces, "expires_at": in.ExpiresAt,
			})
			return errors.Join(err, p.tellWinner(c, cfg, base))
		},
	}
	c.Flags().StringVar(&email, "email", "", "address to sign in with")
	c.Flags().StringVar(&file, "password-file", "", `file that holds the password, "-" for standard input`)
	c.Flags().StringVar(&code, "code", "", "code of the second factor, or a recovery code")
	return p.bind(c, apiSettings...)
}

// chooseWorkspace sees that the one that was asked for is there, and that one was
// where there are several.
func chooseWorkspace(asked string, in []api.Affiliation) (string, error) {
	var slugs []string
	for _, a := range in {
		if a.Slug == asked || asked == "" && len(in) == 1 {
			return a.Slug, nil
		}
		slugs = append(slugs, a.Slug)
	}
	if asked == "" {
		return "", fmt.Errorf("you are in several workspaces: name one with --workspace: %s", strings.Join(slugs, ", "))
	}
	return "", fmt.Errorf("you are not in a workspace %q; you are in %s", asked, strings.Join(slugs, ", "))
}

// signOut ends a session that is of no use.
func signOut(c *cobra.Command, base, token string) error {
	server, err := newClient(base, token)
	if err != nil {
		return err
	}
	defer server.Close()
	return server.Delete(c.Context(), api.PathSession)
}

func (p sessionCommands) logoutCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "logout",
		Short: "End the session that `waypost login` began",
		Example: `  waypost logout
  waypost logout --api https://control.example.com`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := p.settings(nil)
			if err != nil {
				return err
			}
			base, _, err := p.server(cfg)
			if err != nil {
				return err
			}
			login, found, err := p.login(base)
			if err != nil {
				return err
			}
			if !found {
				return fmt.Errorf("there is no login at %s", base)
			}
			// An error about a session that has ended is no reason to keep the session.
			ended := signOut(c, base, login.Token)
			if refused, ok := errors.AsType[*client.Problem](ended); ok && refused.Status == http.StatusUnauthorized {
				ended = nil
			}
			place, err := credentials.File(p.getenv)
			if err != nil {
				return err
			}
			err = credentials.Change(place, func(s *credentials.Store) {
				delete(s.Servers, credentials.Server(base))
				if s.Current == credentials.Server(base) {
					s.Current = ""
				}
			})
			if err != nil {
				return err
			}
			if ended != nil {
				return fmt.Errorf("the session is forgotten here, but %s did not end it; it ends after twelve hours without use: %w", base, ended)
			}
			return p.print("signed out of "+base, map[string]string{"server": base})
		},
	}
	return p.bind(c, apiSettings...)
}

func (p sessionCommands) whoamiCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "whoami",
		Short:   "Show who the commands act as, where, and with which rights",
		Example: `  waypost whoami --output json`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			me, err := client.Get[api.Me](ctx, server, api.PathMe)
			return whoText(server.Base(), &me), me, err
		}),
	}
	return p.bind(c, apiSettings...)
}

func whoText(base string, me *api.Me) string {
	who := "anonymous: no key is needed here"
	switch {
	case me.User != nil && me.Key != nil:
		who = fmt.Sprintf("API key %s (%d) of %s", me.Key.Name, me.Key.ID, me.User.Email)
	case me.User != nil:
		who = fmt.Sprintf("%s (%s)", me.User.Email, me.User.Name)
	case me.Key != nil:
		who = fmt.Sprintf("API key %s (%d)", me.Key.Name, me.Key.ID)
	}
	where := "none: name one with --workspace"
	if me.Workspace != nil {
		where = me.Workspace.Slug
		if me.Workspace.Role != "" {
			where += " as " + me.Workspace.Role
		}
	}
	text := fmt.Sprintf("server     %s\nyou are    %s\nworkspace  %s\nmay        %s",
		base, printable(who), printable(where), cmp.Or(strings.Join(me.Scopes, ", "), "-"))
	var others []string
	for _, a := range me.Workspaces {
		others = append(others, fmt.Sprintf("%s (%s)", a.Slug, a.Role))
	}
	if len(others) > 1 {
		text += "\nis in      " + printable(strings.Join(others, ", "))
	}
	return text
}

func (p sessionCommands) passwordCommand() *cobra.Command {
	var current, file string
	c := &cobra.Command{
		Use:   "password",
		Short: "Change the own password",
		Long: `Change the password of who has signed in with ` + "`waypost login`" + `. All other sessions end.
Both are typed on the terminal, or come from files.`,
		Example: `  waypost password
  waypost password --current-password-file old.txt --password-file new.txt`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !p.interactive() && (current == "" || file == "") {
				return &usageError{errors.New("without a terminal, give --current-password-file and --password-file")}
			}
			old, err := p.password(current, "Present password: ", false)
			if err != nil {
				return err
			}
			word, err := p.password(file, "New password: ", true)
			if err != nil {
				return err
			}
			return p.withAPI(func(server *client.Client) error {
				change := api.MeChange{CurrentPassword: old, Password: &word}
				if _, err := client.Send[api.Me](c.Context(), server, http.MethodPatch, api.PathMe, change); err != nil {
					return err
				}
				return p.print("the password is changed, and all other sessions have ended", map[string]bool{"changed": true})
			})
		},
	}
	c.Flags().StringVar(&current, "current-password-file", "", "file that holds the present password")
	c.Flags().StringVar(&file, "password-file", "", "file that holds the new password")
	return p.bind(c, apiSettings...)
}
