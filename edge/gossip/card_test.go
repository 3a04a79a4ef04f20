package gossip_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waypost"
	"waypost/edge/gossip"
)

func fullMember() gossip.Member {
	return gossip.Member{
		Node: "edge-1", Region: "us-east-1", Role: gossip.RoleControl, Addr: "10.0.0.1:80", Version: "1.2.3", Boot: waypost.BootID{1},
		Started: time.UnixMilli(1_700_000_000_000).UTC(), Position: position(77),
	}
}

func TestTheFormatOfACardDoesNotChange(t *testing.T) {
	const want = "0102" + "01000000000000000000000000000000" + "0000018bcfe56800" +
		"06656467652d31" + "0975732d656173742d31" + "0b31302e302e302e313a3830" + "05312e322e33" +
		"00" + "0000000000000001" + "00000003" + "09000000000000000000000000000000" + "000000000000004d" + "0000000000000953"
	require.Equal(t, want, hex.EncodeToString(gossip.Card(fullMember()).Bytes))
}

func TestTheLargestCardFitsIntoTheMetadata(t *testing.T) {
	m := fullMember()
	m.Node, m.Region, m.Version = strings.Repeat("n", 64), waypost.Region(strings.Repeat("r", 32)), strings.Repeat("v", 64)
	m.Addr = strings.Repeat("a", 128-5) + ":8081"
	b := gossip.Card(m).Bytes
	require.LessOrEqual(t, len(b), 512)
	got, err := gossip.DecodeCard(b)
	require.NoError(t, err)
	require.Equal(t, m, got)
}

func TestCardsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := gossip.Member{
			Node:     rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`).Draw(t, "node"),
			Region:   waypost.Region(rapid.StringMatching(`[a-z0-9]{1,32}`).Draw(t, "region")),
			Role:     rapid.SampledFrom([]gossip.Role{gossip.RoleEdge, gossip.RoleControl}).Draw(t, "role"),
			Addr:     rapid.StringMatching(`([a-z.]{0,20}:[0-9]{1,5})?`).Draw(t, "addr"),
			Version:  rapid.StringMatching(`[!-~]{0,64}`).Draw(t, "version"),
			Position: waypost.Position{Epoch: waypost.Epoch{Ordinal: rapid.Uint32().Draw(t, "ordinal")}, Seq: rapid.Uint64Max(math.MaxInt64).Draw(t, "seq"), Stamp: rapid.Uint64().Draw(t, "stamp")},
		}
		got, err := gossip.DecodeCard(append(gossip.Card(m).Bytes, rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "of a later version")...))
		require.NoError(t, err)
		require.Equal(t, m, got)
	})
}

func TestCardsThatBreakARuleAreRefused(t *testing.T) {
	for name, change := range map[string]func(*gossip.Member){
		"no node":                    func(m *gossip.Member) { m.Node = "" },
		"a long node":                func(m *gossip.Member) { m.Node = strings.Repeat("n", 65) },
		"a node with an at sign":     func(m *gossip.Member) { m.Node = "a@b" },
		"a node that steers":         func(m *gossip.Member) { m.Node = "a\x1b[2J" },
		"no region":                  func(m *gossip.Member) { m.Region = "" },
		"an unknown role":            func(m *gossip.Member) { m.Role = "king" },
		"an address without a port":  func(m *gossip.Member) { m.Addr = "10.0.0.1" },
		"an address in two lines":    func(m *gossip.Member) { m.Addr = "a\r\nb:1" },
		"a version of two words":     func(m *gossip.Member) { m.Version = "1 2" },
		"a sequence below zero":      func(m *gossip.Member) { m.Position.Seq = 1 << 63 },
		"started in the year 10000":  func(m *gossip.Member) { m.Started = time.UnixMilli(253402300800000) },
		"started in the year 292000": func(m *gossip.Member) { m.Started = time.UnixMilli(math.MaxInt64 / 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			m := fullMember()
			change(&m)
			_, err := gossip.DecodeCard(gossip.Card(m).Bytes)
			require.Error(t, err)
		})
	}
}

func TestAStateIsRefusedBeforeItIsReadWhenItIsTooLarge(t *testing.T) {
	one := gossip.Card(fullMember()).Message[1:]
	state := append([]byte{1}, one...)
	n, err := gossip.DecodeState(state, 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = gossip.DecodeState(append(state, one...), 1)
	require.Error(t, err)
	_, err = gossip.DecodeState(state[:len(state)-1], 1)
	require.Error(t, err)
	_, err = gossip.DecodeState(nil, 1)
	require.Error(t, err)
}

func FuzzWhatMembersSend(f *testing.F) {
	f.Add(gossip.Card(fullMember()).Bytes)
	f.Add(gossip.Card(fullMember()).Message)
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := gossip.DecodeCard(b); err == nil {
			again, err := gossip.DecodeCard(gossip.Card(m).Bytes)
			require.NoError(t, err)
			require.Equal(t, m, again)
		}
		_ = gossip.DecodeMessage(b)
		if n, err := gossip.DecodeState(b, 3); err == nil {
			require.LessOrEqual(t, n, 3)
		}
	})
}
