package rules

import "waypost"

// Limited reports whether an answer takes a click of an exact budget.
func Limited(res *waypost.Resolution) bool {
	return res.Link && res.Budget == BudgetExact
}

// RefusesBot reports whether an edge answers a user agent 403 in place of a redirect:
// granted clicks are for visitors, and software that says so is none.
func RefusesBot(res *waypost.Resolution, agent []byte) bool { return Limited(res) && IsBot(agent) }

// IsBot reports whether a user agent says that it is automatic: a fetcher of link
// previews, a crawler, a monitor. These say so in their name (bot, crawler, spider,
// preview, monitor) or with the address of a page or of a person, which no browser has.
// Software that poses as a browser is taken for one.
func IsBot(agent []byte) bool {
	if saysWhatsApp(agent) {
		return true
	}
	var before landmark
	for i, c := range agent {
		l := landmarks[c]
		if before&botLandmarks&(l>>follow) != 0 && wordsAt(agent, i-1).has(wordBot) {
			return true
		}
		before = l
	}
	return len(agent) > 0 && wordsAt(agent, len(agent)-1).has(wordBot)
}

// saysWhatsApp recognises the previews of WhatsApp and of Signal, which say nothing else.
func saysWhatsApp(agent []byte) bool {
	return fold(agent, 0, 0, "whatsapp/")
}

// previewNames begin the names of fetchers of previews, in lower case. Only bots are
// searched for them, because some are names of apps that people use.
var previewNames = [...]string{
	"bluesky", "cardyb",
	"discordbot",
	"embedly",
	"facebookexternalhit", "facebot", "meta-externalfetcher", // also iMessage, LINE and KakaoTalk
	"google-pagerenderer", // Google Chat
	"iframely",
	"lemmy", "mastodon", "misskey", "summalybot", // the Fediverse
	"linkedinbot",
	"mattermost", "nextcloud", "synapse", "zulip", // chats that people run on their own
	"odklbot",
	"pinterestbot",
	"redditbot",
	"skypeuripreview", // also Microsoft Teams
	"slackbot", "slack-imgproxy",
	"snapchat",
	"telegrambot",
	"twitterbot",
	"vkshare",
	"whatsapp", // also Signal
}

// previewsBy holds previewNames by their first letter.
var previewsBy = func() (t [256][]string) {
	for _, name := range previewNames {
		for _, c := range [...]byte{name[0], name[0] - 'a' + 'A'} {
			t[c] = append(t[c], name)
		}
	}
	return t
}()

// namesPreview reports whether a word begins with one of previewNames.
func namesPreview(agent []byte) bool {
	inside := false // of a word
	for i, c := range agent {
		letter := isNameByte[c]
		if letter && !inside {
			for _, name := range previewsBy[c] {
				if fold(agent, i, 0, name) {
					return true
				}
			}
		}
		inside = letter
	}
	return false
}
