//go:build rlsonly

package tenancy_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWithoutRowSecurityThisBuildLetsOthersIn shows that nothing else keeps tenants
// apart in this build, so that the matrix shows what row-level security does.
func TestWithoutRowSecurityThisBuildLetsOthersIn(t *testing.T) {
	w := newWorld(t)
	curious := &credential{text: w.key(other, 0, read)}
	status, _ := w.do(http.MethodGet, request{path: "/api/v1/urls/" + w.victimCode}, curious)
	require.Equal(t, http.StatusNotFound, status)
	w.exec(`ALTER TABLE link DISABLE ROW LEVEL SECURITY`)
	status, text := w.do(http.MethodGet, request{path: "/api/v1/urls/" + w.victimCode}, curious)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, marker)
}
