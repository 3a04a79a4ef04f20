package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

func (p edgesCommands) enrolCommand() *cobra.Command {
	var n api.NewEnrolment
	var expires time.Duration
	c := &cobra.Command{
		Use:   "enrol --region REGION",
		Short: "Make a token with which an edge gets a credential of its own, once",
		Long: `Make a token with which an edge gets a credential of its own, and show what to do with
it. The token is good once, for an hour or as --expires says, a day at most, and for one
region. With --node it is good for that name only, also when an edge has the name: the credential of
that one is replaced, which is how a credential is renewed and how a revoked edge is let in
again. It is in the audit log.`,
		Example: `  waypost edges enrol --region eu-west-1
  waypost edges enrol --region eu-west-1 --node eu-1 --expires 10m`,
		PreRunE: func(*cobra.Command, []string) error {
			if n.Region == "" {
				return &usageError{errors.New("--region is missing: in which region does the edge stand?")}
			}
			if expires < time.Second || expires > 24*time.Hour {
				return &usageError{fmt.Errorf("--expires: %s is not between 1s and 24h", expires)}
			}
			n.ExpiresIn = int64(expires / time.Second)
			return nil
		},
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			made, err := client.Send[api.Enrolment](ctx, server, http.MethodPost, api.PathEdgeEnrolments, n)
			if err != nil {
				return "", nil, err
			}
			text := enrolmentText(cmp.Or(made.ControlURL, server.Base()), made, p.getenv("SSL_CERT_FILE") != "")
			space, err := client.Get[api.KeySpace](ctx, server, api.PathRanges)
			if err == nil && !slices.ContainsFunc(space.Regions, func(s api.Supply) bool { return s.Region == n.Region }) {
				text += fmt.Sprintf("\n\nNo key range is of the region %s: add it to control.regions, if it is no mistake.", printable(n.Region))
			}
			return text, made, nil
		}),
	}
	c.Flags().StringVar(&n.Region, "region", "", "region that the edge stands in")
	c.Flags().StringVar(&n.Node, "node", "", "the only name that the token is good for; default: any that no edge has had")
	c.Flags().StringVar(&n.Role, "role", "edge", "edge, or relay: an edge that serves others as well")
	c.Flags().StringVar(&n.Label, "label", "", "for the audit log")
	c.Flags().DurationVar(&expires, "expires", time.Hour, "how long the token is good, a day at most")
	return c
}

// enrolmentText shows a token and the steps that use it. An own authority of the API's
// certificate has to be named to the edge, too.
func enrolmentText(base string, e api.Enrolment, ownAuthority bool) string {
	node := cmp.Or(e.Node, "NAME")
	settings, flags := "node: "+node, " --node "+node
	if e.Role == "relay" {
		settings, flags = settings+", relay_addr: HOST:PORT", flags+" --relay-addr HOST:PORT"
	}
	if ownAuthority {
		settings += ", and\n     node_ca_file: /etc/waypost/tls/authority.pem, a copy of the file in SSL_CERT_FILE here,"
		flags += " --node-ca-file authority.pem"
	}
	return fmt.Sprintf(`token: %[1]s (it is not shown again; good once, until %[2]s)

With the package, as root on the edge's machine, where %[3]s can be any name:

  1. Set control_urls: [%[4]s], region: %[5]s, %[6]s
     in /etc/waypost/edge-%[3]s.yaml, and let the unit use the token:
       (umask 077; echo WAYPOST_ENROL_TOKEN=%[1]s > /etc/waypost/edge-%[3]s.env)
  2. systemctl enable waypost-edge@%[3]s; systemctl restart waypost-edge@%[3]s
  3. When "waypost edges" shows its credential as "own": rm /etc/waypost/edge-%[3]s.env

Without systemd, as the user that it runs as from then on:

  WAYPOST_ENROL_TOKEN=%[1]s waypost edge --control-urls %[4]s \
    --region %[5]s%[7]s --data-dir /var/lib/waypost/edge

Its credential is kept in the data directory: later starts need no token.`,
		e.Token, e.ExpiresAt.Local().Format(time.DateTime), node, base, e.Region, settings, flags)
}

func (p edgesCommands) revokeCommand() *cobra.Command {
	return p.confirming(&cobra.Command{
		Use:   "revoke NODE",
		Short: "Revoke the credential of an edge, such as a stolen one",
		Long: `Revoke the credential of an edge. Within a second no control plane lets it in, and
its streams end; tokens for its name are void. It goes on serving what it has for as long as
somebody lets it run and sends visitors there: take it out of DNS and of load balancers. To let it in again,
or another in its place, make a token with "waypost edges enrol --node". It is in the audit log. On a terminal it asks for the name;
elsewhere it needs --yes.`,
		Example: `  waypost edges revoke eu-1 --yes`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			err := server.Delete(ctx, client.Path(api.PathEdgeCredentials, args[0]))
			return "the credential of " + args[0] + " is revoked", map[string]string{"revoked": args[0]}, err
		}),
	}, func(args []string) (question, answer string) {
		question = fmt.Sprintf("The edge %s gets no further changes, and its clicks are not counted. Type its name to go on: ", args[0])
		return question, args[0]
	})
}

func (p edgesCommands) credentialsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "credentials",
		Short:   "List the credentials of edges, also of such as are revoked",
		Example: `  waypost edges credentials`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			all, err := client.Get[api.EdgeCredentialList](ctx, server, api.PathEdgeCredentials)
			return credentialTable(all.Credentials, time.Now(), p.width()), all, err
		}),
	}
}

func credentialTable(all []api.NodeCredential, now time.Time, width int) string {
	if len(all) == 0 {
		return "no edge has a credential of its own: make a token with `waypost edges enrol`"
	}
	return tableOf("NODE\tREGION\tROLE\tSTATE\tENROLLED\tLAST SEEN\tFORMER NAMES", all, width, func(c *api.NodeCredential) []any {
		seen := "never"
		if c.LastSeenAt != nil {
			seen = ago(now.Sub(*c.LastSeenAt))
		}
		return []any{c.Node, c.Region, c.Role, c.State, ago(now.Sub(c.CreatedAt)), seen, strings.Join(c.Former, ", ")}
	})
}
