package httpapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
)

// FuzzCreate sees that no body makes the API fail, and that what is accepted
// comes back as it was sent.
func FuzzCreate(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, `{"original_url": "https://example.com/"}`,
		`{"original_url": "https:\/\/example.com\/\ud83d\ude00\u00e9", "title": "\"\\\n"}`,
		`{"original_url": "https://example.com/\ud800"}`, "{\"original_url\": \"https://\xff\"}",
		`{"original_url": "https://example.com/", "metadata": {"a": [1.5e-3, {"b": null, "": true}]}, "tags": ["x"]}`,
		`{"original_url": "https://example.com/", "expires_in_seconds": 1e3, "redirect_status": 301}`,
		`{"original_url": "https://example.com/", "expires_at": "9999-12-31T23:59:59-12:00"}`,
		strings.Repeat("[", 50), `{"original_url": "https://example.com/"`, `{"a":{"a":{"a":1,"a":2}}}`,
	} {
		f.Add([]byte(seed))
	}
	store := newLinks()
	h := httpapi.New(services(store))
	f.Fuzz(func(t *testing.T, body []byte) {
		store.all = nil
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/urls", bytes.NewReader(body))
		req.Header.Set("X-Api-Key", fullKey)
		req.Header.Set("Content-Type", "application/json")
		res := httptest.NewRecorder()
		h.ServeHTTP(res, req)

		require.True(t, json.Valid(res.Body.Bytes()), "%s", res.Body)
		switch res.Code {
		case http.StatusCreated:
			require.True(t, utf8.Valid(body))
			var sent, answered struct {
				OriginalURL string          `json:"original_url"`
				Title       string          `json:"title"`
				Metadata    json.RawMessage `json:"metadata"`
			}
			require.NoError(t, json.Unmarshal(body, &sent))
			require.NoError(t, json.Unmarshal(res.Body.Bytes(), &answered))
			require.Equal(t, sent.OriginalURL, answered.OriginalURL)
			require.Equal(t, sent.Title, answered.Title)
			require.Equal(t, sent.OriginalURL, store.all[0].OriginalURL)
			require.NotContains(t, store.all[0].Title+store.all[0].OriginalURL, "\x00")
			if len(sent.Metadata) > 0 {
				require.JSONEq(t, string(sent.Metadata), string(answered.Metadata))
			}
		case http.StatusBadRequest, http.StatusConflict, http.StatusUnprocessableEntity:
			require.Empty(t, store.all)
			require.Equal(t, "application/problem+json", res.Header().Get("Content-Type"))
		default:
			t.Fatalf("status %d: %s", res.Code, res.Body)
		}
	})
}
