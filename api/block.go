package api

import "time"

// LinkBlock is the block of a link.
type LinkBlock struct {
	Policy string    `json:"policy" enum:"legal,gone" doc:"legal: visitors get 451. gone: 410."`
	Reason string    `json:"reason" doc:"As the operator stated it. Visitors do not see it."`
	Since  time.Time `json:"since"`
}

// NewBlock asks for the block of a code.
type NewBlock struct {
	Policy string `json:"policy,omitzero" enum:"legal,gone" default:"gone" doc:"legal: visitors get 451, which means that a law or a court demands it. gone: 410."`
	Reason string `json:"reason" minLength:"1" maxLength:"200" doc:"One line of at most 200 bytes, for the owner of the link and for the audit log. Visitors do not see it."`
	All    bool   `json:"all_addresses,omitzero" doc:"Block the link's own address and those of its aliases too, all or none."`
}

// Block is a code that is blocked, or was.
type Block struct {
	ShortCode string    `json:"short_code"`
	Domain    string    `json:"domain" doc:"Host of the domain."`
	Blocked   bool      `json:"blocked" doc:"False: the block has ended."`
	Policy    string    `json:"policy" enum:"legal,gone"`
	Reason    string    `json:"reason" doc:"Of the block, or of its end."`
	At        time.Time `json:"at" doc:"When it was blocked, or when that ended."`
	Version   int64     `json:"version" minimum:"1" doc:"Grows with every statement about any code; of two about one code the higher counts."`
	Others    []string  `json:"others,omitzero" doc:"Other addresses that got the same statement, as DOMAIN/CODE, in the answer to a request with all_addresses."`
}

// BlockPage is a page of blocked codes.
type BlockPage struct {
	Blocks []Block `json:"blocks" doc:"Newest first."`
	Next   string  `json:"next_cursor" doc:"Empty on the last page."`
}

// MaxEdgeBlocks bounds the blocks of one request of an edge, and of its answer.
const MaxEdgeBlocks = 500

// EdgeBlocks compares the blocks of an edge with the blocks of the control plane, and
// brings the blocks that the control plane lacks.
type EdgeBlocks struct {
	Node    string   `json:"node"`
	Digests []uint64 `json:"digests" doc:"Of the 64 shards of the edge's blocks; empty: nothing is asked for."`
	After   uint64   `json:"after" doc:"Version after which the answer begins."`
	Blocks  [][]byte `json:"blocks" doc:"At most 500, each with its signature, as the stream has them."`
}

// EdgeBlocksAnswer holds blocks that an edge may lack.
type EdgeBlocksAnswer struct {
	Digests []uint64 `json:"digests" doc:"Of the control plane's shards."`
	Blocks  [][]byte `json:"blocks" doc:"Of the shards that differ, by version, at most 500."`
	Last    uint64   `json:"last" doc:"Version of the last of them."`
}
