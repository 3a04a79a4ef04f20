package server_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
)

// memoryUnknown keeps what is recorded, as text.
type memoryUnknown struct {
	mu   sync.Mutex
	list []string
}

func (m *memoryUnknown) Record(v waypost.UnknownVisit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, fmt.Sprintf("%d %d %s by %s from %s at %d", v.Domain, v.Kind, v.Path, v.Agent, v.From, v.At))
}

func (m *memoryUnknown) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.list
	m.list = nil
	return list
}

func TestServer_RecordsVisitsThatNameNoLink(t *testing.T) {
	recorded, links := &memoryUnknown{}, newMemoryLinks()
	links.targets[hostID] = waypost.DomainTargets{NotFound: []byte("https://example.org/none")}
	_, addr := serve(t, server.Config{
		Links: links, Unknown: recorded, Clicks: &memoryClicks{},
		TrustedProxies: loopback(), Clock: func() time.Time { return time.UnixMilli(7) },
	})
	for name, c := range map[string]struct {
		path, host, want string
		status           int
	}{
		"nowhere":                    {"/unknown1?secret=1", "wayp.example", "1 0 unknown1", 404},
		"a long way":                 {"/un/kn%20own/+?q", "wayp.example", "1 0 un/kn%20own/+", 404},
		"below a link":               {"/found302/x", "wayp.example", "1 0 found302/x", 404},
		"punctuation behind nothing": {"/unknown1+).", "wayp.example", "1 0 unknown1+).", 404},
		"of a domain with a target":  {"/unknown1", hosted, "7 0 unknown1", 302},
		"of a host without a domain": {"/unknown1", "any.example", "1 0 unknown1", 404},
		"a pattern":                  {"/docs/a/b?q=1", "wayp.example", "1 1 docs/a/b", 302},
		"a link":                     {"/found302", "wayp.example", "", 302},
		"a deleted link":             {"/deleted1", "wayp.example", "", 410},
		"a link whose rule refuses":  {"/unlisted", "wayp.example", "", 404},
		"an asset":                   {"/robots.txt", "wayp.example", "", 200},
		"health":                     {"/health", "wayp.example", "", 200},
		"the root":                   {"/", "wayp.example", "", 200},
		"a link that cannot be read": {"/failing1", "wayp.example", "", 503},
	} {
		for lane, lines := range map[string][]string{
			"by the fast path": {"X-Forwarded-For: 203.0.113.9"}, "by the handler": {"X-Forwarded-For: 203.0.113.9", "Sec-Purpose: none"},
		} {
			t.Run(name+" "+lane, func(t *testing.T) {
				require.Equal(t, c.status, get(t, addr, c.path, c.host, append(lines, "User-Agent: curl")...).StatusCode)
				var want []string
				if c.want != "" {
					want = []string{c.want + " by curl from 203.0.113.9 at 7"}
				}
				require.Equal(t, want, recorded.take())
			})
		}
	}
	for _, request := range []string{
		"HEAD /unknown1 HTTP/1.1\r\nHost: wayp.example", "POST /unknown1 HTTP/1.1\r\nHost: wayp.example\r\nContent-Length: 1\r\n\r\nx",
		"GET /unknown1 HTTP/1.1\r\nHost: wayp.example\r\nSec-Purpose: prefetch",
	} {
		say(t, addr, request+"\r\n\r\n")
		require.Empty(t, recorded.take(), request)
	}
}
