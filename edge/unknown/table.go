package unknown

import (
	"slices"
	"time"

	"waypost"
	"waypost/api"
)

// Bounds of the table.
const (
	maxAddresses = 4096
	compared     = 8  // addresses of which one makes room
	newOfNetwork = 32 // addresses that a network brings in an hour
	networks     = 1 << 15
)

// address names an unknown address on a day.
type address struct {
	domain waypost.DomainID
	day    int32
	kind   waypost.UnknownKind
	path   string
}

// tally counts an address since its last report.
type tally struct {
	people, bots uint64
	visitors     []uint64 // the first ones of the day, without bots
	reported     int      // visitors in earlier reports
}

// table counts addresses.
type table struct {
	tallies map[address]*tally
	brought [networks]uint8 // new addresses in an hour, by network
	hour    int64
}

func newTable() table { return table{tallies: make(map[address]*tally)} }

// count counts a visit, and returns what became of it. An address is new when a person
// asks for it: what only bots ask for is never shown.
func (t *table) count(of address, visitor uint64, bot bool, network uint64, at int64) (result string) {
	known := t.tallies[of]
	if known == nil {
		switch {
		case bot:
			return ofBot
		case visitor == 0: // it can never be shown
			return unfit
		}
		if hour := at / time.Hour.Milliseconds(); hour != t.hour {
			t.hour = hour
			clear(t.brought[:])
		}
		brought := &t.brought[network%networks]
		if *brought == newOfNetwork {
			return limited
		}
		if len(t.tallies) >= maxAddresses && !t.makeRoom() {
			return full
		}
		*brought++
		known = &tally{}
		t.tallies[of] = known
	}
	if bot {
		known.bots++
		return counted
	}
	known.people++
	known.addVisitor(visitor)
	return counted
}

func (y *tally) addVisitor(visitor uint64) {
	if visitor != 0 && len(y.visitors) < waypost.UnknownVisitors && !slices.Contains(y.visitors, visitor) {
		y.visitors = append(y.visitors, visitor)
	}
}

// makeRoom drops one of some addresses that a single visitor has asked for, and reports
// whether there was one.
func (t *table) makeRoom() bool {
	looked := 0
	for of, y := range t.tallies { // from a random one on
		if len(y.visitors) <= 1 {
			delete(t.tallies, of)
			return true
		}
		if looked++; looked == compared {
			break
		}
	}
	return false
}

// takeNews returns at most most addresses with counts that were not reported, and forgets
// addresses of earlier days.
func (t *table) takeNews(today int32, most int) (news []api.EdgeUnknownAddress) {
	for of, y := range t.tallies {
		if y.people+y.bots > 0 {
			if len(news) == most {
				continue
			}
			news = append(news, api.EdgeUnknownAddress{
				Domain: uint32(of.domain), Day: waypost.DayText(of.day), Kind: uint8(of.kind), Path: of.path,
				People: y.people, Bots: y.bots, Visitors: slices.Clone(y.visitors[y.reported:]),
			})
			y.people, y.bots, y.reported = 0, 0, len(y.visitors)
		}
		if of.day < today {
			delete(t.tallies, of)
		}
	}
	return news
}
