package agents

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"sync"
)

// signs are properties of a text from which those of an agent follow.
type signs uint32

const (
	signSoftware signs = 1 << iota // says that it is a bot
	signPreview                    // has the name of a fetcher of previews
	signOnlyIOS                    // a product that exists on iOS alone
	signView                       // inside an app
	signVersion4                   // Version/4.0
	signChrome
	signFirefox
	signSafari
	signWebKit
	signMobile
	signTablet
	signTelevision
	signTizen
	signApp // a program for people that need not name a system
)

// signNames are the signs in names.txt.
var signNames = map[string]signs{
	"only ios": signOnlyIOS, "view": signView, "version 4": signVersion4, "chrome": signChrome, "firefox": signFirefox,
	"safari": signSafari, "webkit": signWebKit, "mobile": signMobile, "tablet": signTablet, "television": signTelevision,
	"tizen": signTizen, "app": signApp, "software": signSoftware, "preview": signPreview,
}

// Classifier classifies user agents. Many goroutines may use one at once. The nil
// Classifier knows the words of this package, and no others.
type Classifier struct {
	automaton               *automaton
	systems, browsers, bots []entry
}

// Agent is a classified user agent.
type Agent struct {
	Set     Set
	System  string // such as iOS; "": unknown
	Browser string // such as Chrome, the app that shows the page, or the name of a bot; "": unknown
}

// Device returns the kind of device: desktop, mobile, tablet, bot or unknown.
func (a *Agent) Device() string {
	switch {
	case a.Set&Bot != 0:
		return "bot"
	case a.Set&Tablet != 0:
		return "tablet"
	case a.Set&Mobile != 0:
		return "mobile"
	case a.Set&Desktop != 0:
		return "desktop"
	}
	return "unknown"
}

// packaged is the classifier that knows the words of this package alone.
var packaged = sync.OnceValue(func() *Classifier {
	c, err := New(nil)
	if err != nil {
		panic(err) // the files are part of the program
	}
	return c
})

// New makes a classifier that also takes agents for bots in which one of own occurs, in
// any case.
func New(own []string) (*Classifier, error) {
	c := new(Classifier)
	entries, err := readNames()
	if err != nil {
		return nil, err
	}
	bots, err := readBots()
	if err != nil {
		return nil, err
	}
	var all []pattern
	put := func(marks []mark, f find) {
		for _, m := range marks {
			all = append(all, pattern{m, f})
		}
	}
	for _, e := range entries {
		f := nothing
		switch e.kind {
		case "system":
			f.system = uint8(len(c.systems))
			c.systems = append(c.systems, e)
		case "browser":
			f.browser = uint8(len(c.browsers))
			c.browsers = append(c.browsers, e)
		case "bot":
			f.name = uint8(len(c.bots))
			c.bots = append(c.bots, e)
		default:
			if f.signs = signNames[cmp.Or(e.name, e.kind)]; f.signs == 0 {
				return nil, fmt.Errorf("names.txt has the unknown sign %q", e.name)
			}
		}
		put(e.marks, f)
	}
	software := nothing
	software.signs = signSoftware
	put(bots, software)
	for _, text := range own {
		m := mark{text: strings.ToLower(strings.TrimSpace(text))}
		if len(m.text) < minOwn || len(m.text) > maxMark {
			return nil, fmt.Errorf("%q has fewer than %d or more than %d bytes", text, minOwn, maxMark)
		}
		put([]mark{m}, software)
	}
	c.automaton, err = build(all)
	return c, err
}

// minOwn bounds the marks of an operator, in bytes, because a letter is in every agent.
const minOwn = 3

// IsBot reports whether a user agent says that it is software: a crawler, a monitor, a
// fetcher of link previews, a library or a tool. These have a name that the lists know,
// the address of a page or of a person, or begin in no way in which a browser does.
// Software that poses as a browser is taken for one. It does not allocate.
func (c *Classifier) IsBot(userAgent []byte) bool {
	if c == nil {
		c = packaged()
	}
	f := c.automaton.scan(userAgent, signSoftware)
	return f.software(userAgent)
}

// Classify returns what a user agent says of itself. It reads at most [waypost.MaxAgent]
// bytes, as the click journal keeps, and does not allocate.
func (c *Classifier) Classify(userAgent []byte) (is Agent) {
	if c == nil {
		c = packaged()
	}
	f := c.automaton.scan(userAgent, 0)
	var system, browser *entry
	if f.system != none {
		system = &c.systems[f.system]
	}
	if f.browser != none {
		browser = &c.browsers[f.browser]
	}
	is.Set, is.System = f.systemOf(system, userAgent)
	is.Browser = f.browserOf(browser, &is)
	if f.software(userAgent) {
		is.Set |= Bot
		is.Browser = ""
		if f.name != none {
			is.Browser = c.bots[f.name].name
		}
		if f.signs&signPreview != 0 {
			is.Set |= Preview
		}
	}
	return is
}

// isMozilla reports whether an agent begins like all browsers of today.
func isMozilla(userAgent []byte) bool { return bytes.HasPrefix(userAgent, []byte("Mozilla/")) }

// isBrowser reports whether an agent begins like a browser.
func isBrowser(userAgent []byte) bool {
	return isMozilla(userAgent) || bytes.HasPrefix(userAgent, []byte("Opera/"))
}

// software reports whether an agent says that it is software, or neither begins like a
// browser nor names a system or a device. A name behind "compatible" without a system and
// without the engine of a browser is software.
func (f *find) software(userAgent []byte) bool {
	if f.signs&signSoftware != 0 {
		return true
	}
	return f.system == none && f.browser == none && f.signs&(signApp|signMobile|signWebKit) == 0 && hasLetter(userAgent) &&
		(!isBrowser(userAgent) || bytes.HasPrefix(userAgent, []byte("Mozilla/5.0 (compatible; ")))
}

func hasLetter(text []byte) bool {
	for _, c := range text {
		if kinds[c] == letter {
			return true
		}
	}
	return false
}

// systemOf returns the system and the kind of device.
func (f *find) systemOf(e *entry, userAgent []byte) (set Set, name string) {
	if e == nil {
		return 0, ""
	}
	set, name = e.properties, e.name
	switch {
	case set&MacOS != 0 && f.signs&(signOnlyIOS|signMobile) != 0: // an iPad that asks for the pages of a desktop
		return IOS | Mobile | Tablet, "iOS"
	case set&Android != 0:
		return set | f.androidDevice(isMozilla(userAgent)), name
	case !isBrowser(userAgent): // a tool that names its system
		set &^= Desktop
	}
	return set, name
}

// androidDevice distinguishes telephones, with browsers that say Mobile, from tablets,
// with browsers that do not, and from televisions.
func (f *find) androidDevice(mozilla bool) Set {
	switch {
	case f.signs&signTelevision != 0:
		return 0
	case f.signs&signTablet != 0, mozilla && f.signs&signMobile == 0:
		return Mobile | Tablet
	}
	return Mobile
}

// browserOf returns the browser, or the app that shows the page, and adds its property.
// Almost every browser claims to be Chrome or Safari as well, so that these come last.
func (f *find) browserOf(e *entry, is *Agent) string {
	android, ios := is.Set&Android != 0, is.Set&IOS != 0
	switch {
	case e != nil:
		is.Set |= e.properties
		return e.name
	case android && f.signs&signView != 0:
		return "Android WebView"
	case android && f.signs&signVersion4 != 0 && f.signs&signChrome == 0:
		is.Set |= AndroidBrowser
		return "Android Browser"
	case ios && f.signs&signWebKit != 0 && f.signs&(signSafari|signChrome|signFirefox) == 0:
		return "iOS WebView"
	case f.signs&signChrome != 0:
		is.Set |= Chrome
		return "Chrome"
	case f.signs&signFirefox != 0:
		is.Set |= Firefox
		return "Firefox"
	case f.signs&signSafari != 0 && is.Set&(IOS|MacOS|Windows) != 0: // elsewhere another program with its engine
		is.Set |= Safari
		return "Safari"
	}
	return ""
}
