package controlplane

import (
	"cmp"
	"context"
	"slices"
	"time"

	"waypost"
)

// Bounds of a table of two crossed breakdowns.
const (
	MaxCrossedDays  = 92
	MaxCrossedNames = 20 // of each of the two
	minCrossed      = 5  // clicks of a cell that is shown
)

// CrossedQuery asks for the clicks of people by two dimensions at once, in whole UTC
// days, of the workspace, of a group of links, or of one link.
type CrossedQuery struct {
	Rows, Columns Dimension // up to Referrers
	From, To      time.Time // as of a StatsQuery
	Group         GroupQuery
	Code          string // of one link under Group.Host; "": of the group
}

// CrossedCell counts the clicks that two names have. Others have an empty name.
type CrossedCell struct {
	Row, Column string
	Clicks      int64
}

// Crossed holds the clicks of people by two dimensions.
type Crossed struct {
	Span     Span
	Clicks   int64         // in the span, as statistics count them
	Kept     int64         // of these, kept one by one: the sum of Cells
	Cells    []CrossedCell // with at least minCrossed clicks each, unless these are all
	Complete Completeness
}

// Crossed crosses two dimensions of the single clicks that the workspace keeps.
func (s *Clicks) Crossed(ctx context.Context, actor Actor, q CrossedQuery) (c Crossed, err error) {
	now := s.now()
	if c.Span, err = NewSpan(StatsQuery{From: q.From, To: q.To}, now); err != nil {
		return c, err
	}
	var g LinkGroup
	var l waypost.Link
	switch {
	case len(c.Span.Bounds)-1 > MaxCrossedDays:
		return c, waypost.Errorf(waypost.EInvalid, "at most %d days can be crossed", MaxCrossedDays)
	case q.Rows == q.Columns:
		return c, waypost.Errorf(waypost.EInvalid, "rows and columns must be two breakdowns")
	case q.Code != "" && (len(q.Group.Tags) > 0 || q.Group.Creator != ""):
		return c, waypost.Errorf(waypost.EInvalid, "a link is named by code and domain alone")
	case q.Code != "":
		l, err = s.links.Read(ctx, actor, waypost.HostName(q.Group.Host), q.Code)
	case !q.Group.IsZero():
		g, err = s.find(ctx, actor, &q.Group)
	}
	if err != nil {
		return c, err
	}
	if c.Complete, err = s.complete(ctx, &c.Span, now); err != nil {
		return c, err
	}
	cells, clicks, err := s.stats.CrossedClicks(ctx, actor.Workspace, &q, l.ID, g, &c.Span)
	c.Clicks = clicks
	for _, cell := range cells {
		c.Kept += cell.Clicks
	}
	if err == nil && c.Kept == 0 && c.Clicks > 0 {
		err = waypost.Errorf(waypost.EInvalid, "no single clicks of these links and days are kept: "+
			"the setting events of the workspace, all or sampled, keeps clicks from then on")
	}
	c.Cells = hideFew(cells)
	return c, err
}

// hideFew moves cells with few clicks to the cell of all others. If that is still small,
// the next larger cell follows, so that no difference shows a small number.
func hideFew(cells []CrossedCell) (shown []CrossedCell) {
	var others int64
	slices.SortFunc(cells, func(x, y CrossedCell) int {
		return cmp.Or(cmp.Compare(x.Clicks, y.Clicks), cmp.Compare(x.Row, y.Row), cmp.Compare(x.Column, y.Column))
	})
	for _, c := range cells {
		if c.Row == "" && c.Column == "" {
			others += c.Clicks
		}
	}
	for _, c := range cells {
		switch {
		case c.Row == "" && c.Column == "":
		case c.Clicks < minCrossed, others > 0 && others < minCrossed:
			others += c.Clicks
		default:
			shown = append(shown, c)
		}
	}
	if others > 0 {
		shown = append(shown, CrossedCell{Clicks: others})
	}
	return shown
}
