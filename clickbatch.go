package waypost

// BootID tells one start of an edge from every other: 128 random bits, new at
// every start, so that no two writers ever share a sequence of click batches.
type BootID [16]byte

// Click is one GET that was answered with a link's redirect.
type Click struct {
	Domain DomainID
	Code   []byte // belongs to whoever has the click
	At     int64  // Unix milliseconds
	Bot    bool   // the client says that it is software that acts by itself
}

// ClickTotal is what one link was clicked within a batch.
type ClickTotal struct {
	Domain DomainID
	Code   Code
	Count  uint64 // at least 1
	Bots   uint64 // of these, by bots; at most Count
	Last   int64  // time of the newest click, Unix milliseconds by the edge's clock
}

// ClickBatch is a sealed part of an edge's journal. (Node, Boot, Seq) is its
// identity, fixed before it is first sent; sequences of a boot begin at 1 and have
// no gap. The control plane counts each identity once.
type ClickBatch struct {
	Node   string
	Boot   BootID
	Seq    uint64
	Totals []ClickTotal // ordered by domain and code, each once
}
