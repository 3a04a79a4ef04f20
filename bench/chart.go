package bench

import (
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// Panel is a part of a picture: bars with one scale, which begins at 0.
type Panel struct {
	Title string // with the unit
	Bars  []Bar
}

// Bar is one figure; NaN for one that was not taken.
type Bar struct {
	Name   string
	Value  float64
	Strong bool
}

// PutChart writes a picture of panels to a file.
func PutChart(path, title string, panels []Panel) error {
	if err := os.WriteFile(path, []byte(Chart(title, panels)), 0o644); err != nil {
		return fmt.Errorf("write a picture: %w", err)
	}
	return nil
}

const chartStyle = `text{font:13px system-ui,sans-serif;fill:#1f2328}.t{font-weight:600}.h{font-size:15px;font-weight:600}` +
	`rect{fill:#8c959f}.s{fill:#0969da}@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#6e7681}.s{fill:#4493f8}}`

// Chart draws panels, two next to each other, as an SVG picture for light and dark
// pages. A bar that is far longer than the others is cut, which a gap near its end shows.
func Chart(title string, panels []Panel) string {
	const (
		width, panel, name, longest = 900, 450, 150, 210
		top, line, space            = 40, 22, 52
	)
	var b strings.Builder
	height := top
	for i := 0; i < len(panels); i += 2 {
		rows := 0
		for _, p := range panels[i:min(i+2, len(panels))] {
			rows = max(rows, len(p.Bars))
		}
		for j, p := range panels[i:min(i+2, len(panels))] {
			x, scale := j*panel, scaleOf(p.Bars)
			fmt.Fprintf(&b, `<text class="t" x="%d" y="%d">%s</text>`+"\n", x, height+14, escaped(p.Title))
			for k, bar := range p.Bars {
				y, class, value := height+24+k*line, "", Number(bar.Value)
				if bar.Strong {
					class = ` class="s"`
				}
				if value == "" {
					value = "not measured"
				}
				length := 0.0
				if !math.IsNaN(bar.Value) && scale > 0 {
					length = max(1, longest*min(1, bar.Value/scale))
				}
				fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`, x, y+13, escaped(bar.Name))
				fmt.Fprintf(&b, `<rect%s x="%d" y="%d" width="%.1f" height="16"/>`, class, x+name, y, length)
				end := length
				if bar.Value > scale {
					end += 16
					fmt.Fprintf(&b, `<rect%s x="%.1f" y="%d" width="12" height="16"/>`, class, float64(x+name)+length+4, y)
				}
				fmt.Fprintf(&b, `<text x="%.1f" y="%d">%s</text>`+"\n", float64(x+name)+end+6, y+13, value)
			}
		}
		height += space + rows*line
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img"><title>%s</title><style>%s</style>`+"\n"+
		`<text class="h" x="0" y="20">%s</text>`+"\n%s</svg>\n", width, height, escaped(title), chartStyle, escaped(title), b.String())
}

// scaleOf returns the value of the longest bar that is drawn in full: the largest, unless
// it is more than five times the next.
func scaleOf(bars []Bar) float64 {
	values := []float64{0, 0}
	for _, b := range bars {
		if !math.IsNaN(b.Value) {
			values = append(values, b.Value)
		}
	}
	slices.Sort(values)
	largest, next := values[len(values)-1], values[len(values)-2]
	if next > 0 && largest > 5*next {
		return next
	}
	return largest
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}

// Insert replaces the text of a Markdown file between the marks of that name, which must
// be there.
func Insert(path, name, text string) error {
	begin, end := "<!-- "+name+" -->", "<!-- end of "+name+" -->"
	whole, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("insert a table: %w", err)
	}
	before, rest, found := strings.Cut(string(whole), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("insert a table: %s has no marks of %s", path, name)
	}
	if err := os.WriteFile(path+".new", []byte(before+begin+"\n"+text+end+after), 0o644); err != nil {
		return fmt.Errorf("insert a table: %w", err)
	}
	return os.Rename(path+".new", path)
}
