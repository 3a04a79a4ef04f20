package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhoComparesASilentEdgeIsToldAtOnce(t *testing.T) {
	a := &rangesAPI{answers: map[string]string{
		"GET /api/admin/edges": `{"edges": [{"node": "eu-1", "state": "alive"}, {"node": "eu-2", "state": "silent", "since": "2031-05-06T12:08:09Z"}]}`,
	}}
	// The order itself is refused, so that nothing is waited for.
	require.Regexp(t, `^waypost: eu-2 is silent since 2031-05-0\d \d\d:\d\d:\d\d, and is waited for until it is back: 20s at most`, a.run(t, "verify", "--edge", "eu-2", "--timeout=20s").stderr)
	require.NotContains(t, a.run(t, "verify", "--edge", "eu-1", "--timeout=20s").stderr, "silent")
}
