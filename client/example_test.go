package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"waypost/client"
)

func Example() {
	// In place of a control plane.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"short_code": "spring", "short_url": "https://go.example.com/spring"}`))
	}))
	defer server.Close()

	c, err := client.New(server.URL, "wp_live_key")
	if err != nil {
		panic(err)
	}
	defer c.Close()
	link, _, err := c.Links.Make(context.Background(), client.NewLink{
		OriginalURL: "https://example.com/", CustomCode: "spring",
	}, client.Write{})
	if err != nil {
		panic(err)
	}
	fmt.Println(link.ShortURL)
	// Output: https://go.example.com/spring
}
