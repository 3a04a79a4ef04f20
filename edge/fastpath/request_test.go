package fastpath_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/edge/fastpath"
)

// kept lists the headers that a Request keeps.
var kept = map[string]func(*fastpath.Request) []byte{
	"Host":             func(r *fastpath.Request) []byte { return r.Host },
	"User-Agent":       func(r *fastpath.Request) []byte { return r.Agent },
	"Accept":           func(r *fastpath.Request) []byte { return r.Accept },
	"Accept-Language":  func(r *fastpath.Request) []byte { return r.AcceptLanguage },
	"Cookie":           func(r *fastpath.Request) []byte { return r.Cookie },
	"Referer":          func(r *fastpath.Request) []byte { return r.Referrer },
	"X-Forwarded-For":  func(r *fastpath.Request) []byte { return r.ForwardedFor },
	"X-Forwarded-Host": func(r *fastpath.Request) []byte { return r.ForwardedHost },
}

func request(headers ...string) []byte {
	return []byte("GET /code HTTP/1.1\r\n" + strings.Join(append(headers, "\r\n"), "\r\n"))
}

func TestRequest_KeepsEachHeaderOnce(t *testing.T) {
	for name, field := range kept {
		host := "Host: a"
		if name == "Host" {
			host = "X-Other: a"
		}
		for _, spelled := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			var r fastpath.Request
			require.True(t, r.Parse(request(host, spelled+":  some value ")), spelled)
			require.Equal(t, "some value", string(field(&r)), spelled)
			for other, theirs := range kept {
				if other != name && other != "Host" {
					require.Nil(t, theirs(&r), "%s is not %s", name, other)
				}
			}
		}
		lower := strings.ToLower(name)
		for _, lines := range [][]string{{name + ": "}, {name + ":"}, {name + ": a", name + ": b"}, {name + ": a", lower + ": a"}} {
			var r fastpath.Request
			require.False(t, r.Parse(request(append(lines, host)...)), lines)
		}
	}
}

func TestRequest_OtherHeadersOfTheSameLengthAreSkipped(t *testing.T) {
	var r fastpath.Request
	require.True(t, r.Parse(request("Host: a", "Origin: b", "Origin:", "X-Forwarded-Foo: c", "Accept-Languagf: d", "Bookie: e")))
	require.Equal(t, fastpath.Request{Target: []byte("/code"), Host: []byte("a")}, r)
}

func FuzzRequest(f *testing.F) {
	f.Add(request("Host: a", "Accept-Language: de-CH,de;q=0.9", "Cookie: a=b; c=d", "User-Agent: x"))
	f.Add(request("Host: a", "Cookie: a", "cookie: b"))
	f.Add(request("Host: a", "X-Forwarded-For: a", "Referer:"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r fastpath.Request
		if !r.Parse(b) {
			return
		}
		head := strings.ToLower(string(b))
		for name, field := range kept {
			value := field(&r)
			lines := strings.Count(head, "\r\n"+strings.ToLower(name)+":")
			if value == nil {
				require.Zero(t, lines, name)
				continue
			}
			require.Equal(t, 1, lines, name)
			require.NotEmpty(t, value, name)
			require.Contains(t, string(b), string(value))
		}
	})
}
