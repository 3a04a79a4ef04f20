package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
)

const create = `{"original_url": "https://example.com/"}`

func TestKeysDecideWhoMayDoWhat(t *testing.T) {
	type header = map[string]string
	cases := []struct {
		name   string
		header header
		read   int // the status of a list
		write  int // the status of a create
	}{
		{"no key", nil, 401, 401},
		{"a key as bearer", header{"Authorization": "Bearer " + fullKey}, 200, 201},
		{"a key as bearer in small letters", header{"Authorization": "bearer  " + fullKey}, 200, 201},
		{"a key of its own", header{"X-Api-Key": fullKey}, 200, 201},
		{"one key in both ways", header{"X-Api-Key": fullKey, "Authorization": "Bearer " + fullKey}, 200, 201},
		{"two keys", header{"X-Api-Key": fullKey, "Authorization": "Bearer " + readKey}, 401, 401},
		{"a good key and an empty one", header{"X-Api-Key": fullKey, "Authorization": "Bearer "}, 401, 401},
		{"an unknown key", header{"X-Api-Key": "wp_live_other"}, 401, 401},
		{"an empty key", header{"X-Api-Key": ""}, 401, 401},
		{"an empty bearer", header{"Authorization": "Bearer"}, 401, 401},
		{"another scheme", header{"Authorization": "Basic d2F5OnBvc3Q="}, 401, 401},
		{"a key of a megabyte", header{"X-Api-Key": strings.Repeat("x", 100_000)}, 401, 401},
		{"a key for reading", header{"X-Api-Key": readKey}, 200, 403},
		{"a key for writing", header{"X-Api-Key": writeKey}, 403, 201},
		{"an administrator's key", header{"X-Api-Key": strangerKey}, 200, 201},
	}
	everything := controlplane.Actor{Workspace: 1, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
	for _, c := range cases {
		for name, anonymous := range map[string]*controlplane.Actor{"": nil, "where none is needed": &everything} {
			t.Run(strings.TrimSpace(c.name+" "+name), func(t *testing.T) {
				a := start(t, func(_ *links, cfg *httpapi.Config) { cfg.Anonymous = anonymous })
				mayRead, mayWrite := c.read, c.write
				if c.header == nil && anonymous != nil {
					mayRead, mayWrite = 200, 201
				}
				read := a.do(call{path: "/api/v1/urls", key: "none", header: c.header})
				write := a.do(call{method: http.MethodPost, path: "/api/v1/urls", body: create, key: "none", header: c.header})
				require.Equal(t, mayRead, read.StatusCode, read.text)
				require.Equal(t, mayWrite, write.StatusCode, write.text)
				for _, res := range []answer{read, write} {
					switch res.StatusCode {
					case http.StatusUnauthorized:
						requireProblem(t, res, 401, "unauthorized")
						require.Contains(t, res.Header.Get("WWW-Authenticate"), `Bearer realm="waypost"`)
					case http.StatusForbidden:
						requireProblem(t, res, 403, "forbidden")
						require.Contains(t, res.Header.Get("WWW-Authenticate"), `error="insufficient_scope", scope="links:`)
					}
				}
			})
		}
	}
}

func TestAnonymousRequestsFromOtherOriginsMayNotWrite(t *testing.T) {
	a := start(t, func(_ *links, c *httpapi.Config) {
		c.Anonymous = &controlplane.Actor{Workspace: 1, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
	})
	foreign := map[string]string{"Sec-Fetch-Site": "cross-site"}
	post := call{method: http.MethodPost, path: "/api/v1/urls", body: create, key: "none", header: foreign}
	requireProblem(t, a.do(post), 403, "forbidden")
	post.key = fullKey
	require.Equal(t, 201, a.do(post).StatusCode, "a key makes it plain who asks")
}

func TestAuthenticationWithoutADatabaseIsUnavailable(t *testing.T) {
	a := start(t, func(f *links, _ *httpapi.Config) {
		f.onAuthenticate = func(context.Context) error { return waypost.Errorf(waypost.EUnavailable, "the database is away") }
	})
	requireProblem(t, a.get("/api/v1/urls"), 503, "unavailable")
}

func TestAKeyIsAskedForBeforeTheBodyIsRead(t *testing.T) {
	a := start(t)
	for _, path := range []string{"/api/v1/urls", "/api/v1/urls/bulk", "/shorten"} {
		requireProblem(t, a.do(call{method: http.MethodPost, path: path, body: "{", key: "none"}), 401, "unauthorized")
	}
}

func TestSpoiltKeysAreRefusedWithoutAskingAnybody(t *testing.T) {
	a := start(t, func(f *links, _ *httpapi.Config) {
		f.onAuthenticate = func(context.Context) error { panic("asked") }
	})
	for _, key := range []string{"", strings.Repeat("x", 513)} {
		res := a.do(call{path: "/api/v1/urls", key: "none", header: map[string]string{"X-Api-Key": key}})
		requireProblem(t, res, 401, "unauthorized")
	}
}
