package audience

// isBot reports whether a user agent says that it is automatic: a fetcher of link
// previews, a crawler, a monitor. These say so in their name (bot, crawler, spider,
// preview) or with the address of a page about them, which no browser has. Software that
// poses as a browser is taken for one.
//
// isBot scans the text once and looks closer only at the rarest byte of each word.
func isBot(agent []byte) bool {
	if hasFold(agent, 0, "whatsapp/") || hasFold(agent, 0, "mediapartners-google") {
		return true
	}
	for i, c := range agent {
		if !botByte[c] {
			continue
		}
		switch c {
		case 'b', 'B':
			if hasFold(agent, i, "bot") && !letterAt(agent, i+3) && !hasFold(agent, i-2, "cubot") { // a maker of telephones
				return true
			}
		case ':':
			if hasFold(agent, i-4, "http:") || hasFold(agent, i-5, "https:") {
				return true
			}
		case 'v', 'V':
			if hasFold(agent, i-3, "preview") {
				return true
			}
		case 'w', 'W':
			if hasFold(agent, i-3, "crawl") {
				return true
			}
		case 'd', 'D':
			if hasFold(agent, i-3, "spider") || hasFold(agent, i-3, "headless") {
				return true
			}
		case 'x', 'X':
			if hasFold(agent, i-1, "externalhit") {
				return true
			}
		case '-':
			if hasFold(agent, i-6, "google-") || hasFold(agent, i, "-google") {
				return true
			}
		}
	}
	return false
}

// botByte are the bytes at which isBot looks closer.
var botByte = func() (t [256]bool) {
	for _, c := range []byte("bB:vVwWdDxX-") {
		t[c] = true
	}
	return t
}()

// hasFold reports whether s[at:] begins with lower, in any case. Lower is in lower case.
func hasFold(s []byte, at int, lower string) bool {
	if at < 0 || len(s)-at < len(lower) {
		return false
	}
	for i := range len(lower) {
		c := s[at+i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func letterAt(s []byte, at int) bool {
	return at < len(s) && 'a' <= s[at]|0x20 && s[at]|0x20 <= 'z'
}
