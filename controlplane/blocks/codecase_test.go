package blocks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/blocks"
)

func TestBlocks_HoldInAnyCaseOfADomainThatIgnoresIt(t *testing.T) {
	s := start(t)
	const host = "go.example"
	_, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: host, Case: controlplane.CaseInsensitive})
	require.NoError(t, err)
	_, _, err = s.Links.Create(t.Context(), operator, wish("Hr", func(n *controlplane.NewLink) { n.Domain = host }))
	require.NoError(t, err)
	block := func(code string, blocked bool) waypost.Block {
		b, err := s.Blocks.Set(t.Context(), operator, blocks.Request{Domain: host, Code: code, Blocked: blocked, Reason: "test"})
		require.NoError(t, err)
		return b[0]
	}
	require.Equal(t, waypost.Code("Hr"), block("hR", true).Code, "as the owner typed it, so that the block outlives a switch")
	for _, path := range []string{"hr", "HR", "Hr", "HR/"} {
		require.Equal(t, 410, s.answers(t, host, path), path)
	}
	require.NotNil(t, s.Blocks.Of(host, "Hr"))
	require.Zero(t, s.set.Policy([]byte(host), []byte("HR"), false), "a domain that regards case has other codes")
	block("HR", false)
	require.Equal(t, 302, s.answers(t, host, "hr"))
	block("hr", true)
	require.Equal(t, 410, s.answers(t, host, "HR"))
}
