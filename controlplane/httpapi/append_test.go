package httpapi

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzABodyWritesItselfAsEncodingJSONWould sees that no byte differs.
func FuzzABodyWritesItselfAsEncodingJSONWould(f *testing.F) {
	f.Add("abc", "https://example.com/?a=b&c=<d>", "a", int64(0), int64(1_700_000_000_123_456_789), 0)
	f.Add("abc", "https://example.com/\u2028\"\\\x7f\xff\n", "", int64(-1), int64(0), 1)
	f.Add("", "", "t", int64(5), int64(-62_135_596_800), 2)
	f.Fuzz(func(t *testing.T, code, target, tag string, clicks, nanos int64, tags int) {
		at := time.Unix(0, nanos).UTC()
		l := link{ID: "1", ShortCode: code, ShortURL: "https://wp.example/" + code, OriginalURL: target, RedirectStatus: 302, ClickCount: clicks, CreatedAt: at, UpdatedAt: at, Active: true}
		for range tags % 4 {
			l.Tags = append(l.Tags, tag)
		}
		if tags%2 == 0 {
			l.ExpiresAt, l.LastAccessedAt = &at, &at
		}
		for _, body := range []appender{l, bulkAnswer{Results: []bulkResult{{Status: 201, Code: code}, {Status: 200, Link: &l}, {Status: 201}}}, bulkAnswer{}} {
			text, ok := body.appendJSON(nil)
			if !ok {
				continue
			}
			var want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			require.NoError(t, enc.Encode(body))
			require.Equal(t, want.String(), string(text)+"\n")
		}
	})
}

func TestMostLinksWriteThemselves(t *testing.T) {
	l := link{OriginalURL: "https://example.com/?a=b&c=d", Tags: []string{"a", "b"}}
	_, ok := l.appendJSON(nil)
	require.True(t, ok)
	_, ok = bulkAnswer{Results: []bulkResult{{Status: 201, Code: "abc"}, {Status: 201, Link: &l}}}.appendJSON(nil)
	require.True(t, ok)
}
