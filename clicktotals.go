package waypost

import "encoding/binary"

// Batches of versions 1 and 2 had totals only. They wait on the disks of edges, and are
// still read:
//
//	version, 3 bytes zero
//	boot, 16 bytes
//	sequence, 8 bytes
//	number of totals, 4 bytes
//	length of the node, 1 byte; the node
//	for each total: domain, 4 bytes; count, 8 bytes; last, 8 bytes; of bots, 8 bytes;
//	                length of the code, 1 byte; the code
//	CRC-32C of all that, 4 bytes
//
// with little-endian numbers, ordered by domain and code. Version 1, which knew nothing of
// bots, had no such number.
const (
	clickTotalsVersion = 2
	clickTotalsBotless = 1
	clickTotalBotless  = 4 + 8 + 8
	clickTotalNumbers  = clickTotalBotless + 8
)

// decodeTotals reads a batch of totals. Each becomes a row of an unknown profile in the
// quarter of an hour of its last click, and one more for its bots; so it is not exact.
func decodeTotals(batch *ClickBatch, body []byte) (why string) {
	le := binary.LittleEndian
	numbers := clickTotalNumbers
	if body[0] == clickTotalsBotless {
		numbers = clickTotalBotless
	}
	if len(body) < 33 {
		return "it is cut"
	}
	n := int(le.Uint32(body[28:]))
	node, rest, ok := cutShort(body[32:])
	if !ok || !ValidNode(node) || batch.Seq == 0 {
		return "it has no identity"
	}
	batch.Node = node
	if n > MaxClickTotals || n > len(rest)/(numbers+1+MinCodeLength) {
		return "it states more totals than it can hold"
	}
	if n > 0 {
		batch.Links = make([]LinkClicks, n)
		batch.Profiles = []ClickProfile{{}, {Bot: true}}
	}
	for i := range batch.Links {
		l := &batch.Links[i]
		if len(rest) < numbers {
			return "it is cut"
		}
		count, bots := le.Uint64(rest[4:]), uint64(0)
		l.Domain, l.Last = DomainID(le.Uint32(rest)), int64(le.Uint64(rest[12:]))
		if numbers == clickTotalNumbers {
			bots = le.Uint64(rest[clickTotalBotless:])
		}
		var code string
		if code, rest, ok = cutShort(rest[numbers:]); !ok || !ValidCode(code) || count == 0 || bots > count {
			return "a total is broken"
		}
		l.Code = Code(code)
		if i > 0 {
			if o := &batch.Links[i-1]; o.Domain > l.Domain || o.Domain == l.Domain && o.Code >= l.Code {
				return "its totals are out of order"
			}
		}
		if count > bots {
			l.Rows = append(l.Rows, ClickRow{At: Quarter(l.Last), Profile: 0, Count: count - bots})
		}
		if bots > 0 {
			l.Rows = append(l.Rows, ClickRow{At: Quarter(l.Last), Profile: 1, Count: bots})
		}
	}
	if len(rest) != 0 {
		return "it is longer than it states"
	}
	return ""
}
