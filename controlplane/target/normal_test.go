package target_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/target"
)

func TestNormal_TargetsThatAreTheSameToReadersHaveOneNormalForm(t *testing.T) {
	for name, c := range map[string]struct{ original, want string }{
		"scheme and host in upper case": {"HTTPS://Example.COM/Path", "https://example.com/Path"},
		"the usual port":                {"https://example.com:443/a", "https://example.com/a"},
		"the usual port with zeros":     {"http://example.com:00080/a", "http://example.com/a"},
		"an empty port":                 {"http://example.com:/a", "http://example.com/a"},
		"another port":                  {"http://example.com:0443/a", "http://example.com:443/a"},
		"an IPv6 address with its port": {"https://[2A00:1450:4001:80B::200E]:443/", "https://[2a00:1450:4001:80b::200e]"},
		"an IPv6 address":               {"https://[2a00:1450:4001:80b::200e]/", "https://[2a00:1450:4001:80b::200e]"},
		"nothing but a slash":           {"https://example.com/", "https://example.com"},
		"a slash at the end":            {"https://example.com/a/b/", "https://example.com/a/b"},
		"a slash before the query":      {"https://example.com/a/?b=1", "https://example.com/a?b=1"},
		"parameters in another order":   {"https://example.com/?b=1&a=2", "https://example.com?a=2&b=1"},
		"several values of one name":    {"https://example.com/?b=2&a=1&b=1", "https://example.com?a=1&b=2&b=1"},
		"parameters that track": {
			"https://example.com/?utm_source=x&fbclid=1&id=7&gclid=2&utm_campaign=y",
			"https://example.com?id=7",
		},
		"nothing but parameters that track":    {"https://example.com/a?utm_source=x", "https://example.com/a"},
		"an empty query":                       {"https://example.com/a?", "https://example.com/a"},
		"a parameter without a value":          {"https://example.com/a?b&a=", "https://example.com/a?a=&b"},
		"text that is escaped or is not":       {"https://example.com/ü x", "https://example.com/%C3%BC%20x"},
		"an IDN host":                          {"https://BÜCHER.example/", "https://xn--bcher-kva.example"},
		"a question mark in the query":         {"https://example.com/a?b=c?d", "https://example.com/a?b=c?d"},
		"a name that only begins like tracker": {"https://example.com/a?gclid2=1&utm=2", "https://example.com/a?gclid2=1&utm=2"},
		"two slashes at the end":               {"https://example.com/a//", "https://example.com/a"},
	} {
		got, err := target.Rules{}.Check(c.original)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got.Normal(), name)
	}
}

func TestNormal_TargetsThatDifferForSomebodyKeepTheirNormalForms(t *testing.T) {
	forms := map[string]string{}
	for _, original := range []string{
		"https://example.com/a", "http://example.com/a", "https://example.com/A", "https://www.example.com/a",
		"https://example.com:8443/a", "https://example.com/a#b", "https://example.com/a#", "https://example.com/a?b=1",
		"https://example.com/a?b=2", "https://example.com/a?B=1", "https://example.com/a?b=1&b=2", "https://example.com/a?b=2&b=1",
		"https://example.com/a/../a", "https://example.com/%61", "https://example.com/a#?utm_source=1",
	} {
		got, err := target.Rules{}.Check(original)
		require.NoError(t, err)
		require.Empty(t, forms[got.Normal()], original)
		forms[got.Normal()] = original
	}
}

func FuzzTheNormalFormOfANormalFormIsItself(f *testing.F) {
	for _, seed := range []string{
		"https://example.com/?b=1&a=2&utm_source=x#frag", "HTTP://EXAMPLE.com:080//", "https://[2A00:1450:4001:80B::200E]:443/?&&=",
		"https://a.example/?#?#",
		"https://a.example//?=&=", "https://a.example:/", "https://bücher.example/ü?ü=ü&a=%C3%BC",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, original string) {
		got, err := target.Rules{AllowPrivate: true}.Check(original)
		if err != nil {
			return
		}
		normal := got.Normal()
		again, err := target.Rules{AllowPrivate: true, MaxLength: waypost.MaxPayload}.Check(normal)
		require.NoError(t, err, "%q of %q", normal, original)
		require.Equal(t, normal, again.Location, "%q: a normal form is a Location", original)
		require.Equal(t, normal, again.Normal(), "%q", original)
		require.Equal(t, got.Host, again.Host)
	})
}
