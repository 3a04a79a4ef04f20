package client_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
)

func serve(t *testing.T, key string, h http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL+"/", key)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestCreateSendsOnlyWhatIsAskedForAndTheKey(t *testing.T) {
	c := serve(t, "wp_live_x", func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "POST /api/v1/urls", r.Method+" "+r.URL.Path)
		require.Equal(t, "Bearer wp_live_x", r.Header.Get("Authorization"))
		var body map[string]any
		require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		require.Equal(t, map[string]any{"original_url": "https://example.com/ä"}, body)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"short_code":"abc","original_url":"https://example.com/ä"}`))
	})
	link, err := c.Links.Create(t.Context(), client.NewLink{OriginalURL: "https://example.com/ä"})
	require.NoError(t, err)
	require.Equal(t, "abc", link.ShortCode)
}

func TestCodesAndCursorsAreEscaped(t *testing.T) {
	c := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		require.Empty(t, r.Header.Get("Authorization"))
		switch r.Method {
		case http.MethodDelete:
			require.Equal(t, "/api/v1/urls/a%2F..%3Fb", r.URL.EscapedPath())
			w.WriteHeader(http.StatusNoContent)
		default:
			require.Equal(t, "a&b", r.URL.Query().Get("cursor"))
			_, _ = w.Write([]byte(`{"urls":[],"next_cursor":""}`))
		}
	})
	_, err := c.Links.Remove(t.Context(), "a/..?b", client.Write{})
	require.NoError(t, err)
	_, err = c.Links.Search(t.Context(), client.Filter{}, "", 5, "a&b")
	require.NoError(t, err)
}

func TestProblemsTellTheReasonAndWhetherToTryAgain(t *testing.T) {
	for _, c := range []struct {
		status             int
		contentType, body  string
		want               string
		processed, passing bool
		after              time.Duration
	}{
		{409, "application/problem+json", `{"detail":"the code is taken","status":409}`, "the code is taken (409)", false, false, 7 * time.Second},
		{401, "application/problem+json", `{"detail":"a key is required"}`, "a key is required (401)", false, false, 7 * time.Second},
		{429, "application/problem+json; charset=utf-8", `{"title":"Too many"}`, "Too many (429)", false, true, 7 * time.Second},
		{408, "application/problem+json", `{"detail":"too slow"}`, "too slow (408)", false, true, 7 * time.Second},
		{503, "application/problem+json", `{"detail":"busy"}`, "busy (503)", true, true, 7 * time.Second},
		{502, "text/html", "<h1>proxy</h1>", "Bad Gateway (502)", true, true, 7 * time.Second},
		{404, "application/problem+json", `{broken`, "Not Found (404)", false, false, 7 * time.Second},
	} {
		api := serve(t, "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.contentType)
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		_, err := api.Links.Find(t.Context(), "", "x")
		require.EqualError(t, err, c.want)
		require.Equal(t, c.processed, client.Processed(err), c.want)
		after, passing := client.Passing(err)
		require.Equal(t, c.passing, passing, c.want)
		require.Equal(t, c.after, after)
	}
}

func TestNobodyThereIsToldApartFromALostAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	c, err := client.New(server.URL, "")
	require.NoError(t, err)
	_, err = c.Links.Find(t.Context(), "", "x")
	require.Error(t, err)
	require.True(t, client.Processed(err), "the request was sent")
	_, err = c.Links.Create(t.Context(), client.NewLink{ExpiresAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)})
	require.ErrorContains(t, err, "encode the request")
	require.False(t, client.Processed(err), "no request was made")
	_, passing := client.Passing(err)
	require.False(t, passing, "another try is of no use")
	server.Close()
	_, err = c.Links.Find(t.Context(), "", "x")
	require.ErrorContains(t, err, "is the control plane running?")
	require.False(t, client.Processed(err))
}

func TestOtherServersAreNotBelieved(t *testing.T) {
	c := serve(t, "", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	_, err := c.Links.Find(t.Context(), "", "x")
	require.ErrorContains(t, err, "does not answer like the API of Waypost")

	c = serve(t, "", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"results":[]}`)) })
	_, err = c.Links.CreateBulk(t.Context(), []client.NewLink{{OriginalURL: "https://example.com"}})
	require.ErrorContains(t, err, "0 outcomes for 1 links")

	_, err = client.New("localhost:8080", "")
	require.ErrorContains(t, err, "is not a URL such as")
}

// A front that sends http on to https, or a page to sign in, must not look like success.
func TestClient_FollowsNoRedirectAndTakesNoPageForSuccess(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet { // where a client that follows ends
				_, _ = w.Write([]byte(`{"keys": []}`))
				return
			}
			http.Redirect(w, r, "https://control.example.com"+r.URL.Path, http.StatusMovedPermanently)
		},
		"page": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>Sign in")) },
	} {
		c := serve(t, "wp_live_x", answer)
		says := map[string]string{"redirect": "it leads to \"https://control.example.com/", "page": "does not answer like the API of Waypost"}[name]
		require.ErrorContains(t, c.Delete(t.Context(), client.Path(api.PathEdgeCredentials, "eu-1")), says, name)
		_, err := c.Links.Remove(t.Context(), "spring", client.Write{})
		require.ErrorContains(t, err, says, name)
		_, err = client.Send[api.APIKey](t.Context(), c, http.MethodPost, api.PathAPIKeys, api.NewAPIKey{Name: "ops"})
		require.ErrorContains(t, err, says, name)
	}
}

// Behind one address two control planes take turns; the other one knows an old state.
func TestCheckDigest_TakesTheAnswerOfTheControlPlaneThatWasAsked(t *testing.T) {
	looks := 0
	c := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		answer := `{"control_plane": "b", "equal": true, "records": 1}`
		switch looks++; {
		case r.Method == http.MethodPost:
			answer = `{"control_plane": "a", "running": true}`
		case looks == 3:
			answer = `{"control_plane": "a", "equal": false, "records": 7}`
		}
		_, _ = w.Write([]byte(answer))
	})
	d, err := c.Edges.CheckDigest(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, int64(7), d.Records)
	require.False(t, *d.Equal)
}

func TestClient_NamesTheProgram(t *testing.T) {
	var named []string
	c := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		named = append(named, r.UserAgent())
		w.WriteHeader(http.StatusNoContent)
	})
	for _, program := range []string{"", "importer/2"} {
		c.UserAgent = program
		_, err := c.Links.Remove(t.Context(), "abc", client.Write{})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"waypost-client", "importer/2"}, named)
}
