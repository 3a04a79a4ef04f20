package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/argon2"

	"waypost"
	"waypost/edge/server"
	"waypost/rules"
)

// confirmedLink returns the record of a link that visitors confirm, with a budget and a
// password if wanted.
func confirmedLink(t *testing.T, source rules.Source, password *rules.Password, flags waypost.LinkFlags) waypost.Record {
	t.Helper()
	source.Confirm = true
	with := rules.Compiling{Status: 302, Password: password, Target: func(url string) (string, string, error) { return url, url, nil }}
	programme, err := rules.Compile(&source, &with)
	require.NoError(t, err)
	return waypost.Record{Kind: waypost.KindLink, Status: 302, Flags: flags, Payload: []byte(target), Programme: programme}
}

func TestConfirm_OnlyTheButtonLeadsOnAndIsTheClick(t *testing.T) {
	links, clicks, w := newMemoryLinks(), &memoryClicks{}, &wallet{ready: 1}
	own := links.links[waypost.DefaultDomain]
	own["onlyonce"] = confirmedLink(t, rules.Source{MaxClicks: 1, MaxClicksMode: rules.ModeExact, ExhaustedURL: ended}, nil, 0)
	own["forwards"] = confirmedLink(t, rules.Source{}, nil, waypost.ForwardPath|waypost.ForwardQuery)
	own["refusing"] = confirmedLink(t, rules.Source{Rules: []rules.Rule{{Status: 410}}}, nil, 0)
	_, addr := serve(t, server.Config{Links: links, Clicks: clicks, Budgets: w})
	press := func(path string, headers ...string) answer {
		return say(t, addr, formRequest(path, "confirm=1", append(headers, firefoxAgent)...))
	}

	for _, agent := range []string{firefoxAgent, "User-Agent: Mozilla/5.0 (compatible; Scanner/1.0)", "Sec-Purpose: prefetch"} {
		for _, language := range []string{"en", "de"} {
			page := get(t, addr, "/onlyonce", "wayp.example", agent, "Accept-Language: "+language)
			require.Equal(t, 200, page.StatusCode)
			require.Contains(t, page.body, `<html lang="`+language+`">`)
			require.Contains(t, page.body, `<button type="submit" name="confirm" value="1" autofocus>`)
			require.NotContains(t, page.body, "script")
			require.NotContains(t, page.body, "example.org")
			require.Equal(t, "private, no-store", page.Header.Get("Cache-Control"))
			require.Equal(t, "noindex, nofollow", page.Header.Get("X-Robots-Tag"))
			require.Equal(t, "same-origin", page.Header.Get("Referrer-Policy"), "or the form would name no origin")
		}
	}
	head := say(t, addr, "HEAD /onlyonce HTTP/1.1\r\nHost: wayp.example\r\n\r\n")
	require.Equal(t, 200, head.StatusCode)
	require.Equal(t, 403, get(t, addr, "/onlyonce+", "wayp.example").StatusCode, "a preview would name the target")
	for _, headers := range [][]string{
		nil,
		{"Origin: null"},
		{"Origin: https://evil.example"},
		{"Origin: https://wayp.example.evil.example"},
		{"Sec-Fetch-Site: cross-site", "Origin: https://wayp.example"},
		{"Sec-Fetch-Site: same-site"},
	} {
		require.Equal(t, 403, press("/onlyonce", headers...).StatusCode, "%q", headers)
	}
	require.Empty(t, clicks.take())
	require.Equal(t, 1, w.ready, "nothing has spent the click")

	led := press("/onlyonce", "Sec-Fetch-Site: same-origin")
	require.Equal(t, 303, led.StatusCode)
	require.Equal(t, target, led.Header.Get("Location"))
	require.Len(t, clicks.take(), 1)
	w.exhausted = true
	require.Equal(t, ended, press("/onlyonce", "Origin: https://wayp.example:8443").Header.Get("Location"))
	require.Empty(t, clicks.take())

	led = press("/forwards/a?x=y", "Origin: http://wayp.example")
	require.Equal(t, 303, led.StatusCode)
	require.Equal(t, "https://example.org/a%20b/a?q=%C3%BC&q=1&x=y#top", led.Header.Get("Location"))
	require.Len(t, clicks.take(), 1)
	require.Equal(t, 410, get(t, addr, "/refusing", "wayp.example").StatusCode)
	require.Equal(t, 303, press("/refusing", "Sec-Fetch-Site: same-origin").StatusCode, "back to the 410")
	require.Equal(t, 405, press("/found302", "Sec-Fetch-Site: same-origin").StatusCode, "there is no such form")
}

func TestConfirm_ThePasswordConfirmsAsWell(t *testing.T) {
	links, clicks := newMemoryLinks(), &memoryClicks{}
	v := rules.Password{Memory: 8, Passes: 1, Lanes: 1, Key: [32]byte{7}}
	copy(v.Hash[:], argon2.IDKey([]byte(secret), v.Salt[:], 1, 8, 1, 32))
	links.links[waypost.DefaultDomain]["secret01"] = confirmedLink(t, rules.Source{}, &v, 0)
	_, addr := serve(t, server.Config{Links: links, Clicks: clicks})

	require.Contains(t, get(t, addr, "/secret01", "wayp.example").body, `name="password"`)
	require.Equal(t, 403, postForm(t, addr, "/secret01", "wrong").StatusCode)
	require.Empty(t, clicks.take())
	led := postForm(t, addr, "/secret01", secret)
	require.Equal(t, 303, led.StatusCode)
	require.Equal(t, target, led.Header.Get("Location"))
	require.Len(t, clicks.take(), 1)
	again := get(t, addr, "/secret01", "wayp.example", cookieOf(t, led))
	require.Contains(t, again.body, `name="confirm"`, "a second visit presses the button")
	require.False(t, strings.Contains(again.body, `name="password"`))
	require.Empty(t, clicks.take())
}
