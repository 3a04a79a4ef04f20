package replication_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// script is a source that sends what a test wrote down, whatever was asked. Each
// connection takes the next of its lines; the last one is repeated.
type script struct {
	mu    sync.Mutex
	lines [][][]byte
	asked []*http.Request
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	line := s.lines[min(len(s.asked), len(s.lines)-1)]
	s.asked = append(s.asked, r)
	s.mu.Unlock()
	w.Header().Set("Content-Type", replication.ContentType)
	for _, frame := range line {
		if _, err := w.Write(frame); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
	}
	<-r.Context().Done()
}

func (s *script) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.asked...)
}

// scripted makes a sink that holds a source's rows, and a follower of it whose
// source is a script. Each line begins with the hello.
func scripted(t *testing.T, lines func(head replication.Head, next replication.Batch) [][][]byte,
) (*edge, *script, *replicationtest.Source) {
	source := replicationtest.NewSource()
	source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
	sink := replicationtest.NewSink()
	replicationtest.Take(t, source, sink)
	for _, code := range []string{"bbbb", "cccc", "dddd"} {
		source.Commit(replicationtest.Link(code, "https://b.example/"))
	}
	head, err := source.Head(t.Context())
	require.NoError(t, err)
	s := &script{}
	for _, line := range lines(head, replicationtest.Next(t, source, sink)) {
		s.lines = append(s.lines, append([][]byte{replication.HelloFrame(head)}, line...))
	}
	n := newNetwork()
	n.serve(t, s)
	e := follow(t, n, func(c *replication.FollowConfig) { c.Sink = sink })
	e.sink = sink
	return e, s, source
}

// single makes each transaction a frame of its own.
func single(b replication.Batch) (frames [][]byte) {
	for i := range b.Transactions {
		f, err := replication.BatchFrames(&replication.Batch{Epoch: b.Epoch, Transactions: b.Transactions[i : i+1]})
		if err != nil {
			panic(err)
		}
		frames = append(frames, f[0])
	}
	return frames
}

func TestFramesOutOfPlaceEndTheConnectionAndNothingElse(t *testing.T) {
	for name, order := range map[string][]int{
		"a gap":      {0, 2},
		"duplicated": {0, 0, 1, 2},
		"reordered":  {1, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, s, source := scripted(t, func(_ replication.Head, next replication.Batch) [][][]byte {
					var bad [][]byte
					for _, i := range order {
						bad = append(bad, single(next)[i])
					}
					return [][][]byte{bad, single(next), single(next)[1:], single(next)[2:]}
				})
				time.Sleep(10 * time.Second)
				synctest.Wait()
				e.stop()
				require.NotEqual(t, replication.PathSnapshot, s.requests()[1].URL.Path)
				require.Zero(t, e.Status().Snapshots)
				if name != "reordered" {
					p := e.sink.Position()
					head, err := source.Head(t.Context())
					require.NoError(t, err)
					require.GreaterOrEqual(t, p.Seq, head.Position.Seq-2, "what came in order was kept")
				}
			})
		})
	}
}

func TestACorruptFrameIsNeverApplied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, s, source := scripted(t, func(_ replication.Head, next replication.Batch) [][][]byte {
			bad := single(next)[0]
			bad[len(bad)-3] ^= 0x10
			return [][][]byte{{bad}, single(next)}
		})
		head, err := source.Head(t.Context())
		require.NoError(t, err)
		e.await(t, head.Position)
		replicationtest.RequireEqual(t, source, e.sink)
		require.Len(t, s.requests(), 2)
	})
}

func TestAResetOfAnyReasonLeadsToASnapshot(t *testing.T) {
	for _, reason := range []replication.ResetReason{1, 2, 3, 200} {
		bubble(t, func(t *testing.T) {
			_, s, _ := scripted(t, func(replication.Head, replication.Batch) [][][]byte {
				return [][][]byte{{replication.ResetFrame(reason, "why")}, {}}
			})
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, replication.PathSnapshot, s.requests()[1].URL.Path)
		})
	}
}

func TestAHeartbeatWithAnotherDigestLeadsToASnapshot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, s, _ := scripted(t, func(head replication.Head, next replication.Batch) [][][]byte {
			head.Digest ^= 1
			return [][][]byte{append(single(next), replication.HeartbeatFrame(head)), {}}
		})
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, replication.PathSnapshot, s.requests()[1].URL.Path)
	})
}

func TestARequestTellsWhoAsksAndFromWhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &script{lines: [][][]byte{{}}}
		n := newNetwork()
		n.serve(t, s)
		sink := replicationtest.NewSink()
		replicationtest.Take(t, replicationtest.NewSource(), sink)
		follow(t, n, func(c *replication.FollowConfig) { c.Sink, c.Token = sink, "secret" })
		synctest.Wait()
		r := s.requests()[0]
		require.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
		require.Equal(t, "edge-1", r.Header.Get(replication.HeaderNode))
		require.Equal(t, "test-1", r.Header.Get(replication.HeaderRegion))
		require.Equal(t, sink.Position().String(), r.Header.Get(replication.HeaderPosition))
		require.Equal(t, sink.Position().String(), r.URL.Query().Get("after"))
	})
}

func TestErrorsThatRepeatingDoesNotHealAreRecognised(t *testing.T) {
	other := sampleHead()
	newer := replication.Frame(1, 0, append([]byte{2, 0}, []byte("whatever version 2 says")...))
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"401": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, replication.ErrUnauthorized},
		"403": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, replication.ErrUnauthorized},
		"another cluster": {func(w http.ResponseWriter, r *http.Request) {
			(&script{lines: [][][]byte{{replication.HelloFrame(other)}}}).ServeHTTP(w, r)
		}, replication.ErrOtherCluster},
		"another protocol": {func(w http.ResponseWriter, r *http.Request) {
			(&script{lines: [][][]byte{{newer}}}).ServeHTTP(w, r)
		}, replication.ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNetwork()
				n.serve(t, c.answer)
				sink := replicationtest.NewSink()
				replicationtest.Take(t, replicationtest.NewSource(), sink)

				patient := follow(t, n, func(c *replication.FollowConfig) { c.Sink = sink })
				time.Sleep(time.Minute)
				synctest.Wait()
				require.ErrorIs(t, patient.Status().Err, c.want)
				require.Greater(t, patient.Status().Failures, 5, "it tries on")
				require.Less(t, patient.Status().Failures, 40, "but not hot")

				strict := follow(t, n, func(f *replication.FollowConfig) {
					f.Sink, f.Fatal = sink, func(err error) bool { return errors.Is(err, c.want) }
				})
				require.ErrorIs(t, <-strict.done, c.want)
				require.Zero(t, sink.Restores()-1)
			})
		})
	}
}

func TestAnAnswerThatIsNoStreamIsExplained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		n.serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
		}))
		e := follow(t, n, nil)
		synctest.Wait()
		require.ErrorContains(t, e.Status().Err, "is its URL right?")
	})
}

// TestHistory_ThatIsNotNewerIsRefused finds this defect: an edge follows a source whose
// history is older than its own, so deleted links come back.
func TestHistory_ThatIsNotNewerIsRefused(t *testing.T) {
	t.Run("an older one", func(t *testing.T) {
		historyIsRefused(t, "older history", func(e *waypost.Epoch) { e.Ordinal += 5 })
	})
	// Two databases were promoted within one minute.
	t.Run("another one of the same ordinal", func(t *testing.T) {
		historyIsRefused(t, "neither is the newer one", func(e *waypost.Epoch) { e.ID[0]++ })
	})
}

func historyIsRefused(t *testing.T, why string, differ func(own *waypost.Epoch)) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		newer := replicationtest.NewSink()
		head, err := w.source.Head(t.Context())
		require.NoError(t, err)
		r, err := newer.Restore(t.Context(), head.Cluster)
		require.NoError(t, err)
		differ(&head.Position.Epoch)
		require.NoError(t, r.BeginTail(t.Context(), head.Position, head.Position))
		require.NoError(t, r.Commit(t.Context(), head.Digest))
		ahead := follow(t, w.network, func(c *replication.FollowConfig) { c.Sink = newer })
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorContains(t, ahead.Status().Err, why)
		require.Equal(t, head.Position, newer.Position())
	})
}

func TestASinkThatFailsIsTriedAgainWithoutASnapshot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := follow(t, w.network, nil)
		e.requireEqual(t, w.source)
		e.sink.Fail(errors.New("disk full"))
		p := w.source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorContains(t, e.Status().Err, "disk full")
		require.Greater(t, e.Status().Failures, 5)
		e.sink.Fail(nil)
		e.await(t, p)
		require.Equal(t, 1, e.Status().Snapshots)
	})
}

// snapshotLines is a snapshot of source in ranges of 1024 slots: hello, four
// ranges, end.
func snapshotLines(t *testing.T, source *replicationtest.Source) (frames [][]byte) {
	head, err := source.Head(t.Context())
	require.NoError(t, err)
	frames = append(frames, replication.HelloFrame(head))
	total := uint64(0)
	for first := uint16(0); first < waypost.Slots; first += 1024 {
		var records [][]byte
		_, err := source.Snapshot(t.Context(), first, first+1023, func(r []byte) error {
			records = append(records, append([]byte(nil), r...))
			return nil
		})
		require.NoError(t, err)
		total += uint64(len(records))
		frames = append(frames, replication.SlotsFrame(first, first+1023, head, true, records...))
	}
	return append(frames, replication.EndFrame(total))
}

func TestTruncatedAndForeignSnapshotsNeverServe(t *testing.T) {
	bad := map[string]func(frames [][]byte, head replication.Head) [][]byte{
		"without its end":    func(f [][]byte, _ replication.Head) [][]byte { return f[:5] },
		"with a range lost":  func(f [][]byte, _ replication.Head) [][]byte { return append(f[:2:2], f[3:]...) },
		"with a wrong count": func(f [][]byte, _ replication.Head) [][]byte { return append(f[:5:5], replication.EndFrame(1)) },
		"ended early":        func(f [][]byte, _ replication.Head) [][]byte { return append(f[:3:3], f[5]) },
		"of another cluster half way": func(f [][]byte, h replication.Head) [][]byte {
			h.Cluster[0] ^= 1
			return append(f[:3:3], replication.SlotsFrame(2048, 3071, h, true))
		},
		"of another epoch half way": func(f [][]byte, h replication.Head) [][]byte {
			h.Position.Epoch.ID[0] ^= 1
			return append(f[:3:3], replication.SlotsFrame(2048, 3071, h, true))
		},
		"with a record missing": func(f [][]byte, h replication.Head) [][]byte {
			var out [][]byte
			out = append(out, f[0])
			for first := uint16(0); first < waypost.Slots; first += 1024 {
				out = append(out, replication.SlotsFrame(first, first+1023, h, true))
			}
			return append(out, replication.EndFrame(0))
		},
	}
	for name, spoil := range bad {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				source := replicationtest.NewSource()
				for _, code := range []string{"aaaa", "bbbb", "cccc", "dddd", "eeee"} {
					source.Commit(replicationtest.Link(code, "https://a.example/"))
				}
				head, err := source.Head(t.Context())
				require.NoError(t, err)
				n := newNetwork()
				n.serve(t, &script{lines: [][][]byte{spoil(snapshotLines(t, source), head)}})
				e := follow(t, n, nil)
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				require.True(t, e.sink.Position().IsZero())
				require.Zero(t, e.Status().Snapshots)
				require.Error(t, e.Status().Err)
			})
		})
	}
}

func TestASnapshotThatIsCutGoesOnWhereItWas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source := replicationtest.NewSource()
		for _, code := range []string{"aaaa", "bbbb", "cccc", "dddd", "eeee"} {
			source.Commit(replicationtest.Link(code, "https://a.example/"))
		}
		whole := snapshotLines(t, source)
		torn := [][]byte{whole[0], whole[1], whole[2], whole[3][:40]}
		s := &cutting{script: script{lines: [][][]byte{torn, whole[:1]}}, rest: func(first string) [][]byte {
			require.Equal(t, "2048", first)
			full := snapshotLines(t, source)
			return append(append(full[:1:1], full[3:5]...), replication.EndFrame(countOf(t, source, 2048)))
		}}
		n := newNetwork()
		n.serve(t, s)
		e := follow(t, n, nil)
		head, err := source.Head(t.Context())
		require.NoError(t, err)
		e.await(t, head.Position)
		replicationtest.RequireEqual(t, source, e.sink)
		require.Equal(t, 1, e.sink.Restores())
	})
}

func countOf(t *testing.T, s *replicationtest.Source, first uint16) (n uint64) {
	_, err := s.Snapshot(t.Context(), first, waypost.Slots-1, func([]byte) error { n++; return nil })
	require.NoError(t, err)
	return n
}

// cutting ends its first connection in the middle of a frame.
type cutting struct {
	script
	rest func(first string) [][]byte
	cut  bool
}

func (c *cutting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != replication.PathSnapshot {
		c.script.ServeHTTP(w, r)
		return
	}
	frames := c.lines[0]
	if c.cut {
		frames = c.rest(r.URL.Query().Get("first"))
	}
	c.cut = true
	w.Header().Set("Content-Type", replication.ContentType)
	for _, f := range frames {
		if _, err := w.Write(f); err != nil {
			return
		}
	}
}

func TestAFollowersConfigurationIsChecked(t *testing.T) {
	_, err := replication.NewFollower(replication.FollowConfig{URL: "http://x"})
	require.ErrorContains(t, err, "sink")
	for _, u := range []string{"", "x", "ftp://x", "http://", "http://x?y=z", "http://x\x00"} {
		_, err := replication.NewFollower(replication.FollowConfig{URL: u, Sink: replicationtest.NewSink()})
		require.ErrorContains(t, err, "base URL", u)
	}
	_, err = replication.NewServer(replication.ServerConfig{})
	require.ErrorContains(t, err, "source")
}
