package node_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/edge/node"
)

func TestCheck_OpensTheGeoIPDatabase(t *testing.T) {
	cfg := node.Config{Control: node.Control{Token: "of all edges"}, DataDir: t.TempDir()}
	require.NoError(t, node.Check(cfg))
	cfg.GeoIP = filepath.Join(t.TempDir(), "places.mmdb")
	require.ErrorContains(t, node.Check(cfg), "edge.geoip: open "+cfg.GeoIP)
	require.NoError(t, os.WriteFile(cfg.GeoIP, []byte("no database"), 0o600))
	require.ErrorContains(t, node.Check(cfg), "edge.geoip: ")
}
