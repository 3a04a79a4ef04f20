package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/api"
)

func TestReadRedirects_KeepsTheLinesOfTheFile(t *testing.T) {
	a := start(t)
	body, err := json.Marshal(api.RedirectFile{Format: "netlify", Site: "https://www.example.com", Text: "# old\n/docs/* /d/:splat\n\n/app/* /x 200\n"})
	require.NoError(t, err)
	res := a.post("/api/v1/redirects", string(body))
	require.Equal(t, http.StatusOK, res.StatusCode, res.text)
	var got api.RedirectLines
	require.NoError(t, json.Unmarshal([]byte(res.text), &got))
	lines := strings.Split(got.Links, "\n")
	require.Empty(t, lines[0])
	require.JSONEq(t, `{"original_url":"https://www.example.com/d/{path}","custom_code":"docs/*","redirect_status":301,"forward_query":true}`, lines[1])
	require.Empty(t, lines[2])
	require.JSONEq(t, `{"refused":"the status 200 answers with another page's content, and a link only redirects: /app/* /x 200"}`, lines[3])
	require.Empty(t, got.Notes)

	res = a.post("/api/v1/redirects", `{"format": "nginx", "text": "map $uri $x { \"/a"}`)
	require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	require.Contains(t, res.text, "a quotation mark is not closed")
	res = a.post("/api/v1/redirects", `{"format": "iis", "text": ""}`)
	require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	body, err = json.Marshal(api.RedirectFile{Format: "nginx", Text: strings.Repeat("#", 8<<20+1)})
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.post("/api/v1/redirects", string(body)).StatusCode)
}
