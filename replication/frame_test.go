package replication_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

func sampleHead() replication.Head {
	return replication.Head{
		Cluster:  replication.Cluster{1, 2, 3},
		Position: waypost.Position{Epoch: waypost.Epoch{Ordinal: 7, ID: waypost.EpochID{9}}, Seq: 5, Stamp: 6},
		Digest:   8, At: 1_700_000_000_000,
	}
}

func sampleBatch(transactions, records, size int) *replication.Batch {
	b := &replication.Batch{Epoch: sampleHead().Position.Epoch}
	for i := range transactions {
		t := replication.Transaction{Seq: uint64(i) + 6, Stamp: uint64(i), Digest: 3, At: 4}
		for range records {
			r := replicationtest.Link("code", "https://example.com/"+strings.Repeat("x", size))
			t.Records = append(t.Records, replication.AppendRecord(nil, &r))
		}
		b.Transactions = append(b.Transactions, t)
	}
	return b
}

func TestTheBytesOfAHelloNeverChange(t *testing.T) {
	require.Equal(t, "46000000"+"01"+"00"+"a228"+"e52b19f8"+ // length, type, flags, checksums
		"0100"+"01020300000000000000000000000000"+ // protocol, cluster
		"07000000"+"09000000000000000000000000000000"+ // epoch
		"0500000000000000"+"0600000000000000"+"0800000000000000"+"0068e5cf8b010000", // seq, stamp, digest, time
		hex.EncodeToString(replication.HelloFrame(sampleHead())))
}

func TestABatchDecodesToWhatWasEncoded(t *testing.T) {
	b := sampleBatch(2, 3, 0)
	b.Transactions = append(b.Transactions, replication.Transaction{Seq: 8, Stamp: 1})
	frames, err := replication.BatchFrames(b)
	require.NoError(t, err)
	require.Len(t, frames, 1)
	types, err := replication.ReadFrames(bytes.NewReader(frames[0]))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{"batch"}, types)

	small := sampleBatch(1, 1, 0) // below what is compressed
	frames, err = replication.BatchFrames(small)
	require.NoError(t, err)
	got, err := replication.DecodedBatch(frames[0])
	require.NoError(t, err)
	require.Equal(t, *small, got)
}

func TestALargeBatchIsCutAtTransactions(t *testing.T) {
	b := sampleBatch(100, 10, 650)
	frames, err := replication.BatchFrames(b)
	require.NoError(t, err)
	require.Len(t, frames, 3)
	for _, f := range frames {
		require.NotZero(t, f[5]&replication.FlagZstd)
		require.Less(t, len(f), replication.FrameTarget/10)
	}
	types, err := replication.ReadFrames(bytes.NewReader(bytes.Join(frames, nil)))
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, types, 3)
}

func TestATransactionTooLargeForAFrameHasNone(t *testing.T) {
	b := sampleBatch(1, 2000, 20000)
	frames, err := replication.BatchFrames(b)
	require.NoError(t, err)
	require.Equal(t, [][]byte{nil}, frames)
}

func TestFrame_NoticesEveryFlippedBit(t *testing.T) {
	frame := replication.HeartbeatFrame(sampleHead())
	for i := range len(frame) * 8 {
		frame[i/8] ^= 1 << (i % 8)
		types, err := replication.ReadFrames(bytes.NewReader(frame))
		require.Error(t, err)
		if i < 8*8 { // before it waits for a payload of the wrong length
			require.ErrorContains(t, err, "header's checksum", "bit %d", i)
		}
		require.NotErrorIs(t, err, io.EOF, "bit %d", i)
		require.Empty(t, types)
		frame[i/8] ^= 1 << (i % 8)
	}
}

func TestFramesOutOfBoundsAreRefused(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	packed := func(stated uint32, plain []byte) []byte {
		return replication.Frame(99, replication.FlagZstd, z.EncodeAll(plain, binary.LittleEndian.AppendUint32(nil, stated)))
	}
	huge := replication.HeaderFrame(3, replication.MaxFrame+1)
	for name, frame := range map[string][]byte{
		"a length beyond the bound":        huge,
		"a bomb":                           packed(100, make([]byte, 64<<20)),
		"a bomb that says so":              packed(64<<20, make([]byte, 64<<20)),
		"another length than stated":       packed(99, make([]byte, 100)),
		"no length":                        replication.Frame(2, replication.FlagZstd, []byte{1}),
		"not zstd":                         replication.Frame(2, replication.FlagZstd, []byte{4, 0, 0, 0, 1, 2, 3, 4}),
		"a batch of nothing":               replication.Frame(2, 0, make([]byte, 32)),
		"more transactions than bytes":     replication.Frame(2, 0, bytes.Repeat([]byte{1}, 60)),
		"slots beyond the last":            replication.SlotsFrame(0, waypost.Slots, sampleHead(), true),
		"slots backwards":                  replication.SlotsFrame(2, 1, sampleHead(), true),
		"an empty reset":                   replication.Frame(4, 0, nil),
		"a reset with a novel":             replication.Frame(4, 0, make([]byte, 2000)),
		"a hello cut short":                replication.Frame(1, 0, []byte{1, 0, 3}),
		"a heartbeat with something after": replication.Frame(3, 0, make([]byte, 100)),
		"an end without a count":           replication.Frame(7, 0, nil),
	} {
		types, err := replication.ReadFrames(bytes.NewReader(frame))
		require.ErrorContains(t, err, "broken frame", name)
		require.Empty(t, types)
	}
	_, err = replication.ReadFrames(bytes.NewReader(replication.ByeFrame()[:5]))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = replication.ReadFrames(bytes.NewReader(replication.HeartbeatFrame(sampleHead())[:20]))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func FuzzReadFrames(f *testing.F) {
	frames, err := replication.BatchFrames(sampleBatch(2, 2, 1))
	require.NoError(f, err)
	big, err := replication.BatchFrames(sampleBatch(2, 2, 1000))
	require.NoError(f, err)
	r := replicationtest.Link("code", "https://example.com/")
	for _, seed := range [][]byte{
		replication.HelloFrame(sampleHead()), replication.HeartbeatFrame(sampleHead()), replication.ByeFrame(),
		replication.ResetFrame(replication.ResetTrimmed, "why"), frames[0], big[0], replication.EndFrame(3),
		replication.SlotsFrame(0, 7, sampleHead(), true, replication.AppendRecord(nil, &r)),
		replication.SumsFrame(7, sampleHead(), replication.Sum{Digest: 3, Records: 1}, replication.Sum{}),
	} {
		f.Add(seed[4], seed[5], seed[12:])
	}
	f.Fuzz(func(t *testing.T, typ, flags byte, payload []byte) {
		_, err := replication.ReadFrames(bytes.NewReader(replication.Frame(typ, flags, payload)))
		require.Error(t, err, "io.EOF at the least")
		if _, err := replication.ReadFrames(bytes.NewReader(payload)); err == nil {
			t.Fatal("there is an end")
		}
	})
}

func FuzzBatch(f *testing.F) {
	frames, err := replication.BatchFrames(sampleBatch(2, 2, 1))
	require.NoError(f, err)
	f.Add(frames[0][12:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		b, err := replication.DecodedBatch(replication.Frame(2, 0, payload))
		if err != nil {
			return
		}
		frames, err := replication.BatchFrames(&b)
		require.NoError(t, err)
		if len(frames) == 1 && frames[0][5] == 0 {
			require.Equal(t, replication.Frame(2, 0, payload), frames[0])
		}
	})
}
