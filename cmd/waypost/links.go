package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/api/linkfields"
	"waypost/client"
)

// linksCommands makes the commands for links.
type linksCommands struct{ *program }

func (p linksCommands) command() *cobra.Command {
	clicks := clicksCommands(p)
	c := group("links", "Create, find, change, delete, restore and export links, and see their statistics",
		p.createCommand(), p.getCommand(), p.listCommand(), p.searchCommand(), p.tagsCommand(), p.updateCommand(),
		p.deleteCommand(), p.restoreCommand(), p.exportCommand(), p.qrCommand(), p.aliasCommand(), p.historyCommand(),
		p.explainCommand(), p.rulesCommand(), p.blockCommand(), p.unblockCommand(), p.blocksCommand(),
		clicks.linkCommand(), clicks.forgetLinkCommand())
	c.Long = `Work with links through the API: the one of --api or WAYPOST_API with the key in
WAYPOST_API_KEY or what ` + "`waypost login`" + ` has kept, or else the development system that
runs in --data-dir, or else the server of the last login.

Flags for times take 2030-12-31T23:59:59Z, 2030-12-31T23:59:59+01:00 or a day such as
2030-12-31, which stands for its first moment in the workspace's time zone, and as
--expires-at for its end; in statistics days are those of --tz.`
	return p.bindAll(c)
}

// describe lays out a link for people. Texts that the link does not have are left out.
func describe(l client.Link) string {
	created := l.CreatedAt.Format(time.RFC3339)
	if l.CreatedBy != "" {
		created += " by " + l.CreatedBy
	}
	var b strings.Builder
	field := fieldsTo(&b, 11)
	field("short URL", l.ShortURL)
	field("domain", l.Domain)
	field("aliases", aliasText(&l))
	field("target", l.OriginalURL)
	field("redirect", strconv.Itoa(l.RedirectStatus))
	field("forwards", forwards(l))
	for _, detail := range linkfields.Details {
		if text, ok := detail.Link(&l).(*string); ok {
			field(detail.Name, *text)
		}
	}
	field("tags", strings.Join(l.Tags, ", "))
	if metadata := string(l.Metadata); metadata != "null" {
		field("metadata", metadata)
	}
	field("blocked", blockText(l.Blocked))
	field("state", stateText(&l, time.Now()))
	field("clicks", strconv.FormatInt(l.ClickCount, 10))
	field("max clicks", budgetText(&l))
	field("password", map[bool]string{true: "set"}[l.HasPassword])
	field("confirm", map[bool]string{true: "visitors press a button first"}[l.Confirm])
	field("created", created)
	field("expires", cmp.Or(instant(l.ExpiresAt), "never"))
	field("valid from", instant(l.ValidFrom))
	field("expired URL", l.ExpiredURL)
	if len(l.Rules) > 0 {
		field("rules", strconv.Itoa(len(l.Rules))+", see `waypost links rules`")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// budgetText describes the click budget of a link, and its state if that is known.
func budgetText(l *client.Link) string {
	if l.MaxClicks == 0 {
		return ""
	}
	text := fmt.Sprintf("%d, %s", l.MaxClicks, l.MaxClicksMode)
	if b := l.Budget; b != nil {
		text += fmt.Sprintf("; %d spent, %d granted", b.Spent, b.Granted)
		if b.AtMost != nil {
			text += fmt.Sprintf(", never more than %d", *b.AtMost)
		}
	}
	return text
}

func forwards(l client.Link) string {
	switch {
	case l.ForwardQuery && l.ForwardPath:
		return "query and path"
	case l.ForwardQuery:
		return "query"
	case l.ForwardPath:
		return "path"
	}
	return "nothing"
}

// linkTable lays out a page of links for people, in a width as tabulate has it. A column
// shows states when one of the links does not redirect now.
func linkTable(page client.Page, now time.Time, width int) string {
	if len(page.Links) == 0 && page.Next == "" {
		return "no links"
	}
	const state = 1 // its column
	rows, allLive := [][]string{{"CODE", "STATE", "CREATED", "CLICKS", "TARGET", "TITLE"}}, true
	for i := range page.Links {
		l := &page.Links[i]
		is := stateText(l, now)
		allLive = allLive && (is == "live" || l.DeletedAt != nil)
		rows = append(rows, []string{
			l.ShortCode, is, l.CreatedAt.Format(time.DateTime), strconv.FormatInt(l.ClickCount, 10),
			printable(shortened(l.OriginalURL)), printable(shortened(l.Title)),
		})
	}
	if allLive {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], state, state+1)
		}
	}
	text := tabulate(rows, width)
	if page.Next != "" {
		text += "\nmore with --cursor " + page.Next
	}
	return text
}

// stateText says why a link does not redirect now, or that it is live.
func stateText(l *client.Link, now time.Time) string {
	var why []string
	for _, s := range []struct {
		word string
		is   bool
	}{
		{"blocked", l.Blocked != nil},
		{"disabled", !l.Active},
		{"expired", l.ExpiresAt != nil && !l.ExpiresAt.After(now)},
		{"not yet valid", l.ValidFrom != nil && l.ValidFrom.After(now)},
	} {
		if s.is {
			why = append(why, s.word)
		}
	}
	return cmp.Or(strings.Join(why, ", "), "live")
}

// shortened keeps a table readable; --output json has it all.
func shortened(s string) string { return cut(s, 72) }

// printable keeps text of users from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}
