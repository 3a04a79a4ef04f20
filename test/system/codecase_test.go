package system_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
	"waypost/test/devtest"
)

// requireSwitch switches a domain of a system with one edge to ignore case and back,
// kills the control plane at some moment of the work, and demands that visitors get the
// right answers throughout, also at aliases of its links on both of two domains.
func requireSwitch(t *testing.T, s *devtest.System) {
	t.Helper()
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	run := func(args ...string) {
		t.Helper()
		r := devtest.Run(t, env, args...)
		require.Zero(t, r.Code, r.Stderr)
	}
	const host, other = "case.example", "steady.example"
	run("domains", "add", other)
	run("domains", "add", host)
	server, err := client.New(s.State().API, s.State().APIKey)
	require.NoError(t, err)
	defer server.Close()
	links := 3000
	if devtest.Long() {
		links = 20_000
	}
	var all []client.NewLink
	for i := range links {
		code := fmt.Sprintf("Link-%d", i)
		l := client.NewLink{OriginalURL: "https://example.com/" + code, CustomCode: code, Domain: host}
		if i%10 == 0 {
			l.Aliases = []client.NewAlias{{ShortCode: "Box-" + code, Domain: host}, {ShortCode: "Box-" + code, Domain: other}}
		}
		all = append(all, l)
	}
	for part := range slices.Chunk(all, 1000) {
		_, err := server.Links.CreateBulk(t.Context(), part)
		require.NoError(t, err)
	}
	edge := s.State().Edges[0].URL
	wrongAt := func(host, path, code string) bool {
		req, err := http.NewRequest(http.MethodGet, edge+"/"+path, http.NoBody)
		if err != nil {
			return true
		}
		req.Host = host
		res, err := visitor.Do(req)
		if err != nil {
			return true
		}
		defer res.Body.Close()
		return res.Header.Get("Location") != "https://example.com/"+code
	}
	wrong := func(path, code string) bool { return wrongAt(host, path, code) }
	eventually(t, time.Minute, "on the edge", func() bool { return !wrong(all[links-1].CustomCode, all[links-1].CustomCode) })
	var visits, failures atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		pause := time.NewTicker(200 * time.Microsecond)
		defer pause.Stop()
		for ctx.Err() == nil {
			for i := range all {
				code := all[i*7%links].CustomCode
				if visits.Add(1); wrong(code, code) || i*7%links%10 == 0 && (wrong("Box-"+code, code) || wrongAt(other, "Box-"+code, code)) {
					failures.Add(1)
				}
				if <-pause.C; ctx.Err() != nil {
					return
				}
			}
		}
	}()
	isSwitched := func() bool {
		all, err := client.Get[api.DomainList](t.Context(), server, api.PathDomains)
		return err == nil && !all.Domains[len(all.Domains)-1].CaseSwitching
	}
	for _, to := range []string{"insensitive", "sensitive", "insensitive"} {
		run("domains", "set", host, "--case", to)
		if to == "insensitive" {
			first := s.State().Control.PID
			devtest.KillProcess(t, int(first))
			s.Await("another control plane", func(st devtest.State) bool { return st.Control.PID != 0 && st.Control.PID != first })
		}
		eventually(t, 2*time.Minute, "switched", isSwitched)
	}
	stop()
	<-done
	require.Zero(t, failures.Load(), "of %d visits", visits.Load())
	require.Greater(t, visits.Load(), int64(1000))
	run("verify", "--all")
	for i := range all {
		code := all[i].CustomCode
		require.False(t, wrong(strings.ToUpper(code), code), code)
		if i%10 == 0 {
			require.False(t, wrong(strings.ToUpper("Box-"+code), code), code)
			require.False(t, wrongAt(other, "Box-"+code, code), code)
		}
	}
}
