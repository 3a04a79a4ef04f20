package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/api"
	"waypost/client"
)

func (p linksCommands) explainCommand() *cobra.Command {
	var at string
	query := make(map[string]*string) // by the names of the API
	c := &cobra.Command{
		Use:   "explain CODE|URL",
		Short: "Show where a short URL leads a visitor, and why",
		Long: `Show where a code or a short URL, as a visitor asks for it, leads a visitor whom you
describe: the link that is found, the facts, each rule with the first condition that did
not hold, and the answer. The control plane answers by the same evaluation
as a redirect, and counts nothing. What is not given is unknown, and the time is now.

--agent takes a whole User-Agent or one of the words iphone, ipad, android, windows, mac,
linux, chromeos, bot and preview. An address is not looked up: give the country, too.

With --edge that edge answers, within 5 seconds, by its own replica and its own GeoIP
database, in which it looks the address up. That is for operators.

With --code and --target the answer is that of a link which is not there yet, or whose
target is another: try a pattern before you create it.`,
		Example: `  waypost links explain spring-sale --country DE --agent iphone --language de
  waypost links explain spring-sale --at 2026-12-01T09:00:00+01:00 --query 'utm_source=mail'
  waypost links explain spring-sale --address 192.0.2.7 --agent android --output json
  waypost links explain 'go.example.com/spring-sale).?utm_source=mail'
  waypost links explain spring-sale --address 192.0.2.7 --edge eu-1
  waypost links explain go.example.com/docs/intro --code 'docs/*' --target 'https://docs.example.com/{path}'`,
		RunE: func(c *cobra.Command, args []string) error {
			moment, err := p.moment(c.Context(), "--at", at)
			if err != nil {
				return err
			}
			host, path := askedPath(*query["domain"], args[0])
			asked := map[string]string{}
			for name, value := range query {
				asked[name] = *value
			}
			asked["url"], asked["domain"], asked["country"] = path, host, strings.ToUpper(asked["country"])
			if !moment.IsZero() {
				asked["at"] = moment.Format(time.RFC3339Nano)
			}
			return p.withAPI(func(server *client.Client) error {
				e, err := client.Get[api.Explanation](c.Context(), server, api.PathExplain+client.Query(asked))
				if err != nil {
					return err
				}
				return p.print(explanationText(&e, p.width()), e)
			})
		},
	}
	c.Flags().StringVar(&at, "at", "", "when the visitor comes, such as 2026-12-01T09:00:00+01:00 (default now)")
	for _, f := range [][2]string{
		{"domain", "host of the link's domain (default the shared one)"},
		{"country", "country of the visitor, such as DE"},
		{"city", "city of the visitor, in English"},
		{"agent", "User-Agent of the visitor, or a word such as iphone"},
		{"language", "Accept-Language of the visitor, such as de or de-AT,en;q=0.8"},
		{"address", "address of the visitor"},
		{"query", "query of the visitor, without the question mark"},
		{"cookie", "Cookie header of the visitor, such as waypost_variant=2"},
		{"code", "with --target: a code or a pattern to try"},
		{"target", "the target to try"},
		{"edge", "name of an edge that is to answer, for operators"},
	} {
		query[f[0]] = c.Flags().String(f[0], "", f[1])
	}
	completeWith(c, "agent", "iphone", "ipad", "android", "windows", "mac", "linux", "chromeos", "bot", "preview")
	return c
}

// explanationText lays out an explanation for people.
func explanationText(e *api.Explanation, width int) string {
	var b strings.Builder
	field := fieldsTo(&b, 11)
	f, r := &e.Facts, &e.Result
	reads := map[string]bool{}
	for _, name := range f.Read {
		reads[name] = true
	}
	if edge := e.Edge; edge != nil {
		field("edge", edgeText(edge))
	}
	if e.Match == "trimmed" || e.Match == "forwarded" || e.Match == "pattern" {
		field("link", e.ShortCode+", "+e.Match)
	}
	for _, h := range e.Held {
		field("{"+h.Name+"}", cmp.Or(h.Value, "(empty)"))
	}
	field("time", f.At.Local().Format(time.RFC3339))
	field("address", unknown(f.Address, reads["address"] || reads["visitor"]))
	field("country", unknown(f.Country, reads["place"]))
	field("city", unknown(f.City, reads["place"]))
	field("user agent", unknown(shortened(f.UserAgent), reads["agent"] || reads["visitor"]))
	field("agent", strings.Join(f.Agent, ", "))
	field("languages", unknown(strings.Join(f.Languages, ", "), reads["language"]))
	field("query", f.Query)
	if f.Variant != 0 {
		field("cookie", "variant "+strconv.Itoa(f.Variant))
	}
	if len(e.Rules) > 0 {
		b.WriteString("\n" + tableOf("RULE\tNAME\tOUTCOME\tCONDITION THAT FAILED", e.Rules, width, func(rule *api.ExplainedRule) []any {
			condition := ""
			if rule.Failed != nil {
				condition = fmt.Sprintf("%d: %s", *rule.Failed+1, rule.Condition)
			}
			return []any{rule.ID, rule.Name, strings.ReplaceAll(rule.Outcome, "_", " "), condition}
		}) + "\n\n")
	}
	field("answer", strings.TrimSpace(strconv.Itoa(r.Status)+" "+r.Location))
	field("because", r.Reason)
	for _, v := range r.Variants {
		field("variant "+strconv.Itoa(v.ID), strings.TrimSpace(fmt.Sprintf("%.4g %% %s", 100*v.Share, v.Name))+" to "+v.To)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// edgeText describes the edge that answered.
func edgeText(e *api.ExplainedEdge) string {
	text := e.Node + ", at no position"
	if e.Position != nil {
		text = fmt.Sprintf("%s, at position %d.%d", e.Node, e.Position.Epoch, e.Position.Seq)
	}
	if !e.Current {
		text += ", by an older state of the link"
	}
	if e.PlacesBuilt == nil {
		return text + ", without a GeoIP database"
	}
	return text + ", with a GeoIP database of " + e.PlacesBuilt.Format(time.DateOnly)
}

// unknown is the text for a fact that is not known and that the rules read.
func unknown(value string, read bool) string {
	if value == "" && read {
		return "unknown"
	}
	return value
}
