package accessapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
)

// Every password that is compared takes 19 MiB and a while: no one takes all places.
func TestANetworkHasOnlySoManySignInsUnderWay(t *testing.T) {
	p := start(t, func(c *httpapi.Config) {
		c.Limits.Client = func(r *http.Request) netip.Addr { return netip.MustParseAddr(r.Header.Get("Test-From")) }
	})
	hash := p.firstAdminWithoutSession()
	hand := p.hand()
	tx, err := hand.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM app_user WHERE password = $1 FOR UPDATE`, hash) // which a session waits for
	require.NoError(t, err)
	try := func(from string) call {
		return call{path: "/api/v1/session", body: map[string]any{"email": "root@example.com", "password": password}, header: map[string]string{"Test-From": from}}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { p.want(201, try("2001:db8:1:1::1")) })
	}
	watch := p.hand()
	require.Eventually(t, func() bool {
		var waiting int
		err := watch.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted`).Scan(&waiting)
		return err == nil && waiting == 4
	}, 60*time.Second, 5*time.Millisecond)

	refused := p.want(429, try("2001:db8:1:1::ffff"))
	require.Equal(t, "1", refused.Header.Get("Retry-After"))
	require.Equal(t, "urn:waypost:problem:rate-limited", refused.json()["type"])
	wg.Go(func() { p.want(201, try("2001:db8:2:1::1")) })
	require.NoError(t, tx.Commit(t.Context()))
	wg.Wait()
	p.want(201, try("2001:db8:1:1::ffff"))
}

// Three networks keep 16 wrong passwords each under way. A user of a fourth one gets in
// each time.
func TestSignIn_GetsThroughAFloodFromOtherNetworks(t *testing.T) {
	p := start(t, func(c *httpapi.Config) {
		c.RequestTimeout = 10 * time.Second
		c.Limits.Client = func(r *http.Request) netip.Addr { return netip.MustParseAddr(r.Header.Get("Test-From")) }
	})
	p.firstAdminWithoutSession()
	try := func(from, email string) call {
		return call{path: "/api/v1/session", body: map[string]any{"email": email, "password": password}, header: map[string]string{"Test-From": from}}
	}
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	var answered atomic.Int64
	for i := range 48 {
		flood.Go(func() {
			for ctx.Err() == nil {
				p.do(try(fmt.Sprintf("198.51.%d.%d", i/16, i%16), "nobody@example.com"))
				answered.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return answered.Load() > 48 }, time.Minute, time.Millisecond)
	for range 6 {
		p.want(201, try("203.0.113.1", "root@example.com"))
	}
	stop()
	flood.Wait()
}
