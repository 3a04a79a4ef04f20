package rules

import (
	"math/bits"

	"waypost"
)

// AgentSet holds properties of a user agent. A condition holds a set as well, and
// the visitor's agent must have at least one property of it.
type AgentSet uint32

// The properties of a user agent. An agent has at most one system and one browser. The
// systems of game consoles, televisions and rare telephones have no name here, and
// neither have browsers inside of apps.
//
// An iPad that asks for the pages of a desktop, which is its default, says that it is a
// Mac. With Safari it is taken for one; other browsers say that they are of iOS.
const (
	AgentIOS     AgentSet = 1 << iota // also of iPads
	AgentAndroid                      // telephones, tablets and televisions
	AgentMobile                       // a telephone or a tablet
	AgentTablet                       // a tablet, which is mobile too
	AgentDesktop                      // a browser on another computer
	AgentWindows                      // not of telephones
	AgentMacOS
	AgentLinux // neither Android nor ChromeOS
	AgentChromeOS
	AgentChrome // no other browser with its engine
	AgentFirefox
	AgentEdge
	AgentSafari
	AgentOpera          // also Opera Mini
	AgentAndroidBrowser // the browser of old Androids
	AgentSamsung        // Samsung Internet
	AgentBot            // as IsBot reports; its other properties are those that it claims
	AgentPreview        // a bot that fetches previews for chats and social networks, because a person has posted the link
)

// agentNames are the words of users, in the order of the constants. Except for tablet,
// samsung, bot and preview they are Shlink's, where mobile includes tablets as well.
var agentNames = [...]string{
	"ios", "android", "mobile", "tablet", "desktop", "windows", "macos", "linux", "chromeos",
	"chrome", "firefox", "edge", "safari", "opera", "android_browser", "samsung", "bot", "preview",
}

// AgentNamed returns the property that users call name, and false without such a
// property.
func AgentNamed(name string) (AgentSet, bool) {
	for i, n := range agentNames {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// Names returns the names of all properties in the set, in the order of the constants.
func (s AgentSet) Names() []string {
	names := make([]string, 0, bits.OnesCount32(uint32(s)))
	for i, n := range agentNames {
		if s&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

// ParseAgent returns the properties of a user agent. It reads at most
// [waypost.MaxAgent] bytes, as the click journal does, and does not allocate.
func ParseAgent(userAgent []byte) AgentSet {
	text := userAgent[:min(len(userAgent), waypost.MaxAgent)]
	const mozilla, opera = "Mozilla/", "Opera/"
	var found words
	switch {
	case at(text, 0, 0, mozilla):
		found = wordMozilla | wordsIn(text, len(mozilla))
	case at(text, 0, 0, opera):
		found = wordPresto | wordOpera | wordsIn(text, len(opera))
	default:
		found = wordsIn(text, 0)
	}
	set := found.system()
	set |= found.browser(set)
	if found.has(wordBot) || saysWhatsApp(text) {
		set |= AgentBot
		if namesPreview(text) {
			set |= AgentPreview
		}
	}
	return set
}

// system returns the system and the kind of device. Words that are unlike a system's own
// come first, because browsers claim to be like others.
func (w words) system() AgentSet {
	switch {
	case w.has(wordRarePhone):
		return AgentMobile
	case w.has(wordNoDevice):
		return 0
	case w.has(wordSilk):
		return AgentAndroid | w.androidDevice()
	case w.has(wordMac) && w.has(wordOnlyIOS): // an iPad that asks for the pages of a desktop
		return AgentIOS | AgentMobile | AgentTablet
	case w.has(wordMac):
		return AgentMacOS | w.desktop()
	case w.has(wordAndroid):
		return AgentAndroid | w.androidDevice()
	case w.has(wordIPad):
		return AgentIOS | AgentMobile | AgentTablet
	case w.has(wordIPhone):
		return AgentIOS | AgentMobile
	case w.has(wordWindows):
		return AgentWindows | w.desktop()
	case w.has(wordChromeOS):
		return AgentChromeOS | w.desktop()
	case w.has(wordLinux):
		return AgentLinux | w.desktop()
	case w.has(wordX11):
		return w.desktop()
	case w.has(wordOperaMini): // on telephones whose system has no name
		return AgentMobile
	}
	return 0
}

// desktop distinguishes browsers from tools that name their system.
func (w words) desktop() AgentSet {
	if w.has(wordMozilla | wordPresto) {
		return AgentDesktop
	}
	return 0
}

// androidDevice distinguishes telephones, with browsers that say Mobile, from tablets,
// with browsers that do not, and from televisions.
func (w words) androidDevice() AgentSet {
	switch {
	case w.has(wordTelevision):
		return 0
	case w.has(wordTablet), w.has(wordMozilla) && !w.has(wordMobile):
		return AgentMobile | AgentTablet
	}
	return AgentMobile
}

// browser returns the browser on a system. Almost every browser claims to be Chrome or
// Safari as well, so that these come last.
func (w words) browser(system AgentSet) AgentSet {
	switch {
	case w.has(wordApp):
		return 0
	case w.has(wordOpera):
		return AgentOpera
	case w.has(wordEdge):
		return AgentEdge
	case w.has(wordSamsung):
		return AgentSamsung
	case w.has(wordOtherBrowser):
		return 0
	case system&AgentAndroid != 0 && w.has(wordWebView):
		return 0
	case system&AgentAndroid != 0 && w.has(wordVersion4) && !w.has(wordChrome):
		return AgentAndroidBrowser
	case w.has(wordChrome):
		return AgentChrome
	case w.has(wordFirefox):
		return AgentFirefox
	case w.has(wordSafari) && system&(AgentIOS|AgentMacOS|AgentWindows) != 0: // elsewhere another program with its engine
		return AgentSafari
	}
	return 0
}
