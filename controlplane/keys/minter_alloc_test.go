//go:build !race

// The race detector empties the pools that minting draws on, so that allocations
// can be counted only without it.

package keys_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/keys"
)

// TestMinter_MintingAllocatesTheCodeAlone counts those of the whole process, while leases
// of PostgreSQL are used up and taken: that is little for a key.
func TestMinter_MintingAllocatesTheCodeAlone(t *testing.T) {
	s := start(t)
	m := keys.NewMinter(keys.MinterConfig{Store: s.db, Coder: newCoder(t), Region: "us", Node: "test/2"})
	defer func() { require.NoError(t, m.Close(context.Background())) }()
	ctx := t.Context()
	const keys = 100_000
	require.Equal(t, 1.0, testing.AllocsPerRun(keys, func() {
		if _, err := m.Mint(ctx); err != nil {
			panic(err)
		}
	}))
	require.Greater(t, m.Minted(), int64(keys))
	var leases int
	require.NoError(t, s.hand.QueryRow(ctx, `SELECT count(*) FROM key_lease WHERE region = 'us'`).Scan(&leases))
	require.Greater(t, leases, 1)
}

func TestMinter_MintingManyAllocatesTheCodesAndTheirList(t *testing.T) {
	s := start(t)
	m := keys.NewMinter(keys.MinterConfig{Store: s.db, Coder: newCoder(t), Region: "us", Node: "test/2"})
	defer func() { require.NoError(t, m.Close(context.Background())) }()
	const keys = 100
	require.LessOrEqual(t, testing.AllocsPerRun(500, func() {
		if _, err := m.MintMany(t.Context(), keys); err != nil {
			panic(err)
		}
	}), keys+1.0)
}
