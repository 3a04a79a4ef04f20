package main

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/config"
)

func TestAStartWithNobodyToSucceedIsNoNews(t *testing.T) {
	var said bytes.Buffer
	s, err := claimEdge(t.Context(), config.Edge{DataDir: t.TempDir()}, slog.New(slog.NewTextHandler(&said, nil)))
	require.NoError(t, err)
	require.Nil(t, s)
	require.Empty(t, said.String())
}
