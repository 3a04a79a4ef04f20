package replication_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

var secret = [32]byte{1: 7, 31: 9}

// trustFile is a file that a Trust keeps its document in.
type trustFile struct {
	mu       sync.Mutex
	document []byte
	failing  error
	slow     time.Duration // a write takes
	writing  int
}

func (p *trustFile) keep(document []byte) error {
	p.mu.Lock()
	slow := p.slow
	p.writing++
	p.mu.Unlock()
	time.Sleep(slow)
	p.mu.Lock()
	p.writing--
	defer p.mu.Unlock()
	if p.failing == nil {
		p.document = bytes.Clone(document)
	}
	return p.failing
}

// trust returns the Trust of a node that was restarted.
func (p *trustFile) trust(t *testing.T) *replication.Trust {
	t.Helper()
	p.mu.Lock()
	document := p.document
	p.mu.Unlock()
	trust, err := replication.NewTrust(document, p.keep)
	require.NoError(t, err)
	return trust
}

func signer(t testing.TB, cluster replication.Cluster, generation uint32) *replication.Signer {
	t.Helper()
	s, err := replication.NewSigner(secret, cluster, generation)
	require.NoError(t, err)
	return s
}

// signing makes a world whose source signs with a key of a generation; 0: not at all.
func signing(t *testing.T, source *replicationtest.Source, generation uint32, change func(*replication.ServerConfig)) *world {
	head, err := source.Head(t.Context())
	require.NoError(t, err)
	return newWorld(t, func(c *replication.ServerConfig) {
		c.Source = source
		if generation != 0 {
			c.Signer = signer(t, head.Cluster, generation)
		}
		if change != nil {
			change(c)
		}
	})
}

// follows makes a follower with what a node has on its disk.
func (p *trustFile) follows(t *testing.T, w *world, sink *replicationtest.Sink) *edge {
	e := follow(t, w.network, func(c *replication.FollowConfig) {
		c.Sink, c.Trust = sink, p.trust(t)
	})
	e.sink = sink
	return e
}

func TestTheSigningKeyOfAClusterNeverChanges(t *testing.T) {
	key := replication.PublicKey(signer(t, replication.Cluster{1, 2, 3}, 1))
	require.Equal(t, "9df6", hex.EncodeToString(key[:])[:4])
	require.Equal(t, key, replication.PublicKey(signer(t, replication.Cluster{1, 2, 3}, 1)), "every control plane derives the same")
	require.NotEqual(t, key, replication.PublicKey(signer(t, replication.Cluster{1, 2, 4}, 1)), "each cluster has its own")
	require.NotEqual(t, key, replication.PublicKey(signer(t, replication.Cluster{1, 2, 3}, 2)))
	for _, generation := range []uint32{0, replication.MaxGeneration + 1} {
		_, err := replication.NewSigner(secret, replication.Cluster{}, generation)
		require.ErrorContains(t, err, "not within")
	}
}

func TestAFollowerPinsTheFirstKeyAndFollowsWithIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, kept := replicationtest.NewSource(), &trustFile{}
		source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		w := signing(t, source, 1, nil)
		e := kept.follows(t, w, replicationtest.NewSink())
		e.requireEqual(t, source)
		source.Commit(replicationtest.Link("bbbb", "https://b.example/"))
		e.requireEqual(t, source)
		source.NewHistory()
		source.Commit()
		e.requireEqual(t, source)
		require.NotEmpty(t, kept.document)
		require.NoError(t, e.Status().Err)
	})
}

func TestAFollowerThatKnowsNoSignaturesPassesOverThem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source := replicationtest.NewSource()
		source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		e := follow(t, signing(t, source, 1, nil).network, nil)
		source.Commit(replicationtest.Link("bbbb", "https://b.example/"))
		e.requireEqual(t, source)
	})
}

func TestWithoutASignatureNothingIsTakenOnceAKeyIsPinned(t *testing.T) {
	for name, generation := range map[string]uint32{"an older control plane, or an impostor": 0, "another secret": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				source, kept := replicationtest.NewSource(), &trustFile{}
				source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
				e := kept.follows(t, signing(t, source, 1, nil), replicationtest.NewSink())
				e.requireEqual(t, source)
				e.stop()
				at := e.sink.Position()
				for _, change := range []func(){
					func() { source.Commit(replicationtest.Link("aaaa", "https://evil.example/")) },
					source.NewHistory, // of which a reset would tell
				} {
					change()
					w := signing(t, source, 0, func(c *replication.ServerConfig) {
						if generation != 0 {
							head, err := source.Head(t.Context())
							require.NoError(t, err)
							c.Signer, err = replication.NewSigner([32]byte{6, 6, 6}, head.Cluster, generation)
							require.NoError(t, err)
						}
					})
					again := kept.follows(t, w, e.sink)
					time.Sleep(time.Minute)
					synctest.Wait()
					require.ErrorIs(t, again.Status().Err, replication.ErrSignature)
					require.Equal(t, at, e.sink.Position(), "the old state serves")
					again.stop()
				}
			})
		})
	}
}

// forger changes the frames of a stream on their way.
type forger struct {
	http.ResponseWriter
	change func(frame []byte) []byte
}

func (f forger) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f forger) Write(b []byte) (int, error) {
	if _, err := f.ResponseWriter.Write(f.change(bytes.Clone(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// onward makes the followers of a world go through somebody who changes frames.
func (w *world) onward(t *testing.T, change func(frame []byte) []byte) *world {
	between := &world{network: newNetwork(), t: t, source: w.source, server: w.server}
	between.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		f := forger{rw, change}
		switch r.URL.Path {
		case replication.PathStream:
			w.server.Stream(f, r)
		case replication.PathSnapshot:
			w.server.Snapshot(f, r)
		case replication.PathSums:
			w.server.Sums(f, r)
		}
	}))
	return between
}

func TestWhatIsChangedOnTheWayIsNeverApplied(t *testing.T) {
	forge := func(batch func(b *replication.Batch)) func([]byte) []byte {
		return func(b []byte) []byte {
			frames := replication.SplitFrames(b)
			for i, frame := range frames {
				if b, err := replication.DecodedBatch(frame); frame[4] == 2 && err == nil {
					batch(&b)
					made, err := replication.BatchFrames(&b)
					if err != nil {
						panic(err)
					}
					frames[i] = made[0]
				}
			}
			return bytes.Join(frames, nil)
		}
	}
	evil := replicationtest.Link("bbbb", "https://evil.example/")
	for name, change := range map[string]func([]byte) []byte{
		"another target of a link": forge(func(b *replication.Batch) {
			for i := range b.Transactions {
				for j, raw := range b.Transactions[i].Records {
					var r waypost.Record
					if replication.DecodeRecord(raw, &r) == nil {
						r.Payload = evil.Payload
						b.Transactions[i].Records[j] = replication.AppendRecord(nil, &r)
					}
				}
			}
		}),
		"another digest":     forge(func(b *replication.Batch) { b.Transactions[len(b.Transactions)-1].Digest ^= 1 }),
		"a transaction less": forge(func(b *replication.Batch) { b.Transactions[0].Records = nil }),
		"the signature gone": func(b []byte) []byte {
			frames := replication.SplitFrames(b)
			if len(frames) == 2 && frames[1][4] == 2 {
				frames = frames[1:]
			}
			return bytes.Join(frames, nil)
		},
		"another signature": func(b []byte) []byte {
			frames := replication.SplitFrames(b)
			if len(frames) == 2 && frames[1][4] == 2 {
				frames[0][20] ^= 1
				frames[0] = replication.Frame(16, 0, frames[0][12:])
			}
			return bytes.Join(frames, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				source, kept := replicationtest.NewSource(), &trustFile{}
				source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
				w := signing(t, source, 1, nil)
				e := kept.follows(t, w.onward(t, change), replicationtest.NewSink())
				e.requireEqual(t, source)
				at := e.sink.Position()
				source.Commit(replicationtest.Link("bbbb", "https://b.example/"))
				time.Sleep(time.Minute)
				synctest.Wait()
				require.ErrorIs(t, e.Status().Err, replication.ErrSignature)
				require.Equal(t, at, e.sink.Position())
				require.Equal(t, 1, e.Status().Snapshots, "it is no reason for a snapshot")
				e.stop()
				honest := kept.follows(t, w, e.sink)
				honest.requireEqual(t, source)
			})
		})
	}
}

func TestAHeartbeatThatIsChangedOnTheWayEndsTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, kept := replicationtest.NewSource(), &trustFile{}
		source.Commit()
		e := kept.follows(t, signing(t, source, 1, nil), replicationtest.NewSink())
		e.requireEqual(t, source)
		e.stop()
		w := signing(t, source, 1, nil).onward(t, func(b []byte) []byte {
			frames := replication.SplitFrames(b)
			for i, frame := range frames {
				if frame[4] == 3 {
					frame[12+52] ^= 1 // the digest
					frames[i] = replication.Frame(3, 0, frame[12:])
				}
			}
			return bytes.Join(frames, nil)
		})
		e = kept.follows(t, w, e.sink)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, e.Status().Err, replication.ErrSignature)
		require.Zero(t, e.Status().Snapshots+e.Status().Repairs, "nobody but the control plane can have a replica repaired")
	})
}

func TestLook_RefusesAnOriginThatWasChangedOnTheWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, kept := replicationtest.NewSource(), &trustFile{}
		source.Commit()
		w := signing(t, source, 1, nil)
		e := kept.follows(t, w, replicationtest.NewSink())
		e.requireEqual(t, source)
		e.stop()
		between := w.onward(t, func(b []byte) []byte {
			frames := replication.SplitFrames(b)
			for i, frame := range frames {
				if frame[4] == 3 {
					frame[12+60+4] ^= 1 // the time
					frames[i] = replication.Frame(3, 0, frame[12:])
				}
			}
			return bytes.Join(frames, nil)
		})
		look := func(n *network) (replication.Probe, error) {
			return replication.Look(t.Context(), replication.FollowConfig{
				URL: "http://source", Sink: e.sink, Trust: kept.trust(t), Client: n.client(t), Logger: slog.New(slog.DiscardHandler),
			})
		}
		probe, err := look(w.network)
		require.NoError(t, err)
		require.Equal(t, e.sink.Position(), probe.Origin.Position)
		_, err = look(between.network)
		require.ErrorIs(t, err, replication.ErrSignature)
	})
}

// Somebody in between kept the answers of a source, and shows them to a new replica of a
// node that has pinned the key: the slots add up to the digest of their head, so that the
// signature alone refuses a head that is not theirs.
func TestSnapshot_OldOneDoesNotPassForAnother(t *testing.T) {
	const hello, signature = 1, 16
	for name, change := range map[string]func(frame []byte, now *replication.Head) []byte{
		"the head is not signed": func(frame []byte, _ *replication.Head) []byte {
			if frame[4] == signature {
				return nil
			}
			return frame
		},
		"the head is signed for another position": func(frame []byte, now *replication.Head) []byte {
			if frame[4] == hello {
				claimed := replication.HelloHead(frame)
				claimed.Position = now.Position
				return replication.HelloFrame(claimed)
			}
			return frame
		},
		"the head is signed with another digest": func(frame []byte, now *replication.Head) []byte {
			if frame[4] == hello {
				claimed := replication.HelloHead(frame)
				claimed.Digest ^= now.Digest
				return replication.HelloFrame(claimed)
			}
			return frame
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				source, kept := replicationtest.NewSource(), &trustFile{}
				source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
				w := signing(t, source, 1, nil)
				var old []byte
				recorder := &world{network: newNetwork(), t: t, source: source, server: w.server}
				recorder.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path == replication.PathSnapshot {
						old = nil // a try before may have been answered in words
						w.server.Snapshot(forger{rw, func(b []byte) []byte { old = append(old, b...); return b }}, r)
						return
					}
					w.server.Stream(rw, r)
				}))
				e := kept.follows(t, recorder, replicationtest.NewSink())
				e.requireEqual(t, source)
				e.stop()

				source.Commit(replicationtest.Link("aaaa", "https://later.example/"))
				now, err := source.Head(t.Context())
				require.NoError(t, err)
				between := &world{network: newNetwork(), t: t, source: source, server: w.server}
				between.serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path != replication.PathSnapshot {
						rw.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					rw.Header().Set("Content-Type", replication.ContentType)
					for _, frame := range replication.SplitFrames(old) {
						_, _ = rw.Write(change(frame, &now))
					}
				}))
				again := kept.follows(t, between, replicationtest.NewSink())
				refused := false // some tries end before they have read a frame
				for range 120 {
					time.Sleep(time.Second)
					synctest.Wait()
					refused = refused || errors.Is(again.Status().Err, replication.ErrSignature)
				}
				require.True(t, refused)
				_, holds := again.sink.Cluster()
				require.False(t, holds, "it serves nothing")
				again.stop()
				honest := kept.follows(t, w, again.sink)
				honest.requireEqual(t, source)
			})
		})
	}
}

// A source that answers for slots alone could state any digest with them.
func TestASnapshotServesOnlyWithADigestThatWasSigned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, kept := replicationtest.NewSource(), &trustFile{}
		for _, code := range []string{"aaaa", "bbbb", "cccc"} {
			source.Commit(replicationtest.Link(code, "https://example.com/"))
		}
		w := signing(t, source, 1, nil)
		old := kept.follows(t, w, replicationtest.NewSink())
		old.requireEqual(t, source)
		old.stop()
		var mu sync.Mutex
		lying := true
		between := w.onward(t, func(b []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			frames := replication.SplitFrames(b)
			for i, frame := range frames {
				if lying && frame[4] == 6 {
					frames[i] = replication.Forged(frame)
				}
			}
			return bytes.Join(frames, nil)
		})
		e := kept.follows(t, between, replicationtest.NewSink())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, e.Status().Snapshots)
		_, holds := e.sink.Cluster()
		require.False(t, holds, "what was never written never serves")
		require.ErrorIs(t, e.Status().Err, replication.ErrDiverged)
		mu.Lock()
		lying = false
		mu.Unlock()
		e.requireEqual(t, source)
	})
}

func TestAPinnedKeyGoesOverToALaterOneThatItEndorsesAndNeverBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, kept := replicationtest.NewSource(), &trustFile{}
		source.Commit()
		sink := replicationtest.NewSink()
		for _, generation := range []uint32{1, 2, 5} {
			source.Commit()
			e := kept.follows(t, signing(t, source, generation, nil), sink)
			e.requireEqual(t, source)
			e.stop()
		}
		source.Commit()
		e := kept.follows(t, signing(t, source, 4, nil), sink)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, e.Status().Err, replication.ErrSignature)
		require.ErrorContains(t, e.Status().Err, "generation 4 than the pinned one, of generation 5")
	})
}

func TestAKeyThatCannotBeKeptIsNotPinned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, kept := replicationtest.NewSource(), &trustFile{failing: errors.New("no space")}
		e := kept.follows(t, signing(t, source, 1, nil), replicationtest.NewSink())
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorContains(t, e.Status().Err, "no space")
	})
}

// relay passes on what a sink has got, as it was signed.
type relay struct {
	*replicationtest.Source
	mu      sync.Mutex
	batches []replication.Batch
	head    replication.Head
}

// taking is a sink that notes for a relay what it gets.
type taking struct {
	*replicationtest.Sink
	relay *relay
}

func (s taking) Apply(ctx context.Context, b *replication.Batch) error {
	err := s.Sink.Apply(ctx, b)
	if err == nil {
		kept, decodeErr := decodeKept(replication.EncodeBatch(b))
		s.relay.mu.Lock()
		defer s.relay.mu.Unlock()
		s.relay.batches, err = append(s.relay.batches, kept), decodeErr
	}
	return err
}

func decodeKept(encoded []byte) (replication.Batch, error) {
	d, err := replication.NewBatchDecoder()
	if err != nil {
		return replication.Batch{}, err
	}
	defer d.Close()
	return d.Decode(bytes.Clone(encoded))
}

func (s taking) Heartbeat(h replication.Head) error {
	s.relay.mu.Lock()
	s.relay.head = h
	s.relay.mu.Unlock()
	return s.Sink.Heartbeat(h)
}

func (r *relay) Head(context.Context) (replication.Head, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.head.Signature.IsZero() {
		return r.head, errors.New("no head has come")
	}
	return r.head, nil
}

func (r *relay) Read(_ context.Context, after waypost.Position, _ int) (replication.Batch, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.batches {
		if first := b.Transactions[0].Seq; b.Last().Seq > after.Seq && first <= after.Seq+1 {
			b.Transactions = b.Transactions[after.Seq+1-first:]
			return b, nil
		}
	}
	return replication.Batch{}, nil
}

func TestARelayPassesOnWhatWasSignedAlsoToOneInTheMiddleOfABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source := replicationtest.NewSource()
		source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		atRelay, below := &trustFile{}, &trustFile{}
		w := signing(t, source, 1, nil)
		r := &relay{Source: source}
		first := taking{replicationtest.NewSink(), r}
		replicationtest.Take(t, source, first)
		second := replicationtest.NewSink()
		replicationtest.Take(t, source, second)
		// The second one was elsewhere before, where the changes were cut otherwise.
		source.Commit(replicationtest.Link("bbbb", "https://b.example/"))
		next := replicationtest.Next(t, source, second)
		require.NoError(t, second.Apply(t.Context(), &next))
		for _, code := range []string{"cccc", "dddd"} {
			source.Commit(replicationtest.Link(code, "https://c.example/"))
		}
		trust := atRelay.trust(t)
		up := follow(t, w.network, func(c *replication.FollowConfig) { c.Sink, c.Trust = first, trust })
		up.sink = first.Sink
		up.requireEqual(t, source)
		time.Sleep(2 * time.Second) // and a heartbeat of the head
		synctest.Wait()

		down := newWorld(t, func(c *replication.ServerConfig) { c.Source, c.Trust = r, trust })
		e := below.follows(t, down, second)
		e.requireEqual(t, source)
		require.NotEmpty(t, below.document, "it has pinned the control plane's key")
		source.Commit(replicationtest.Link("eeee", "https://e.example/"))
		e.requireEqual(t, source)
		require.Zero(t, e.Status().Snapshots)
		require.NoError(t, e.Status().Err)
	})
}

func TestAFollowerPresentsTheNewestSignedPositionAlsoAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, kept := replicationtest.NewSource(), &trustFile{}
		source.Commit()
		heard := make(chan waypost.Position, 10)
		hear := func(c *replication.ServerConfig) {
			c.Hear = func(_ context.Context, _ string, said *replication.Testimony) error {
				if said != nil {
					heard <- said.Position
				}
				return nil
			}
		}
		trust := kept.trust(t)
		e := follow(t, signing(t, source, 1, hear).network, func(c *replication.FollowConfig) { c.Trust = trust })
		e.requireEqual(t, source)
		at := source.Commit()
		e.requireEqual(t, source)
		e.stop()
		for len(heard) > 0 {
			require.NotEqual(t, at, <-heard)
		}
		require.NoError(t, trust.Save())
		e = kept.follows(t, signing(t, source, 1, hear), e.sink)
		e.requireEqual(t, source)
		require.Equal(t, at, <-heard)
		e.stop()
		e = kept.follows(t, signing(t, source, 2, hear), e.sink)
		e.requireEqual(t, source)
		require.Empty(t, heard, "the word of a key that is no longer used counts for nothing")
	})
}

func TestTrust_NoOlderDocumentReplacesANewerOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, kept := replicationtest.NewSource(), &trustFile{}
		trust := kept.trust(t)
		e := follow(t, signing(t, source, 1, nil).network, func(c *replication.FollowConfig) { c.Trust = trust })
		e.requireEqual(t, source)
		kept.mu.Lock()
		kept.slow = 10 * time.Second
		kept.mu.Unlock()
		writes := func() int {
			kept.mu.Lock()
			defer kept.mu.Unlock()
			return kept.writing
		}
		for writes() == 0 { // in the background
			time.Sleep(time.Second)
			source.Commit()
		}
		at := source.Commit()
		e.requireEqual(t, source)
		require.NotZero(t, writes(), "a slow disk holds up no change")
		e.stop()
		require.Zero(t, writes(), "a follower that has ended writes nothing more")
		kept.mu.Lock()
		kept.slow = 0
		kept.mu.Unlock()
		require.NoError(t, trust.Save())
		time.Sleep(time.Minute)
		got, err := signer(t, replication.ClusterOf(trust), 1).VerifyTestimony(kept.trust(t).Testimony())
		require.NoError(t, err)
		require.Equal(t, at, got.Position)
	})
}

// A node whose replica was set aside keeps its Trust, and may reach the other one of two
// databases that were promoted within one minute. It presents the history that it has
// followed, so that this database refuses it.
func TestTrust_KeepsToItsHistoryAgainstAnotherOfTheSameOrdinal(t *testing.T) {
	kept, own := &trustFile{}, signer(t, replication.Cluster{1}, 1)
	trust := kept.trust(t)
	require.NoError(t, replication.Meet(trust, own))
	presents := func(want waypost.Position, why string) {
		t.Helper()
		got, err := own.VerifyTestimony(trust.Testimony())
		require.NoError(t, err)
		require.Equal(t, want, got.Position, why)
	}
	first := waypost.Position{Epoch: waypost.Epoch{Ordinal: 7, ID: waypost.EpochID{1}}, Seq: 10}
	other := waypost.Position{Epoch: waypost.Epoch{Ordinal: 7, ID: waypost.EpochID{2}}, Seq: 1000}
	next := waypost.Position{Epoch: waypost.Epoch{Ordinal: 8, ID: waypost.EpochID{3}}, Seq: 5}
	require.NoError(t, replication.CheckHead(trust, own, first))
	require.NoError(t, replication.CheckHead(trust, own, other))
	presents(first, "a larger sequence of another history is not newer")
	require.NoError(t, replication.CheckHead(trust, own, next))
	presents(next, "a newer epoch is, with a smaller sequence")
}

func TestOnlyWhatWasSignedIsATestimony(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, kept := replicationtest.NewSource(), &trustFile{}
		at := source.Commit()
		trust := kept.trust(t)
		w := signing(t, source, 1, nil)
		e := follow(t, w.network, func(c *replication.FollowConfig) { c.Trust = trust })
		e.requireEqual(t, source)
		head, err := source.Head(t.Context())
		require.NoError(t, err)
		own := signer(t, head.Cluster, 1)
		good := trust.Testimony()
		got, err := own.VerifyTestimony(good)
		require.NoError(t, err)
		require.Equal(t, at, got.Position)
		raw, err := base64.RawURLEncoding.DecodeString(good)
		require.NoError(t, err)
		for i := range raw {
			raw[i] ^= 1
			_, err := own.VerifyTestimony(base64.RawURLEncoding.EncodeToString(raw))
			require.ErrorIs(t, err, replication.ErrSignature, "byte %d", i)
			raw[i] ^= 1
		}
		for _, bad := range []string{"", "x", "%", good[:len(good)-1], good + "AA", strings.Repeat("A", 1<<20)} {
			_, err := own.VerifyTestimony(bad)
			require.ErrorIs(t, err, replication.ErrSignature)
		}
		other, err := replication.NewSigner(secret, replication.Cluster{9}, 1)
		require.NoError(t, err)
		_, err = other.VerifyTestimony(good)
		require.ErrorIs(t, err, replication.ErrSignature)
	})
}

func TestTrust_KeyThatCannotBeReadIsSetAside(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, document := range []string{"", "{", `{"version":2}`, `{"version":1,"key":"AAAA"}`, `{"version":1,"key":""}`} {
		_, err := replication.NewTrust([]byte(document), nil)
		require.ErrorContains(t, err, "read the pinned key", document)

		path := filepath.Join(t.TempDir(), "key")
		require.NoError(t, os.WriteFile(path, []byte(document), 0o600))
		trust, err := replication.OpenTrust(path, nil, log)
		require.NoError(t, err, "a node that follows no control plane would be worse")
		require.Empty(t, trust.Testimony())
		require.NoFileExists(t, path)
		aside, err := filepath.Glob(path + ".unreadable-*")
		require.NoError(t, err)
		require.Len(t, aside, 1)
		text, err := os.ReadFile(aside[0])
		require.NoError(t, err)
		require.Equal(t, document, string(text))
	}
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.Mkdir(path, 0o700)) // as little of a file as one whose disk fails
	_, err := replication.OpenTrust(path, nil, log)
	require.NoError(t, err)
}

func FuzzTestimony(f *testing.F) {
	own := signer(f, replication.Cluster{1}, 1)
	f.Add([]byte("waypost changelog\x00\x02"))
	f.Add([]byte("waypost changelog\x00\x04"))
	f.Add(make([]byte, 300))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, err := own.VerifyTestimony(base64.RawURLEncoding.EncodeToString(raw))
		require.ErrorIs(t, err, replication.ErrSignature, "nobody guesses a signature")
		_, _, _ = replication.ReadStatement(raw)
	})
}

func BenchmarkSignABatch(b *testing.B) {
	s := signer(b, replication.Cluster{1}, 1)
	batch := sampleBatch(10, 1, 100)
	for b.Loop() {
		replication.SignBatch(s, batch)
	}
}

func BenchmarkVerifyABatch(b *testing.B) {
	s := signer(b, replication.Cluster{1}, 1)
	key := replication.PublicKey(s)
	batch := sampleBatch(10, 1, 100)
	signature, statement := replication.SignBatch(s, batch)
	for b.Loop() {
		if !ed25519.Verify(key[:], statement(), signature.Bytes[:]) {
			b.Fatal("it does not hold")
		}
	}
}

// The newest position that was seen signed is where slots may come from at the earliest.
func TestTrust_RefusesSlotsOfAnOlderHead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, kept := replicationtest.NewSource(), &trustFile{}
		old, err := source.Head(t.Context())
		require.NoError(t, err)
		sink, trust := replicationtest.NewSink(), kept.trust(t)
		source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		e := follow(t, signing(t, source, 1, nil).network, func(c *replication.FollowConfig) { c.Sink, c.Trust = sink, trust })
		e.sink = sink
		e.requireEqual(t, source)
		e.stop()
		head, err := source.Head(t.Context())
		require.NoError(t, err)
		require.NoError(t, replication.NotBefore(trust, &head, sink))
		require.ErrorIs(t, replication.NotBefore(trust, &old, sink), replication.ErrSignature)
		require.NoError(t, replication.NotBefore(trust, &old, replicationtest.NewSink()), "there is nothing to lose")
	})
}
