package api

import "time"

// Explanation is the answer to a visitor who was described, and the way to it.
type Explanation struct {
	ShortCode   string          `json:"short_code" doc:"Code of the link that the path leads to."`
	Match       string          `json:"match" enum:"exact,trimmed,forwarded,pattern," doc:"How the path names the link. exact: it is the code. trimmed: it has a slash or punctuation behind the code. forwarded: its rest goes to the target. pattern: it fits the pattern that is the code. Empty: the edge does not have the link."`
	Held        []ExplainedHeld `json:"held" doc:"The parts of the path that the placeholders of the pattern hold, in their order."`
	Domain      string          `json:"domain" doc:"Host of the link's domain."`
	OriginalURL string          `json:"original_url"`
	Active      bool            `json:"active"`
	ValidFrom   *time.Time      `json:"valid_from" doc:"From when on the link works; null when it always did."`
	ExpiresAt   *time.Time      `json:"expires_at" doc:"Null when the link never expires."`
	Facts       ExplainedFacts  `json:"facts"`
	Rules       []ExplainedRule `json:"rules" doc:"In their order."`
	Result      ExplainedResult `json:"result"`
	Edge        *ExplainedEdge  `json:"edge,omitzero" doc:"The edge that answered; left out when the control plane did."`
}

// ExplainedHeld is a part of a path that a placeholder holds.
type ExplainedHeld struct {
	Name  string `json:"name" doc:"Name of the placeholder; path: the * at the end."`
	Value string `json:"value" doc:"As the visitor sent it."`
}

// ExplainedEdge is the edge that answered.
type ExplainedEdge struct {
	Node        string     `json:"node"`
	Position    *Sequence  `json:"position" doc:"Up to which position the edge has the changelog; null without a replica."`
	Found       bool       `json:"found" doc:"The path leads to the same link on the edge."`
	Current     bool       `json:"current" doc:"The edge has the newest state of the link. Otherwise it has answered by an older one."`
	PlacesBuilt *time.Time `json:"places_built_at" doc:"When the edge's GeoIP database was built; null without one."`
}

// ExplainedFacts are the facts about a visitor that an explanation used.
type ExplainedFacts struct {
	At        time.Time `json:"at"`
	Address   string    `json:"address" doc:"Empty: unknown."`
	Country   string    `json:"country" doc:"Empty: unknown."`
	City      string    `json:"city" doc:"Empty: unknown."`
	UserAgent string    `json:"user_agent"`
	Agent     []string  `json:"agent" doc:"What the user agent says of itself, in the words of the condition agent."`
	Languages []string  `json:"languages" doc:"Languages that the visitor prefers, with a quality of 0.9 or more."`
	Query     string    `json:"query"`
	Variant   int       `json:"variant" minimum:"0" doc:"Variant that the visitor's cookie names; 0: none."`
	Read      []string  `json:"read" doc:"The facts that the link's rules read: agent, language, place, address, query, time, visitor (address and user agent, for a split), cookie, chance."`
}

// ExplainedRule is a rule of an explanation.
type ExplainedRule struct {
	ID        int    `json:"id" minimum:"1" maximum:"250"`
	Name      string `json:"name"`
	Outcome   string `json:"outcome" enum:"matched,failed,not_reached" doc:"not_reached: the answer was found before."`
	Failed    *int   `json:"failed" doc:"Index of the first condition that did not hold; null when all hold or the rule was not reached."`
	Condition string `json:"condition" doc:"That condition in words, such as: country is one of DE, AT. Empty without one."`
}

// ExplainedResult is the answer of an explanation.
type ExplainedResult struct {
	Status      int                `json:"status" doc:"Status of the answer."`
	Location    string             `json:"location" doc:"Where the visitor is led; empty without a redirect."`
	Reason      string             `json:"reason" doc:"The decision in words."`
	Gate        string             `json:"gate" enum:"blocked,state,valid_from,expired,exhausted,password,broken," doc:"Decided before the rules. blocked: an operator of the installation has blocked the link. state: the link is disabled. valid_from: it does not work yet. expired: it has expired. exhausted: its click budget is used up. password: it asks for one. broken: its rules cannot be read. Empty: the rules decided, or the target."`
	Maintenance bool               `json:"maintenance" doc:"The location is the domain's own, because the domain is in maintenance."`
	NotFound    bool               `json:"not_found" doc:"The location is the domain's own for visitors who follow no link of it."`
	Rule        int                `json:"rule" minimum:"0" doc:"Id of the rule that matched; 0: none."`
	Variant     int                `json:"variant" minimum:"0" doc:"Id of the variant of its split; 0: none."`
	ByChance    bool               `json:"by_chance" doc:"The variant was drawn by chance: the next visit may get another one. With a split by cookie, a visitor keeps the drawn one."`
	Variants    []ExplainedVariant `json:"variants" doc:"The variants of the split; empty without one."`
}

// ExplainedVariant is a variant of a split.
type ExplainedVariant struct {
	ID    int     `json:"id" minimum:"1" maximum:"250"`
	Name  string  `json:"name"`
	Share float64 `json:"share" minimum:"0" maximum:"1" doc:"Its share of visitors."`
	To    string  `json:"to" doc:"Its target."`
}
