package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/rules"
)

// Agents as they are sent.
const (
	iphone  = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1"
	ipad    = "Mozilla/5.0 (iPad; CPU OS 16_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.6 Mobile/15E148 Safari/604.1"
	pixel   = "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Mobile Safari/537.36"
	galaxy  = "Mozilla/5.0 (Linux; Android 13; SM-X700) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36" // a tablet
	windows = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36"
	edge    = windows + " Edg/124.0.0.0"
	mac     = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15"
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"
	google  = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
	chat    = "WhatsApp/2.23.20.0"
	curl    = "curl/8.5.0"
)

const target = "https://example.com/"

func to(name string, when ...rules.Condition) rules.Rule {
	return rules.Rule{When: when, To: target + name}
}

func agent(names ...string) rules.Condition      { return rules.Condition{Agent: names} }
func country(codes ...string) rules.Condition    { return rules.Condition{Country: codes} }
func language(tags ...string) rules.Condition    { return rules.Condition{Language: tags} }
func address(networks ...string) rules.Condition { return rules.Condition{Address: networks} }

func not(c rules.Condition) rules.Condition { c.Not = true; return c }

func week(zone string, hours ...string) rules.Condition {
	return rules.Condition{Week: &rules.Schedule{Zone: zone, Hours: hours}}
}

func query(key string) rules.Condition { return rules.Condition{Query: &rules.Parameter{Key: key}} }

func date(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

var june = date("2026-06-01T12:00:00Z")

// sources are the links of the table, by their codes. Each leads to "home" otherwise.
var sources = map[string]rules.Source{
	"apps": {Rules: []rules.Rule{
		to("cards", agent("preview")),
		{Status: 404, When: []rules.Condition{agent("bot")}},
		to("tablets", agent("tablet")),
		to("ios", agent("ios")),
		to("android", agent("android")),
		to("edge", agent("edge"), agent("windows")),
		to("mac-or-linux", agent("macos", "linux")),
	}},
	"lands": {Rules: []rules.Rule{
		to("berlin", country("DE"), rules.Condition{City: []string{"berlin", "KÖLN"}}),
		to("dach", country("DE", "AT", "CH")),
		to("abroad", not(country("US", "CA"))),
	}},
	"tongues": {Rules: []rules.Rule{
		to("swiss", language("de-CH")),
		to("german", language("de")),
		to("brazil", language("pt-BR"), not(language("en"))),
	}},
	"networks": {Rules: []rules.Rule{
		to("office", address("192.0.2.0/25", "2001:db8:1::/48")),
		to("printer", address("10.*.0.9")),
		to("one", address("198.51.100.7")),
	}},
	"queries": {Rules: []rules.Rule{
		to("exact", rules.Condition{Query: &rules.Parameter{Key: "ref", Equals: text("news letter")}}),
		to("empty", rules.Condition{Query: &rules.Parameter{Key: "ref", Empty: true}}),
		to("any", query("ref")),
		{Status: 410, When: []rules.Condition{query("gone"), not(query("keep"))}},
	}},
	"dates": {Rules: []rules.Rule{
		to("advent", rules.Condition{From: date("2026-11-29T00:00:00+01:00"), Until: date("2026-12-24T18:00:00+01:00")}),
		to("later", rules.Condition{From: date("2026-12-24T17:00:00Z")}),
	}},
	"office-hours": {Rules: []rules.Rule{to("open", week("Europe/Berlin", "mon-fri 09:00-17:30", "sun 02:00-03:00"))}},
	"nights":       {Rules: []rules.Rule{to("night", week("America/New_York", "daily 22:00-06:00"))}},
	"weekends":     {Rules: []rules.Rule{to("weekend", week("Asia/Kolkata", "sat,sun 00:00-24:00"))}},
	"life": {
		ValidFrom: date("2026-06-10T00:00:00Z"), ExpiredURL: target + "over",
		Rules: []rules.Rule{to("ios", agent("ios"))},
	},
}

func text(s string) *string { return &s }

// expiry is the time at which the link "life" expires.
var expiry = date("2026-06-20T00:00:00Z")

// visits has requests whose answers were worked out by hand. Home is the link's own
// target, and a number is a status without one. Elsewhere is the answer of the control
// plane, which knows no countries, where it differs.
var visits = []struct {
	code, at                                       string
	agent, language, country, city, address, query string
	want, elsewhere                                string
}{
	{code: "apps", agent: iphone, want: "ios"},
	{code: "apps", agent: ipad, want: "tablets"},
	{code: "apps", agent: pixel, want: "android"},
	{code: "apps", agent: galaxy, want: "tablets"},
	{code: "apps", agent: windows, want: "home"},
	{code: "apps", agent: edge, want: "edge"},
	{code: "apps", agent: mac, want: "mac-or-linux"},
	{code: "apps", agent: firefox, want: "mac-or-linux"},
	{code: "apps", agent: google, want: "404"},
	{code: "apps", agent: chat, want: "cards"},
	{code: "apps", agent: curl, want: "404"},
	{code: "apps", want: "home"},

	{code: "lands", country: "DE", city: "Berlin", want: "berlin", elsewhere: "abroad"},
	{code: "lands", country: "DE", city: "BERLIN", want: "berlin", elsewhere: "abroad"},
	{code: "lands", country: "DE", city: "Köln", want: "berlin", elsewhere: "abroad"},
	{code: "lands", country: "US", city: "Berlin", want: "home", elsewhere: "abroad"},
	{code: "lands", country: "DE", city: "Munich", want: "dach", elsewhere: "abroad"},
	{code: "lands", country: "CH", want: "dach", elsewhere: "abroad"},
	{code: "lands", country: "FR", want: "abroad"},
	{code: "lands", country: "CA", want: "home", elsewhere: "abroad"},
	{code: "lands", want: "abroad"}, // an unknown country is neither

	{code: "tongues", language: "de-CH,de;q=0.9", want: "swiss"},
	{code: "tongues", language: "de,de-CH;q=0.8", want: "german"},
	{code: "tongues", language: "de;q=0.9, en", want: "german"},
	{code: "tongues", language: "en, de;q=0.89", want: "home"},
	{code: "tongues", language: "DE-at", want: "german"},
	{code: "tongues", language: "pt-BR", want: "brazil"},
	{code: "tongues", language: "pt-BR, en;q=0.9", want: "home"},
	{code: "tongues", language: "pt", want: "home"},
	{code: "tongues", language: "*", want: "home"},

	{code: "networks", address: "192.0.2.127", want: "office"},
	{code: "networks", address: "192.0.2.128", want: "home"},
	{code: "networks", address: "2001:db8:1:ffff::1", want: "office"},
	{code: "networks", address: "2001:db8:2::1", want: "home"},
	{code: "networks", address: "::ffff:192.0.2.1", want: "office"},
	{code: "networks", address: "10.77.0.9", want: "printer"},
	{code: "networks", address: "10.77.1.9", want: "home"},
	{code: "networks", address: "198.51.100.7", want: "one"},
	{code: "networks", address: "198.51.100.8", want: "home"},

	{code: "queries", query: "ref=news+letter", want: "exact"},
	{code: "queries", query: "a=1&ref=news%20letter", want: "exact"},
	{code: "queries", query: "%72ef=news%20letter", want: "exact"},
	{code: "queries", query: "ref", want: "empty"},
	{code: "queries", query: "ref=&x", want: "empty"},
	{code: "queries", query: "ref=other", want: "any"},
	{code: "queries", query: "Ref=other", want: "home"},
	{code: "queries", query: "gone", want: "410"},
	{code: "queries", query: "gone&keep=1", want: "home"},

	{code: "dates", at: "2026-11-28T22:59:59.999Z", want: "home"},
	{code: "dates", at: "2026-11-28T23:00:00Z", want: "advent"},
	{code: "dates", at: "2026-12-24T16:59:59.999Z", want: "advent"},
	{code: "dates", at: "2026-12-24T17:00:00Z", want: "later"},

	// Central European time begins daylight saving on 29 March and ends it on 25 October
	// 2026, both at 01:00 UTC.
	{code: "office-hours", at: "2026-03-27T07:59:59Z", want: "home"}, // Friday, 08:59 CET
	{code: "office-hours", at: "2026-03-27T08:00:00Z", want: "open"},
	{code: "office-hours", at: "2026-03-29T00:59:59Z", want: "home"}, // Sunday, 01:59 CET; 02:00 never comes
	{code: "office-hours", at: "2026-03-29T01:00:00Z", want: "home"}, // 03:00 CEST
	{code: "office-hours", at: "2026-03-30T06:59:59Z", want: "home"}, // Monday, 08:59 CEST
	{code: "office-hours", at: "2026-03-30T07:00:00Z", want: "open"},
	{code: "office-hours", at: "2026-03-30T15:29:59Z", want: "open"},
	{code: "office-hours", at: "2026-03-30T15:30:00Z", want: "home"},
	{code: "office-hours", at: "2026-10-25T00:00:00Z", want: "open"}, // Sunday, 02:00 CEST
	{code: "office-hours", at: "2026-10-25T01:59:59Z", want: "open"}, // 02:59 CET, the second time
	{code: "office-hours", at: "2026-10-25T02:00:00Z", want: "home"},
	{code: "office-hours", at: "2026-10-30T08:00:00Z", want: "open"}, // Friday, 09:00 CET

	// New York ends daylight saving on 1 November 2026 at 06:00 UTC.
	{code: "nights", at: "2026-10-31T09:59:59Z", want: "night"}, // 05:59 EDT
	{code: "nights", at: "2026-10-31T10:00:00Z", want: "home"},
	{code: "nights", at: "2026-11-01T10:59:59Z", want: "night"}, // 05:59 EST
	{code: "nights", at: "2026-11-01T11:00:00Z", want: "home"},
	{code: "nights", at: "2026-11-02T02:59:59Z", want: "home"}, // 21:59 EST
	{code: "nights", at: "2026-11-02T03:00:00Z", want: "night"},

	// India is 5 hours and a half ahead.
	{code: "weekends", at: "2026-06-05T18:29:59Z", want: "home"}, // Friday, 23:59
	{code: "weekends", at: "2026-06-05T18:30:00Z", want: "weekend"},
	{code: "weekends", at: "2026-06-07T18:29:59Z", want: "weekend"},
	{code: "weekends", at: "2026-06-07T18:30:00Z", want: "home"}, // Monday

	{code: "life", agent: iphone, at: "2026-06-09T23:59:59.999Z", want: "404"},
	{code: "life", agent: iphone, at: "2026-06-10T00:00:00Z", want: "ios"},
	{code: "life", agent: mac, at: "2026-06-19T23:59:59.999Z", want: "home"},
	{code: "life", agent: iphone, at: "2026-06-20T00:00:00Z", want: "over"},
}

func TestVisits_AreAtLeastSixty(t *testing.T) { require.GreaterOrEqual(t, len(visits), 60) }
