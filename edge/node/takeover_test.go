package node

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAStartWithNobodyToSucceedIsNoNews(t *testing.T) {
	var said bytes.Buffer
	s, err := claim(t.Context(), &Config{DataDir: t.TempDir()}, slog.New(slog.NewTextHandler(&said, nil)))
	require.NoError(t, err)
	require.Nil(t, s)
	require.Empty(t, said.String())
}

func TestSpawn_RefusesWhereTheSuccessorWouldEndToo(t *testing.T) {
	require.NoError(t, mayEnd(2, false))
	require.ErrorContains(t, mayEnd(2, true), "kept by another process")
	require.ErrorContains(t, mayEnd(1, false), "a container ends with its first process")
}
