package corpus

import "math/rand/v2"

// Visits returns the codes of count visits to links 0 to links-1, one behind the other.
func Visits(links uint64, count int) []byte {
	codes := make([]byte, 0, count*CodeLength)
	for range count {
		codes = AppendCode(codes, rand.Uint64N(links))
	}
	return codes
}

// Head begins every request; the code follows, and then Tail.
const Head = "GET /"

// Tail has the 13 lines that Firefox sends when a link in a page is followed.
const Tail = " HTTP/1.1\r\nHost: wayp.example\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n" +
	"Accept-Language: en-US,en;q=0.5\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
	"Referer: https://news.example.org/2026/11/a-list-of-links\r\n" +
	"Connection: keep-alive\r\n" +
	"Upgrade-Insecure-Requests: 1\r\n" +
	"Sec-Fetch-Dest: document\r\n" +
	"Sec-Fetch-Mode: navigate\r\n" +
	"Sec-Fetch-Site: cross-site\r\n" +
	"Sec-Fetch-User: ?1\r\n" +
	"Priority: u=0, i\r\n\r\n"
