package node

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane"
)

func TestEdgeWait_KeysWaitForAnEdgeThatKnows(t *testing.T) {
	two := []controlplane.EdgeProgress{{Node: "a", Region: "eu"}, {Node: "b", Region: "eu"}}
	off := []controlplane.EdgeProgress{{Node: "a"}, {Node: "b", Region: "eu", Left: true}} // one sent clicks alone
	for name, c := range map[string]struct {
		known []controlplane.EdgeProgress
		hear  func(*edgeWait)
		opens time.Duration // after the start
	}{
		"no edge is known":                  {nil, func(*edgeWait) {}, 0},
		"no edge is there":                  {off, func(*edgeWait) {}, 0},
		"one tells":                         {two, func(w *edgeWait) { w.heard("a", true) }, time.Second},
		"one that was unknown tells":        {two, func(w *edgeWait) { w.heard("c", true) }, time.Second},
		"one connects and knows nothing":    {two, func(w *edgeWait) { w.heard("a", false); w.heard("a", false) }, longestEdgeWait},
		"all connect and know nothing":      {two, func(w *edgeWait) { w.heard("a", false); w.heard("b", false) }, time.Second},
		"an unknown one that knows nothing": {two, func(w *edgeWait) { w.heard("c", false) }, longestEdgeWait},
		"none connects":                     {two, func(*edgeWait) {}, longestEdgeWait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, start := newEdgeWait(c.known), time.Now()
				done := make(chan struct{})
				go func() { defer close(done); w.run(t.Context(), slog.New(slog.DiscardHandler)) }()
				heard := make(chan struct{})
				go func() { defer close(heard); time.Sleep(time.Second); c.hear(w) }()
				<-w.enough
				require.Equal(t, c.opens, time.Since(start))
				<-done
				<-heard
			})
		})
	}
}
