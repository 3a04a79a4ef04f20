package rules

// words are found in the text of a user agent.
type words uint32

const (
	wordMozilla    words = 1 << iota // it begins like a browser
	wordPresto                       // it begins like an old Opera
	wordBot                          // says that it is automatic
	wordRarePhone                    // a telephone whose system has no name here
	wordNoDevice                     // a console or a television of its own kind
	wordTelevision                   // an Android that is one
	wordAndroid
	wordSilk // the browser of Amazon's Androids
	wordIPhone
	wordIPad
	wordMac
	wordOnlyIOS // a product that exists on iOS alone
	wordWindows
	wordChromeOS
	wordLinux
	wordX11 // a Unix
	wordTablet
	wordMobile
	wordWebView  // inside an app
	wordVersion4 // Version/4.0
	wordApp      // an app that shows pages
	wordOpera
	wordOperaMini
	wordEdge
	wordSamsung
	wordOtherBrowser
	wordChrome
	wordFirefox
	wordSafari
)

func (w words) has(word words) bool { return w&word != 0 }

// landmark describes a byte. Each word has one byte, its landmark, at which wordsAt
// looks closer if the next byte may follow there. The low half of a landmark has a bit
// for its kind, and the high half the kinds that the byte may follow.
type landmark uint32

const follow = 16

// botLandmarks are the kinds at which wordsAt finds bots.
const botLandmarks landmark = 1<<7 - 1

var landmarks = func() (t [256]landmark) {
	var all, ends string
	for c := range 256 {
		b := []byte{byte(c)}
		all += string(b)
		if endsAt(b, 0) {
			ends += string(b)
		}
	}
	for kind, l := range [...]struct{ bytes, followers string }{
		{"bB", "oOilBR"},
		{":@", all},
		{"vVmM", "iIkKoOyYeE" + ends},
		{"wW", "lLive"},
		{"dDkK", "eElLyYoO"},
		{"xXpP", "tT1" + ends},
		{"-", all},
		// The others lead to no bots.
		{"/", all},
		{"A", "n"},
		{"C", "r"},
		{"F", "T"},
		{"M", "aS"},
		{"N", "i"},
		{"O", "p"},
		{"P", "haol"},
		{"yz", "Ome "},
	} {
		for _, c := range []byte(l.bytes) {
			t[c] |= 1 << kind
		}
		for _, c := range []byte(l.followers) {
			t[c] |= 1 << kind << follow
		}
	}
	return t
}()

// wordsIn returns the words in text[start:].
func wordsIn(text []byte, start int) (found words) {
	var before landmark
	for i := start; i < len(text); i++ {
		l := landmarks[text[i]]
		if before&(l>>follow) != 0 {
			found |= wordsAt(text, i-1)
		}
		before = l
	}
	if start < len(text) {
		found |= wordsAt(text, len(text)-1)
	}
	return found
}

// wordsAt returns the words that have their landmark at text[i].
func wordsAt(text []byte, i int) words {
	switch text[i] {
	case '/':
		return productAt(text, i)
	case 'b', 'B':
		switch {
		case fold(text, i, 0, "bot"):
			if !letterAt(text, i+3) && !fold(text, i, -2, "cubot") { // a maker of telephones
				return wordBot
			}
		case at(text, i, -2, "Mobi"):
			return wordMobile
		case at(text, i, -2, "Tablet"):
			return wordTablet
		case at(text, i, 0, "BB10"), at(text, i, 0, "BlackBerry"):
			return wordRarePhone | wordOtherBrowser
		case at(text, i, 0, "BRAVIA"):
			return wordTelevision
		case at(text, i, -1, "Xbox"):
			return wordNoDevice
		}
	case ':':
		if fold(text, i, -4, "http:") || fold(text, i, -5, "https:") || fold(text, i, -6, "mailto:") {
			return wordBot
		}
	case '@':
		if letterAt(text, i+1) { // an e-mail address
			return wordBot
		}
	case 'v', 'V':
		switch {
		case fold(text, i, -3, "preview"), fold(text, i, 0, "vkshare"):
			return wordBot
		case at(text, i, -1, "TV") && endsAt(text, i+1):
			return wordTelevision
		}
	case 'w', 'W':
		switch {
		case fold(text, i, -3, "crawl"):
			return wordBot
		case at(text, i, 0, "Windows"):
			switch {
			case at(text, i, 7, " NT"), at(text, i, 7, " 9"):
				return wordWindows
			case at(text, i, 7, " Phone"), at(text, i, 7, " Mobile"):
				return wordRarePhone
			}
		case at(text, i, -2, "; wv)"):
			return wordWebView
		case at(text, i, 0, "Web0S"), at(text, i, 0, "webOS"):
			return wordNoDevice | wordOtherBrowser
		}
	case 'd', 'D':
		switch {
		case fold(text, i, -3, "spider"), fold(text, i, -3, "headless"), fold(text, i, -3, "cardyb"), fold(text, i, -4, "embedly"),
			fold(text, i, -5, "mastodon"):
			return wordBot
		}
	case 'x', 'X':
		switch {
		case fold(text, i, -4, "linux") && endsAt(text, i+1):
			return wordLinux
		case fold(text, i, -1, "externalhit"), fold(text, i, -2, "nextcloud"):
			return wordBot
		case at(text, i, 0, "X11"):
			return wordX11
		}
	case '-':
		if fold(text, i, -6, "google-") || fold(text, i, 0, "-google") ||
			fold(text, i, -4, "meta-external") || fold(text, i, -5, "slack-imgproxy") {
			return wordBot
		}
	case 'A':
		if at(text, i, 0, "Android") {
			return wordAndroid
		}
	case 'C':
		switch {
		case at(text, i, 0, "CrOS"):
			return wordChromeOS
		case at(text, i, 0, "CrKey"):
			return wordTelevision
		}
	case 'F':
		if at(text, i, -3, "; AFT") {
			return wordTelevision
		}
	case 'k', 'K':
		if fold(text, i, -4, "misskey") || fold(text, i, -8, "statuscake") || fold(text, i, -4, "checker") {
			return wordBot
		}
	case 'm', 'M':
		switch {
		case fold(text, i, 0, "monitor"), fold(text, i, -2, "lemmy"), fold(text, i, -3, "lemmy"), fold(text, i, -4, "iframely"):
			return wordBot
		case at(text, i, 0, "Macintosh"):
			return wordMac
		case at(text, i, 0, "MSIE "):
			return wordOtherBrowser
		}
	case 'N':
		if at(text, i, 0, "Nintendo") {
			return wordNoDevice | wordOtherBrowser
		}
	case 'O':
		switch {
		case at(text, i, 0, "Opera Mini/"):
			return wordOpera | wordOperaMini
		case at(text, i, 0, "Opera "):
			return wordOpera
		}
	case 'p', 'P':
		switch {
		case fold(text, i, -1, "uptime"):
			return wordBot
		case at(text, i, -1, "iPhone"), at(text, i, -1, "iPod"):
			return wordIPhone
		case at(text, i, -1, "iPad"):
			return wordIPad
		case at(text, i, 0, "PlayStation"):
			return wordNoDevice | wordOtherBrowser
		}
	case 'y':
		if at(text, i, -1, "SymbianOS") || at(text, i, -1, "SymbOS") || at(text, i, -6, "HarmonyOS") || at(text, i, -6, "Harmony ") {
			return wordRarePhone
		}
	case 'z':
		if at(text, i, -2, "Tizen") {
			return wordNoDevice
		}
	}
	return 0
}

// maxProduct bounds the name of a product that productAt knows.
const maxProduct = len("SamsungBrowser")

// productAt returns the words that stand for the product with a name that ends at the
// slash at text[i].
func productAt(text []byte, i int) words {
	start := i
	for start > 0 && i-start <= maxProduct && isNameByte[text[start-1]] {
		start--
	}
	switch string(text[start:i]) {
	case "Chrome":
		return wordChrome
	case "CriOS":
		return wordChrome | wordOnlyIOS
	case "Safari":
		return wordSafari
	case "Firefox":
		return wordFirefox
	case "FxiOS":
		return wordFirefox | wordOnlyIOS
	case "Edg", "EdgA", "Edge":
		return wordEdge
	case "EdgiOS":
		return wordEdge | wordOnlyIOS
	case "OPR", "OPX", "Opera":
		return wordOpera
	case "OPT", "OPiOS":
		return wordOpera | wordOnlyIOS // OPT also on Android, which no Macintosh is
	case "SamsungBrowser":
		return wordSamsung
	case "Version":
		if at(text, i, 1, "4.0") {
			return wordVersion4
		}
	case "KAIOS":
		return wordRarePhone
	case "Silk":
		return wordSilk | wordOtherBrowser
	case "FBAN", "FBAV", "FB_IAB", "GSA", "Line", "MicroMessenger", "Reddit", "Slack", "Snapchat", "Teams", "Thunderbird",
		"discord", "Discord":
		return wordApp
	case "Chromium", "Ddg", "DuckDuckGo", "Epiphany", "Focus", "HuaweiBrowser", "IEMobile", "Iceweasel", "Klar", "Konqueror",
		"Maxthon", "Midori", "MiuiBrowser", "PaleMoon", "Puffin", "QQBrowser", "SeaMonkey", "Trident", "UCBrowser", "UCWEB",
		"Vivaldi", "Waterfox", "Whale", "YaBrowser":
		return wordOtherBrowser
	}
	return 0
}

// isNameByte holds the bytes that the names of known products consist of.
var isNameByte = func() (t [256]bool) {
	for c := byte('a'); c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	t['_'] = true
	return t
}()

// at reports whether word begins at text[i+by].
func at(text []byte, i, by int, word string) bool {
	i += by
	return i >= 0 && len(text)-i >= len(word) && string(text[i:i+len(word)]) == word
}

// fold reports whether word, which is ASCII without upper case, begins at text[i+by] in
// any case.
func fold(text []byte, i, by int, word string) bool {
	i += by
	if i < 0 || len(text)-i < len(word) {
		return false
	}
	for k := range len(word) {
		if c := text[i+k]; c != word[k] && (c|0x20 != word[k] || !letterAt(text, i+k)) {
			return false
		}
	}
	return true
}

func letterAt(text []byte, i int) bool {
	return i < len(text) && 'a' <= text[i]|0x20 && text[i]|0x20 <= 'z'
}

// endsAt reports whether a word ends before text[i], which is neither a letter nor a
// digit.
func endsAt(text []byte, i int) bool {
	return i >= len(text) || !letterAt(text, i) && (text[i] < '0' || text[i] > '9')
}
