package clicks

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"waypost"
)

// A file's name says whose it is and in which state:
//
//	segment-ORDINAL-BOOT-NUMBER.active    is written to
//	segment-ORDINAL-BOOT-NUMBER.sealed    takes no more clicks
//	fold-ORDINAL-BOOT-NUMBER.sealed       clicks of segments, in less room
//	batch-ORDINAL-BOOT-SEQUENCE.fixed     is still to be acknowledged
//	batch-ORDINAL-BOOT-SEQUENCE.shipped   is acknowledged, and kept: the newest of its boot
//	                                      for its cover, and all to be sent again if need be
//	pack-ORDINAL-BOOT-SEQUENCE.shipped    many of these, from a sequence on
//
// The ordinal puts the boots in order; numbers and sequences begin at 1.
type name struct {
	kind  kind
	boot  bootName
	n     uint64
	state state
}

type (
	kind  string
	state string
)

const (
	segmentKind kind = "segment"
	foldKind    kind = "fold"
	batchKind   kind = "batch"
	packKind    kind = "pack"

	active  state = "active"
	sealed  state = "sealed"
	fixed   state = "fixed"
	shipped state = "shipped"

	temporary = ".new-" // begins the name of a file that is still being made
)

// bootName is a start of an edge, and its place among the others.
type bootName struct {
	ordinal uint32
	id      waypost.BootID
}

func (b bootName) String() string { return fmt.Sprintf("%08x-%x", b.ordinal, b.id[:]) }

func (b bootName) compare(o bootName) int {
	return cmp.Or(cmp.Compare(b.ordinal, o.ordinal), cmp.Compare(string(b.id[:]), string(o.id[:])))
}

func (n name) String() string {
	return fmt.Sprintf("%s-%s-%016x.%s", n.kind, n.boot, n.n, n.state)
}

// in gives the same file's name in another state.
func (n name) in(s state) name {
	n.state = s
	return n
}

// parseName reads what [name.String] writes, and nothing else.
func parseName(text string) (name, bool) {
	base, end, _ := strings.Cut(text, ".")
	parts := strings.Split(base, "-")
	if len(parts) != 4 {
		return name{}, false
	}
	n := name{kind: kind(parts[0]), state: state(end)}
	ordinal, err1 := strconv.ParseUint(parts[1], 16, 32)
	id, err2 := hex.DecodeString(parts[2])
	number, err3 := strconv.ParseUint(parts[3], 16, 64)
	if err1 != nil || err2 != nil || err3 != nil || len(id) != len(n.boot.id) || number == 0 {
		return name{}, false
	}
	n.boot, n.n = bootName{uint32(ordinal), waypost.BootID(id)}, number
	known := n.kind == segmentKind && (n.state == active || n.state == sealed) || n.kind == foldKind && n.state == sealed ||
		n.kind == packKind && n.state == shipped || n.kind == batchKind && (n.state == fixed || n.state == shipped)
	return n, known && n.String() == text
}
