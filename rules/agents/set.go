package agents

import "math/bits"

// Set holds properties of a user agent. A condition of a rule holds a set as well, and
// the visitor's agent must have at least one property of it.
type Set uint32

// The properties of a user agent. An agent has at most one system and one browser. The
// systems of game consoles, televisions and rare telephones have no name here, and
// neither have browsers inside of apps.
//
// An iPad that asks for the pages of a desktop, which is its default, says that it is a
// Mac. With Safari it is taken for one; other browsers say that they are of iOS.
const (
	IOS     Set = 1 << iota // also of iPads
	Android                 // telephones, tablets and televisions
	Mobile                  // a telephone or a tablet
	Tablet                  // a tablet, which is mobile too
	Desktop                 // a browser on another computer
	Windows                 // not of telephones
	MacOS
	Linux // neither Android nor ChromeOS
	ChromeOS
	Chrome // no other browser with its engine
	Firefox
	Edge
	Safari
	Opera          // also Opera Mini
	AndroidBrowser // the browser of old Androids
	Samsung        // Samsung Internet
	Bot            // software; its other properties are those that it claims
	Preview        // a bot that fetches previews for chats and social networks, because a person has posted the link
)

// setNames are the words of users, in the order of the constants. Except for tablet,
// samsung, bot and preview they are Shlink's, where mobile includes tablets as well.
var setNames = [...]string{
	"ios", "android", "mobile", "tablet", "desktop", "windows", "macos", "linux", "chromeos",
	"chrome", "firefox", "edge", "safari", "opera", "android_browser", "samsung", "bot", "preview",
}

// Named returns the property that users call name, and false without such a property.
func Named(name string) (Set, bool) {
	for i, n := range setNames {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// Names returns the names of all properties in the set, in the order of the constants.
func (s Set) Names() []string {
	names := make([]string, 0, bits.OnesCount32(uint32(s)))
	for i, n := range setNames {
		if s&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}
