package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/api"
)

func TestSafeCell_IsNoFormulaAndReadBackExactly(t *testing.T) {
	for text, cell := range map[string]string{
		"": "", "'": "'", "a": "a", "'a": "'a", "a=1": "a=1", " a": " a",
		"=1": "'=1", "+1": "'+1", "-": "'-", "@A": "'@A", "\t=1": "'\t=1", "\r": "'\r", "\n": "'\n", "  =1": "'  =1",
		"\u00a0=1": "'\u00a0=1", "＝1": "'＝1", "'=1": "''=1", "''-1": "'''-1", "' =1": "'' =1",
	} {
		require.Equal(t, cell, api.SafeCell(text), "%q", text)
		require.Equal(t, text, api.PlainCell(cell), "%q", cell)
	}
}
