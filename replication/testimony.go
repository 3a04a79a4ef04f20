package replication

import (
	"encoding/json"
	"fmt"
	"net/http"

	"waypost"
)

// Testimony is what a follower knows of a history that PostgreSQL may have forgotten.
type Testimony struct {
	Position waypost.Position // as the control plane has signed it
	Digest   uint64           // root digest there
	At       int64            // when that was the head, by the origin's clock, Unix milliseconds
	// Ranges are the key ranges as they stood there; nil: the follower does not know. They
	// have no signature: whoever is let in can make counters be skipped. Ranges that tell of too
	// little are one floor of several, below the gap of the new epoch and every other witness.
	Ranges []KeyRange
}

// KeyRange is a range of counters of a prefix, of which those below Next may have been issued.
type KeyRange struct {
	Prefix int    `json:"prefix"`
	Region string `json:"region"`
	Lo     int64  `json:"lo"`
	Hi     int64  `json:"hi"`
	Next   int64  `json:"next"`
}

// RangeHolder is a Sink that knows the key ranges which it holds.
type RangeHolder interface {
	Sink

	// KeyRanges gives the key ranges at Position, and false when it cannot tell all of them.
	// It is called by the follower's goroutine.
	KeyRanges() ([]KeyRange, bool)
}

// maxKeyRanges bounds the header that they are told in, in bytes. A cluster with more
// ranges than fit has to rely on its control planes' memory.
const maxKeyRanges = 32 << 10

// keyRanges is what is told of the key ranges: nothing, unless the sink stands exactly
// where the newest signed position is.
func (f *Follower) keyRanges(at waypost.Position) string {
	holder, ok := f.cfg.Sink.(RangeHolder)
	if !ok || at.IsZero() || !f.cfg.Trust.saw(at) {
		return ""
	}
	ranges, ok := holder.KeyRanges()
	if !ok || len(ranges) == 0 {
		return ""
	}
	text, err := json.Marshal(ranges)
	if err != nil || len(text) > maxKeyRanges {
		return ""
	}
	return string(text)
}

// hear takes in what a follower has seen signed. What is not signed by this cluster's key
// says nothing.
func (s *Server) hear(r *http.Request) {
	text := r.Header.Get(HeaderWitness)
	if text == "" || s.cfg.Signer == nil || s.cfg.Witness == nil {
		return
	}
	said, err := s.cfg.Signer.Witness(text)
	if err == nil {
		said.Ranges, err = parseKeyRanges(r.Header.Get(HeaderKeyRanges))
	}
	if err != nil {
		s.cfg.Logger.Warn("what a follower has seen is not believed", "node", bounded(r.Header.Get(HeaderNode)), "error", err)
		return
	}
	s.cfg.Witness(r.Context(), said)
}

func parseKeyRanges(text string) (ranges []KeyRange, err error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxKeyRanges {
		return nil, fmt.Errorf("key ranges in %d bytes are too many", len(text))
	}
	if err := json.Unmarshal([]byte(text), &ranges); err != nil {
		return nil, fmt.Errorf("key ranges: %w", err)
	}
	for _, r := range ranges {
		if _, err := waypost.ParseRegion(r.Region); err != nil || r.Prefix < 0 || r.Prefix >= maxPrefixes || r.Lo < 0 || r.Next < r.Lo || r.Hi < r.Next || r.Lo >= r.Hi {
			return nil, fmt.Errorf("key ranges: what is said of prefix %d is none", r.Prefix)
		}
	}
	return ranges, nil
}

const maxPrefixes = 62 * 62 * 62
