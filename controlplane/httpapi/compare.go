package httpapi

import (
	"math"
	"time"

	"waypost/api"
	"waypost/controlplane"
)

// read reads the time to compare with.
func (in *comparison) read(zone *time.Location) (c controlplane.Comparison, err error) {
	switch {
	case in.CompareFrom == "" && in.CompareTo != "":
		return c, invalid("query.compare_to", "needs compare_from")
	case in.CompareFrom != "" && in.Compare != "":
		return c, invalid("query.compare", "excludes compare_from")
	}
	c.With = in.Compare
	if c.From, err = timeIn(zone, "compare_from", in.CompareFrom, 0); err != nil {
		return c, err
	}
	c.To, err = timeIn(zone, "compare_to", in.CompareTo, 1)
	return c, err
}

func bucketsOf(span *controlplane.Span, series []controlplane.QuarterClicks) []api.Bucket {
	shown := make([]api.Bucket, len(series))
	for i, q := range series {
		shown[i] = api.Bucket{T: span.Bounds[i], Clicks: q.Clicks, BotClicks: q.Bots}
	}
	return shown
}

func comparedOf(c *controlplane.Compared) *api.ComparedClicks {
	if c == nil {
		return nil
	}
	shown := &api.ComparedClicks{
		From: c.Span.From(), To: c.Span.To(), Clicks: c.Clicks, BotClicks: c.Bots, UniqueVisitors: c.Visitors, UniqueBots: c.VisitorBots,
		CompleteUntil: moment(c.Complete.Until), Behind: append([]string{}, c.Complete.Behind...), Series: bucketsOf(&c.Span, c.Series),
		Change: api.Change{Steps: c.Steps, Clicks: c.Now, Before: c.Then},
	}
	if c.Then > 0 {
		share := math.Round((float64(c.Now)/float64(c.Then)-1)*1e6) / 1e6
		shown.Change.Share = &share
	}
	return shown
}
