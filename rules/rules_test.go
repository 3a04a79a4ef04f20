package rules_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/rules"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// compiling takes targets as they are.
func compiling() *rules.Compiling {
	return &rules.Compiling{
		Status: 302, Now: now, Key: [16]byte{1, 2, 3},
		Target: func(url string) (string, string, error) {
			if !waypost.ValidLocation(url) {
				return "", "", waypost.Errorf(waypost.EInvalid, "no URL")
			}
			return url, url, nil
		},
	}
}

const home = "https://example.com/home"

// record compiles a source into the record of a link to home.
func record(t testing.TB, s rules.Source) *waypost.Record {
	t.Helper()
	b, err := rules.Compile(&s, compiling())
	require.NoError(t, err)
	return &waypost.Record{
		Kind: waypost.KindLink, Status: 302, Domain: 1, Name: []byte("code"), Payload: []byte(home), Programme: b,
	}
}

// visit is a visitor.
type visit struct {
	agent, language, query, cookie, address, country, city string
	at                                                     time.Time
	chance                                                 uint16
}

func (v visit) facts(r *waypost.Record) *rules.Facts {
	at := v.at
	if at.IsZero() {
		at = now
	}
	request := rules.Request{
		At: at.UnixMilli(), UserAgent: []byte(v.agent), AcceptLanguage: []byte(v.language), Query: []byte(v.query), Cookie: []byte(v.cookie),
		Chance: v.chance,
	}
	if v.address != "" {
		request.Address = netip.MustParseAddr(v.address)
	}
	var f rules.Facts
	f.Read(rules.RequiredFacts(r.Programme), &request)
	copy(f.Country[:], v.country)
	f.City = v.city
	return &f
}

func to(target string, when ...rules.Condition) rules.Rule {
	return rules.Rule{When: when, To: "https://example.com/" + target}
}

func TestResolve_FirstRuleWhoseConditionsAllHoldDecides(t *testing.T) {
	r := record(t, rules.Source{Rules: []rules.Rule{
		to("ios-de", rules.Condition{Agent: []string{"ios"}}, rules.Condition{Country: []string{"DE", "AT"}}),
		to("ios", rules.Condition{Agent: []string{"ios"}}),
		to("no-bot", rules.Condition{Agent: []string{"bot"}, Not: true}, rules.Condition{Language: []string{"fr"}}),
		{Status: 410, When: []rules.Condition{{Query: &rules.Parameter{Key: "gone"}}}},
	}})
	const iphone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1"
	for _, c := range []struct {
		visit
		status int
		want   string
		rule   uint8
	}{
		{visit{agent: iphone, country: "DE"}, 302, "https://example.com/ios-de", 1},
		{visit{agent: iphone, country: "FR"}, 302, "https://example.com/ios", 2},
		{visit{agent: iphone}, 302, "https://example.com/ios", 2},
		{visit{agent: "Mozilla/5.0", language: "fr-CA,fr;q=0.9"}, 302, "https://example.com/no-bot", 3},
		{visit{agent: "Googlebot/2.1", language: "fr"}, 302, home, 0},
		{visit{agent: "curl/8", query: "a=b&gone"}, 410, "", 4},
		{visit{agent: "curl/8"}, 302, home, 0},
	} {
		res := rules.Resolve(r, c.facts(r))
		require.Equal(t, c.status, res.Status)
		require.Equal(t, c.want, string(res.Location))
		require.Equal(t, c.rule, res.Rule)
		require.Equal(t, c.status == 302, res.Link)
	}
}

func TestResolve_AllocatesNothing(t *testing.T) {
	r := record(t, rules.Source{Rules: []rules.Rule{
		to("a", rules.Condition{Agent: []string{"android"}}, rules.Condition{Language: []string{"de"}}),
		to("b", rules.Condition{City: []string{"Paris"}}),
		to("c", rules.Condition{Address: []string{"10.0.0.0/8"}}, rules.Condition{Query: &rules.Parameter{Key: "x"}}),
		to("d", rules.Condition{Week: &rules.Schedule{Zone: "Europe/Berlin", Hours: []string{"mon 01:00-01:15"}}}),
		{Split: &rules.Split{Variants: []rules.Variant{{Weight: 70, To: "https://example.com/70"}, {Weight: 30, To: "https://example.com/30"}}}},
	}})
	f := visit{agent: "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/120.0", language: "en", address: "192.0.2.7", city: "ZÜRICH", query: "a=b"}.facts(r)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if res := rules.Resolve(r, f); res.Rule != 5 || res.Variant == 0 {
			t.Fatal(res)
		}
	}))
}

func BenchmarkResolve(b *testing.B) {
	const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
	two := rules.Source{Rules: []rules.Rule{
		to("a", rules.Condition{Agent: []string{"ios"}}), to("b", rules.Condition{Agent: []string{"android"}}),
	}}
	var many rules.Source
	for range 15 {
		many.Rules = append(many.Rules, to("a", rules.Condition{Agent: []string{"desktop"}}, rules.Condition{Language: []string{"en"}},
			rules.Condition{Query: &rules.Parameter{Key: "utm_source"}, Not: true}, rules.Condition{Agent: []string{"windows"}}))
	}
	var split rules.Split
	for _, target := range []string{"https://example.com/1", "https://example.com/2", "https://example.com/3", "https://example.com/4"} {
		split.Variants = append(split.Variants, rules.Variant{Weight: 1, To: target})
	}
	many.Rules = append(many.Rules, rules.Rule{Split: &split})
	for name, s := range map[string]rules.Source{"two": two, "16 and split": many} {
		b.Run(name, func(b *testing.B) {
			r := record(b, s)
			request := rules.Request{
				UserAgent: []byte(chrome), AcceptLanguage: []byte("en-US,en;q=0.9,de;q=0.8"), Address: netip.MustParseAddr("192.0.2.7"),
			}
			b.ReportAllocs()
			for b.Loop() {
				var f rules.Facts
				f.Read(rules.RequiredFacts(r.Programme), &request)
				if res := rules.Resolve(r, &f); res.Status != 302 {
					b.Fatal(res)
				}
			}
		})
	}
}
