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
	const object = `{"original_url":"https://example.com/with/a/path/of/some/length?and=a-query","custom_code":"abcdefg",` +
		`"title":"A title of usual length","tags":["a","b"],"expires_at":"2030-12-31T00:00:00Z","metadata":{}}` + "\n"
	const tuple = "('abcdefg','https://example.com/with/a/path/of/some/length?and=a-query','A title of usual length','2020-01-02 03:04:05','192.0.2.1',7),\n"
	for name, text := range map[string]string{
		"csv":  header + strings.Repeat(row, 10_000),
		"json": strings.Repeat(object, 10_000),
		"dump": "INSERT INTO `yourls_url` VALUES\n" + strings.Repeat(tuple, 10_000),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				readAndMap(b, text)
			}
			b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// readAndMap makes links of all rows of a file.
func readAndMap(b *testing.B, text string) {
	r, err := linkfile.NewReader(strings.NewReader(text), linkfile.Options{})
	require.NoError(b, err)
	row, err := r.Next()
	require.NoError(b, err)
	shape := r.Shape()
	m, err := linkfile.NewMapper(&shape, shape.Suggest(nil), linkfile.MapOptions{})
	require.NoError(b, err)
	rows := 0
	for ; err == nil; row, err = r.Next() {
		if _, err := m.Link(row); err != nil {
			b.Fatal(err)
		}
		rows++
	}
	require.Equal(b, 10_000, rows)
}
