package waypost

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Block is the statement of an operator that visitors of a short address get no answer of
// its link (a takedown), or that they get it again. Of two statements about one short
// address, that with the higher version counts. A short address is a host and a code, so
// that the statement outlives the link, and also the domain.
type Block struct {
	Host    string // of the domain, in the form of [HostName]; "" for the default domain
	Code    Code
	Version uint64 // higher than that of every earlier statement about any short address
	Blocked bool   // false: the block has ended
	Policy  BlockPolicy
	Reason  string // of the operator; visitors do not see it
	At      int64  // Unix milliseconds, by PostgreSQL's clock
}

// BlockPolicy says how a blocked short address is answered.
type BlockPolicy uint8

// The policies of blocks.
const (
	BlockLegal BlockPolicy = 1 // answers 451: a law or a court demands it
	BlockGone  BlockPolicy = 2 // answers 410
)

// Limits of blocks. A short address keeps its statement after its block has ended.
const (
	MaxBlocks      = 20_000 // short addresses with a statement
	MaxBlockReason = 200    // bytes
	MaxHostLength  = 253    // bytes
)

// ParseBlockPolicy reads the name of a policy. Its error is EInvalid.
func ParseBlockPolicy(name string) (BlockPolicy, error) {
	switch name {
	case "legal":
		return BlockLegal, nil
	case "gone":
		return BlockGone, nil
	}
	return 0, Errorf(EInvalid, "policy must be legal or gone")
}

// String returns the name of a policy.
func (p BlockPolicy) String() string {
	switch p {
	case BlockLegal:
		return "legal"
	case BlockGone:
		return "gone"
	}
	return "unknown"
}

// Status returns the HTTP status with which a blocked short address is answered, 0 for
// the zero policy.
func (p BlockPolicy) Status() int {
	switch p {
	case 0:
		return 0
	case BlockLegal:
		return 451
	}
	return 410
}

// Valid reports whether a statement is within its limits, from any source.
func (b *Block) Valid() bool {
	if b.Policy != BlockLegal && b.Policy != BlockGone || b.Version == 0 || b.Version > 1<<62 || !ValidCode(string(b.Code)) {
		return false
	}
	const year10000 = 253402300800000
	return len(b.Host) <= MaxHostLength && HostName(b.Host) == b.Host && !strings.ContainsAny(b.Host, "/ ") && oneLine(b.Host) &&
		ValidBlockReason(b.Reason) && b.At >= 0 && b.At < year10000
}

// ValidBlockReason reports whether text can be the reason of a block: one line of UTF-8
// that is not empty.
func ValidBlockReason(text string) bool {
	return text != "" && len(text) <= MaxBlockReason && oneLine(text)
}

func oneLine(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// Newer reports whether b replaces an earlier statement about its short address.
func (b *Block) Newer(than *Block) bool { return b.Version > than.Version }

// AppendBlockKey appends a key of the short address that a block is about, which no two
// of them share. Folded says that the code is in its form without case, and the key one
// of all short addresses with such a code. It does not allocate once dst is large enough.
func AppendBlockKey(dst, host, code []byte, folded bool) []byte {
	if dst = append(append(dst, host...), '/'); folded {
		dst = append(dst, 0)
	}
	return append(dst, code...)
}
