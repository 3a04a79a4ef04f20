package linkfile_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/internal/linkfile"
)

// readAll reads a file, and makes links of its rows by the suggested mapping.
func readAll(t *testing.T, text string, o linkfile.Options) (linkfile.Shape, linkfile.Mapping, []linkfile.Row) {
	t.Helper()
	r, err := linkfile.NewReader(strings.NewReader(text), o)
	require.NoError(t, err)
	var rows []linkfile.Row
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		rows = append(rows, row)
	}
	shape := r.Shape()
	return shape, shape.Suggest(rows), rows
}

func linksOf(t *testing.T, text string, o linkfile.Options) (links []linkfile.Link, refused []string) {
	t.Helper()
	shape, mapping, rows := readAll(t, text, o)
	return mapAll(t, shape, mapping, rows)
}

func mapAll(t *testing.T, shape linkfile.Shape, mapping linkfile.Mapping, rows []linkfile.Row) (links []linkfile.Link, refused []string) {
	t.Helper()
	m, err := linkfile.NewMapper(&shape, mapping, linkfile.MapOptions{KeepCodes: true})
	require.NoError(t, err)
	for _, row := range rows {
		link, err := m.Link(row)
		if err != nil {
			refused = append(refused, err.Error())
			continue
		}
		links = append(links, link)
	}
	return links, refused
}

func TestReader_ReadsATable(t *testing.T) {
	links, refused := linksOf(t, "\uFEFFLong URL;Back-half;Title;Tags;Expires at;Hits\r\n"+
		"https://example.com/1;one;\"Two\r\nlines\";a,b;2030-12-31;7\r\n"+
		"too;few\r\n"+
		"https://example.com/2;two;'=1+1;;;\r\n", linkfile.Options{})
	require.Equal(t, []string{"2 fields instead of 6"}, refused)
	require.Equal(t, []linkfile.Link{
		{NewLink: api.NewLink{
			OriginalURL: "https://example.com/1", CustomCode: "one", Title: "Two\r\nlines", Tags: []string{"a", "b"},
			ExpiresAt: time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC),
		}},
		{NewLink: api.NewLink{OriginalURL: "https://example.com/2", CustomCode: "two", Title: "=1+1"}},
	}, links)
}

func BenchmarkReader(b *testing.B) {
	const header = "original_url,custom_code,title,tags,expires_at\n"
	const row = "https://example.com/with/a/path/of/some/length?and=a-query,abcdefg,A title of usual length,\"a,b\",2030-12-31T00:00:00Z\n"
	text := header + strings.Repeat(row, 10_000)
	for b.Loop() {
		r, err := linkfile.NewReader(strings.NewReader(text), linkfile.Options{})
		if err != nil {
			b.Fatal(err)
		}
		shape := r.Shape()
		m, err := linkfile.NewMapper(&shape, shape.Suggest(nil), linkfile.MapOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for {
			row, err := r.Next()
			if err != nil {
				break
			}
			if _, err := m.Link(row); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "rows/s")
}
