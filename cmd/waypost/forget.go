package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

func (p clicksCommands) forgetLinkCommand() *cobra.Command {
	var domain string
	c := &cobra.Command{
		Use:   "forget-clicks CODE",
		Short: "Delete everything that was counted of a link, for good",
		Long: `Delete the statistics of a link, whether it is live, expired or deleted: its clicks by
hour, by day and as events, and its counters. They are also removed from the statistics of
the workspace, except from its estimates of unique visitors, which do not refer to links.
Later clicks count again, from zero. The command needs the scope admin, and makes an entry
in the audit log. On a terminal it asks for the code; elsewhere it needs --yes.`,
		Example: `  waypost links forget-clicks spring-sale --yes`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			host, code := linkName(domain, args[0])
			path := client.Path(api.PathLinks, code, "clicks") + client.Query(map[string]string{"domain": host})
			f, err := client.Send[api.ForgottenClicks](ctx, server, http.MethodDelete, path, nil)
			text := "deleted " + numberOf(int(f.Clicks), "click", "clicks") + " of " + args[0]
			if f.Events > 0 {
				text += fmt.Sprintf(", %d of which had been kept one by one", f.Events)
			}
			return text, f, err
		}),
	}
	c.Flags().StringVar(&domain, "domain", "", "host of the link's domain; the shared one if left out")
	return p.confirming(c, func(args []string) (question, answer string) {
		return "All that was counted of " + args[0] + " goes for good. Type the code to go on: ", args[0]
	})
}

func (p clicksCommands) command() *cobra.Command {
	c := group("clicks", "Look after what was counted", p.forgetVisitorsCommand())
	c.Long = `Look after what was counted, through the API: the one of --api or WAYPOST_API with the
key in WAYPOST_API_KEY, which needs the scope admin in the default workspace, or else the
development system that runs in --data-dir.`
	return p.bindAll(c)
}

func (p clicksCommands) forgetVisitorsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "forget-visitors DAY",
		Short: "Destroy the salt that distinguishes the visitors of a day",
		Long: `Destroy the salt of a day (UTC), everywhere and permanently. Without the salt no record
leads back to a visitor of that day. Later clicks of that day count without a visitor;
existing numbers stay. Salts are destroyed automatically two days after their day; this
command does it earlier. On a terminal it asks for the day; elsewhere it needs --yes.`,
		Example: `  waypost clicks forget-visitors 2026-03-31 --yes`,
		PreRunE: func(_ *cobra.Command, args []string) error {
			if _, err := time.Parse(time.DateOnly, args[0]); err != nil {
				return &usageError{fmt.Errorf("%q is no day such as 2026-03-31", args[0])}
			}
			return p.confirm(fmt.Sprintf("The visitors of %s can never be told apart again. Type the day to go on: ", args[0]), args[0])
		},
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			err := server.Delete(ctx, client.Path(api.PathVisitorSalts, args[0]))
			return "the visitors of " + args[0] + " are forgotten", map[string]string{"forgotten": args[0]}, err
		}),
	}
	c.Flags().BoolVar(&p.yes, "yes", false, "do not ask")
	return c
}
