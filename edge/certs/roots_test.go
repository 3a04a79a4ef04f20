package certs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/edge/certs"
)

func TestReadRoots_RefusesAFileWithoutCertificates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	_, err := certs.ReadRoots(file)
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, bad := range []string{"no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		require.NoError(t, os.WriteFile(file, []byte(bad), 0o600))
		_, err = certs.ReadRoots(file)
		require.ErrorContains(t, err, "no certificate in PEM")
	}
	chain, _ := pair(t, 1, "edge")
	require.NoError(t, os.WriteFile(file, chain, 0o600))
	_, err = certs.ReadRoots(file)
	require.NoError(t, err)
}
