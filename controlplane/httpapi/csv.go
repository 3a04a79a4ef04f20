package httpapi

import (
	"bytes"
	"encoding/csv"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost/api"
	"waypost/controlplane"
)

// table is an answer in JSON or CSV, as the client prefers.
type table struct {
	json  any
	file  string // name of the CSV file, without its ending
	name  string // of the breakdown in CSV; "": the series
	form  csvForm
	stats *controlplane.Stats
	top   []api.TopLink

	groups [][]string // of a table of groups, in place of all these
}

// csvForm chooses the form of CSV.
type csvForm struct {
	BOM       bool   `query:"bom" doc:"CSV that begins with a byte order mark, without which Excel garbles letters such as umlauts."`
	Separator string `query:"separator" enum:"comma,semicolon" default:"comma" doc:"Between the cells of CSV. With semicolon, fractions have a decimal comma: both as Excel expects them where decimals are written with a comma."`
}

// tables documents an operation that answers with a [table].
func tables(s *schema) map[int]answer {
	return map[int]answer{http.StatusOK: {
		Description: "OK",
		Headers: map[string]header{
			"Content-Disposition": textHeader("The name of a CSV file."),
			"Vary":                textHeader("The answer depends on Accept."),
		},
		Content: map[string]media{jsonType: {s}, "text/csv": {textSchema}},
	}}
}

func (t *table) respond(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if acceptsCSV(strings.Join(r.Header["Accept"], ",")) {
		file, rows := t.rows()
		w.Header().Set("Content-Disposition", `attachment; filename="`+file+`.csv"`)
		writeBody(w, http.StatusOK, "text/csv; charset=utf-8", csvText(rows, &t.form))
		return
	}
	text, err := encode(nil, t.json)
	if err != nil {
		panic("httpapi: " + err.Error()) // numbers and texts can be encoded
	}
	writeBody(w, http.StatusOK, jsonType, text)
}

// acceptsCSV reports whether an Accept header names CSV, with a weight that is no lower
// than the weight of JSON.
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
	return weights["text/csv"] > 0 && weights["text/csv"] >= weights[jsonType]
}

// rows returns the series, or the chosen breakdown, and the name of its file.
func (t *table) rows() (file string, rows [][]string) {
	file = t.file
	fraction := t.form.fraction
	d := slices.Index(breakdownNames[:], t.name)
	switch {
	case t.groups != nil:
		rows = t.groups
	case d == int(controlplane.Variants):
		rows = append(rows, []string{"rule", "name", "clicks", "share", "low", "high"})
		for _, v := range variantsOf(&t.stats.Breakdowns[d]) {
			rows = append(rows, []string{v.Rule, v.Name, number(v.Clicks), fraction(v.Share), fraction(v.Interval[0]), fraction(v.Interval[1])})
		}
		file += "-" + t.name
	case d >= 0:
		rows = append(rows, []string{"name", "clicks"})
		for _, n := range breakdownOf(controlplane.Dimension(d), &t.stats.Breakdowns[d]) {
			rows = append(rows, []string{n.Name, number(n.Clicks)})
		}
		file += "-" + t.name
	case t.name == "top":
		rows = append(rows, []string{"short_code", "domain", "original_url", "title", "clicks", "bot_clicks"})
		for _, l := range t.top {
			rows = append(rows, []string{l.ShortCode, l.Domain, l.OriginalURL, l.Title, number(l.Clicks), number(l.BotClicks)})
		}
		file += "-" + t.name
	default:
		rows = seriesRows(t.stats)
	}
	return file, rows
}

// seriesRows returns a series, and next to it the series of the time that it is compared
// with, which may be longer or shorter.
func seriesRows(s *controlplane.Stats) [][]string {
	series := bucketsOf(&s.Span, s.Series)
	rows := [][]string{{"t", "clicks", "bot_clicks"}}
	cells := func(of []api.Bucket, i int) []string {
		if i >= len(of) {
			return []string{"", "", ""}
		}
		return []string{of[i].T.Format(time.RFC3339), number(of[i].Clicks), number(of[i].BotClicks)}
	}
	if s.Compared == nil {
		for i := range series {
			rows = append(rows, cells(series, i))
		}
		return rows
	}
	other := bucketsOf(&s.Compared.Span, s.Compared.Series)
	rows[0] = append(rows[0], "compared_t", "compared_clicks", "compared_bot_clicks")
	for i := range max(len(series), len(other)) {
		rows = append(rows, append(cells(series, i), cells(other, i)...))
	}
	return rows
}

// fraction writes a number with decimals.
func (f *csvForm) fraction(x float64) string {
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if f.Separator == "semicolon" {
		text = strings.Replace(text, ".", ",", 1)
	}
	return text
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// csvText writes rows in which no cell is a formula to a spreadsheet.
func csvText(rows [][]string, form *csvForm) []byte {
	var b bytes.Buffer
	if form.BOM {
		b.WriteString(byteOrderMark)
	}
	w := csv.NewWriter(&b)
	if form.Separator == "semicolon" {
		w.Comma = ';'
	}
	for _, row := range rows {
		safe := make([]string, len(row))
		for i, cell := range row {
			safe[i] = api.SafeCell(cell)
		}
		// Writing into memory does not fail.
		_ = w.Write(safe)
	}
	w.Flush()
	return b.Bytes()
}
