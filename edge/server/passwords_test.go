package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/argon2"

	"waypost"
	"waypost/edge/server"
	"waypost/rules"
)

const secret = "Grüße & 100% +"

// protectedLink returns the record of a link with the password secret, whose hash takes
// some memory, in KiB.
func protectedLink(t testing.TB, key byte, memory uint32, flags waypost.LinkFlags) waypost.Record {
	t.Helper()
	v := rules.Password{Memory: memory, Passes: 1, Lanes: 1, Key: [32]byte{key}}
	copy(v.Hash[:], argon2.IDKey([]byte(secret), v.Salt[:], 1, memory, 1, 32))
	return protectedBy(t, &v, flags)
}

// protectedBy returns the record of a link with a password.
func protectedBy(t testing.TB, v *rules.Password, flags waypost.LinkFlags) waypost.Record {
	t.Helper()
	with := rules.Compiling{Status: 302, Password: v, Target: func(url string) (string, string, error) { return url, url, nil }}
	programme, err := rules.Compile(&rules.Source{}, &with)
	require.NoError(t, err)
	return waypost.Record{Kind: waypost.KindLink, Status: 302, Flags: flags, Payload: []byte(target), Programme: programme}
}

// postForm sends a form with a password.
func postForm(t testing.TB, addr, path, password string, lines ...string) answer {
	t.Helper()
	return say(t.(*testing.T), addr, formRequest(path, url.Values{"password": {password}}.Encode(), lines...))
}

func formRequest(path, body string, lines ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: wayp.example\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n%s\r\n%s",
		path, len(body), join(lines), body)
}

func cookieOf(t testing.TB, a answer) string {
	t.Helper()
	cookies := a.Cookies()
	require.Len(t, cookies, 1)
	return "Cookie: " + cookies[0].Name + "=" + cookies[0].Value
}

func TestPasswords_FormAndCookieLeadToTheTarget(t *testing.T) {
	links := newMemoryLinks()
	own := links.links[waypost.DefaultDomain]
	own["secret01"], own["secret02"] = protectedLink(t, 1, 8, 0), protectedLink(t, 2, 8, 0)
	own["secret03"] = protectedLink(t, 3, 8, waypost.ForwardPath|waypost.ForwardQuery)
	clicks := &memoryClicks{}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	_, addr := serve(t, server.Config{Links: links, Clicks: clicks, Clock: clock})

	asked := get(t, addr, "/secret01", "wayp.example")
	require.Equal(t, 200, asked.StatusCode)
	require.Contains(t, asked.body, `<form method="post">`)
	require.Contains(t, asked.body, `<html lang="en">`)
	require.Equal(t, "private, no-store", asked.Header.Get("Cache-Control"))
	require.Equal(t, "noindex, nofollow", asked.Header.Get("X-Robots-Tag"))
	require.Contains(t, asked.Header.Get("Content-Security-Policy"), "form-action http: https:")
	require.Contains(t, get(t, addr, "/secret01", "wayp.example", "Accept-Language: de-AT,de;q=0.9,en;q=0.5").body, `<html lang="de">`)

	for _, wrong := range []string{"wrong", "", strings.Repeat("x", 129), "gr\xff", secret + " "} {
		a := postForm(t, addr, "/secret01", wrong)
		require.Equal(t, 403, a.StatusCode, wrong)
		require.Contains(t, a.body, `role="alert"`)
		require.Contains(t, a.body, `aria-describedby="fault"`)
		require.Empty(t, a.Cookies())
		require.True(t, a.Close)
	}
	right := postForm(t, addr, "/secret01", secret)
	require.Equal(t, 303, right.StatusCode)
	require.Equal(t, "/secret01", right.Header.Get("Location"))
	require.Equal(t, "private, no-store", right.Header.Get("Cache-Control"))
	c := right.Cookies()[0]
	require.Equal(t, "waypost_pass /secret01 43200 true true false",
		fmt.Sprint(c.Name, " ", c.Path, " ", c.MaxAge, " ", c.HttpOnly, " ", c.SameSite == http.SameSiteLaxMode, " ", c.Secure))
	decomposed := postForm(t, addr, "/secret01", strings.Replace(secret, "ü", "u\u0308", 1))
	require.Equal(t, 303, decomposed.StatusCode, "a keyboard that composes letters in another way")
	require.Empty(t, clicks.take(), "nothing has been counted yet")

	cookie := cookieOf(t, right)
	for _, lane := range []string{"X-A: b", "Sec-Purpose: none"} { // the fast path, and the handler
		a := get(t, addr, "/secret01", "wayp.example", cookie, lane)
		require.Equal(t, 302, a.StatusCode)
		require.Equal(t, target, a.Header.Get("Location"))
	}
	require.Len(t, clicks.take(), 2)
	require.Equal(t, 303, postForm(t, addr, "/secret01", "wrong", cookie).StatusCode, "who has passed is not asked")
	back := postForm(t, addr, "/secret01?a={|}", "wrong", cookie)
	require.Equal(t, "/secret01?a=%7B%7C%7D", back.Header.Get("Location"), "what no URI may hold is encoded")
	require.Equal(t, 200, get(t, addr, "/secret02", "wayp.example", cookie).StatusCode, "of another link")

	forwards := postForm(t, addr, "/secret03/a/b?x=y", secret)
	require.Equal(t, "/secret03/a/b?x=y", forwards.Header.Get("Location"))
	followed := get(t, addr, "/secret03/a/b?x=y", "wayp.example", cookieOf(t, forwards))
	require.Equal(t, "https://example.org/a%20b/a/b?q=%C3%BC&q=1&x=y#top", followed.Header.Get("Location"))
	require.Equal(t, 404, get(t, addr, "/secret01/rest", "wayp.example").StatusCode)

	mu.Lock()
	now = now.Add(12 * time.Hour)
	mu.Unlock()
	require.Equal(t, 200, get(t, addr, "/secret01", "wayp.example", cookie).StatusCode, "it has expired")
	changed := newMemoryLinks()
	changed.links[waypost.DefaultDomain]["secret01"] = protectedLink(t, 9, 8, 0)
	_, addr = serve(t, server.Config{Links: changed, Clock: func() time.Time { return now.Add(-time.Hour) }})
	require.Equal(t, 200, get(t, addr, "/secret01", "wayp.example", cookie).StatusCode, "another password is there")
}

// The hashes of bcrypt are made by other programs.
func TestPasswords_HashesOfOtherProgramsOpenTheirLinks(t *testing.T) {
	links := newMemoryLinks()
	argon, err := argon2id.CreateHash(secret, &argon2id.Params{Memory: 64 << 10, Iterations: 4, Parallelism: 4, SaltLength: 16, KeyLength: 32})
	require.NoError(t, err)
	of := map[string][2]string{
		"secret01": {"$2a$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", "abc123xyz"},
		"secret02": {"$2a$04$N9qo8uLOickgx2ZMRZoMyeHJW4/jWIl06jwiA4vYFS22MgrVGJNXq", "Öffne dich, 5esam"},
		"secret03": {"$2b$05$N9qo8uLOickgx2ZMRZoMyeGvkuwtnKz/qujOAIkKVFaFHhGFzLUbC", "Öffne dich, 5esam"},
		"secret04": {"$2y$04$N9qo8uLOickgx2ZMRZoMyeHJW4/jWIl06jwiA4vYFS22MgrVGJNXq", "Öffne dich, 5esam"},
		"secret05": {"$2b$04$N9qo8uLOickgx2ZMRZoMyedlslr.Jty7xCSm4JGSxc8PDTmSzo582", strings.Repeat("x", 100)}, // of 72
		"secret06": {argon, secret},
	}
	for code, c := range of {
		v, err := rules.ParsePasswordHash(c[0])
		require.NoError(t, err)
		links.links[waypost.DefaultDomain][code] = protectedBy(t, &v, 0)
	}
	_, addr := serve(t, server.Config{Links: links})
	for code, c := range of {
		if code > "secret01" { // whose hash takes a quarter of a second
			require.Equal(t, 403, postForm(t, addr, "/"+code, "wrong").StatusCode, code)
		}
		a := postForm(t, addr, "/"+code, c[1])
		require.Equal(t, 303, a.StatusCode, code)
		require.Equal(t, 302, get(t, addr, "/"+code, "wayp.example", cookieOf(t, a)).StatusCode)
	}
}

func TestPasswords_NeighboursHaveFewerHashesThatTakeLonger(t *testing.T) {
	links := newMemoryLinks()
	slow, err := rules.ParsePasswordHash("$2b$12$N9qo8uLOickgx2ZMRZoMyeGvkuwtnKz/qujOAIkKVFaFHhGFzLUbC")
	require.NoError(t, err)
	links.links[waypost.DefaultDomain]["secret01"] = protectedBy(t, &slow, 0)
	for i := range 10 {
		links.links[waypost.DefaultDomain][fmt.Sprintf("quick%03d", i)] = protectedLink(t, 1, 8, 0)
	}
	_, addr := serve(t, server.Config{Links: links, TrustedProxies: loopback(), Clock: func() time.Time { return time.Unix(1<<30, 0) }})
	try := func(code string, from int) int {
		return postForm(t, addr, "/"+code, "wrong", fmt.Sprintf("X-Forwarded-For: 10.0.0.%d", from)).StatusCode
	}
	for i := range 93 {
		require.Equal(t, 403, try(fmt.Sprintf("quick%03d", i%10), i%31))
	}
	require.Equal(t, 429, try("secret01", 40), "7 of 100 are left, and it takes 8")
	for i := range 7 {
		require.Equal(t, 403, try("quick000", 40+i))
	}
	require.Equal(t, 429, try("quick000", 50))
}

func TestPasswords_NothingButTheRedirectDisclosesTheTarget(t *testing.T) {
	links := newMemoryLinks()
	links.links[waypost.DefaultDomain]["secret01"] = protectedLink(t, 1, 8, 0)
	clicks := &memoryClicks{}
	_, addr := serve(t, server.Config{Links: links, Clicks: clicks})
	cookie := cookieOf(t, postForm(t, addr, "/secret01", secret))
	for name, c := range map[string]struct {
		request string
		lines   []string
		status  int
	}{
		"GET":                     {"GET /secret01", nil, 200},
		"HEAD":                    {"HEAD /secret01", nil, 200},
		"HEAD with the cookie":    {"HEAD /secret01", []string{cookie}, 403},
		"preview":                 {"GET /secret01+", nil, 403},
		"preview with the cookie": {"GET /secret01+", []string{cookie}, 403},
		"preview as JSON":         {"GET /secret01+", []string{"Accept: application/json"}, 403},
		"prefetch":                {"GET /secret01", []string{"Sec-Purpose: prefetch"}, 200},
		"prefetch, cookie":        {"GET /secret01", []string{"Sec-Purpose: prefetch", cookie}, 403},
		"WhatsApp":                {"GET /secret01", []string{"User-Agent: WhatsApp/2.23.20.0", "Accept: */*"}, 200},
		"Facebook":                {"GET /secret01", []string{"User-Agent: facebookexternalhit/1.1", "Accept: */*"}, 200},
		"an API client":           {"GET /secret01", []string{"Accept: application/json"}, 200},
		"a wrong cookie":          {"GET /secret01", []string{cookie[:len(cookie)-2] + "zz"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			a := say(t, addr, c.request+" HTTP/1.1\r\nHost: wayp.example\r\n"+join(c.lines)+"\r\n")
			require.Equal(t, c.status, a.StatusCode)
			require.Empty(t, a.Header.Get("Location"))
			require.NotContains(t, a.body+fmt.Sprint(a.Header), "example.org")
			require.Contains(t, a.Header.Get("Cache-Control"), "no-store")
		})
	}
	require.Empty(t, clicks.take())
}

func TestPasswords_APOSTIsTheLastRequestOfItsConnection(t *testing.T) {
	links := newMemoryLinks()
	links.links[waypost.DefaultDomain]["secret01"] = protectedLink(t, 1, 8, 0)
	const smuggled = "GET /found302 HTTP/1.1\r\nHost: wayp.example\r\n\r\n"
	const form = "Content-Type: application/x-www-form-urlencoded\r\n"
	post := func(lines, body string) string {
		return "POST /secret01 HTTP/1.1\r\nHost: wayp.example\r\n" + lines + "\r\n" + body
	}
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"a form":                          {formRequest("/secret01", "password=x"), 403},
		"a form of another link":          {formRequest("/found302", "password=x"), 405},
		"an unknown link":                 {formRequest("/unknown1", "password=x"), 405},
		"no code":                         {formRequest("/", "password=x"), 405},
		"a preview":                       {formRequest("/secret01+", "password=x"), 405},
		"an own path":                     {formRequest("/health", "password=x"), 405},
		"an asset":                        {formRequest("/robots.txt", "password=x"), 405},
		"a body that is shorter":          {post(form+"Content-Length: 10\r\n", "password=x\r\n\r\n"), 403},
		"a body that looks like lines":    {post(form+"Content-Length: 16\r\n", "\nX\r\r\n password=x"), 403},
		"a charset":                       {post("Content-Type: Application/X-WWW-Form-Urlencoded; charset=utf-8\r\nContent-Length: 10\r\n", "password=x"), 403},
		"another type":                    {post("Content-Type: text/plain\r\nContent-Length: 10\r\n", "password=x"), 405},
		"no type":                         {post("Content-Length: 10\r\n", "password=x"), 405},
		"no body":                         {post(form+"Content-Length: 0\r\n", ""), 405},
		"no length":                       {post(form, ""), 405},
		"two lengths":                     {post(form+"Content-Length: 10\r\nContent-Length: 10\r\n", "password=x"), 400},
		"two lengths that differ":         {post(form+"Content-Length: 10\r\nContent-Length: 57\r\n", "password=x"), 400},
		"a list of lengths":               {post(form+"Content-Length: 10, 10\r\n", "password=x"), 400},
		"a length with a sign":            {post(form+"Content-Length: +10\r\n", "password=x"), 400},
		"a negative length":               {post(form+"Content-Length: -1\r\n", "password=x"), 400},
		"chunks":                          {post(form+"Transfer-Encoding: chunked\r\n", "a\r\npassword=x\r\n0\r\n\r\n"), 400},
		"chunks and a length":             {post(form+"Content-Length: 10\r\nTransfer-Encoding: chunked\r\n", "a\r\npassword=x\r\n0\r\n\r\n"), 400},
		"1,025 bytes":                     {formRequest("/secret01", "password="+strings.Repeat("x", 1016)), 413},
		"100 Continue":                    {post(form+"Content-Length: 10\r\nExpect: 100-continue\r\n", "password=x"), 405},
		"a line that ends in LF":          {post(form+"Content-Length: 10\nX: y\r\n", "password=x"), 400},
		"a folded line":                   {post(form+"Content-Length: 10\r\n X: y\r\n", "password=x"), 400},
		"HTTP/1.0":                        {"POST /secret01 HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n" + form + "Content-Length: 10\r\n\r\npassword=x", 403},
		"keep-alive":                      {post(form+"Connection: keep-alive\r\nContent-Length: 10\r\n", "password=x"), 403},
		"a method like it":                {"POSTS /secret01 HTTP/1.1\r\nHost: a\r\n" + form + "Content-Length: 10\r\n\r\npassword=x", 405},
		"a method in lower case":          {"post /secret01 HTTP/1.1\r\nHost: a\r\n" + form + "Content-Length: 10\r\n\r\npassword=x", 405},
		"a method behind an empty line":   {"\r\n" + formRequest("/secret01", "password=x"), 403},
		"a broken escape":                 {formRequest("/secret01", "password=%zz"), 403},
		"multipart":                       {post("Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 10\r\n", "password=x"), 405},
		"a broken percent sign in a path": {formRequest("/secret01/%", "password=x"), 400},
	} {
		t.Run(name, func(t *testing.T) {
			_, addr := serve(t, server.Config{Links: links})
			for _, cut := range []int{0, 1, 7} { // how the bytes are cut into reads
				conn := dial(t, addr)
				go func() {
					text := c.request + smuggled
					for size := cut; size > 0 && len(text) > size; text = text[size:] {
						if _, err := io.WriteString(conn, text[:size]); err != nil {
							return // the server has closed it already
						}
					}
					_, _ = io.WriteString(conn, text)
				}()
				r := bufio.NewReader(conn)
				res := read(t, r, false)
				// Behind a fault in a line fasthttp sees less of it when it is cut.
				require.Equal(t, c.status, res.StatusCode)
				require.True(t, res.Close)
				rest, _ := io.ReadAll(r) // that the connection is reset is fine
				require.Empty(t, rest, "nothing else is answered")
			}
		})
	}
}

func TestPasswords_AFormThatIsHugeOrSlowIsRefused(t *testing.T) {
	links := newMemoryLinks()
	links.links[waypost.DefaultDomain]["secret01"] = protectedLink(t, 1, 8, 0)
	_, addr := serve(t, server.Config{Links: links})
	conn := dial(t, addr)
	go func() {
		_, _ = io.WriteString(conn, formRequest("/secret01", "password="+strings.Repeat("x", 10<<20))) // it is closed before
	}()
	require.Equal(t, 413, read(t, bufio.NewReader(conn), false).StatusCode)

	_, slow := serve(t, server.Config{Links: links, ReadTimeout: 300 * time.Millisecond})
	conn = dial(t, slow)
	whole := formRequest("/secret01", "password=x")
	_, err := io.WriteString(conn, whole[:len(whole)-1])
	require.NoError(t, err)
	res := read(t, bufio.NewReader(conn), false)
	require.Equal(t, 408, res.StatusCode)
	require.True(t, res.Close)
}

func TestPasswords_GuessesAreLimitedByNetworkAndByLink(t *testing.T) {
	links := newMemoryLinks()
	own := links.links[waypost.DefaultDomain]
	own["secret01"], own["secret02"] = protectedLink(t, 1, 8, 0), protectedLink(t, 2, 8, 0)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	registry := prometheus.NewRegistry()
	_, addr := serve(t, server.Config{
		Links: links, TrustedProxies: loopback(), Metrics: registry,
		Clock: func() time.Time { mu.Lock(); defer mu.Unlock(); return now },
	})
	try := func(path, from, password string) answer {
		return postForm(t, addr, path, password, "X-Forwarded-For: "+from)
	}
	for range 10 {
		require.Equal(t, 403, try("/secret01", "192.0.2.1", "wrong").StatusCode)
	}
	refused := try("/secret01", "192.0.2.1", secret)
	require.Equal(t, 429, refused.StatusCode, "the right one as well")
	require.Equal(t, "61", refused.Header.Get("Retry-After"))
	require.Equal(t, 303, try("/secret01", "192.0.2.2", secret).StatusCode, "another network")
	require.Equal(t, 303, try("/secret02", "192.0.2.1", secret).StatusCode, "another link")
	for range 20 {
		require.Equal(t, 303, try("/secret01", "192.0.2.2", secret).StatusCode, "right ones are not limited")
	}
	mu.Lock()
	now = now.Add(time.Minute)
	mu.Unlock()
	require.Equal(t, 403, try("/secret01", "192.0.2.1", "wrong").StatusCode, "one a minute")
	require.Equal(t, 429, try("/secret01", "192.0.2.1", "wrong").StatusCode)

	for range 100 {
		require.Equal(t, 303, try("/secret02", "203.0.113.1", secret).StatusCode)
	}
	require.Equal(t, 429, try("/secret01", "203.0.113.2", secret).StatusCode, "so many right ones of neighbours are")
	require.Equal(t, 303, try("/secret02", "203.0.112.1", secret).StatusCode, "no neighbour")
	for _, form := range []string{"2001:db8:1:%x::1", "2001:db8:2:%x::1"} {
		for i := range 100 {
			require.Equal(t, 303, try("/secret02", fmt.Sprintf(form, i%8), secret).StatusCode)
		}
		require.Equal(t, 429, try("/secret02", fmt.Sprintf(form, 100), secret).StatusCode)
	}
	mu.Lock()
	now = now.Add(time.Second)
	mu.Unlock()
	for _, want := range []int{303, 303, 429} {
		require.Equal(t, want, try("/secret02", "203.0.113.1", secret).StatusCode, "two a second")
	}

	limited := 0
	for i := range 300 {
		if try("/secret02", fmt.Sprintf("10.0.%d.1", i%256), "wrong").StatusCode == http.StatusTooManyRequests {
			limited++
		}
	}
	require.Equal(t, 200, limited, "100 of all networks")
	require.Equal(t, map[string]float64{
		"waypost_redirect_passwords_total right": 325, "waypost_redirect_passwords_total wrong": 111,
		"waypost_redirect_passwords_total limited": 206, "waypost_redirect_passwords_total busy": 0,
	}, gather(t, registry, "waypost_redirect_passwords_total"))
}

func TestPasswords_ManyGuessesAtOnceTakeBoundedMemoryAndHoldUpNoRedirect(t *testing.T) {
	links := newMemoryLinks()
	const guessers, memory = 200, 64 << 10
	record := protectedLink(t, 1, memory, 0)
	for i := range guessers {
		links.links[waypost.DefaultDomain][fmt.Sprintf("secret%03d", i)] = record
	}
	_, addr := serve(t, server.Config{Links: links, TrustedProxies: loopback()})
	statuses := make(chan int, guessers)
	var group sync.WaitGroup
	for i := range guessers {
		group.Go(func() {
			statuses <- postForm(t, addr, fmt.Sprintf("/secret%03d", i), "wrong", fmt.Sprintf("X-Forwarded-For: 10.0.%d.1", i)).StatusCode
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	var most uint64
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		require.Equal(t, 302, get(t, addr, "/found302", "wayp.example", "Connection: close").StatusCode)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
	}
	close(statuses)
	counted := map[int]int{}
	for status := range statuses {
		counted[status]++
	}
	t.Logf("%v, at most %d MiB in use", counted, most>>20)
	require.Positive(t, counted[403])
	require.Equal(t, guessers, counted[403]+counted[503])
	require.Less(t, most, uint64(10*memory<<10), "not one hash for each guess")
}
