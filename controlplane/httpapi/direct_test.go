package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
	"waypost/controlplane/limit"
)

// A query takes a request the long way, through huma.
func TestARequestIsAnsweredTheSameDirectlyAndThroughHuma(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	fixed := func(f *links, c *httpapi.Config) {
		f.now = func() time.Time { return at }
		c.Now = f.now
		c.Limits.Requests = limit.NewRequests(1, 2, frozen)
	}
	const good = `{"original_url": "https://example.com/"}`
	many := `{"links": [` + strings.Repeat(good+",", 1000) + good + `]}`
	for name, c := range map[string]call{
		"a link":                     {path: "/api/v1/urls", body: good},
		"a link with everything":     {path: "/api/v1/urls", body: `{"original_url": "https://müller.example/?a=\"<b>&c", "custom_code": "mine", "title": "ü", "tags": ["a", "ü"], "metadata": {"a": [1, 2]}, "expires_in_hours": 1, "active": false}`},
		"plain tags":                 {path: "/api/v1/urls", body: `{"original_url": "https://example.com/", "tags": ["a", "b"], "title": "\u0026"}`},
		"a broken rule":              {path: "/api/v1/urls", body: `{"original_url": "none"}`},
		"an unknown field":           {path: "/api/v1/urls", body: `{"original_url": "https://example.com/", "nope": 1}`},
		"no JSON":                    {path: "/api/v1/urls", body: `{"original_url": "https://example.com/",}`},
		"a line end in a string":     {path: "/api/v1/urls", body: "{\"original_url\": \"https://example.com/\n\"}"},
		"no body":                    {path: "/api/v1/urls"},
		"white space":                {path: "/api/v1/urls", body: "  "},
		"no UTF-8":                   {path: "/api/v1/urls", body: "{\"original_url\": \"https://example.com/\xff\"}"},
		"too large":                  {path: "/api/v1/urls", body: strings.Repeat(" ", 1<<20+1)},
		"another type":               {path: "/api/v1/urls", body: good, header: map[string]string{"Content-Type": "text/plain"}},
		"another type is wished for": {path: "/api/v1/urls", body: good, header: map[string]string{"Accept": "text/html"}},
		"no key":                     {path: "/api/v1/urls", body: good, key: "none"},
		"an unknown key":             {path: "/api/v1/urls", body: good, key: "wp_live_nobody"},
		"a key that may only read":   {path: "/api/v1/urls", body: good, key: readKey},
		"many":                       {path: "/api/v1/urls/bulk", body: `{"links": [` + good + `, {"original_url": "none"}, {"original_url": "https://example.com/", "tags": ["x"]}, ` + good + `]}`},
		"many plain ones":            {path: "/api/v1/urls/bulk", body: `{"links": [` + good + `,` + good + `]}`},
		"many, in short":             {path: "/api/v1/urls/bulk", body: `{"links": [` + good + `,` + good + `]}`, header: map[string]string{"Prefer": "return=minimal"}},
		"many, in short, one bad":    {path: "/api/v1/urls/bulk", body: `{"links": [` + good + `, {}]}`, header: map[string]string{"Prefer": "return=minimal"}},
		"too many":                   {path: "/api/v1/urls/bulk", body: many},
		"none":                       {path: "/api/v1/urls/bulk", body: `{"links": []}`},
		"many that are no JSON":      {path: "/api/v1/urls/bulk", body: `{"links": [` + good + `, {"original_url": "https://example.com/" "title": 1}]}`},
		"many, cut off":              {path: "/api/v1/urls/bulk", body: `{"links": [` + good + `, {"original_url": "https://`},
	} {
		t.Run(name, func(t *testing.T) {
			c.method = http.MethodPost
			direct := start(t, fixed).do(c)
			c.path += "?wait_timeout=1"
			long := start(t, fixed).do(c)
			require.Equal(t, long.StatusCode, direct.StatusCode, direct.text)
			require.Equal(t, long.text, direct.text)
			long.Header.Del("Date")
			direct.Header.Del("Date")
			require.Equal(t, long.Header, direct.Header)
		})
	}
}
