package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/edge/server"
)

func TestAPermanentRedirectIsNotKeptFromAPrefetch(t *testing.T) {
	_, addr := serve(t, server.Config{})
	for header, cache := range map[string]string{
		"Sec-Purpose: prefetch": "private, no-store", "X-Purpose: prefetch": "private, no-store", "Sec-Purpose: none": "private, max-age=86400",
		"Referer: https://example.org/prefetch": "private, max-age=86400",
	} {
		res := get(t, addr, "/found301", "wayp.example", header)
		require.Equal(t, 301, res.StatusCode)
		require.Equal(t, cache, res.Header.Get("Cache-Control"), header)
	}
}
