package target_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/target"
)

func TestDomainName_NamesTheHostOfAURL(t *testing.T) {
	for _, s := range []string{"https://go.example.org/", "https://go.example.org", "go.example.org/", "go.example.org/path"} {
		_, err := target.DomainName(s)
		require.ErrorContains(t, err, `without a scheme and a path, here "go.example.org"`, s)
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	}
}

// What is taken for a domain is found again by the Host header that a browser sends for a
// URL of it, and by its own name.
func FuzzADomainsNameIsTheHostOfItsURLs(f *testing.F) {
	for _, seed := range []string{
		"go.example.org", "Bücher.Example.", "例え。テスト", "xn--bcher-kva.example", "a_b.example", "192.0.2.1", "[::1]", "[", "", "co.uk",
		"localhost",
		"a.example:80", "ｅｘａｍｐｌｅ.com", "-a.example", "a..b", "\x00", "0x7f.1", "faß.de", "domain-1.invalid", "go.internal",
		strings.Repeat("\x9f", 65),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := target.DomainName(s)
		if err != nil {
			require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "%q", s)
			return
		}
		require.LessOrEqual(t, len(name), 253)
		again, err := target.DomainName(name)
		require.NoError(t, err, "%q of %q", name, s)
		require.Equal(t, name, again)
		require.Equal(t, name, waypost.HostName(name), "%q is a host in its canonical form", name)
		got, err := target.Rules{AllowPrivate: true}.Check("https://" + name + "/")
		require.NoError(t, err, "%q of %q", name, s)
		require.Equal(t, name, got.Host)
		_, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+name+"/", http.NoBody)
		require.NoError(t, err)
	})
}
