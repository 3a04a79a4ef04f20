package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// String describes the condition in words, such as "country is one of DE, AT".
func (c *Condition) String() string {
	is, isOne := " is ", " is one of "
	if c.Not {
		is, isOne = " is not ", " is none of "
	}
	list := func(name string, values []string) string {
		if len(values) == 1 {
			return name + is + values[0]
		}
		return name + isOne + strings.Join(values, ", ")
	}
	switch {
	case len(c.Agent) > 0:
		return list("agent", c.Agent)
	case len(c.Country) > 0:
		return list("country", c.Country)
	case len(c.City) > 0:
		return list("city", c.City)
	case len(c.Language) > 0:
		return list("language", c.Language)
	case len(c.Address) > 0:
		return list("address", c.Address)
	case c.Query != nil:
		return c.Query.describe(c.Not)
	case c.Week != nil:
		within := "within"
		if c.Not {
			within = "outside of"
		}
		return fmt.Sprintf("time is %s %s in %s", within, strings.Join(c.Week.Hours, " and "), c.Week.Zone)
	}
	return describeSpan(c.From, c.Until, c.Not)
}

func (q *Parameter) describe(not bool) string {
	name := "query parameter " + strconv.QuoteToGraphic(q.Key)
	no := ""
	if not {
		no = "not "
	}
	switch {
	case q.Equals != nil:
		return name + " is " + no + strconv.QuoteToGraphic(*q.Equals)
	case q.Empty:
		return name + " is " + no + "there without a value"
	}
	return name + " is " + no + "there"
}

// describeSpan describes a span of time; one end may be missing.
func describeSpan(from, until time.Time, not bool) string {
	start, end := from.Format(time.RFC3339), until.Format(time.RFC3339)
	before, later := "time is before "+end, "time is "+start+" or later"
	if not {
		before, later = "time is before "+start, "time is "+end+" or later"
	}
	switch {
	case !from.IsZero() && !until.IsZero() && not:
		return before + ", or " + end + " or later"
	case !from.IsZero() && !until.IsZero():
		return "time is from " + start + " until " + end
	case from.IsZero() == not:
		return later
	}
	return before
}

// The names of facts, in the order of the constants.
var factNames = [...]string{"agent", "language", "place", "address", "query", "time", "visitor", "cookie", "chance"}

// Names returns the names of the facts in the set.
func (f FactSet) Names() []string {
	names := []string{}
	for i, name := range factNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// samples are user agents that stand for many.
var samples = map[string]string{
	"iphone":   "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
	"ipad":     "Mozilla/5.0 (iPad; CPU OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
	"android":  "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36",
	"windows":  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
	"mac":      "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
	"linux":    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
	"chromeos": "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
	"bot":      "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	"preview":  "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
}

// SampleAgent returns a user agent for a word such as iphone, or text itself when it is
// no such word.
func SampleAgent(text string) string {
	if sample, ok := samples[text]; ok {
		return sample
	}
	return text
}
