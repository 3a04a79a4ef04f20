package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/config"
)

func TestCheckConfigTriesTheGeoIPDatabase(t *testing.T) {
	require.NoError(t, checkFiles(config.Config{}))
	file := filepath.Join(t.TempDir(), "places.mmdb")
	cfg := config.Config{Edge: config.Edge{GeoIP: file}}
	require.ErrorContains(t, checkFiles(cfg), "edge.geoip: open "+file)
	require.NoError(t, os.WriteFile(file, []byte("no database"), 0o600))
	require.ErrorContains(t, checkFiles(cfg), "edge.geoip: ")
}
