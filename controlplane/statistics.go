package controlplane

import (
	"cmp"
	"slices"

	"waypost"
	"waypost/api"
)

// Counted holds the counts of a span.
type Counted struct {
	// Quarters holds clicks by quarter of an hour. A quarter may occur several times, in
	// any order; those outside of the span are ignored.
	Quarters []QuarterClicks

	// Breakdowns covers the days that the span touches, in UTC. Names are unique in each,
	// in any order; "" means unknown.
	Breakdowns [Dimensions]Breakdown

	// Named holds the clicks of the name that was asked for, by the same days.
	Named []NamedDay

	// Visitors counts the visitors, bots included, and Bots the bots alone, as sums over
	// the same days.
	Visitors, Bots int64
}

// QuarterClicks are the clicks of a quarter of an hour.
type QuarterClicks struct {
	At     int64 // Unix seconds of its beginning
	Clicks int64
	Bots   int64 // of the clicks
}

// Dimension is a property by which clicks are grouped.
type Dimension uint8

// The dimensions.
const (
	Countries Dimension = iota
	Cities
	Devices
	Browsers
	Systems
	Referrers
	Rules
	Variants
	Codes      // of a link: HOST/CODE of its aliases, without a host under the default domain; "" is its own code
	UTM        // the first of five, in the order of a waypost.UTM
	Dimensions = UTM + Dimension(len(waypost.UTMValues{}))
)

// NameQuery asks for the clicks of one name by day. Nil asks for none.
type NameQuery struct {
	By Dimension

	// Name is as breakdowns have it; "" means unknown. A variant may be named by its id
	// alone, which counts for all rules that have it.
	Name string

	// Nameless is the name that is shown in place of an empty Name. With an empty Name,
	// the clicks of Nameless count, too. An empty Nameless adds nothing.
	Nameless string
}

// NamedDay is the clicks of a name on a UTC day.
type NamedDay struct {
	Day     int32 // since 1970
	Clicks  int64
	AtLeast bool // there may be more among the clicks of names that were too many to keep
}

// Breakdown holds clicks by name.
type Breakdown struct {
	Named []NamedClicks
	Other int64 // clicks of names that were too many to keep
}

// NamedClicks are the clicks of one name.
type NamedClicks struct {
	Name   string
	Clicks int64
}

// MaxNames bounds the names of a shown breakdown.
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

	// Exact says that no other link has more clicks than the last of these. It is false
	// when the stored tops cannot prove that, because clicks are spread evenly over very
	// many links, or too many clicks are not in the tops yet; the clicks of each link are
	// exact either way.
	Exact bool
}

// Stats holds the statistics of a link or of a workspace.
type Stats struct {
	Span         Span
	Clicks, Bots int64           // in the span
	Series       []QuarterClicks // one for each step of the span
	Visitors     int64           // see [Counted]
	VisitorBots  int64
	Named        []NamedDay            // one for each day of the breakdowns, when a name was asked for
	Breakdowns   [Dimensions]Breakdown // most clicks first
	TotalClicks  int64                 // in all time
	TotalBots    int64
	Complete     Completeness
	Compared     *Compared // nil: with no other time
}

// LinkStats are the statistics of a link.
type LinkStats struct {
	Link        waypost.Link
	Annotations []api.Annotation // of the span, newest first
	More        bool             // there are more than MaxAnnotations
	Stats
}

// WorkspaceStats are the statistics of all links of a workspace.
type WorkspaceStats struct {
	Stats
	Top TopLinks
}

// MaxTopLinks bounds the list of links with the most clicks.
const MaxTopLinks = 100
