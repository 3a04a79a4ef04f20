package linkimport

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/client"
)

func TestCSV_TakesTheColumnNamesOfOtherShorteners(t *testing.T) {
	for _, header := range []string{"keyword,URL,title", "custom_code,long_url,title", "keyword,longUrl,title"} {
		r, err := newCSVRows(strings.NewReader(header + "\nspring,https://example.com/,Spring\n"))
		require.NoError(t, err, header)
		got, err := r.next()
		require.NoError(t, err)
		require.Equal(t, client.NewLink{OriginalURL: "https://example.com/", CustomCode: "spring", Title: "Spring"}, got.link, header)
	}
	_, err := newCSVRows(strings.NewReader("url,original_url\n"))
	require.ErrorContains(t, err, `two columns for original_url`)
}
