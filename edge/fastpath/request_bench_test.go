package fastpath_test

import (
	"testing"

	"waypost/edge/fastpath"
)

// BenchmarkRequest_Parse parses the request of a browser that follows a link.
func BenchmarkRequest_Parse(b *testing.B) {
	for name, text := range map[string]string{
		"a browser": "GET /r7Qx0aZ HTTP/1.1\r\nHost: go.example.com\r\nConnection: keep-alive\r\nUpgrade-Insecure-Requests: 1\r\n" +
			"User-Agent: Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36\r\n" +
			"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\nSec-Fetch-Site: cross-site\r\n" +
			"Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nReferer: https://www.example.com/\r\nAccept-Encoding: gzip, deflate, br\r\n" +
			"Accept-Language: de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7\r\nCookie: session=0123456789abcdef; theme=dark\r\n\r\n",
		"a tool": "GET /r7Qx0aZ HTTP/1.1\r\nHost: go.example.com\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			request := []byte(text)
			b.SetBytes(int64(len(request)))
			b.ReportAllocs()
			for b.Loop() {
				var r fastpath.Request
				if !r.Parse(request) {
					b.Fatal("declined")
				}
			}
		})
	}
}
