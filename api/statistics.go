package api

import "time"

// ShortStats counts the clicks of a link in all time.
type ShortStats struct {
	ShortCode      string     `json:"short_code"`
	OriginalURL    string     `json:"original_url"`
	ClickCount     int64      `json:"click_count" minimum:"0"`
	BotClicks      int64      `json:"bot_clicks" minimum:"0" doc:"Of these, by bots: software whose user agent (its first 512 bytes) has a text of the public lists crawler-user-agents and isbot or of the operator, or a web or e-mail address, or neither begins like a browser's nor names a system or a device. Link previews, search engines, monitors and libraries are bots; software that poses as a browser is not."`
	CreatedAt      time.Time  `json:"created_at"`
	LastAccessedAt *time.Time `json:"last_accessed_at" doc:"Time of the newest click; null without one."`
}

// LinkStats are the statistics of a link.
type LinkStats struct {
	ShortCode      string     `json:"short_code"`
	OriginalURL    string     `json:"original_url"`
	CreatedAt      time.Time  `json:"created_at"`
	LastAccessedAt *time.Time `json:"last_accessed_at" doc:"Time of the newest click ever; null without one."`
	ClickStats
	Rules           []Named         `json:"rules" doc:"By the id of the rule that matched; none where none did."`
	Variants        []VariantClicks `json:"variants" doc:"Clicks that a rule's split has sent to each of its variants, by the ids of rule and variant. Other clicks are not among them."`
	Annotations     []Annotation    `json:"annotations" doc:"Changes of the link in the range, newest first, at most 100."`
	AnnotationsMore bool            `json:"annotations_more" doc:"There are older changes in the range."`
	Codes           []CodeClicks    `json:"codes" doc:"By the short address that was asked for, without a scheme: the link's own, and its aliases, also those that were removed."`
}

// Annotation is a change of a link, which may explain a change of its clicks.
type Annotation struct {
	T       time.Time `json:"t"`
	Changes []string  `json:"changes" enum:"target,rules,state,expiry,deleted,restored,expired" doc:"target: original_url. state: active. expiry: expires_at or valid_from. expired: the link has reached expires_at."`
	By      *Changer  `json:"by" doc:"Null when unknown, and for keys that may not read links."`
}

// ComparedClicks are the clicks of another time than that of the statistics.
type ComparedClicks struct {
	From           time.Time  `json:"from" doc:"Start of the time, in the time zone."`
	To             time.Time  `json:"to" doc:"End of the time, exclusive."`
	Clicks         int64      `json:"clicks" minimum:"0"`
	BotClicks      int64      `json:"bot_clicks" minimum:"0" doc:"Of these, by bots."`
	UniqueVisitors int64      `json:"unique_visitors" minimum:"0" doc:"Of the UTC days that the time touches, as those of the range."`
	UniqueBots     int64      `json:"unique_bots" minimum:"0" doc:"Of these, bots."`
	CompleteUntil  *time.Time `json:"complete_until" doc:"All clicks before this time are counted; null when unknown."`
	Behind         []string   `json:"behind" doc:"Nodes whose clicks may be missing in the time."`
	Series         []Bucket   `json:"series" doc:"In steps like those of the range, of which there may be more or fewer, as in months of other lengths."`
	Change         Change     `json:"change"`
}

// Change compares the clicks of two times, as far as they are complete.
type Change struct {
	Steps  int      `json:"steps" minimum:"0" doc:"First steps of the range that are compared: all when both times are complete, and else as many as are complete in both."`
	Clicks int64    `json:"clicks" minimum:"0" doc:"Of the range, in these steps."`
	Before int64    `json:"before" minimum:"0" doc:"Of the other time, in as many steps, or in all when both times are complete."`
	Share  *float64 `json:"share" doc:"Clicks divided by before, less one: 0.25 is a quarter more. Null without clicks before."`
}

// VariantClicks counts the clicks that a rule's split has sent to one of its variants.
type VariantClicks struct {
	Rule     string    `json:"rule" doc:"Id of the rule."`
	Name     string    `json:"name" doc:"Id of the variant."`
	Clicks   int64     `json:"clicks" minimum:"0" doc:"Bots included."`
	Share    float64   `json:"share" minimum:"0" maximum:"1" doc:"Part of the clicks that the rule's split has sent to any variant. It shows how the split works, and says nothing about what visitors did afterwards."`
	Interval []float64 `json:"interval" minItems:"2" maxItems:"2" doc:"The 95 % interval of the share by Wilson's score: lower and upper bound. It takes clicks as independent of each other, so that it is too narrow where few visitors click often."`
}

// UnknownAddresses are the addresses of a domain that visitors asked for and that name no
// link.
type UnknownAddresses struct {
	From      string           `json:"from" doc:"First day, in UTC."`
	To        string           `json:"to" doc:"Last day, in UTC, included."`
	Addresses []UnknownAddress `json:"addresses" doc:"Most visits of people first. An address is among them on days on which five different people asked for it, and not once a link or a pattern answers it; an address that a pattern has answered stays."`
}

// UnknownAddress counts the visits of an address on the days on which it is shown.
type UnknownAddress struct {
	Path    string       `json:"path" doc:"As a code is written: without its first slash and the query."`
	People  int64        `json:"people" minimum:"0" doc:"Visits that were not by bots."`
	Pattern bool         `json:"pattern" doc:"A pattern of the domain answered. Otherwise the address led nowhere."`
	Bots    int64        `json:"bots" minimum:"0" doc:"Visits by bots, after the first person of the day on each edge."`
	Days    []UnknownDay `json:"days" doc:"The same by day, the first one first."`
}

// UnknownDay counts the visits of an address on a day.
type UnknownDay struct {
	Day    string `json:"day" doc:"UTC."`
	People int64  `json:"people" minimum:"0"`
	Bots   int64  `json:"bots" minimum:"0"`
}

// WorkspaceStats are the statistics of all links of a workspace, or of a group of them.
type WorkspaceStats struct {
	Links *int64 `json:"links,omitzero" doc:"Of a group: the number of its links."`
	KeptAnswer
	ClickStats
	Top      []TopLink `json:"top" doc:"The links with the most clicks from breakdown_from to breakdown_to, most first. Their numbers are exact."`
	TopExact bool      `json:"top_exact" doc:"True when no other link has more clicks than the last of top. The 1,000 links with the most clicks are known for each day; the value is false where clicks are spread so evenly over more links that others may have as many, and while very many clicks wait to be added to their days."`
}

// KeptAnswer describes the age of an answer that was counted before it was asked for.
type KeptAnswer struct {
	CountedAt  *time.Time `json:"counted_at,omitzero" doc:"Of an answer about very many links, which is counted in the background: the moment of the count. It has the links, tags and clicks of that moment, and is counted again when it is asked for."`
	Rebuilding bool       `json:"rebuilding,omitzero" doc:"True while such an answer is being counted again."`
}

// ClickStats are the statistics of a link or a workspace in a time range.
type ClickStats struct {
	From     time.Time `json:"from" doc:"Start of the range, in its time zone."`
	To       time.Time `json:"to" doc:"End of the range, exclusive."`
	Interval string    `json:"interval" enum:"hour,day,week,month"`
	TZ       string    `json:"tz" example:"Europe/Berlin"`
	Since    time.Time `json:"since,omitzero" doc:"Moment from which hours, or days of 24 hours, are counted: the requested one, rounded down to a quarter of an hour."`

	Clicks         int64 `json:"clicks" minimum:"0" doc:"Counted GET requests in the range."`
	BotClicks      int64 `json:"bot_clicks" minimum:"0" doc:"Of these, by bots: software whose user agent (its first 512 bytes) has a text of the public lists crawler-user-agents and isbot or of the operator, or a web or e-mail address, or neither begins like a browser's nor names a system or a device. Link previews, search engines, monitors and libraries are bots; software that poses as a browser is not."`
	UniqueVisitors int64 `json:"unique_visitors" minimum:"0" doc:"Number of different visitors from breakdown_from to breakdown_to, bots included, estimated within about 2 %. Visitors are distinguished within a UTC day only: a visitor who returns on another day counts again."`
	UniqueBots     int64 `json:"unique_bots" minimum:"0" doc:"Of these, bots."`
	TotalClicks    int64 `json:"total_clicks" minimum:"0" doc:"In all time."`
	TotalBotClicks int64 `json:"total_bot_clicks" minimum:"0" doc:"Of these, by bots."`

	CompleteUntil *time.Time `json:"complete_until" doc:"All clicks before this time are counted; null when unknown."`
	Behind        []string   `json:"behind" doc:"Nodes whose clicks may be missing in the range."`

	Series []Bucket `json:"series" doc:"One entry for each step, in order, also without clicks."`

	Compared *ComparedClicks `json:"compared,omitzero" doc:"Clicks of the time that was asked for to compare with."`

	Named *NamedSeries `json:"named,omitzero" doc:"Clicks of the requested name by UTC day."`

	BreakdownFrom time.Time `json:"breakdown_from" doc:"Start of the first UTC day in the breakdowns."`
	BreakdownTo   time.Time `json:"breakdown_to" doc:"End of the last one."`
	Countries     []Named   `json:"countries" doc:"By ISO 3166-1 alpha-2 code; unknown without a database of places, or where it has no entry."`
	Cities        []Named   `json:"cities" doc:"By English name and country, such as Paris, FR."`
	Devices       []Named   `json:"devices" doc:"desktop, mobile, tablet, bot and unknown."`
	Browsers      []Named   `json:"browsers"`
	Systems       []Named   `json:"os" doc:"Operating systems."`
	Referrers     []Named   `json:"referrers" doc:"By host, including www.; direct without a referrer."`
	UTMSource     []Named   `json:"utm_source" doc:"By this parameter of the request, in lower case; none without it, and where the workspace does not count it."`
	UTMMedium     []Named   `json:"utm_medium" doc:"By this parameter, likewise."`
	UTMCampaign   []Named   `json:"utm_campaign" doc:"By this parameter, likewise."`
	UTMTerm       []Named   `json:"utm_term" doc:"By this parameter, likewise."`
	UTMContent    []Named   `json:"utm_content" doc:"By this parameter, likewise."`
}

// NamedSeries are the clicks of one name of a breakdown by day.
type NamedSeries struct {
	By      string     `json:"by" enum:"countries,cities,devices,browsers,os,referrers,rules,variants,codes,utm_source,utm_medium,utm_campaign,utm_term,utm_content"`
	Name    string     `json:"name"`
	Clicks  int64      `json:"clicks" minimum:"0"`
	AtLeast bool       `json:"at_least" doc:"There may be more clicks of the name among the others of a day that had more names than are kept."`
	Series  []NamedDay `json:"series" doc:"One entry for each UTC day from breakdown_from to breakdown_to."`
}

// NamedDay is the clicks of a name on a UTC day.
type NamedDay struct {
	T       time.Time `json:"t" doc:"Start of the day, in UTC."`
	Clicks  int64     `json:"clicks" minimum:"0"`
	AtLeast bool      `json:"at_least" doc:"There may be more clicks of the name among the others of the day."`
}

// Bucket counts the clicks of one step of a series.
type Bucket struct {
	T         time.Time `json:"t" doc:"Start of the step, in the time zone."`
	Clicks    int64     `json:"clicks" minimum:"0"`
	BotClicks int64     `json:"bot_clicks" minimum:"0"`
}

// Named is one entry of a breakdown.
type Named struct {
	Name   string `json:"name"`
	Clicks int64  `json:"clicks" minimum:"0"`
}

// CodeClicks counts the clicks of an address of a link.
type CodeClicks struct {
	Named
	Print
}

// TopLink is one of the links with the most clicks.
type TopLink struct {
	ShortCode   string `json:"short_code"`
	Domain      string `json:"domain" doc:"Host of the link's domain; empty for the shared default domain."`
	OriginalURL string `json:"original_url"`
	Title       string `json:"title"`
	Clicks      int64  `json:"clicks" minimum:"0"`
	BotClicks   int64  `json:"bot_clicks" minimum:"0"`
}

// Sparklines are the clicks of links by day.
type Sparklines struct {
	From  time.Time   `json:"from" doc:"Start of the first day, in the time zone."`
	Days  int         `json:"days" minimum:"1" maximum:"31"`
	Links []Sparkline `json:"links" doc:"In the order of the request, without links that are not there."`
}

// Sparkline is the clicks of one link by day.
type Sparkline struct {
	Domain    string  `json:"domain" doc:"As it was in the request; empty without one."`
	ShortCode string  `json:"short_code"`
	Clicks    []int64 `json:"clicks" minimum:"0" doc:"One number for each day, today last, bots included."`
}

// ForgottenClicks counts the deleted clicks of a link.
type ForgottenClicks struct {
	Clicks    int64 `json:"clicks" minimum:"0" doc:"How many the link had in all time."`
	BotClicks int64 `json:"bot_clicks" minimum:"0" doc:"Of these, by bots."`
	Events    int64 `json:"events" minimum:"0" doc:"Of these, how many were kept one by one."`
}

// GroupTable lists groups of links: by tag, domain or creator.
type GroupTable struct {
	From          time.Time  `json:"from" doc:"Start of the first UTC day."`
	To            time.Time  `json:"to" doc:"End of the last one."`
	Clicks        int64      `json:"clicks" minimum:"0" doc:"Of the whole workspace in these days, deleted links included."`
	CompleteUntil *time.Time `json:"complete_until" doc:"All clicks before this time are counted; null when unknown."`
	Behind        []string   `json:"behind" doc:"Nodes whose clicks may be missing."`
	Found         int        `json:"found" minimum:"0" doc:"Number of groups, also of those beyond the limit."`
	Groups        []Group    `json:"groups" doc:"Most clicks first."`
	KeptAnswer
}

// Group counts the clicks of the links that have a tag, a domain or a creator now.
type Group struct {
	Name         string   `json:"name" doc:"The tag, the host of the domain, or the creator as links show it; empty for links without a creator."`
	Links        int64    `json:"links" minimum:"0" doc:"Number of live links."`
	Clicks       int64    `json:"clicks" minimum:"0"`
	BotClicks    int64    `json:"bot_clicks" minimum:"0" doc:"Of these, by bots."`
	People       int64    `json:"people" minimum:"0" doc:"Of these, not by bots."`
	Share        float64  `json:"share" minimum:"0" doc:"Part of the clicks of the workspace. The shares of tags add up to more than 1 where links have several."`
	ClicksBefore int64    `json:"clicks_before" minimum:"0" doc:"Clicks of the same links in as many days before from."`
	Change       *float64 `json:"change" doc:"Clicks less clicks_before, as a part of clicks_before; null when there were none. The day that is not over counts as a day."`
	Series       []int64  `json:"series" minimum:"0" doc:"Clicks of each UTC day."`
}

// Crossed holds clicks by two breakdowns at once.
type Crossed struct {
	From          time.Time    `json:"from" doc:"Start of the first UTC day."`
	To            time.Time    `json:"to" doc:"End of the last one."`
	Clicks        int64        `json:"clicks" minimum:"0" doc:"Of people, in these days, as statistics count them."`
	Kept          int64        `json:"kept" minimum:"0" doc:"Of these, how many were kept one by one: the sum of all cells."`
	Exact         bool         `json:"exact" doc:"All clicks were kept. Otherwise the cells are the kept part, and nothing is extrapolated."`
	CompleteUntil *time.Time   `json:"complete_until" doc:"All clicks before this time are counted; null when unknown."`
	Behind        []string     `json:"behind" doc:"Nodes whose clicks may be missing."`
	Columns       []Named      `json:"columns" doc:"Up to 20 names with the most clicks, and other last."`
	Rows          []CrossedRow `json:"rows" doc:"Likewise. The last cell of other with other has the clicks of all cells with fewer than five, so that sums over a row or column are without these."`
}

// CrossedRow is a name of the rows.
type CrossedRow struct {
	Name   string  `json:"name"`
	Clicks int64   `json:"clicks" minimum:"0" doc:"Sum of the row's cells."`
	Cells  []int64 `json:"cells" minimum:"0" doc:"One number for each column. A 0 is no click, or a few that are among the others."`
}
