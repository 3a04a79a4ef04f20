package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

func (p clicksCommands) viewsCommand() *cobra.Command {
	c := group("views", "Publish the clicks of a link or tag, list saved views, and delete them",
		p.listViewsCommand(), p.publishViewCommand(), p.deleteViewCommand())
	return p.bindAll(c)
}

func (p clicksCommands) listViewsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the saved views", Example: `  waypost stats views list`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			all, err := client.Get[api.Views](ctx, server, api.PathViews)
			return tableOf("ID\tNAME\tLINK\tFILTERS", all.Views, p.width(), func(v *api.View) []any {
				link := ""
				if v.Tag != "" {
					link = "tag " + v.Tag
				} else if v.Public {
					link = v.Domain + "/" + v.ShortCode
				}
				return []any{v.ID, v.Name, link, v.Query}
			}), all, err
		}),
	}
}

func (p clicksCommands) publishViewCommand() *cobra.Command {
	n := api.NewView{Public: true}
	c := &cobra.Command{
		Use: "publish NAME [CODE]", Short: "Publish the clicks of a link or tag, and print the address of the page",
		Long: `Publish the clicks of a link on its last days, or with --tag of the links that have a tag when
the page is read, as a page for everyone who has its secret address. The address is shown
once. Deleting the view withdraws the page.`,
		Example: `  waypost stats views publish "Spring sale" spring-sale --days 90 --tz Europe/Berlin`,
		Args:    arguments(cobra.RangeArgs(1, 2)),
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			n.Name = args[0]
			if len(args) > 1 {
				n.Domain, n.ShortCode = linkName(n.Domain, args[1])
			} else if n.Tag == "" {
				return "", nil, &usageError{errors.New("name a link, or a tag with --tag")}
			}
			v, err := client.Send[api.View](ctx, server, http.MethodPost, api.PathViews, n)
			return server.Base() + v.Path, v, err
		}),
	}
	c.Flags().StringVar(&n.Domain, "domain", "", "host of the link's domain; the shared one if left out")
	c.Flags().StringVar(&n.Tag, "tag", "", "instead of a link, all links that have this tag")
	c.Flags().IntVar(&n.Days, "days", 30, "the last days, which the page shows, up to 366")
	c.Flags().StringVar(&n.TZ, "tz", "UTC", "time zone of these days, such as Europe/Berlin")
	return c
}

func (p clicksCommands) deleteViewCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete ID", Short: "Delete a saved view, or withdraw a public page", Example: `  waypost stats views delete 3`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, args []string) (string, any, error) {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || id < 1 {
				return "", nil, &usageError{fmt.Errorf("%q is no id of a view: see waypost stats views list", args[0])}
			}
			return "deleted", map[string]int64{"deleted": id}, server.Delete(ctx, client.Path(api.PathViews, id))
		}),
	}
}
