package waypost_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

func clicks() waypost.ClickBatch {
	return waypost.ClickBatch{
		Node: "eu-1.a", Boot: waypost.BootID{0: 0x10, 15: 0x1f}, Seq: 0x0102030405,
		Totals: []waypost.ClickTotal{
			{Domain: 1, Code: "ABCD", Count: 3, Bots: 2, Last: 1_700_000_000_000},
			{Domain: 1, Code: "abc1234", Count: math.MaxUint64, Last: -1},
			{Domain: 7, Code: "A_-9", Count: 1},
		},
	}
}

func TestTheBytesOfABatchOfClicksNeverChange(t *testing.T) {
	b := clicks()
	got := hex.EncodeToString(waypost.AppendClickBatch([]byte("x"), &b)[1:])
	want := "02000000" + "1000000000000000000000000000001f" + // version, boot
		"0504030201000000" + "03000000" + "06" + hex.EncodeToString([]byte("eu-1.a")) + // sequence, totals, node
		"01000000" + "0300000000000000" + "0068e5cf8b010000" + "0200000000000000" + "04" + hex.EncodeToString([]byte("ABCD")) + // domain, count, last, bots, code
		"01000000" + "ffffffffffffffff" + "ffffffffffffffff" + "0000000000000000" + "07" + hex.EncodeToString([]byte("abc1234")) +
		"07000000" + "0100000000000000" + "0000000000000000" + "0000000000000000" + "04" + hex.EncodeToString([]byte("A_-9"))
	sum := crc32.Checksum(unhex(t, want), crc32.MakeTable(crc32.Castagnoli))
	require.Equal(t, want+hex.EncodeToString(binary.LittleEndian.AppendUint32(nil, sum)), got)
}

// botless is the version that knew nothing of bots.
const botless = "01000000" + "1000000000000000000000000000001f" +
	"0504030201000000" + "02000000" + "06" + "65752d312e61" +
	"01000000" + "0300000000000000" + "0068e5cf8b010000" + "04" + "41424344" +
	"07000000" + "0100000000000000" + "0000000000000000" + "04" + "415f2d39"

func TestABatchOfClicksFromBeforeThereWereBotsIsStillRead(t *testing.T) {
	got, err := waypost.DecodeClickBatch(resum(append(unhex(t, botless), 0, 0, 0, 0)))
	require.NoError(t, err)
	want := clicks()
	want.Totals = []waypost.ClickTotal{
		{Domain: 1, Code: "ABCD", Count: 3, Last: 1_700_000_000_000},
		{Domain: 7, Code: "A_-9", Count: 1},
	}
	require.Equal(t, want, got)
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func TestABatchOfClicksDecodesToWhatWasEncoded(t *testing.T) {
	largest := clicks()
	largest.Node = strings.Repeat("n", waypost.MaxNodeLength)
	largest.Totals = make([]waypost.ClickTotal, waypost.MaxClickTotals)
	for i := range largest.Totals {
		largest.Totals[i] = waypost.ClickTotal{Domain: 3, Code: waypost.Code(fmt.Sprintf("%032d", i)), Count: 1}
	}
	void := clicks()
	void.Totals = nil
	for name, want := range map[string]waypost.ClickBatch{"some": clicks(), "none": void, "as many as may be": largest} {
		t.Run(name, func(t *testing.T) {
			encoded := waypost.AppendClickBatch(nil, &want)
			require.LessOrEqual(t, len(encoded), waypost.MaxClickBatch)
			got, err := waypost.DecodeClickBatch(encoded)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestEveryFlippedBitOfABatchOfClicksIsNoticed(t *testing.T) {
	b := clicks()
	encoded := waypost.AppendClickBatch(nil, &b)
	for i := range len(encoded) * 8 {
		encoded[i/8] ^= 1 << (i % 8)
		_, err := waypost.DecodeClickBatch(encoded)
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "bit %d", i)
		encoded[i/8] ^= 1 << (i % 8)
	}
}

func TestABatchOfClicksBeyondItsBoundsIsRefused(t *testing.T) {
	for name, change := range map[string]func(*waypost.ClickBatch){
		"no node":               func(b *waypost.ClickBatch) { b.Node = "" },
		"a node too long":       func(b *waypost.ClickBatch) { b.Node = strings.Repeat("n", waypost.MaxNodeLength+1) },
		"a node far too long":   func(b *waypost.ClickBatch) { b.Node = strings.Repeat("n", 256+6) },
		"a node with a space":   func(b *waypost.ClickBatch) { b.Node = "a b" },
		"a node beyond ASCII":   func(b *waypost.ClickBatch) { b.Node = "ä" },
		"sequence 0":            func(b *waypost.ClickBatch) { b.Seq = 0 },
		"a count of 0":          func(b *waypost.ClickBatch) { b.Totals[1].Count = 0 },
		"more bots than clicks": func(b *waypost.ClickBatch) { b.Totals[0].Bots = 4 },
		"a code too short":      func(b *waypost.ClickBatch) { b.Totals[0].Code = "abc" },
		"a code too long":       func(b *waypost.ClickBatch) { b.Totals[0].Code = waypost.Code(strings.Repeat("A", 33)) },
		"a code far too long":   func(b *waypost.ClickBatch) { b.Totals[0].Code = waypost.Code(strings.Repeat("A", 256+4)) },
		"a code with a slash":   func(b *waypost.ClickBatch) { b.Totals[0].Code = "AB/D" },
		"a link twice":          func(b *waypost.ClickBatch) { b.Totals[1].Code = b.Totals[0].Code },
		"codes out of order":    func(b *waypost.ClickBatch) { b.Totals[0].Code = "zzzz" },
		"domains out of order":  func(b *waypost.ClickBatch) { b.Totals[0].Domain = 9 },
		"too many totals": func(b *waypost.ClickBatch) {
			b.Totals = make([]waypost.ClickTotal, waypost.MaxClickTotals+1)
			for i := range b.Totals {
				b.Totals[i] = waypost.ClickTotal{Code: waypost.Code(fmt.Sprintf("%08d", i)), Count: 1}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := clicks()
			change(&b)
			_, err := waypost.DecodeClickBatch(waypost.AppendClickBatch(nil, &b))
			require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
		})
	}
}

// resum puts the right checksum under a changed batch.
func resum(b []byte) []byte {
	body := b[:len(b)-4]
	return binary.LittleEndian.AppendUint32(body[:len(body):len(body)], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

func TestABatchOfClicksThatLiesAboutItsLengthIsRefused(t *testing.T) {
	b := clicks()
	encoded := waypost.AppendClickBatch(nil, &b)
	for cut := range encoded {
		_, err := waypost.DecodeClickBatch(encoded[:cut])
		require.Error(t, err)
		if cut >= 4 {
			_, err = waypost.DecodeClickBatch(resum(encoded[:cut]))
			require.Error(t, err, "cut at %d", cut)
		}
	}
	_, err := waypost.DecodeClickBatch(resum(append(encoded, 0)))
	require.Error(t, err)
	for _, n := range []uint32{2, 4, waypost.MaxClickTotals, math.MaxUint32} {
		lie := append([]byte(nil), encoded...)
		binary.LittleEndian.PutUint32(lie[28:], n)
		_, err := waypost.DecodeClickBatch(resum(lie))
		require.Error(t, err, "%d totals", n)
	}
	for i, flip := range map[int]byte{0: 1, 1: 1, 3: 0x80} {
		other := append([]byte(nil), encoded...)
		other[i] ^= flip
		_, err := waypost.DecodeClickBatch(resum(other))
		require.ErrorContains(t, err, "version")
	}
}

func FuzzDecodeClickBatch(f *testing.F) {
	b := clicks()
	f.Add(waypost.AppendClickBatch(nil, &b))
	b.Totals = nil
	f.Add(waypost.AppendClickBatch(nil, &b))
	old, err := hex.DecodeString(botless + "00000000")
	require.NoError(f, err)
	f.Add(old)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) >= 4 {
			raw = resum(raw) // past the checksum, or nothing is reached
		}
		batch, err := waypost.DecodeClickBatch(raw)
		if err != nil {
			require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
			return
		}
		again := waypost.AppendClickBatch(nil, &batch)
		if raw[0] == 1 {
			old, err := waypost.DecodeClickBatch(again)
			require.NoError(t, err)
			require.Equal(t, batch, old)
			return
		}
		require.Equal(t, raw, again, "there is one encoding of a batch")
	})
}
