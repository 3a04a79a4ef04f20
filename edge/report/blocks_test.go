package report_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/controlplane/httpapi"
	"waypost/edge/report"
)

// shelf holds blocks, each of which is only a version here.
type shelf struct {
	mu       sync.Mutex
	versions []uint64
	asked    int
}

func (s *shelf) add(versions ...uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = append(s.versions, versions...)
	slices.Sort(s.versions)
	s.versions = slices.Compact(s.versions)
}

func (s *shelf) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.versions)
}

func (s *shelf) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *shelf) Digest() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	digest := uint64(0)
	for _, v := range s.versions {
		digest ^= v * 0x9e3779b97f4a7c15
	}
	return digest
}

func (s *shelf) Shards() []uint64 { return []uint64{s.Digest()} }

func (s *shelf) Hear(encoded ...[]byte) {
	for _, e := range encoded {
		var v uint64
		_, _ = fmt.Sscan(string(e), &v)
		s.add(v)
	}
}

func (s *shelf) Lacking(_ []uint64, known [][]byte) (lacking [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.versions {
		if !slices.ContainsFunc(known, func(k []byte) bool { return string(k) == fmt.Sprint(v) }) {
			lacking = append(lacking, fmt.Append(nil, v))
		}
	}
	return lacking
}

// Exchange implements httpapi.BlockTaker.
func (s *shelf) Exchange(_ context.Context, x *api.EdgeBlocks, most int) (a api.EdgeBlocksAnswer, err error) {
	s.Hear(x.Blocks...)
	a.Digests = s.Shards()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	for _, v := range s.versions {
		if len(x.Digests) > 0 && v > x.After && len(a.Blocks) < most {
			a.Blocks, a.Last = append(a.Blocks, fmt.Append(nil, v)), v
		}
	}
	return a, nil
}

func TestReporter_ExchangesBlocksThatDiffer(t *testing.T) {
	control, edge, arrived := &shelf{}, &shelf{}, make(desk, 1000)
	mux := http.NewServeMux()
	mux.Handle("POST "+api.PathEdgeReports, httpapi.EdgeReports(arrived, noOrders{}, control, slog.New(slog.DiscardHandler)))
	mux.Handle("POST "+api.PathEdgeBlocks, httpapi.EdgeBlocks(control, slog.New(slog.DiscardHandler)))
	for v := range uint64(1234) {
		control.add(1 + v)
	}
	edge.add(7, 2000, 2001)
	r, _ := run(t, report.Config{Interval: never, Timeout: time.Minute, URL: serve(t, mux), Blocks: edge})
	r.Ask()
	first := <-arrived
	require.NotNil(t, first.Blocks)
	require.Eventually(t, func() bool { return edge.Digest() == control.Digest() }, time.Minute, time.Millisecond)
	require.Equal(t, 1236, edge.size(), "both have what the other one had")
	require.Equal(t, 4, control.requests(), "three pages, and what the control plane lacked")
	r.Ask()
	<-arrived
	r.Ask()
	<-arrived
	require.Equal(t, 4, control.requests(), "equal ones are not exchanged")
}
