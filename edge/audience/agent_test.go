package audience_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/audience"
)

// person holds a human reading of a user agent.
type person struct{ device, browser, os, agent string }

// people returns testdata/agents.tsv, which was written by hand and not by the program.
func people(t testing.TB) []person {
	t.Helper()
	text, err := os.ReadFile("testdata/agents.tsv")
	require.NoError(t, err)
	var all []person
	for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[1:] {
		f := strings.Split(line, "\t")
		require.Len(t, f, 4, line)
		all = append(all, person{f[0], f[1], f[2], f[3]})
	}
	require.Greater(t, len(all), 200)
	return all
}

func TestAgent_UserAgentsAreWhatAPersonSays(t *testing.T) {
	a := audience.New(audience.Config{Salts: noSalts{}})
	for range 2 { // parsed, and remembered
		for _, p := range people(t) {
			bot := p.device == "bot"
			got, visitor := a.Profile(&waypost.Click{Agent: []byte(p.agent)})
			if got != (waypost.ClickProfile{Device: p.device, Browser: p.browser, OS: p.os, Bot: bot}) || visitor != 0 {
				t.Errorf("%s\n\tis      %q %q %q\n\tand not %q %q %q", p.agent, p.device, p.browser, p.os, got.Device, got.Browser, got.OS)
			}
			if judged, _ := a.Profile(&waypost.Click{Agent: []byte(p.agent), Bot: true}); !judged.Bot {
				t.Errorf("%s\n\twas a bot when it was journaled", p.agent)
			}
		}
	}
}

type noSalts struct{}

func (noSalts) Salt(int32) *waypost.Salt { return nil }

func BenchmarkProfile(b *testing.B) {
	salts := twoDays()
	known := people(b)
	sealer := audience.NewSealer(salts)
	for name, agents := range map[string]int{"agents that are known": len(known), "agents that are not": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			a := audience.New(audience.Config{Salts: salts})
			c := waypost.Click{At: noon, Referrer: []byte("https://www.example.com")}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p := known[i%len(known)]
				c.Agent = []byte(p.agent)
				if agents > len(known) {
					c.Agent = fmt.Appendf(c.Agent, " %d", i)
				}
				sealer.Seal(&c.Address, netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), noon)
				a.Profile(&c)
			}
		})
	}
}
