package system_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

// running is a system as the scenarios see it: an API and two edges.
type running struct {
	*testing.T
	state devtest.State
}

type reply struct {
	status int
	header http.Header
	text   string
}

func (r reply) object(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.text), &v), r.text)
	return v
}

func (s *running) do(ctx context.Context, method, url, contentType, body string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+s.state.APIKey)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := visitor.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(text)}, err
}

func (s *running) api(t *testing.T, method, path, body string) reply {
	t.Helper()
	contentType := ""
	if body != "" {
		contentType = "application/json"
	}
	r, err := s.do(t.Context(), method, s.state.API+path, contentType, body)
	require.NoError(t, err)
	return r
}

// servedUntil follows a link until it has expired, which must be at its time, and reports
// whether it was served before.
func (s *running) servedUntil(t *testing.T, code string, expires time.Time) (served bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := expires.Add(time.Minute); ; <-poll.C {
		before := time.Now()
		status, _, err := location(t.Context(), s.state.Edges[0].URL+"/"+code)
		require.NoError(t, err)
		switch status {
		case 410:
			require.True(t, time.Now().After(expires), "it expired too early")
			return served
		case 302:
			require.True(t, before.Before(expires.Add(time.Millisecond)), "it was served when it had expired")
			served = true
		}
		require.True(t, time.Now().Before(end), "it did not expire")
	}
}

// create makes a link and returns its code.
func (s *running) create(t *testing.T, body string) (code string, link map[string]any) {
	t.Helper()
	r := s.api(t, http.MethodPost, "/api/v1/urls", body)
	require.Equal(t, 201, r.status, r.text)
	link = r.object(t)
	return link["short_code"].(string), link
}

// everywhere waits until both edges and the control plane answer alike for a code.
func (s *running) everywhere(t *testing.T, code string, status int, target string) {
	t.Helper()
	bases := []string{s.state.API}
	for _, e := range s.state.Edges {
		bases = append(bases, e.URL)
	}
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for _, base := range bases {
		for end := time.Now().Add(time.Minute); ; <-poll.C {
			got, at, err := location(t.Context(), base+"/"+code)
			require.NoError(t, err)
			if got == status && (status >= 400 || at == target) {
				break
			}
			require.True(t, time.Now().Before(end), "%s/%s: %d %q, wanted %d %q", base, code, got, at, status, target)
		}
	}
}

// The scenarios that every release must pass, in the order and by the names of the
// list of them.
func TestSystem_PassesTheScenariosOfEveryRelease(t *testing.T) {
	t.Parallel()
	s := &running{t, twoEdges.For(t).State()}

	t.Run("health", func(t *testing.T) {
		var got map[string]any
		eventually(t, time.Minute, "healthy", func() bool { // PostgreSQL may be held up for longer than it is waited for
			got = s.api(t, http.MethodGet, "/health", "").object(t)
			return got["status"] == "healthy"
		})
		require.Equal(t, "connected", got["database"])
		require.Positive(t, got["kgs_pool_size"])
		require.NotEmpty(t, got["version"])
		require.NotEmpty(t, got["timestamp"])
	})
	t.Run("root", func(t *testing.T) {
		require.Equal(t, "waypost", s.api(t, http.MethodGet, "/", "").object(t)["service"])
	})

	t.Run("create basic", func(t *testing.T) {
		code, link := s.create(t, `{"original_url": "https://example.com/basic"}`)
		require.Len(t, code, 7)
		require.True(t, strings.HasSuffix(link["short_url"].(string), "/"+code))
		require.Equal(t, "https://example.com/basic", link["original_url"])
		require.NotEmpty(t, link["id"])
		require.NotEmpty(t, link["created_at"])
		require.Nil(t, link["expires_at"])
	})
	t.Run("create custom", func(t *testing.T) {
		code, _ := s.create(t, `{"original_url": "https://example.com/custom", "custom_code": "my-custom_1"}`)
		require.Equal(t, "my-custom_1", code)
		s.everywhere(t, code, 302, "https://example.com/custom")
	})
	t.Run("create expiring", func(t *testing.T) {
		_, link := s.create(t, `{"original_url": "https://example.com/expiring", "expires_in_hours": 24}`)
		at, err := time.Parse(time.RFC3339, link["expires_at"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(24*time.Hour), at, time.Minute)
	})
	t.Run("create invalid", func(t *testing.T) {
		for _, target := range []string{"nonsense", "https://", "ftp://example.com/", "https:///a", "http://127.0.0.1/", "http://user:secret@example.com/"} {
			body, err := json.Marshal(map[string]string{"original_url": target})
			require.NoError(t, err)
			require.Contains(t, []int{400, 422}, s.api(t, http.MethodPost, "/api/v1/urls", string(body)).status, target)
		}
	})
	t.Run("create empty", func(t *testing.T) {
		require.Equal(t, 400, s.api(t, http.MethodPost, "/api/v1/urls", `{"original_url": ""}`).status)
	})
	t.Run("create missing field", func(t *testing.T) {
		r := s.api(t, http.MethodPost, "/api/v1/urls", `{"title": "no target"}`)
		require.Equal(t, 422, r.status)
		require.Equal(t, "application/problem+json", r.header.Get("Content-Type"))
	})
	t.Run("create duplicate", func(t *testing.T) {
		first, _ := s.create(t, `{"original_url": "https://example.com/twice"}`)
		second, _ := s.create(t, `{"original_url": "https://example.com/twice"}`)
		require.NotEqual(t, first, second, "a new code every time")
	})

	t.Run("read", func(t *testing.T) {
		code, _ := s.create(t, `{"original_url": "https://example.com/read", "title": "Title", "tags": ["a"]}`)
		got := s.api(t, http.MethodGet, "/api/v1/urls/"+code, "").object(t)
		require.Equal(t, "https://example.com/read", got["original_url"])
		require.Equal(t, "Title", got["title"])
		require.EqualValues(t, 0, got["click_count"])
	})
	t.Run("redirect", func(t *testing.T) {
		code, _ := s.create(t, `{"original_url": "https://example.com/redirect?a=b#c"}`)
		s.everywhere(t, code, 302, "https://example.com/redirect?a=b#c")
		r, err := s.do(t.Context(), http.MethodGet, s.state.Edges[0].URL+"/"+code, "", "")
		require.NoError(t, err)
		require.Equal(t, "private, no-store", r.header.Get("Cache-Control"))
		r, err = s.do(t.Context(), http.MethodHead, s.state.Edges[0].URL+"/"+code, "", "")
		require.NoError(t, err)
		require.Equal(t, 302, r.status)
	})
	t.Run("unknown", func(t *testing.T) {
		require.Equal(t, 404, s.api(t, http.MethodGet, "/api/v1/urls/zzUnknown", "").status)
		s.everywhere(t, "zzUnknown", 404, "")
	})
	t.Run("expired", func(t *testing.T) {
		code, _ := s.create(t, `{"original_url": "https://example.com/brief", "expires_in_seconds": 1}`)
		s.everywhere(t, code, 410, "")
		require.Equal(t, 410, s.api(t, http.MethodGet, "/api/v1/urls/"+code, "").status)
	})

	t.Run("stats and click increments", func(t *testing.T) {
		code, _ := s.create(t, `{"original_url": "https://example.com/clicked"}`)
		s.everywhere(t, code, 302, "https://example.com/clicked") // one click on each edge, at least
		counted := func() float64 {
			got := s.api(t, http.MethodGet, "/api/v1/urls/"+code+"/stats", "").object(t)
			require.Equal(t, code, got["short_code"])
			return got["clicks"].(float64)
		}
		poll := time.NewTicker(20 * time.Millisecond)
		defer poll.Stop()
		for end := time.Now().Add(time.Minute); counted() < 2; <-poll.C {
			require.True(t, time.Now().Before(end), "the first clicks were not counted")
		}
		before := counted()
		for range 5 {
			status, _, err := location(t.Context(), s.state.Edges[0].URL+"/"+code)
			require.NoError(t, err)
			require.Equal(t, 302, status)
		}
		for end := time.Now().Add(time.Minute); counted() != before+5; <-poll.C {
			require.True(t, time.Now().Before(end), "%v clicks instead of %v", counted(), before+5)
		}
		short := s.api(t, http.MethodGet, "/stats/"+code, "").object(t)
		require.InEpsilon(t, before+5, short["click_count"], 0)
	})

	t.Run("delete", func(t *testing.T) {
		code, _ := s.create(t, `{"original_url": "https://example.com/deleted"}`)
		s.everywhere(t, code, 302, "https://example.com/deleted")
		require.Equal(t, 204, s.api(t, http.MethodDelete, "/api/v1/urls/"+code, "").status)
		s.everywhere(t, code, 410, "")
		require.Equal(t, 404, s.api(t, http.MethodGet, "/api/v1/urls/"+code, "").status)
	})
	t.Run("delete unknown", func(t *testing.T) {
		require.Equal(t, 404, s.api(t, http.MethodDelete, "/api/v1/urls/zzUnknown", "").status)
	})

	for _, scheme := range []string{"javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "file:///etc/passwd"} {
		name, _, _ := strings.Cut(scheme, ":")
		t.Run(name+": refused", func(t *testing.T) {
			body, err := json.Marshal(map[string]string{"original_url": scheme})
			require.NoError(t, err)
			require.Equal(t, 400, s.api(t, http.MethodPost, "/api/v1/urls", string(body)).status)
		})
	}
	t.Run("SQL injection as codes", func(t *testing.T) {
		for _, code := range []string{"'%20OR%20'1'='1", "abcd';DROP%20TABLE%20link;--", "%27%3B%20SELECT%20pg_sleep(5)--"} {
			for _, path := range []string{"/api/v1/urls/" + code, "/" + code, "/stats/" + code} {
				require.Contains(t, []int{400, 404}, s.api(t, http.MethodGet, path, "").status, path)
			}
			status, _, err := location(t.Context(), s.state.Edges[0].URL+"/"+code)
			require.NoError(t, err)
			require.Contains(t, []int{400, 404}, status, code)
		}
		require.Equal(t, 422, s.api(t, http.MethodPost, "/api/v1/urls", `{"original_url": "https://example.com/", "custom_code": "a' OR 1=1 --"}`).status)
	})
	t.Run("path traversal as codes", func(t *testing.T) {
		for _, code := range []string{"..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "....//etc/passwd"} {
			for _, path := range []string{"/api/v1/urls/" + code, "/" + code} {
				require.Contains(t, []int{400, 404}, s.api(t, http.MethodGet, path, "").status, path)
			}
			status, _, err := location(t.Context(), s.state.Edges[0].URL+"/"+code)
			require.NoError(t, err)
			require.Contains(t, []int{400, 404}, status, code)
		}
	})

	t.Run("expires after its time and not before", func(t *testing.T) {
		// A machine that stands still for as long as a link lives never serves it. Then another
		// one lives longer.
		served := false
		for life := 2 * time.Second; !served; life *= 3 {
			require.Less(t, life, 3*time.Minute, "it was never served")
			expires := time.Now().Add(life).UTC().Truncate(time.Millisecond) // as links have it
			r := s.api(t, http.MethodPost, "/api/v1/urls", fmt.Sprintf(`{"original_url": "https://example.com/timed", "expires_at": %q}`, expires.Format(time.RFC3339Nano)))
			if r.status == 422 && time.Now().After(expires) {
				continue
			}
			require.Equal(t, 201, r.status, r.text)
			served = s.servedUntil(t, r.object(t)["short_code"].(string), expires)
		}
	})

	t.Run("original URL preserved", func(t *testing.T) {
		for _, target := range []string{"HTTPS://Example.COM:443/A//b/../c?z=1&a=2&utm_source=x#Frag", "https://example.com", "https://example.com/?q=%2f%2F"} {
			code, link := s.create(t, fmt.Sprintf(`{"original_url": %q}`, target))
			require.Equal(t, target, link["original_url"])
			s.everywhere(t, code, 302, target)
		}
	})
	t.Run("50 creates unique", func(t *testing.T) {
		seen := map[string]bool{}
		for i := range 50 {
			code, _ := s.create(t, fmt.Sprintf(`{"original_url": "https://example.com/unique/%d"}`, i))
			require.False(t, seen[code], code)
			seen[code] = true
		}
	})
	t.Run("special characters preserved", func(t *testing.T) {
		const target = `https://example.com/a;b=c/(d)!*'~?e=f&g[]=h|i^j` + "`" + `{}&k=<l>"m"`
		body, err := json.Marshal(map[string]string{"original_url": target})
		require.NoError(t, err)
		code, link := s.create(t, string(body))
		require.Equal(t, target, link["original_url"])
		// What no URI may hold is encoded.
		s.everywhere(t, code, 302, `https://example.com/a;b=c/(d)!*'~?e=f&g[]=h%7Ci%5Ej%60%7B%7D&k=%3Cl%3E%22m%22`)
	})
	t.Run("Unicode preserved", func(t *testing.T) {
		const target = "https://example.com/grüße/日本語?q=ü ö&emoji=🎉"
		body, err := json.Marshal(map[string]string{"original_url": target, "title": "日本語 🎉"})
		require.NoError(t, err)
		code, link := s.create(t, string(body))
		require.Equal(t, target, link["original_url"])
		require.Equal(t, "日本語 🎉", link["title"])
		s.everywhere(t, code, 302, escaped(target))
	})

	// together sends n creates, many at once, and returns their statuses and codes.
	together := func(t *testing.T, n, atOnce int, body func(i int) string) (statuses map[int]int, codes map[string]bool) {
		t.Helper()
		statuses, codes = map[int]int{}, map[string]bool{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		turns := make(chan struct{}, atOnce)
		for i := range n {
			turns <- struct{}{}
			wg.Go(func() {
				defer func() { <-turns }()
				r, err := s.do(t.Context(), http.MethodPost, s.state.API+"/api/v1/urls", "application/json", body(i))
				var made struct {
					Code string `json:"short_code"`
				}
				if err == nil && r.status == 201 {
					err = json.Unmarshal([]byte(r.text), &made)
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				statuses[r.status]++
				if made.Code != "" {
					codes[made.Code] = true
				}
			})
		}
		wg.Wait()
		return statuses, codes
	}
	t.Run("20 concurrent creates", func(t *testing.T) {
		statuses, codes := together(t, 20, 20, func(i int) string { return fmt.Sprintf(`{"original_url": "https://example.com/at-once/%d"}`, i) })
		require.Equal(t, map[int]int{201: 20}, statuses)
		require.Len(t, codes, 20)
	})
	t.Run("custom conflict 409", func(t *testing.T) {
		statuses, codes := together(t, 20, 20, func(int) string {
			return `{"original_url": "https://example.com/wanted", "custom_code": "wanted-by-many"}`
		})
		require.Equal(t, map[int]int{201: 1, 409: 19}, statuses)
		require.Len(t, codes, 1)
	})
	t.Run("30 rapid creates without 503", func(t *testing.T) {
		statuses, _ := together(t, 30, 1, func(i int) string { return fmt.Sprintf(`{"original_url": "https://example.com/rapid/%d"}`, i) })
		require.Equal(t, map[int]int{201: 30}, statuses)
	})
	t.Run("codes vary in their first characters within what the prefix allows", func(t *testing.T) {
		_, codes := together(t, 100, 10, func(i int) string { return fmt.Sprintf(`{"original_url": "https://example.com/vary/%d"}`, i) })
		prefixes, firsts := map[string]bool{}, map[byte]int{}
		for code := range codes {
			prefixes[code[:2]] = true
			firsts[code[2]]++
		}
		require.Len(t, prefixes, 1, "a region has one prefix until it runs low")
		require.Greater(t, len(firsts), 25, "the first character behind the prefix: %v", firsts)
	})

	t.Run("2,000+ character URL", func(t *testing.T) {
		target := "https://example.com/" + strings.Repeat("x", 2480)
		code, link := s.create(t, fmt.Sprintf(`{"original_url": %q}`, target))
		require.Equal(t, target, link["original_url"])
		s.everywhere(t, code, 302, target)
		r := s.api(t, http.MethodPost, "/api/v1/urls", fmt.Sprintf(`{"original_url": %q}`, "https://example.com/"+strings.Repeat("x", 8192)))
		require.Equal(t, 413, r.status, "more than 8,192 bytes are too much")
	})
	t.Run("empty body", func(t *testing.T) {
		r, err := s.do(t.Context(), http.MethodPost, s.state.API+"/api/v1/urls", "application/json", "")
		require.NoError(t, err)
		require.Equal(t, 400, r.status)
	})
	t.Run("wrong content type", func(t *testing.T) {
		r, err := s.do(t.Context(), http.MethodPost, s.state.API+"/api/v1/urls", "text/plain", `{"original_url": "https://example.com/"}`)
		require.NoError(t, err)
		require.Equal(t, 415, r.status)
	})
}
