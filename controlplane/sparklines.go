package controlplane

import (
	"context"
	"time"

	"waypost"
	"waypost/internal/codes"
)

// LinkName names a link.
type LinkName struct {
	Domain waypost.DomainID
	Code   waypost.Code
}

// HostedCode names a link by the host of its domain, "" for the default one.
type HostedCode struct{ Host, Code string }

// Bounds of sparklines.
const (
	MaxSparklines    = 100 // links
	MaxSparklineDays = 31
)

// Sparkline is the clicks of a link by day.
type Sparkline struct {
	HostedCode
	Clicks []int64
}

// Sparklines returns the clicks of links of the actor's workspace on the last days of a
// zone, today included, in the order of the links. It leaves out unknown links.
func (s *Clicks) Sparklines(
	ctx context.Context, actor Actor, links []HostedCode, days int, zone *time.Location,
) (Span, []Sparkline, error) {
	if len(links) < 1 || len(links) > MaxSparklines || days < 1 || days > MaxSparklineDays {
		return Span{}, nil, waypost.Errorf(waypost.EInvalid, "ask for 1 to %d links and 1 to %d days", MaxSparklines, MaxSparklineDays)
	}
	now := s.now()
	y, m, d := now.In(zone).Date()
	span, err := NewSpan(StatsQuery{From: waypost.BeginOfDay(time.Date(y, m, d-days+1, 12, 0, 0, 0, zone)), To: now.Add(1), Zone: zone}, now)
	if err != nil {
		return Span{}, nil, err
	}
	names := make([]LinkName, len(links)) // without a code: none
	domains := map[string]waypost.Domain{}
	for i, l := range links {
		d, known := domains[l.Host]
		if !known {
			var err error
			d, err = s.links.domains.named(ctx, actor, waypost.HostName(l.Host))
			if err != nil && waypost.CodeOf(err) != waypost.ENotFound {
				return Span{}, nil, err
			}
			domains[l.Host] = d
		}
		if code := codes.NormalForm(l.Code); d.ID != 0 && waypost.ValidCode(string(code)) {
			key, err := s.links.domains.keyIn(ctx, &d, code)
			if err != nil {
				return Span{}, nil, err
			}
			names[i] = LinkName{Domain: d.ID, Code: key}
		}
	}
	counted, err := s.stats.LinksClicks(ctx, actor.Workspace, names, &span)
	if err != nil {
		return Span{}, nil, err
	}
	lines := make([]Sparkline, 0, len(links))
	for i, l := range links {
		if clicks, found := counted[names[i]]; found {
			lines = append(lines, Sparkline{HostedCode: l, Clicks: clicks})
		}
	}
	return span, lines, nil
}
