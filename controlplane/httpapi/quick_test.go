package httpapi

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"testing"

	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/stretchr/testify/require"
)

// slow is a server that can decode by the schema.
func slow() *server {
	return &server{log: slog.New(slog.DiscardHandler), api: humago.New(http.NewServeMux(), describe("test"))}
}

var someWishes = []string{
	`{"original_url": "https://example.com/?a=b\u0026c=d", "title": "a \"b\" \\ \/ \b\f\n\r\tü\u00fc", "tags": ["a", "b,c"], "redirect_status": 307, "forward_query": true, "forward_path" : false, "custom_code":"abcd","description":"d","created_by":"me"}`,
	`{"original_url":"x","tags":[]}`, `{"original_url":"x"}`, ` { "original_url" : "x" } `,
	`{}`, `{"title":"x"}`, `{"original_url":"x","original_url":"y"}`, `{"original_url":"\ud83d\ude00"}`, `{"original_url":"\ud83d"}`, `{"original_url":"\u0000"}`,
	`{"original_url":1}`, `{"original_url":null}`, `{"original_url":"x","title":null}`, `{"original_url":"x","redirect_status":200}`, `{"original_url":"x","redirect_status":3.02e2}`,
	`{"original_url":"x","redirect_status":3020}`, `{"original_url":"x","tags":[""]}`, `{"original_url":"x","tags":[1]}`, `{"Original_url":"x"}`, `{"original_url":"x","other":1}`,
	`{"original_url":"x","expires_at":"2030-01-01T00:00:00Z"}`, `{"original_url":"x","metadata":{"a":1}}`, `{"origin\u0061l_url":"x"}`, `[]`, `"x"`, `1`, "{\"original_url\":\"\xff\"}",
	`{"original_url":"x","forward_query":"true"}`, `{"original_url":"x","forward_query":0}`, `{"original_url":"x","expires_in_hours":5}`,
}

func TestTheQuickWayReadsMostWishes(t *testing.T) {
	for _, text := range someWishes[:4] {
		_, ok := quickLink([]byte(text))
		require.True(t, ok, text)
	}
}

// Whatever the quick way reads, the strict one reads the same.
func FuzzTheQuickWayReadsWhatTheStrictOneReads(f *testing.F) {
	for _, text := range someWishes {
		f.Add([]byte(text))
	}
	s := slow()
	f.Fuzz(func(t *testing.T, text []byte) {
		quick, ok := quickLink(text)
		if !ok {
			return
		}
		require.True(t, json.Valid(text), "%s", text)
		strict, err := decode[newLink](s, text, "body")
		require.NoError(t, err, "%s", text)
		require.Equal(t, strict, quick)
	})
}

func FuzzTheQuickWayTakesABulkApartAsTheStrictOneDoes(f *testing.F) {
	f.Add([]byte(`{"links":[{"a":"}]"},{"b":[{"c":"\"}"}]}]}`))
	f.Add([]byte(`{"links":[{},1]}`))
	f.Add([]byte("{\"links\":[{\"original_url\":\"a\nb\"}]}"))
	f.Add([]byte(`{"links":[{"original_url":"a\`))
	f.Add([]byte(`{"links":[{"original_url":"a"},]}`))
	f.Add([]byte(`{"links":[]}`))
	f.Add([]byte(`{"links":[{}],"links":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		quick, ok := quickItems(text)
		if !ok {
			return
		}
		if !json.Valid(text) { // then not all of them are links
			require.True(t, slices.ContainsFunc(quick, func(item []byte) bool { _, ok := quickLink(item); return !ok }), "%s", text)
			return
		}
		strict, err := bulkItems(text)
		require.NoError(t, err, "%s", text)
		require.Len(t, quick, len(strict))
		for i := range strict {
			require.Equal(t, string(strict[i]), string(quick[i]))
		}
	})
}

func BenchmarkReadingAWish(b *testing.B) {
	text := []byte(`{"original_url":"https://www.example.com/some/path/12345/item-abcdef?utm_source=newsletter\u0026id=12345","title":"A title","created_by":"import:0123456789abcdef-01234567:12345"}`)
	s := slow()
	b.Run("quick", func(b *testing.B) {
		for b.Loop() {
			quickLink(text)
		}
	})
	b.Run("strict", func(b *testing.B) {
		for b.Loop() {
			_, _ = decode[newLink](s, text, "body")
		}
	})
}
