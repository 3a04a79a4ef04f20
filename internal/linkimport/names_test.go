package linkimport

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/client"
)

func TestCSV_TakesTheColumnNamesOfOtherShorteners(t *testing.T) {
	const yourls = "keyword,url,title,timestamp,ip,clicks\nspring,https://example.com/,Spring,2020-01-02 03:04:05,192.0.2.1,7\n"
	const shlink = "createdAt,domain,shortCode,shortUrl,longUrl,title,tags,visits\n" +
		"2020-01-02T03:04:05+00:00,go.example.com,spring,https://go.example.com/spring,https://example.com/,Spring,a|b c,7\n"
	spring := client.NewLink{OriginalURL: "https://example.com/", CustomCode: "spring", Title: "Spring"}
	ofShlink := spring
	ofShlink.Domain, ofShlink.Tags = "go.example.com", []string{"a", "b c"}
	for text, want := range map[string]client.NewLink{
		"keyword,URL,title\nspring,https://example.com/,Spring\n":          spring,
		"custom_code,long_url,title\nspring,https://example.com/,Spring\n": spring,
		"keyword,longUrl,title\nspring,https://example.com/,Spring\n":      spring,
		yourls: spring,
		shlink: ofShlink,
		"url,shortCode,tags\nhttps://example.com/,abcd,\"a,b\"\n": {OriginalURL: "https://example.com/", CustomCode: "abcd", Tags: []string{"a", "b"}},
		"original_url,tags\nhttps://example.com/,a|b\n":           {OriginalURL: "https://example.com/", Tags: []string{"a|b"}},
		"original_url,tags,refused\nhttps://example.com/,\"a; b,\"\"c;d\"\"\",Row 3\n": {
			OriginalURL: "https://example.com/", Tags: []string{"a", "b", "c;d"},
		},
	} {
		r, err := newCSVRows(strings.NewReader(text), (&run{}).readTime)
		require.NoError(t, err, text)
		got, err := r.next()
		require.NoError(t, err)
		require.Equal(t, want, got.link, text)
	}
	_, err := newCSVRows(strings.NewReader("url,original_url\n"), (&run{}).readTime)
	require.ErrorContains(t, err, `two columns for original_url`)
	_, err = newCSVRows(strings.NewReader("url,hits\n"), (&run{}).readTime)
	require.ErrorContains(t, err, `original_url (or url, long_url, longUrl)`)
	require.ErrorContains(t, err, `custom_code (or keyword, shortCode)`)
}

func TestCSV_SeparatorIsThatOfTheHeader(t *testing.T) {
	for text, want := range map[string]client.NewLink{
		"\uFEFForiginal_url;title\r\nhttps://example.com/?a=1,2;Spring\r\n": {OriginalURL: "https://example.com/?a=1,2", Title: "Spring"},
		"\nurl\ttags\nhttps://example.com/\ta,b\n":                          {OriginalURL: "https://example.com/", Tags: []string{"a", "b"}},
		"url\nhttps://example.com/;a\n":                                     {OriginalURL: "https://example.com/;a"},
	} {
		reader, err := newReader(strings.NewReader(text), &Import{}, (&run{}).readTime, exported{})
		require.NoError(t, err, text)
		got, err := reader.from.next()
		require.NoError(t, err, text)
		require.Equal(t, want, got.link, text)
	}
}
