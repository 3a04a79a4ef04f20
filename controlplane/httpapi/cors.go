package httpapi

import (
	"net/http"
	"strings"

	"github.com/rs/cors"
)

// allowOrigins lets web pages of some origins call the API with a key. Their browsers
// send no cookie along, so that a page cannot act for somebody who has signed in.
func allowOrigins(origins []string, next http.Handler) http.Handler {
	if len(origins) == 0 {
		return next
	}
	shared := cors.New(cors.Options{
		AllowedOrigins: origins, AllowedHeaders: []string{"*"}, ExposedHeaders: []string{"*"}, MaxAge: 600,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
	}).Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/openapi.json" {
			shared.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
