package config_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/config"
)

const referencePage = "../../docs/configuration.md"

// With WAYPOST_UPDATE_DOCS=1 the page is written instead.
func TestTheConfigurationPageIsTrue(t *testing.T) {
	if os.Getenv("WAYPOST_UPDATE_DOCS") != "" {
		require.NoError(t, os.WriteFile(referencePage, []byte(config.Reference()), 0o644))
	}
	page, err := os.ReadFile(referencePage)
	require.NoError(t, err)
	require.Equal(t, config.Reference(), string(page), "run: WAYPOST_UPDATE_DOCS=1 go test ./internal/config")
}
