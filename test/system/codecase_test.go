package system_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/test/devtest"
)

// requireSwitch switches the default domain of a system with one edge to ignore case and
// back, kills the control plane at some moment of the work, and demands that visitors get
// the right answers throughout.
func requireSwitch(t *testing.T, s *devtest.System) {
	t.Helper()
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	run := func(args ...string) string {
		t.Helper()
		r := devtest.Run(t, env, args...)
		require.Zero(t, r.Code, r.Stderr)
		return r.Stdout
	}
	targets := make(map[string]string)
	for line := range strings.Lines(run("links", "export", "--format", "jsonl")) {
		var l struct {
			ShortCode   string `json:"short_code"`
			OriginalURL string `json:"original_url"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		targets[l.ShortCode] = l.OriginalURL
	}
	wrong := func(code string) bool { // as a link or as none
		res, err := visitor.Get(s.State().Edges[0].URL + "/" + code)
		if err != nil {
			return true
		}
		defer res.Body.Close()
		return res.StatusCode != http.StatusFound
	}
	var visits, failures atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		pause := time.NewTicker(200 * time.Microsecond)
		defer pause.Stop()
		for ctx.Err() == nil {
			for code := range targets {
				if visits.Add(1); wrong(code) {
					failures.Add(1)
				}
				if <-pause.C; ctx.Err() != nil {
					return
				}
			}
		}
	}()
	api, err := client.New(s.State().API, s.State().APIKey)
	require.NoError(t, err)
	defer api.Close()
	isSwitched := func() bool {
		all, err := api.Domains.List(t.Context())
		return err == nil && !all[0].CaseSwitching
	}
	for _, to := range []string{"insensitive", "sensitive", "insensitive"} {
		run("domains", "set", "1", "--case", to)
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
	for code := range targets {
		require.False(t, wrong(strings.ToLower(code)), code)
	}
}
