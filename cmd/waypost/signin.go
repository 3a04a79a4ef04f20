package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/internal/config"
	"waypost/internal/dev"
)

// maxSignInLink bounds the validity of a sign-in link.
const maxSignInLink = 24 * time.Hour

func (p serverCommands) adminSignInCommand() *cobra.Command {
	var email string
	valid := controlplane.SignInLinkFor
	c := &cobra.Command{
		Use:   "sign-in",
		Short: "Make a link that signs a user in to the console, once",
		Long: `Make a link that signs a user in to the console, once, directly in the control plane's
database: for an operator who has lost the password. A second factor is still asked for.
The link is noted in the audit log, without its token.

The link begins with --api or WAYPOST_API, or else the development system's API, or
else control.base_url. Give --api, because base_url leads to edges, which have no console.`,
		Example: `  waypost admin sign-in --email ann@example.com --api https://control.example.com
  waypost admin sign-in --email ann@example.com --valid-for 1h --database-url-file url.txt`,
		RunE: func(c *cobra.Command, _ []string) error {
			if email == "" {
				return &usageError{errors.New("--email is missing: it says who is to sign in")}
			}
			address, err := controlplane.ParseEmail(email)
			if err != nil {
				return &usageError{fmt.Errorf("--email: %w", err)}
			}
			if valid < time.Minute || valid > maxSignInLink {
				return &usageError{fmt.Errorf("--valid-for: %v is not between 1m and %v", valid, maxSignInLink)}
			}
			cfg, url, err := p.databaseURL()
			if err != nil {
				return err
			}
			base, err := consoleBase(cfg)
			if err != nil {
				return err
			}
			db, err := postgres.Open(c.Context(), postgres.Config{URL: url, ReadOnly: true})
			if err != nil {
				return withRemedy(err)
			}
			defer db.Close()
			until := time.Now().Add(valid).Truncate(time.Second)
			token, err := signInToken(c.Context(), db, address, valid)
			if err != nil {
				return err
			}
			link := dev.SignInURL(base, token)
			return p.print(link+"\n(it signs "+address+" in once, until "+until.Format(time.DateTime)+")",
				map[string]any{"url": link, "email": address, "expires_at": until.UTC()})
		},
	}
	c.Flags().StringVar(&email, "email", "", "address of the user")
	c.Flags().DurationVar(&valid, "valid-for", valid, "validity of the link, up to 24h")
	return p.bind(c, append([]string{"client.api", "control.base_url"}, databaseSettings...)...)
}

// signInToken makes a sign-in link for an address, and returns its token.
func signInToken(ctx context.Context, db *postgres.DB, email string, valid time.Duration) (string, error) {
	token := controlplane.NewSignInToken()
	return token, db.CreateSignInLink(ctx, postgres.SignInLink{Email: email, Hash: controlplane.HashKey(token), For: valid})
}

// consoleBase returns the URL below which browsers find the console.
func consoleBase(cfg config.Config) (string, error) {
	base := cfg.Client.API
	if base == "" && cfg.Control.DatabaseURL.Reveal() == "" {
		state, err := dev.ReadState(cfg.Dev.DataDir)
		if err != nil {
			return "", err
		}
		base = state.API
	}
	if base == "" {
		base = cfg.Control.BaseURL
	}
	if base == "" {
		return "", &usageError{errors.New("--api is missing: it says where browsers reach the control plane")}
	}
	return strings.TrimSuffix(base, "/"), nil
}
