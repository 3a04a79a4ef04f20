package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"waypost/api"
	"waypost/controlplane"
)

type crossedInput struct {
	Rows    string `query:"rows" enum:"countries,cities,devices,browsers,os,referrers" default:"devices" doc:"The breakdown whose names are the rows."`
	Columns string `query:"columns" enum:"countries,cities,devices,browsers,os,referrers" default:"countries" doc:"Another breakdown, for the columns."`
	Code    string `query:"code" maxLength:"256" doc:"Short code of one link, in the domain."`
	inDays
	ofGroup
	csvForm
}

func registerCrossed(rt *router, a *statisticsAPI) {
	handle(rt, operation{
		id: "stats-crossed", method: http.MethodGet, path: api.PathStats + "/crossed",
		summary: "Count clicks by two breakdowns at once, such as devices by country",
		description: "From the single clicks that the workspace keeps (its setting `events`): of the whole workspace, of a group of links as they " +
			"are now, or of one link. Clicks of bots are left out. A cell with fewer than five clicks is among the others of both breakdowns. " +
			"Refused where no single clicks are kept, and where more than 1,000,000 would be read.",
		scopes: []controlplane.Scope{controlplane.ScopeAnalytics}, problems: []int{http.StatusNotFound},
		answers: tables(rt.document.schemas.of(typeOf[api.Crossed](), "")),
	}, a.crossed)
}

func (a *statisticsAPI) crossed(ctx context.Context, in *crossedInput) (*table, error) {
	q := controlplane.CrossedQuery{
		Rows:    controlplane.Dimension(slices.Index(breakdownNames[:], in.Rows)),
		Columns: controlplane.Dimension(slices.Index(breakdownNames[:], in.Columns)), Code: in.Code,
	}
	var err error
	if q.From, q.To, err = in.days(); err != nil {
		return nil, err
	}
	if q.Group, err = in.group(); err != nil {
		return nil, err
	}
	c, err := a.clicks.Crossed(ctx, actorFrom(ctx), q)
	if err != nil {
		return nil, err
	}
	shown := api.Crossed{
		From: c.Span.From(), To: c.Span.To(), Clicks: c.Clicks, Kept: c.Kept, Exact: c.Clicks == c.Kept,
		CompleteUntil: moment(c.Complete.Until), Behind: append([]string{}, c.Complete.Behind...),
		Columns: crossedNames(c.Cells, func(c *controlplane.CrossedCell) string { return c.Column }), Rows: []api.CrossedRow{},
	}
	head, places := []string{in.Rows}, make(map[string]int)
	for i, column := range shown.Columns {
		head, places[column.Name] = append(head, column.Name), i
	}
	rows := [][]string{head}
	for _, n := range crossedNames(c.Cells, func(c *controlplane.CrossedCell) string { return c.Row }) {
		row, cells := api.CrossedRow{Name: n.Name, Clicks: n.Clicks, Cells: make([]int64, len(shown.Columns))}, []string{n.Name}
		for _, cell := range c.Cells {
			if cmp.Or(cell.Row, othersName) == n.Name {
				row.Cells[places[cmp.Or(cell.Column, othersName)]] = cell.Clicks
			}
		}
		for _, n := range row.Cells {
			cells = append(cells, number(n))
		}
		shown.Rows, rows = append(shown.Rows, row), append(rows, cells)
	}
	return &table{json: shown, file: "clicks-" + in.Rows + "-" + in.Columns, form: in.csvForm, groups: rows}, nil
}

// crossedNames returns the names of cells with their sums, most clicks first and the
// others last.
func crossedNames(cells []controlplane.CrossedCell, name func(*controlplane.CrossedCell) string) []api.Named {
	b := controlplane.Breakdown{}
	for i := range cells {
		n := controlplane.NamedClicks{Name: name(&cells[i]), Clicks: cells[i].Clicks}
		if n.Name == "" {
			b.Other += n.Clicks
		} else {
			b.Named = append(b.Named, n)
		}
	}
	return breakdownOf(controlplane.Countries, &b)
}
