package waypost

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// Bounds of an encoded [ClickBatch]. One of the most links with the longest codes
// is shorter than MaxClickBatch.
const (
	MaxClickTotals = 65_536  // links in one batch
	MaxClickBatch  = 8 << 20 // bytes, as encoded and not compressed
	MaxNodeLength  = 64      // bytes
)

// A batch is encoded as
//
//	version 2, 3 bytes zero
//	boot, 16 bytes
//	sequence, 8 bytes
//	number of totals, 4 bytes
//	length of the node, 1 byte; the node
//	for each total: domain, 4 bytes; count, 8 bytes; last, 8 bytes; of bots, 8 bytes;
//	                length of the code, 1 byte; the code
//	CRC-32C of all that, 4 bytes
//
// with little-endian numbers. Version 1, which knew nothing of bots, had no such
// number in a total. It is still read, because batches wait on the disks of edges.
const (
	clickBatchVersion = 2
	clickBatchBotless = 1
	clickBatchHead    = 4 + 16 + 8 + 4 + 1
	clickTotalBotless = 4 + 8 + 8
	clickTotalNumbers = clickTotalBotless + 8
	clickBatchTail    = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ValidNode reports whether s can be the name of a node: 1 to [MaxNodeLength]
// letters, digits and -_.
func ValidNode(s string) bool {
	return len(s) >= 1 && len(s) <= MaxNodeLength && strings.IndexFunc(s, notInNode) < 0
}

func notInNode(r rune) bool {
	return r != '.' && (r >= 0x80 || !codeByte[r])
}

// AppendClickBatch appends the encoding of b to dst. The same batch always gives
// the same bytes. One that breaks a rule of [DecodeClickBatch] is encoded into
// bytes that it refuses.
func AppendClickBatch(dst []byte, b *ClickBatch) []byte {
	start := len(dst)
	le := binary.LittleEndian
	dst = append(dst, clickBatchVersion, 0, 0, 0)
	dst = append(dst, b.Boot[:]...)
	dst = le.AppendUint64(dst, b.Seq)
	dst = le.AppendUint32(dst, uint32(min(len(b.Totals), MaxClickTotals+1)))
	dst = appendShort(dst, b.Node)
	for i := range b.Totals {
		t := &b.Totals[i]
		dst = le.AppendUint32(dst, uint32(t.Domain))
		dst = le.AppendUint64(dst, t.Count)
		dst = le.AppendUint64(dst, uint64(t.Last))
		dst = le.AppendUint64(dst, t.Bots)
		dst = appendShort(dst, string(t.Code))
	}
	return le.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// appendShort appends a length byte and s. What is longer than a length byte can
// say is beyond all bounds, and is cut there.
func appendShort(dst []byte, s string) []byte {
	s = s[:min(len(s), 255)]
	return append(append(dst, byte(len(s))), s...)
}

// DecodeClickBatch reads what [AppendClickBatch] wrote, which must fill b exactly.
// The batch does not refer to b.
//
// It answers EInvalid unless all of this holds: the checksum does, the version is
// known, the node is a [ValidNode], the sequence is at least 1, there are at most
// [MaxClickTotals] totals in strict order of domain and code, each of a
// [ValidCode], with a count of at least 1 and no more bots than that. What the counts and times are beyond
// that is for whoever counts them to judge. A batch without totals is valid: it
// fills the place of one that is lost.
func DecodeClickBatch(b []byte) (ClickBatch, error) {
	bad := func(why string) (ClickBatch, error) {
		return ClickBatch{}, Errorf(EInvalid, "not a batch of clicks: %s", why)
	}
	if len(b) < clickBatchHead+clickBatchTail || len(b) > MaxClickBatch {
		return bad("its length is out of bounds")
	}
	le := binary.LittleEndian
	body, sum := b[:len(b)-clickBatchTail], b[len(b)-clickBatchTail:]
	if le.Uint32(sum) != crc32.Checksum(body, castagnoli) {
		return bad("the checksum does not hold")
	}
	numbers := clickTotalNumbers
	switch [4]byte(body) {
	case [4]byte{clickBatchVersion}:
	case [4]byte{clickBatchBotless}:
		numbers = clickTotalBotless
	default:
		return bad("its version is unknown")
	}
	batch := ClickBatch{Boot: BootID(body[4:20]), Seq: le.Uint64(body[20:])}
	n := int(le.Uint32(body[28:]))
	node, rest, ok := cutShort(body[32:])
	if !ok || !ValidNode(node) || batch.Seq == 0 {
		return bad("it has no identity")
	}
	batch.Node = node
	if n > MaxClickTotals || n > len(rest)/(numbers+1+MinCodeLength) {
		return bad("it states more totals than it can hold")
	}
	if n > 0 {
		batch.Totals = make([]ClickTotal, n)
	}
	for i := range batch.Totals {
		t := &batch.Totals[i]
		if len(rest) < numbers {
			return bad("it is cut")
		}
		t.Domain, t.Count, t.Last = DomainID(le.Uint32(rest)), le.Uint64(rest[4:]), int64(le.Uint64(rest[12:]))
		if numbers == clickTotalNumbers {
			t.Bots = le.Uint64(rest[clickTotalBotless:])
		}
		var code string
		if code, rest, ok = cutShort(rest[numbers:]); !ok || !ValidCode(code) || t.Count == 0 || t.Bots > t.Count {
			return bad("a total is broken")
		}
		t.Code = Code(code)
		if i > 0 && !batch.Totals[i-1].Before(t) {
			return bad("its totals are out of order")
		}
	}
	if len(rest) != 0 {
		return bad("it is longer than it states")
	}
	return batch, nil
}

// Before reports whether t comes before o in a batch: by domain, then by the bytes
// of the code.
func (t *ClickTotal) Before(o *ClickTotal) bool {
	return t.Domain < o.Domain || t.Domain == o.Domain && t.Code < o.Code
}

// cutShort takes a length byte and as many bytes off b.
func cutShort(b []byte) (s string, rest []byte, ok bool) {
	if len(b) < 1 || len(b)-1 < int(b[0]) {
		return "", nil, false
	}
	end := 1 + int(b[0])
	return string(b[1:end]), b[end:], true
}
