package httpapi

import (
	"bytes"
	"encoding/csv"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost/controlplane"
)

// acceptsCSV reports whether an Accept header names CSV, with a weight that is no
// lower than that of JSON, where that is named.
func acceptsCSV(accept string) bool {
	weights := map[string]float64{}
	for part := range strings.SplitSeq(accept, ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		weight := 1.0
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			weight = q
		}
		weights[name] = max(weights[name], weight)
	}
	return weights["text/csv"] > 0 && weights["text/csv"] >= weights["application/json"]
}

// csvOf gives the series, or the table that is named instead.
func csvOf(file, table string, s *controlplane.Stats, top []controlplane.TopLink) *tableOutput {
	var rows [][]string
	if d := slices.Index(breakdownNames[:], table); d >= 0 {
		rows = append(rows, []string{"name", "clicks"})
		for _, n := range showBreakdown(controlplane.Dimension(d), &s.Breakdowns[d]) {
			rows = append(rows, []string{n.Name, number(n.Clicks)})
		}
		file += "-" + table
	} else if table == "top" {
		rows = append(rows, []string{"short_code", "domain", "original_url", "title", "clicks", "bot_clicks"})
		for i := range top {
			l := showTop(&top[i])
			rows = append(rows, []string{l.ShortCode, l.Domain, l.OriginalURL, l.Title, number(l.Clicks), number(l.BotClicks)})
		}
		file += "-" + table
	} else {
		rows = append(rows, []string{"t", "clicks", "bot_clicks"})
		for i, q := range s.Series {
			rows = append(rows, []string{s.Span.Bounds[i].Format(time.RFC3339), number(q.Clicks), number(q.Bots)})
		}
	}
	return &tableOutput{
		ContentType: "text/csv; charset=utf-8", ContentDisposition: `attachment; filename="` + file + `.csv"`, Vary: "Accept",
		Body: csvText(rows),
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// csvText writes rows, so that no cell is a formula to a spreadsheet.
func csvText(rows [][]string) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	for _, row := range rows {
		safe := make([]string, len(row))
		for i, cell := range row {
			safe[i] = noFormula(cell)
		}
		// Writing into memory does not fail.
		_ = w.Write(safe)
	}
	w.Flush()
	return b.Bytes()
}

// noFormula puts an apostrophe before a text that a spreadsheet could run, as OWASP
// advises (CSV Injection). White space before it is passed over by some.
func noFormula(cell string) string {
	if cell != "" && strings.ContainsRune("\t\r\n", rune(cell[0])) {
		return "'" + cell
	}
	// Full-width signs are signs to some spreadsheets, too.
	for _, sign := range []string{"=", "+", "-", "@", "＝", "＋", "－", "＠"} {
		if strings.HasPrefix(strings.TrimLeft(cell, " \u00a0\u3000"), sign) {
			return "'" + cell
		}
	}
	return cell
}
