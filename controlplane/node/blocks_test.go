package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
)

func TestBlocksByGossip_AreVerifiedAndAFloodFillsNoLog(t *testing.T) {
	signer, err := replication.NewSigner([32]byte{1}, replication.Cluster{2}, 1)
	require.NoError(t, err)
	log := &bytes.Buffer{}
	c := &control{log: slog.New(slog.NewTextHandler(log, nil)), signer: signer}
	sound := signer.SignBlock(waypost.Block{Code: "phish", Version: 1, Blocked: true, Policy: waypost.BlockGone, Reason: "order", At: 1})
	forged := sound
	forged.Version++

	began := time.Now()
	for range 500 {
		c.hearBlock(replication.AppendBlock(nil, &forged))
		c.hearBlock([]byte("nonsense"))
	}
	require.Zero(t, c.blocked.Active())
	require.Contains(t, log.String(), "refused a block")
	require.LessOrEqual(t, strings.Count(log.String(), "\n"), 1+int(time.Since(began)/time.Second))
	c.hearBlock(replication.AppendBlock(nil, &sound))
	require.Equal(t, 1, c.blocked.Active())
}
