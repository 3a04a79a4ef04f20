package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"waypost/controlplane/httpapi"
)

// BenchmarkCreate measures a create from the router to the written answer, with a
// service that only remembers.
func BenchmarkCreate(b *testing.B) {
	for name, body := range map[string]string{
		"short": `{"original_url":"https://example.com/a/long/path?with=query&and=more"}`,
		"full": `{"original_url":"https://example.com/a/long/path?with=query&and=more","title":"A title","description":"Some words",` +
			`"tags":["one","two"],"redirect_status":301,"forward_query":true,"created_by":"somebody"}`,
	} {
		b.Run(name, func(b *testing.B) {
			store := newLinks()
			h := httpapi.New(services(store))
			b.ReportAllocs()
			for b.Loop() {
				store.all = store.all[:0]
				req := httptest.NewRequest(http.MethodPost, "/api/v1/urls", strings.NewReader(body))
				req.Header.Set("X-Api-Key", fullKey)
				req.Header.Set("Content-Type", "application/json")
				res := httptest.NewRecorder()
				h.ServeHTTP(res, req)
				if res.Code != http.StatusCreated {
					b.Fatal(res.Body.String())
				}
			}
		})
	}
	b.Run("bulk", func(b *testing.B) {
		store := newLinks()
		h := httpapi.New(services(store))
		item := `{"original_url":"https://example.com/a/long/path?with=query&and=more","title":"A title"}`
		body := `{"links":[` + item + strings.Repeat(","+item, 99) + `]}`
		b.ReportAllocs()
		for b.Loop() {
			store.all = store.all[:0]
			req := httptest.NewRequest(http.MethodPost, "/api/v1/urls/bulk", strings.NewReader(body))
			req.Header.Set("X-Api-Key", fullKey)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Prefer", "return=minimal")
			res := httptest.NewRecorder()
			h.ServeHTTP(res, req)
			if res.Code != http.StatusOK {
				b.Fatal(res.Body.String())
			}
		}
	})
}
