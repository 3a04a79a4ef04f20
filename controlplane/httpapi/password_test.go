package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
)

func TestPassword_IsInNoAnswer(t *testing.T) {
	a := start(t, func(_ *links, _ *httpapi.Config) {})
	res := a.post("/api/v1/urls", `{"original_url": "https://example.com/", "custom_code": "minutes", "password": "sesame"}`)
	require.Equal(t, http.StatusCreated, res.StatusCode, res.text)
	require.NotContains(t, res.text, "sesame")
	require.NotContains(t, a.get("/api/v1/urls/minutes").text, "sesame")
	for _, bad := range []string{`""`, `"` + strings.Repeat("s", 129) + `"`, "7"} {
		res := a.post("/api/v1/urls", `{"original_url": "https://example.com/", "password": `+bad+`}`)
		require.Equal(t, 422, res.StatusCode, bad)
		require.NotContains(t, res.text, "sss")
	}
}
