package rules

import (
	"hash/maphash"
	"sync/atomic"

	"waypost"
)

// agents remembers results of [ParseAgent]. Most visits come with one of a few
// hundred user agents, and hashing one takes a tenth of the time of parsing it.
var agents agentCache

// agentCache holds sets by the hash of their agents. An entry is two words that are
// written without a lock. The first is the hash, exclusive or the second, so that a
// reader who meets a half-written entry sees that it does not belong to its hash. Two
// agents have one hash of 64 bits once in 10^19; its seed is secret and of the process.
type agentCache [1024]struct{ check, set atomic.Uint64 }

var agentSeed = maphash.MakeSeed()

func (c *agentCache) parse(userAgent []byte) AgentSet {
	userAgent = userAgent[:min(len(userAgent), waypost.MaxAgent)]
	hash := maphash.Bytes(agentSeed, userAgent)
	entry := &c[hash%uint64(len(c))]
	if set := entry.set.Load(); entry.check.Load()^set == hash {
		return AgentSet(set)
	}
	set := ParseAgent(userAgent)
	entry.set.Store(uint64(set))
	entry.check.Store(hash ^ uint64(set))
	return set
}
