package rules_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/rules"
)

func compile(s rules.Source) ([]byte, error) { return rules.Compile(&s, compiling()) }

func TestCompile_NothingNeedsNoProgramme(t *testing.T) {
	b, err := compile(rules.Source{})
	require.NoError(t, err)
	require.Nil(t, b)
}

func TestCompile_RefusesWithThePlaceOfTheFault(t *testing.T) {
	when := func(c rules.Condition) rules.Source { return rules.Source{Rules: []rules.Rule{to("x", c)}} }
	many := func(n int) (rs []rules.Rule) {
		for range n {
			rs = append(rs, to("x"))
		}
		return rs
	}
	var wide, targets, long rules.Source
	wide.Rules = []rules.Rule{{To: home}}
	for range rules.MaxConditions + 1 {
		wide.Rules[0].When = append(wide.Rules[0].When, rules.Condition{Country: []string{"DE"}})
	}
	for i := range 3 {
		split := rules.Split{}
		for j := range 8 {
			split.Variants = append(split.Variants, rules.Variant{Weight: 1, To: fmt.Sprintf("https://example.com/%d-%d", i, j)})
		}
		targets.Rules = append(targets.Rules, rules.Rule{Split: &split})
	}
	for i := range rules.MaxRules {
		r := to("x")
		for j := range rules.MaxConditions {
			r.When = append(r.When, rules.Condition{City: []string{strings.Repeat("x", 100) + fmt.Sprint(i, j)}})
		}
		long.Rules = append(long.Rules, r)
	}
	variants := func(weights ...int) rules.Source {
		var s rules.Split
		for _, w := range weights {
			s.Variants = append(s.Variants, rules.Variant{Weight: w, To: home})
		}
		return rules.Source{Rules: []rules.Rule{{Split: &s}}}
	}
	for want, s := range map[string]rules.Source{
		"at most 16 rules":                       {Rules: many(17)},
		"rules[0].when: at most 8 conditions":    wide,
		"at most 16 different targets":           targets,
		"the rules take more than 4096 bytes":    long,
		"rules[0]: give exactly one of to":       {Rules: []rules.Rule{{}}},
		"rules[0].to: no URL":                    {Rules: []rules.Rule{{To: "javascript:alert(1)"}}},
		"rules[0].status: must be 404 or 410":    {Rules: []rules.Rule{{Status: 200}}},
		"two rules of the link have the id 3":    {Rules: []rules.Rule{{ID: 3, To: home}, {ID: 3, To: home}}},
		"must be between 1 and 250":              {Rules: []rules.Rule{{ID: 251, To: home}}},
		"rules[0].name: must be at most":         {Rules: []rules.Rule{{Name: "a\nb", To: home}}},
		"rules[0].when[0]: give exactly one":     when(rules.Condition{}),
		"rules[0].when[0]: give exactly one of":  when(rules.Condition{Agent: []string{"ios"}, Country: []string{"DE"}}),
		"rules[0].when[0].agent[0]: \"iphone\"":  when(rules.Condition{Agent: []string{"iphone"}}),
		"rules[0].when[0].country[1]: \"de\"":    when(rules.Condition{Country: []string{"DE", "de"}}),
		"rules[0].when[0].language[0]":           when(rules.Condition{Language: []string{"german"}}),
		"rules[0].when[0].address[0]":            when(rules.Condition{Address: []string{"300.1.1.1"}}),
		"rules[0].when[0].address[0]: \"1.2.*\"": when(rules.Condition{Address: []string{"1.2.*"}}),
		"\"::/0\" has all IPv4 addresses in it":  when(rules.Condition{Address: []string{"::/0"}}),
		"\"::/80\" has all IPv4":                 when(rules.Condition{Address: []string{"::/80"}}),
		"rules[1].split.by: at most one split":   {Rules: []rules.Rule{byCookie(), byCookie()}},
		"rules[0].when[0].city[0]":               when(rules.Condition{City: []string{""}}),
		"rules[0].when[0].query.key":             when(rules.Condition{Query: &rules.Parameter{}}),
		"from must be before until":              when(rules.Condition{From: now, Until: now}),
		"is no time zone":                        when(rules.Condition{Week: &rules.Schedule{Zone: "Berlin", Hours: []string{"daily 09:00-10:00"}}}),
		"week.hours[0]: \"mon 09:05-10:00\"":     when(rules.Condition{Week: &rules.Schedule{Zone: "UTC", Hours: []string{"mon 09:05-10:00"}}}),
		"\"monday\" is no day":                   when(rules.Condition{Week: &rules.Schedule{Zone: "UTC", Hours: []string{"monday 09:00-10:00"}}}),
		"week.hours: between 1 and 16":           when(rules.Condition{Week: &rules.Schedule{Zone: "UTC"}}),
		"between 2 and 8 variants":               variants(1),
		"at least one weight":                    variants(0, 0),
		"variants[1].weight":                     variants(1, 65536),
		"exhausted_url need max_clicks":          {ExhaustedURL: home},
		"max_clicks_mode and exhausted_url need": {MaxClicksMode: rules.ModeExact},
		"max_clicks: must be between":            {MaxClicks: -1},
		"max_clicks_mode: \"bounded\" is no mode; the modes are exact and eventual": {MaxClicks: 1, MaxClicksMode: "bounded"},
		"valid_from: must be between the years":                                     {ValidFrom: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"expired_url: no URL":                                                       {ExpiredURL: "ftp://example.com/"},
	} {
		b, err := compile(s)
		require.ErrorContains(t, err, want)
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), want)
		require.Nil(t, b)
	}
	permanent := compiling()
	permanent.Status = 301
	_, err := rules.Compile(&rules.Source{Rules: many(1)}, permanent)
	require.ErrorContains(t, err, "redirect_status must be 302 or 307")
	_, err = rules.Compile(&rules.Source{ExpiredURL: home}, permanent)
	require.NoError(t, err, "browsers keep it no longer than the link")
}

func byCookie() rules.Rule {
	return rules.Rule{Split: &rules.Split{
		By: rules.ByCookie, Variants: []rules.Variant{{Weight: 1, To: home}, {Weight: 1, To: home + "2"}},
	}}
}

func TestResolve_NetworksOfIPv6HaveNoVisitorsOverIPv4(t *testing.T) {
	r := record(t, rules.Source{Rules: []rules.Rule{
		to("six", rules.Condition{Address: []string{"2000::/3", "::/96", "fd00::/8"}}),
		to("four", rules.Condition{Address: []string{"0.0.0.0/0"}}),
	}})
	for address, want := range map[string]uint8{
		"192.0.2.7": 2, "::ffff:192.0.2.7": 2, "2001:db8::1": 1, "::1": 1, "fd00::1": 1, "fe80::1": 0,
	} {
		require.Equal(t, want, rules.Resolve(r, visit{address: address}.facts(r)).Rule, address)
	}
}

func TestResolve_NamesOfCitiesMatchInAnyCase(t *testing.T) {
	for name, cities := range map[string][]string{
		"Zürich": {"Zürich", "ZÜRICH", "zürich"}, "SÃO PAULO": {"São Paulo"}, "Sa\u0303o Paulo": {"São Paulo"},
		"łódź": {"Łódź"}, "Berlin": {"bERLIN"},
	} {
		r := record(t, rules.Source{Rules: []rules.Rule{to("a", rules.Condition{City: []string{"Paris", name}})}})
		for _, city := range cities {
			require.EqualValues(t, 1, rules.Resolve(r, visit{city: city}.facts(r)).Rule, "%s for %s", city, name)
		}
		for _, city := range []string{"", "Zürichs", "Zuric", "S", "Lodz", "B"} {
			require.Zero(t, rules.Resolve(r, visit{city: city}.facts(r)).Rule, "%s for %s", city, name)
		}
	}
}

func TestCompile_TakesTheCodesOfCountries(t *testing.T) {
	whenIn := func(codes ...string) rules.Source {
		return rules.Source{Rules: []rules.Rule{to("x", rules.Condition{Country: codes})}}
	}
	for _, code := range []string{"DE", "GB", "TW", "XK", "ZW"} {
		_, err := compile(whenIn(code))
		require.NoError(t, err, code)
	}
	for _, code := range []string{"UK", "EN", "XX", "ZZ", "AA", "EU", "AN", "", "D", "DEU", "D ", "\n", "\nA", "de"} {
		_, err := compile(whenIn("DE", code))
		require.ErrorContains(t, err, "rules[0].when[0].country[1]: ", code)
		require.Equal(t, code == "UK", strings.HasSuffix(err.Error(), "did you mean GB?"), code)
	}
}

func TestCompile_NumbersRulesAndVariantsAndKeepsTheirNumbers(t *testing.T) {
	s := rules.Source{Rules: []rules.Rule{
		to("a"),
		{ID: 1, To: home},
		{Split: &rules.Split{Variants: []rules.Variant{{ID: 2, Weight: 1, To: home}, {Weight: 1, To: home + "2"}}}},
	}}
	_, err := rules.Compile(&s, compiling())
	require.NoError(t, err)
	require.Equal(t, []int{2, 1, 3}, []int{s.Rules[0].ID, s.Rules[1].ID, s.Rules[2].ID})
	require.Equal(t, 3, s.Rules[2].Split.Variants[1].ID)
	again, err := rules.ParseSource(s.Encode())
	require.NoError(t, err)
	require.Equal(t, s, again)
}

func TestCompile_OffsetsReachThreeYearsAheadAndAreTheSameAllYear(t *testing.T) {
	s := rules.Source{Rules: []rules.Rule{to("open", rules.Condition{
		Week: &rules.Schedule{Zone: "Europe/Berlin", Hours: []string{"mon 09:00-10:00"}},
	})}}
	at := func(now time.Time) []byte {
		with := compiling()
		with.Now = now
		b, err := rules.Compile(&s, with)
		require.NoError(t, err)
		require.EqualValues(t, 1, b[1]>>7, "the bit by which PostgreSQL finds such links")
		return b
	}
	january, december := at(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), at(time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC))
	require.Equal(t, january, december)
	require.NotEqual(t, january, at(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)))
	r := &waypost.Record{Kind: waypost.KindLink, Status: 302, Payload: []byte(home), Programme: december}
	for day, want := range map[string]uint8{
		"2029-12-24T08:30:00Z": 1, // Monday, 09:30 CET
		"2029-07-02T07:30:00Z": 1, // Monday, 09:30 CEST
		"2029-07-02T08:30:00Z": 0,
	} {
		moment, err := time.Parse(time.RFC3339, day)
		require.NoError(t, err)
		require.Equal(t, want, rules.Resolve(r, &rules.Facts{At: moment.UnixMilli()}).Rule, day)
	}
}

func TestResolve_ADamagedProgrammeLeadsToTheLinksOwnTargetUnlessItIsGated(t *testing.T) {
	r := record(t, rules.Source{Rules: []rules.Rule{to("a", rules.Condition{Agent: []string{"ios"}})}})
	r.Programme[0] = 9 // of a later version
	res := rules.Resolve(r, &rules.Facts{})
	require.Equal(t, 302, res.Status)
	require.Equal(t, home, string(res.Location))
	require.True(t, res.Broken)
}

// FuzzResolve evaluates what may lie on a disk: it must neither panic nor disclose more
// than the targets of the record, and an explanation is the same evaluation.
func FuzzResolve(f *testing.F) {
	seed := func(s rules.Source) {
		b, err := rules.Compile(&s, compiling())
		require.NoError(f, err)
		f.Add(b, "Mozilla/5.0 (iPhone)", "de-CH,en;q=0.5", "a=b&c", int64(1_800_000_000_000), uint16(7))
	}
	seed(rules.Source{Rules: []rules.Rule{
		to("a", rules.Condition{Agent: []string{"ios"}}, rules.Condition{Country: []string{"DE"}, Not: true}),
		to("b", rules.Condition{City: []string{"Paris"}}, rules.Condition{Language: []string{"de"}}),
		to("c", rules.Condition{Address: []string{"10.0.0.0/8", "1.2.*.4"}}, rules.Condition{Query: &rules.Parameter{Key: "a"}}),
		to("d", rules.Condition{From: now}, rules.Condition{Week: &rules.Schedule{Zone: "America/New_York", Hours: []string{"daily 22:00-06:00"}}}),
		{Split: &rules.Split{Variants: []rules.Variant{{Weight: 70, To: home}, {Weight: 30, To: home + "2"}}}},
	}})
	seed(rules.Source{ValidFrom: now, ExpiredURL: home, MaxClicks: 3, ExhaustedURL: home, Rules: []rules.Rule{{Status: 410}}})
	seed(rules.Source{Rules: []rules.Rule{{Split: &rules.Split{
		By: rules.ByCookie, Variants: []rules.Variant{{Weight: 1, To: home}, {Weight: 1, To: home}},
	}}}})
	secret := protected(f, rules.Source{ValidFrom: now, Rules: []rules.Rule{{Status: 410}}}, verifier(1))
	f.Add(secret.Programme, "", "", "", now.UnixMilli(), uint16(0))
	f.Fuzz(func(t *testing.T, programme []byte, agent, language, query string, at int64, chance uint16) {
		r := &waypost.Record{Kind: waypost.KindLink, Status: 302, Payload: []byte(home), Programme: programme}
		v := visit{agent: agent, language: language, query: query, address: "10.1.2.3", country: "FR", city: "Paris", chance: chance}
		facts := v.facts(r)
		facts.At = at
		res := rules.Resolve(r, facts)
		explained, _ := rules.Explain(r, facts)
		require.Equal(t, res, explained)
		if res.Redirects() {
			require.NotEmpty(t, res.Location)
		}
		if rules.Check(programme) == nil {
			require.False(t, res.Broken, "what Check has passed is evaluated")
		}
	})
}

// FuzzCompile takes rules as clients send them.
func FuzzCompile(f *testing.F) {
	f.Add(`{"rules":[{"when":[{"agent":["ios"]},{"week":{"zone":"Europe/Berlin","hours":["mon-fri 09:00-17:00"]}}],"to":"https://example.com/"}]}`)
	f.Add(`{"rules":[{"split":{"by":"cookie","variants":[{"weight":1,"to":"https://a.example/"},{"weight":0,"to":"https://b.example/"}]}}]}`)
	f.Add(`{"valid_from":"2026-01-01T00:00:00Z","max_clicks":1,"rules":[{"when":[{"address":["1.*.3.4","2000::/3"]},{"query":{"key":"a","equals":""}}],"status":404}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var s rules.Source
		if json.Unmarshal([]byte(text), &s) != nil {
			return
		}
		b, err := rules.Compile(&s, compiling())
		if err != nil {
			require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
			return
		}
		again, err := rules.ParseSource(s.Encode())
		require.NoError(t, err)
		same, err := rules.Compile(&again, compiling())
		require.NoError(t, err)
		require.Equal(t, b, same, "what is kept is what was compiled")
	})
}
