package fleet_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
	"waypost/replication"
)

// slowNodes is a store of one node, which takes its time: what it answers was so some
// time before.
type slowNodes struct {
	fleet.NodeStore
	stored fleet.StoredNode
	takes  time.Duration

	mu      sync.Mutex
	revoked bool
}

func (s *slowNodes) revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = true
}

// look reads at some moment of the time that an answer takes.
func (s *slowNodes) look() bool {
	before := rand.N(s.takes + 1)
	time.Sleep(before)
	s.mu.Lock()
	revoked := s.revoked
	s.mu.Unlock()
	time.Sleep(s.takes - before)
	return revoked
}

func (s *slowNodes) Node(context.Context, [32]byte) (fleet.StoredNode, bool, error) {
	found := s.stored
	found.Revoked = s.look()
	return found, true, nil
}

func (s *slowNodes) RevokedNodes(context.Context, []int64) ([]fleet.StoredNode, error) {
	if s.look() {
		found := s.stored
		found.Revoked = true
		return []fleet.StoredNode{found}, nil
	}
	return nil, nil
}

func (s *slowNodes) NoteNodesSeen(context.Context, map[int64]time.Time) error { return nil }

// An edge that connects again and again while another instance revokes its credential:
// whatever comes first, a second later nothing of it is open, and it is not let in.
func TestNodes_StreamThatBeginsDuringItsRevocationEndsWithinASecond(t *testing.T) {
	secret := fleet.NewNodeCredential()
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			store := &slowNodes{takes: rand.N(50 * time.Millisecond)}
			store.stored = fleet.StoredNode{
				Node: fleet.Node{Credential: 7, Name: "eu-1", Region: "eu"},
				Hash: controlplane.HashKey(secret),
			}
			n := fleet.NewNodes(fleet.NodesConfig{Store: store})
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { n.Run(ctx) })
			defer running.Wait()
			defer cancel()

			at := time.Now().Add(time.Second + rand.N(time.Second))
			running.Go(func() {
				time.Sleep(time.Until(at))
				store.revoke()
			})
			limit := at.Add(time.Second)
			for {
				time.Sleep(rand.N(time.Second))
				node, err := n.Authenticate(ctx, secret)
				if err != nil {
					require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
					break
				}
				require.True(t, time.Now().Before(limit), "it is let in %v after the revocation", time.Since(at))
				time.Sleep(rand.N(20 * time.Millisecond))
				held, release := n.Hold(ctx, &node)
				if time.Now().Before(at) { // it leaves: its open connection ends by the revocation
					release()
					continue
				}
				running.Go(func() {
					defer release()
					<-held.Done()
					if ctx.Err() != nil {
						t.Error("a stream goes on")
						return
					}
					var end *replication.EndError
					if took := time.Since(at); took > time.Second || took < 0 {
						t.Errorf("a stream has ended %v after the revocation", took)
					}
					assert.ErrorAs(t, context.Cause(held), &end)
				})
			}
			time.Sleep(time.Until(limit))
			synctest.Wait()
		})
	}
}
