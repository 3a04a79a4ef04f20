package controlplane

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

// noMinter has no keys; it takes each code for a generated one.
type noMinter struct{ Minter }

func (noMinter) Counter(waypost.Code) (Counter, bool) { return Counter{Prefix: 5, N: 1234}, true }

func (noMinter) Discard(uint32) {}

func (noMinter) DropRefused(error, uint32) bool { return false }

func TestLinks_OnlyCodesOfTheDefaultDomainAreCounters(t *testing.T) {
	s := &Links{minter: noMinter{}}
	require.Equal(t, &Counter{Prefix: 5, N: 1234}, s.claim(waypost.DefaultDomain, "abcdefg"))
	require.Nil(t, s.claim(2, "abcdefg"), "a workspace's own domain burns nothing")
}
