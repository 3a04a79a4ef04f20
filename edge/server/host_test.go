package server_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
)

func TestTheHostChoosesTheDomain(t *testing.T) {
	const byDefault, byHost = "https://example.org/default", "https://example.org/hosted"
	_, lax := serve(t, server.Config{})
	_, strict := serve(t, server.Config{StrictHosts: true})
	_, proxied := serve(t, server.Config{StrictHosts: true, TrustedProxies: loopback()})
	_, elsewhere := serve(t, server.Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})

	for name, c := range map[string]struct {
		addr, target, host string
		lines              []string
		status             int
		location           string
	}{
		"the default domain's host":                          {lax, "/whereami", "wayp.example", nil, 302, byDefault},
		"another domain's host":                              {lax, "/whereami", hosted, nil, 302, byHost},
		"a port does not matter":                             {strict, "/whereami", hosted + ":8443", nil, 302, byHost},
		"case does not matter":                               {strict, "/whereami", "Go.EXAMPLE.com", nil, 302, byHost},
		"the root's dot does not matter":                     {strict, "/whereami", hosted + ".", nil, 302, byHost},
		"an unknown host means the default domain":           {lax, "/whereami", "127.0.0.1:8081", nil, 302, byDefault},
		"an IPv6 address is a host":                          {lax, "/whereami", "[::1]:8081", nil, 302, byDefault},
		"an unknown host answers 404 when hosts are strict":  {strict, "/whereami", "other.example", nil, 404, ""},
		"the host of an absolute target goes before Host":    {strict, "http://" + hosted + "/whereami", "wayp.example", nil, 302, byHost},
		"X-Forwarded-Host of anyone is ignored":              {strict, "/whereami", "wayp.example", []string{"X-Forwarded-Host: " + hosted}, 302, byDefault},
		"X-Forwarded-Host of another peer is ignored":        {elsewhere, "/whereami", "wayp.example", []string{"X-Forwarded-Host: " + hosted}, 302, byDefault},
		"X-Forwarded-Host of a trusted proxy is believed":    {proxied, "/whereami", "internal.example", []string{"x-forwarded-host: " + hosted}, 302, byHost},
		"the last of a forwarded list was seen by the proxy": {proxied, "/whereami", "internal.example", []string{"X-Forwarded-Host: wayp.example, " + hosted}, 302, byHost},
		"two forwarded hosts are refused":                    {proxied, "/whereami", "wayp.example", []string{"X-Forwarded-Host: " + hosted, "X-Forwarded-Host: wayp.example"}, 400, ""},
		"a malformed forwarded host is refused":              {proxied, "/whereami", "wayp.example", []string{"X-Forwarded-Host: a/b"}, 400, ""},
		"an empty end of a forwarded list is refused":        {proxied, "/whereami", "wayp.example", []string{"X-Forwarded-Host: a,"}, 400, ""},
		"a trusted proxy need not forward a host":            {proxied, "/whereami", hosted, nil, 302, byHost},
		"userinfo is refused":                                {lax, "/whereami", "a@" + hosted, nil, 400, ""},
		"a path in the host is refused":                      {lax, "/whereami", hosted + "/x", nil, 400, ""},
		"a list of hosts is refused":                         {lax, "/whereami", hosted + ", x", nil, 400, ""},
		"bytes above ASCII are refused":                      {lax, "/whereami", "caf\xc3\xa9.example", nil, 400, ""},
		"percent-encoding is refused":                        {lax, "/whereami", "go%2eexample.com", nil, 400, ""},
		"a port that is no number is refused":                {lax, "/whereami", hosted + ":80a", nil, 400, ""},
		"two ports are refused":                              {lax, "/whereami", hosted + ":80:80", nil, 400, ""},
		"an open bracket is refused":                         {lax, "/whereami", "[::1", nil, 400, ""},
		"no address in brackets is refused":                  {lax, "/whereami", "[abc]", nil, 400, ""},
		"half an address in brackets is refused":             {lax, "/whereami", "[1:2]", nil, 400, ""},
		"nothing in brackets is refused":                     {lax, "/whereami", "[]", nil, 400, ""},
		"a trailer that is to be the host is refused":        {lax, "/whereami", hosted, []string{"Trailer: Host"}, 400, ""},
		"a name in brackets is refused":                      {lax, "/whereami", "[" + hosted + "]", nil, 400, ""},
		"a host of 256 bytes is refused":                     {lax, "/whereami", strings.Repeat("a", 256), nil, 400, ""},
		"a port without a host is refused":                   {lax, "/whereami", ":80", nil, 400, ""},
		"an empty host is refused":                           {lax, "/whereami", "", nil, 400, ""},
		"userinfo in an absolute target is refused":          {lax, "http://a@" + hosted + "/whereami", "wayp.example", nil, 400, ""},
		"another scheme is refused":                          {lax, "ftp://" + hosted + "/whereami", "wayp.example", nil, 400, ""},
		"an absolute target without a host is refused":       {lax, "http:///whereami", "wayp.example", nil, 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			res := get(t, c.addr, c.target, c.host, c.lines...)
			require.Equal(t, c.status, res.StatusCode)
			require.Equal(t, c.location, res.Header.Get("Location"))
			require.Equal(t, c.status == 400, res.Close, "a refusal ends the connection")
		})
	}
}

func TestAnHTTP10ClientNeedsNoHost(t *testing.T) {
	_, addr := serve(t, server.Config{})
	res := say(t, addr, "GET /whereami HTTP/1.0\r\n\r\n")
	require.Equal(t, 302, res.StatusCode)
	require.True(t, res.Close)

	_, addr = serve(t, server.Config{StrictHosts: true})
	require.Equal(t, 404, say(t, addr, "GET /whereami HTTP/1.0\r\n\r\n").StatusCode)
}

// hostLinks notes the hosts that it is asked for.
type hostLinks struct {
	*memoryLinks
	hosts chan string
}

func (l hostLinks) Domain(host []byte) (waypost.DomainID, waypost.DomainTraits, bool) {
	l.hosts <- string(host)
	return waypost.DefaultDomain, 0, false
}

func TestTheHostIsInItsCanonicalForm(t *testing.T) {
	links := hostLinks{newMemoryLinks(), make(chan string, 1)}
	_, addr := serve(t, server.Config{Links: links})
	for _, host := range []string{"wayp.example", "WAYP.Example.:443", "127.0.0.1:8081", "[2001:DB8::1]:80", "[::1]", "a_b-c.example"} {
		require.Equal(t, 302, get(t, addr, "/found302", host).StatusCode)
		require.Equal(t, waypost.HostName(host), <-links.hosts)
	}
}
