package linkfile_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/linkfile"
)

func TestReader_NotesWhatIsTrueOfManyRedirects(t *testing.T) {
	o := linkfile.Options{Format: "cloudflare-bulk"}
	shape, mapping, rows := readAll(t, "a.example/x,https://b.example/,301,false,true\n", o)
	require.Len(t, shape.Notes, 1)
	require.Contains(t, shape.Notes[0], "include_subdomains")
	links, refused := mapAll(t, shape, mapping, rows)
	require.Empty(t, refused)
	require.Equal(t, []any{"a.example", "x", 301}, []any{links[0].Domain, links[0].CustomCode, links[0].RedirectStatus})
	_, err := linkfile.NewReader(strings.NewReader("a.example/x,\"https://b.example/\n"), o)
	require.ErrorContains(t, err, "the CSV cannot be read")
}

func TestReader_TakesListsOfTargets(t *testing.T) {
	links, refused := linksOf(t, "https://example.com/1\r\n\r\n# old\r\nhttps://example.com/2\tTwo\r\n", linkfile.Options{})
	require.Empty(t, refused)
	require.Equal(t, []string{"https://example.com/1 ", "https://example.com/2 Two"},
		[]string{links[0].OriginalURL + " " + links[0].CustomCode, links[1].OriginalURL + " " + links[1].CustomCode})
	links, _ = linksOf(t, "https://example.com/1,2\n", linkfile.Options{Format: linkfile.List})
	require.Equal(t, "https://example.com/1,2", links[0].OriginalURL)
	_, _, rows := readAll(t, "https://example.com/"+strings.Repeat("x", 1<<20)+"\nhttps://example.com/2\n", linkfile.Options{})
	require.Len(t, rows, 2)
	require.Equal(t, "the line is longer than 1048576 bytes", rows[0].Reason)
}
