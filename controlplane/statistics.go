package controlplane

import (
	"cmp"
	"slices"

	"waypost"
)

// Counted is what was counted in a span.
type Counted struct {
	// Quarters are clicks by the time of their quarter of an hour. One may come
	// several times, in any order; those outside of the span are passed over.
	Quarters []QuarterClicks

	// Breakdowns are of the days that the span touches, in UTC. Names are unique in
	// each, in any order; "" is what is not known.
	Breakdowns [Dimensions]Breakdown

	// Visitors, bots among them, and the bots alone: the sum over the same days of
	// how many there were in each.
	Visitors, Bots int64
}

// QuarterClicks are the clicks of a quarter of an hour.
type QuarterClicks struct {
	At     int64 // Unix seconds of its beginning
	Clicks int64
	Bots   int64 // of the clicks
}

// Dimension is something by which clicks are broken down.
type Dimension uint8

// The dimensions.
const (
	Countries Dimension = iota
	Cities
	Devices
	Browsers
	Systems
	Referrers
	Dimensions = 6
)

// Breakdown tells clicks by name.
type Breakdown struct {
	Named []NamedClicks
	Other int64 // clicks of names that were too many to keep
}

// NamedClicks are the clicks of one name.
type NamedClicks struct {
	Name   string
	Clicks int64
}

// MaxNames bounds a breakdown as it is shown.
const MaxNames = 1000

// top keeps the MaxNames names with the most clicks, most first, and adds all others to
// Other.
func (b Breakdown) top() Breakdown {
	named := slices.Clone(b.Named)
	slices.SortFunc(named, func(x, y NamedClicks) int {
		return cmp.Or(cmp.Compare(y.Clicks, x.Clicks), cmp.Compare(x.Name, y.Name))
	})
	if len(named) > MaxNames {
		for _, n := range named[MaxNames:] {
			b.Other += n.Clicks
		}
		named = named[:MaxNames]
	}
	b.Named = named
	return b
}

// TopLink is one of the links of a workspace with the most clicks.
type TopLink struct {
	Domain      waypost.DomainID
	Host        string // of the domain; "" for the default one
	Code        waypost.Code
	OriginalURL string
	Title       string
	Clicks      int64
	Bots        int64
}

// TopLinks are the links of a workspace with the most clicks, most first.
type TopLinks struct {
	Links []TopLink

	// Exact says that no other link has more clicks than the last of these. Where clicks
	// are spread so evenly over very many links that this cannot be told, they are
	// links with many; their own clicks are exact at all times.
	Exact bool
}

// Stats is what statistics tell of a link, or of a workspace.
type Stats struct {
	Span         Span
	Clicks, Bots int64           // in the span
	Series       []QuarterClicks // one for each step of the span
	Visitors     int64           // see [Counted]
	VisitorBots  int64
	Breakdowns   [Dimensions]Breakdown // most clicks first
	TotalClicks  int64                 // in all time
	TotalBots    int64
	Complete     Completeness
}

// LinkStats are the statistics of a link.
type LinkStats struct {
	Link waypost.Link
	Stats
}

// WorkspaceStats are the statistics of all links of a workspace.
type WorkspaceStats struct {
	Stats
	Top TopLinks
}

// MaxTopLinks bounds the list of links with the most clicks.
const MaxTopLinks = 100
