package audience

import (
	"strings"

	"github.com/mileusna/useragent"

	"waypost/rules"
)

// The kinds of devices.
const (
	deviceDesktop = "desktop"
	deviceMobile  = "mobile"
	deviceTablet  = "tablet"
	deviceBot     = "bot"
	deviceUnknown = "unknown"
)

// agent describes a user agent. All its texts are from the tables in this package, so
// that a client cannot add to them.
type agent struct {
	device, browser, os string // as of a person
	bot                 bool
}

// parseAgent reads a user agent. The tables correct the library's mistakes. Neither a
// client's input nor a fault of the library may end the process: report gets the value of
// a panic, and its goroutine's stack is that of the panic.
func parseAgent(text string, report func(panicked any)) (is agent) {
	defer func() {
		if p := recover(); p != nil {
			is = agent{device: deviceUnknown}
			report(p)
		}
	}()
	ua := useragent.Parse(text)
	set := rules.ParseAgent([]byte(text))
	is.os = systemOf(text, &ua)
	for _, s := range systems { // rules decide
		if set&s.is != 0 {
			is.os = s.name
		}
	}
	is.browser = browserOf(text, &ua, is.os)
	is.device, is.bot = deviceOf(set), set&rules.AgentBot != 0
	return is
}

// systems are the names of systems that rules know.
var systems = [...]struct {
	is   rules.AgentSet
	name string
}{
	{rules.AgentIOS, useragent.IOS},
	{rules.AgentAndroid, useragent.Android},
	{rules.AgentWindows, useragent.Windows},
	{rules.AgentMacOS, useragent.MacOS},
	{rules.AgentLinux, useragent.Linux},
	{rules.AgentChromeOS, useragent.ChromeOS},
}

// nameOfBot returns the name of a bot, "" if it is unknown.
func nameOfBot(text string) string { return find(botNames, strings.ToLower(text)) }

// systemOf returns the operating system, "" if it is unknown.
func systemOf(text string, ua *useragent.UserAgent) string {
	if os := find(systemTokens, text); os != "" {
		return os
	}
	if os := systemNames[ua.OS]; os != "" {
		return os
	}
	switch {
	case strings.Contains(text, "Android"): // where apps put it
		return useragent.Android
	case strings.Contains(text, "-linux"), strings.Contains(text, "linux-"): // and tools
		return useragent.Linux
	}
	return ""
}

// browserOf returns the browser, the app that shows the page, or the tool.
func browserOf(text string, ua *useragent.UserAgent, os string) string {
	if name := find(browserTokens, text); name != "" {
		return name
	}
	switch {
	case os == "webOS" || os == "PlayStation" || os == "Nintendo":
		return "" // the built-in browser, whatever it resembles
	case os == useragent.Android && strings.Contains(text, "; wv)"):
		return "Android WebView"
	case os == useragent.Android && strings.Contains(text, "Version/4.0") && !strings.Contains(text, "Chrome/"):
		return "Android Browser"
	case os == useragent.IOS && strings.Contains(text, "AppleWebKit/") && !strings.Contains(text, "Safari/"):
		return "iOS WebView"
	case strings.Contains(text, "Chrome/"):
		return useragent.Chrome // which the library takes for any other product in the line
	case ua.Name == useragent.Safari && os != useragent.MacOS && os != useragent.IOS && os != useragent.Windows:
		return "" // some other program with its engine
	}
	return browserNames[ua.Name]
}

// deviceOf returns the kind of device, as rules know it.
func deviceOf(set rules.AgentSet) string {
	switch {
	case set&rules.AgentTablet != 0:
		return deviceTablet
	case set&rules.AgentMobile != 0:
		return deviceMobile
	case set&rules.AgentDesktop != 0:
		return deviceDesktop
	}
	return deviceUnknown
}

// token is a name for agents that hold part.
type token struct{ part, name string }

// find returns the name of the first token that is a part of text.
func find(tokens []token, text string) string {
	for _, t := range tokens {
		if strings.Contains(text, t.part) {
			return t.name
		}
	}
	return ""
}
