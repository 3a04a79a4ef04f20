package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/client"
)

func (p edgesCommands) enrolCommand() *cobra.Command {
	var n client.NewEnrolment
	var expires time.Duration
	c := &cobra.Command{
		Use:   "enrol --region REGION",
		Short: "Make a token with which an edge gets a credential of its own, once",
		Long: `Make a token with which an edge gets a credential of its own, and show the command to
run on it. The token is good once, for an hour or as --expires says, a day at most, and for one
region. With --node it is good for that name only, also when an edge has the name: the credential of
that one is replaced, which is how a credential is renewed and how a revoked edge is let in
again. It is in the audit log.`,
		Example: `  waypost edges enrol --region eu-west-1
  waypost edges enrol --region eu-west-1 --node eu-1 --expires 10m`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if n.Region == "" {
				return &usageError{errors.New("--region is missing: in which region does the edge stand?")}
			}
			if expires < time.Second || expires > 24*time.Hour {
				return &usageError{fmt.Errorf("--expires: %s is not between 1s and 24h", expires)}
			}
			n.ExpiresIn = int64(expires / time.Second)
			return p.withAPI(func(api *client.Client) error {
				made, err := api.Edges.Enrol(c.Context(), n)
				if err != nil {
					return err
				}
				return p.print(enrolmentText(api.Base(), made), made)
			})
		},
	}
	c.Flags().StringVar(&n.Region, "region", "", "region that the edge stands in")
	c.Flags().StringVar(&n.Node, "node", "", "the only name that the token is good for; default: any that no edge has had")
	c.Flags().StringVar(&n.Role, "role", "edge", "edge, or relay: an edge that serves others as well")
	c.Flags().StringVar(&n.Label, "label", "", "for the audit log")
	c.Flags().DurationVar(&expires, "expires", time.Hour, "how long the token is good, a day at most")
	return c
}

// enrolmentText shows a token and the commands that use it.
func enrolmentText(base string, e client.Enrolment) string {
	node := " --node NAME"
	if e.Node != "" {
		node = " --node " + e.Node
	}
	if e.Role == "relay" {
		node += " --relay-addr HOST:PORT"
	}
	return fmt.Sprintf(`token: %s (it is not shown again; good once, until %s)

Run this on the edge, as the user that it runs as from then on:

  WAYPOST_ENROL_TOKEN=%s waypost edge --control-urls %s \
    --region %s%s --data-dir /var/lib/waypost/edge

Its credential is kept in the data directory: later starts need no token.`,
		e.Token, e.ExpiresAt.Local().Format(time.DateTime), e.Token, base, e.Region, node)
}

func (p edgesCommands) revokeCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "revoke NODE",
		Short: "Revoke the credential of an edge, such as a stolen one",
		Long: `Revoke the credential of an edge. Within a second no control plane lets it in, and
its streams end; tokens for its name are void. It goes on serving what it has for as long as
somebody lets it run and sends visitors there: take it out of DNS and of load balancers. To let it in again,
or another in its place, make a token with "waypost edges enrol --node". It is in the audit log. On a terminal it asks for the name;
elsewhere it needs --yes.`,
		Example: `  waypost edges revoke eu-1 --yes`,
		Args:    arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if err := p.confirm(yes, fmt.Sprintf("The edge %s gets no further changes, and its clicks are not counted. Type its name to go on: ", args[0]), args[0]); err != nil {
				return err
			}
			return p.withAPI(func(api *client.Client) error {
				if err := api.Edges.Revoke(c.Context(), args[0]); err != nil {
					return err
				}
				return p.print("the credential of "+args[0]+" is revoked", map[string]string{"revoked": args[0]})
			})
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func (p edgesCommands) credentialsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "credentials",
		Short:   "List the credentials of edges, also of such as are revoked",
		Example: `  waypost edges credentials`,
		Args:    arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withAPI(func(api *client.Client) error {
				all, err := api.Edges.Credentials(c.Context())
				if err != nil {
					return err
				}
				return p.print(credentialTable(all, time.Now(), p.width()), map[string][]client.NodeCredential{"credentials": all})
			})
		},
	}
}

func credentialTable(all []client.NodeCredential, now time.Time, width int) string {
	if len(all) == 0 {
		return "no edge has a credential of its own: make a token with `waypost edges enrol`"
	}
	var b strings.Builder
	_, _ = fmt.Fprintln(&b, "NODE\tREGION\tROLE\tSTATE\tENROLLED\tLAST SEEN\tFORMER NAMES")
	for i := range all {
		c := &all[i]
		seen := "never"
		if c.LastSeenAt != nil {
			seen = ago(now.Sub(*c.LastSeenAt))
		}
		_, _ = fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(c.Node), printable(c.Region), printable(c.Role), printable(c.State),
			ago(now.Sub(c.CreatedAt)), seen, printable(strings.Join(c.Former, ", ")))
	}
	return tabbed(b.String(), width)
}
