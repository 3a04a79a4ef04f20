package main

import (
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

// confirmedWithin is the time for which a command waits until edges know a block.
const confirmedWithin = 3 * time.Second

func (p linksCommands) blockCommand() *cobra.Command {
	var domain, reason, policy string
	var all bool
	c := &cobra.Command{
		Use:   "block CODE",
		Short: "Block a link of any workspace at once, for operators",
		Long: `Block a link of any workspace. Every edge that is reachable, by the stream or by gossip,
answers 410 within a second, or 451 with --policy legal, whatever the link is like. Nothing
that the owner does ends the block: not restoring, changing or creating the link again, and
not adding its domain again. It also outlasts restarts of edges and a restore of PostgreSQL.
The owner and the audit log see the reason, and visitors do not. The command needs an
administrator of the default workspace, and says which edges have not confirmed the block.`,
		Example: `  waypost links block r7Qx0aZ --reason "phishing, ticket 4711"
  waypost links block https://go.example.com/sale --policy legal --reason "court order 7 O 12/26"
  waypost links block spring-box --all-addresses --reason "malware, ticket 4712"`,
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return &usageError{errors.New("--reason is needed")}
			}
			host, code := linkName(domain, args[0])
			path := client.Path(api.PathBlocks, code) + client.Query(map[string]string{"domain": host})
			return p.stated(c.Context(), func(server *client.Client) (api.Block, error) {
				b, err := client.Send[api.Block](c.Context(), server, http.MethodPut, path, api.NewBlock{Policy: policy, Reason: reason, All: all})
				if _, passing := client.Passing(err); err != nil && passing {
					err = fmt.Errorf("%w; the line %q in the file \"blocked\" of an edge's data directory blocks the link on that edge until then",
						err, strings.TrimPrefix(host+"/"+code, "/")+" "+policy)
				}
				return b, err
			})
		},
	}
	c.Flags().StringVar(&domain, "domain", "", "host of the link's domain; default: the shared default domain")
	c.Flags().StringVar(&reason, "reason", "", "why, in one line; needed")
	c.Flags().BoolVar(&all, "all-addresses", false, "also block the link's own address and those of its aliases")
	c.Flags().StringVar(&policy, "policy", "gone", "answer to visitors: gone (410), or legal (451, because a law or a court demands it)")
	return c
}

// blockText describes the block of a link, "" for none.
func blockText(b *api.LinkBlock) string {
	if b == nil {
		return ""
	}
	return fmt.Sprintf("since %s, by an operator (%s): %s", b.Since.Format(time.RFC3339), printable(b.Policy), printable(b.Reason))
}

func (p linksCommands) unblockCommand() *cobra.Command {
	var domain, reason string
	var all bool
	c := &cobra.Command{
		Use:     "unblock CODE",
		Short:   "End the block of a link, for operators",
		Long:    `End the block of a link of any workspace: it answers again as its owner has it.`,
		Example: `  waypost links unblock r7Qx0aZ --reason "appeal granted"`,
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return &usageError{errors.New("--reason is needed")}
			}
			host, code := linkName(domain, args[0])
			path := client.Path(api.PathBlocks, code) +
				client.Query(map[string]string{"domain": host, "reason": reason, "all_addresses": map[bool]string{true: "true"}[all]})
			return p.stated(c.Context(), func(server *client.Client) (api.Block, error) {
				return client.Send[api.Block](c.Context(), server, http.MethodDelete, path, nil)
			})
		},
	}
	c.Flags().StringVar(&domain, "domain", "", "host of the link's domain; default: the shared default domain")
	c.Flags().StringVar(&reason, "reason", "", "why, in one line; needed")
	c.Flags().BoolVar(&all, "all-addresses", false, "also end the blocks of the link's own address and of its aliases")
	return c
}

// stated makes a statement about a link, and shows it with the edges that do not know it.
func (p linksCommands) stated(ctx context.Context, state func(server *client.Client) (api.Block, error)) error {
	return p.withAPI(func(server *client.Client) error {
		block, err := state(server)
		if err != nil {
			return err
		}
		done := block.Domain + "/" + block.ShortCode
		if len(block.Others) > 0 {
			done = fmt.Sprintf("each of %s, %s", done, printable(strings.Join(block.Others, ", ")))
		}
		if block.Blocked {
			done = fmt.Sprintf("%s is blocked (%s)", done, printable(block.Policy))
		} else {
			done += " is no longer blocked"
		}
		lacking, all, err := p.confirmed(ctx, server)
		if err != nil {
			return errors.Join(p.print(done, map[string]any{"block": block, "edges": nil, "unconfirmed": nil}),
				fmt.Errorf("which edges know it could not be asked, see `waypost edges`: %w", err))
		}
		text := fmt.Sprintf("%s: %d edges have confirmed it", done, all-len(lacking))
		if len(lacking) > 0 {
			text += ", and these have not: " + printable(strings.Join(lacking, ", "))
		}
		return p.print(text, map[string]any{"block": block, "edges": all, "unconfirmed": append([]string{}, lacking...)})
	})
}

// confirmed waits for a moment until all edges that are alive know all blocks. It returns
// the edges that do not, with silent ones, and the number of edges that are not gone, as
// of the last answer; an error if there was none.
func (p linksCommands) confirmed(ctx context.Context, server *client.Client) (lacking []string, all int, err error) {
	ctx, cancel := context.WithTimeout(ctx, confirmedWithin)
	defer cancel()
	for known := false; ; {
		edges, failed := server.Edges.List(ctx)
		waits := false
		switch _, passing := client.Passing(failed); {
		case failed == nil:
			known, err, lacking, all = true, nil, nil, 0
		case !known:
			err, waits = failed, passing
		default:
			waits = passing
		}
		for i := range edges {
			if e := &edges[i]; e.State != "gone" {
				all++
				if e.HasBlocks == nil || !*e.HasBlocks || e.State != "alive" {
					lacking = append(lacking, e.Node)
					waits = waits || e.State == "alive"
				}
			}
		}
		if !waits {
			return lacking, all, err
		}
		select {
		case <-ctx.Done():
			return lacking, all, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (p linksCommands) blocksCommand() *cobra.Command {
	var page pageFlags
	return page.bind(&cobra.Command{
		Use:     "blocks",
		Short:   "List the links that are blocked, for operators",
		Long:    `List the links of all workspaces that are blocked, the newest block first.`,
		Example: `  waypost links blocks --limit 100`,
		RunE: p.asking(func(ctx context.Context, server *client.Client, _ []string) (string, any, error) {
			found, err := client.Get[api.BlockPage](ctx, server, api.PathBlocks+page.query())
			text := tableOf("LINK\tSINCE\tPOLICY\tREASON", found.Blocks, p.width(), func(b *api.Block) []any {
				return []any{b.Domain + "/" + b.ShortCode, b.At.Local().Format(time.DateTime), b.Policy, b.Reason}
			})
			if len(found.Blocks) == 0 {
				text = "no link is blocked"
			}
			return text + page.more(found.Next), found, err
		}),
	})
}
