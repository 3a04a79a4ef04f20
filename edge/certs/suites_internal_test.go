package certs

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTLS_OffersAEADAlone(t *testing.T) {
	cfg := new(Certificates).TLS()
	require.NotEmpty(t, cfg.CipherSuites)
	for _, id := range cfg.CipherSuites {
		require.Regexp(t, `^TLS_ECDHE_.*(_GCM_SHA(256|384)|_POLY1305_SHA256)$`, tls.CipherSuiteName(id))
	}
}
