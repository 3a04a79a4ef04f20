package replication_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

func blockOf(code string, version uint64, blocked bool) waypost.Block {
	return waypost.Block{
		Code: waypost.Code(code), Version: version, Blocked: blocked, Policy: waypost.BlockLegal, Reason: "court order 7", At: 1,
	}
}

// clusterOf returns the cluster of a source.
func clusterOf(t testing.TB, source *replicationtest.Source) replication.Cluster {
	t.Helper()
	head, err := source.Head(t.Context())
	require.NoError(t, err)
	return head.Cluster
}

func TestBlocks_ReachFollowersAtOnceAndThroughRelays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source := replicationtest.NewSource()
		source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		sign := signer(t, clusterOf(t, source), 1)
		origin, edge, fresh := &replication.BlockSet{}, &replication.BlockSet{}, &replication.BlockSet{}
		_, err := origin.Take(sign.SignBlock(blockOf("aaaa", 1, true)))
		require.NoError(t, err)

		w := signing(t, source, 1, func(c *replication.ServerConfig) { c.Blocks = origin })
		synctest.Wait() // it refuses followers until it has read the changelog
		e := follow(t, w.network, func(c *replication.FollowConfig) {
			c.Sink, c.Trust, c.Blocks = replicationtest.NewSink(), (&trustFile{}).trust(t), edge
		})
		synctest.Wait()
		require.Equal(t, waypost.BlockLegal, edge.Policy(nil, []byte("aaaa"), false), "a follower has the blocks before it has links")

		for i := range 600 {
			_, err = origin.Take(sign.SignBlock(blockOf(fmt.Sprintf("b%03d", i), uint64(2+i), true)))
			require.NoError(t, err)
		}
		_, err = origin.Take(sign.SignBlock(blockOf("aaaa", 1000, false)))
		require.NoError(t, err)
		synctest.Wait()
		require.Zero(t, edge.Policy(nil, []byte("aaaa"), false))
		require.Equal(t, 600, edge.Active())
		require.Equal(t, origin.Digest(), edge.Digest())
		require.NoError(t, e.Status().Err)

		// What passes blocks on need not be able to sign them.
		down := newWorld(t, func(c *replication.ServerConfig) { c.Source, c.Blocks, c.Signer = source, edge, sign })
		synctest.Wait()
		follow(t, down.network, func(c *replication.FollowConfig) {
			c.Sink, c.Trust, c.Blocks = replicationtest.NewSink(), (&trustFile{}).trust(t), fresh
		})
		synctest.Wait()
		require.Equal(t, origin.Digests(), fresh.Digests())
	})
}

func TestBlocks_ThatAreForgedOldOrOfAnotherClusterDoNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source := replicationtest.NewSource()
		source.Commit(replicationtest.Link("aaaa", "https://a.example/"))
		sign := signer(t, clusterOf(t, source), 1)
		origin, edge := &replication.BlockSet{}, &replication.BlockSet{}
		w := signing(t, source, 1, func(c *replication.ServerConfig) { c.Blocks = origin })
		synctest.Wait() // it refuses followers until it has read the changelog
		e := follow(t, w.network, func(c *replication.FollowConfig) {
			c.Sink, c.Trust, c.Blocks = replicationtest.NewSink(), (&trustFile{}).trust(t), edge
		})
		forged := sign.SignBlock(blockOf("aaaa", 1, true))
		forged.Code = "bbbb"
		foreign := signer(t, replication.Cluster{9}, 1).SignBlock(blockOf("cccc", 1, true))
		later := signer(t, clusterOf(t, source), 2).SignBlock(blockOf("dddd", 1, true))
		unsigned := replication.SignedBlock{Block: blockOf("eeee", 1, true)}
		unsigned.Signature.Generation = 1
		_, err := origin.Take(forged, foreign, later, unsigned, sign.SignBlock(blockOf("good", 5, true)))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, edge.Active(), "only what is signed is taken, and the rest does not keep it back")
		require.Equal(t, waypost.BlockLegal, edge.Policy(nil, []byte("good"), false))
		require.NoError(t, e.Status().Err)

		news, err := edge.Take(sign.SignBlock(blockOf("good", 4, false)), sign.SignBlock(blockOf("good", 5, true)))
		require.NoError(t, err)
		require.Empty(t, news, "old and repeated statements")
		require.Equal(t, 1, edge.Active())
	})
}

func TestBlocks_OfAnEarlierKeyComeBackFromEdges(t *testing.T) {
	cluster := replication.Cluster{1}
	old, present := signer(t, cluster, 1), signer(t, cluster, 3)
	b := old.SignBlock(blockOf("aaaa", 1, true))
	require.NoError(t, present.CheckBlock(&b))
	again := present.SignBlock(b.Block)
	require.NoError(t, present.CheckBlock(&again))
	require.ErrorIs(t, old.CheckBlock(&again), replication.ErrSignature)
	b.Signature.Generation = 2
	require.ErrorIs(t, present.CheckBlock(&b), replication.ErrSignature)

	set := &replication.BlockSet{}
	_, err := set.Take(old.SignBlock(blockOf("aaaa", 1, true)))
	require.NoError(t, err)
	news, err := set.Take(again)
	require.NoError(t, err)
	require.Empty(t, news)
	require.Equal(t, uint32(3), set.All()[0].Signature.Generation, "the later signature stays")
}

// On a domain that ignores case a code is blocked as long as any form of it is.
func TestBlockSet_CodesWithoutCaseFollowEveryForm(t *testing.T) {
	s := &replication.BlockSet{}
	for n, step := range []struct {
		code    string
		blocked bool // the statement
		after   bool // the code without case
	}{
		{"Sale", true, true}, {"SALE", true, true}, {"other", true, true}, {"Sale", false, true}, {"SALE", false, false}, {"sale", true, true},
	} {
		_, err := s.Take(replication.SignedBlock{Block: blockOf(step.code, uint64(n+1), step.blocked)})
		require.NoError(t, err)
		require.Equal(t, step.after, s.Policy(nil, []byte("sale"), true) != 0, "%d: %s", n, step.code)
		b, found := s.GetFolded("", "sAle")
		require.True(t, found)
		require.Equal(t, step.after, b.Blocked, "%d: %s", n, step.code)
	}
}

func TestBlockSet_IsBoundedAndFindsWhatDiffers(t *testing.T) {
	here, there := &replication.BlockSet{}, &replication.BlockSet{}
	all := make([]replication.SignedBlock, waypost.MaxBlocks)
	for i := range all {
		all[i] = replication.SignedBlock{Block: blockOf(fmt.Sprintf("c%05d", i), uint64(1+i), i%2 == 0)}
	}
	_, err := here.Take(all...)
	require.NoError(t, err)
	require.Equal(t, waypost.MaxBlocks/2, here.Active())
	_, err = here.Take(replication.SignedBlock{Block: blockOf("more", 1<<40, true)})
	require.ErrorIs(t, err, replication.ErrTooManyBlocks)
	_, err = here.Take(replication.SignedBlock{Block: blockOf("c00001", 1<<40, true)})
	require.NoError(t, err, "a known code finds room")
	_, err = there.Take(all...)
	require.NoError(t, err)
	digests := there.Digests()
	differing := here.Differing(&digests)
	require.Less(t, len(differing), waypost.MaxBlocks/16, "one shard of many")
	_, err = there.Take(differing...)
	require.NoError(t, err)
	require.Equal(t, here.Digest(), there.Digest())

	var got []replication.SignedBlock
	for order := uint64(0); ; {
		part, next := here.Since(order, 1000)
		if len(part) == 0 {
			break
		}
		got, order = append(got, part...), next
	}
	require.Len(t, got, waypost.MaxBlocks)
	recent, order := here.Since(here.Order()-1, 10)
	require.Equal(t, waypost.Code("c00001"), recent[0].Code)
	require.Equal(t, here.Order(), order)
	require.Zero(t, testing.AllocsPerRun(100, func() { here.Policy([]byte("go.example"), []byte("c00001"), false) }))
}

func TestBlock_SurvivesItsEncoding(t *testing.T) {
	longest := waypost.Block{
		Host: strings.Repeat("h", 253), Code: waypost.Code(strings.Repeat("c", 32)), Version: 1 << 62, Policy: waypost.BlockGone,
		Reason: strings.Repeat("r", 200), At: 1,
	}
	sign := signer(t, replication.Cluster{1}, 1)
	for _, b := range []waypost.Block{longest, blockOf("aaaa", 7, true)} {
		signed := sign.SignBlock(b)
		encoded := replication.AppendBlock(nil, &signed)
		require.LessOrEqual(t, len(encoded), replication.MaxSignedBlock)
		decoded, err := replication.DecodeBlock(encoded)
		require.NoError(t, err)
		require.Equal(t, signed, decoded)
		require.NoError(t, sign.CheckBlock(&decoded))
		for i := range encoded {
			_, err := replication.DecodeBlock(encoded[:i])
			require.Error(t, err)
		}
	}
}

func FuzzBlock(f *testing.F) {
	signed := signer(f, replication.Cluster{1}, 1).SignBlock(blockOf("aaaa", 7, true))
	f.Add(replication.AppendBlock(nil, &signed))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		decoded, err := replication.DecodeBlock(b)
		if err != nil {
			return
		}
		require.True(t, decoded.Valid())
		require.Equal(t, b, replication.AppendBlock(nil, &decoded))
	})
}

func BenchmarkBlockSet(b *testing.B) {
	none, some := &replication.BlockSet{}, &replication.BlockSet{}
	_, err := some.Take(replication.SignedBlock{Block: blockOf("aaaa", 1, true)})
	require.NoError(b, err)
	code := []byte("r7Qx0aZ")
	b.Run("none", func(b *testing.B) {
		for b.Loop() {
			none.Policy(nil, code, false)
		}
	})
	b.Run("some", func(b *testing.B) {
		for b.Loop() {
			some.Policy(nil, code, false)
		}
	})
}
