package rules

import (
	"encoding/json"
	"time"
)

// Limits of a link's rules.
const (
	MaxRules      = 16
	MaxConditions = 8  // of a rule
	MaxTargets    = 16 // different ones of a link, besides its own
	MinVariants   = 2  // of a split
	MaxVariants   = 8
	MaxID         = 250  // of a rule and of a variant; 0 is none
	MaxLogic      = 4096 // bytes of a programme before its targets
	MaxTargetText = 16 << 10

	maxList      = 16 // values of a condition
	maxCountries = 250
	maxName      = 64
	maxWeight    = 1<<16 - 1
	maxQueryKey  = 64
	maxQueryText = 256
)

// Source holds an owner's choices for a link beyond its target, as they were written. The
// zero value is nothing.
type Source struct {
	Rules         []Rule    `json:"rules,omitzero"`
	ValidFrom     time.Time `json:"valid_from,omitzero"`
	ExpiredURL    string    `json:"expired_url,omitzero"`
	MaxClicks     int64     `json:"max_clicks,omitzero"`
	MaxClicksMode string    `json:"max_clicks_mode,omitzero"`
	ExhaustedURL  string    `json:"exhausted_url,omitzero"`
	Confirm       bool      `json:"confirm,omitzero"`

	// The ids that rules and variants were given last, deleted ones included.
	LastRule    int `json:"last_rule,omitzero"`
	LastVariant int `json:"last_variant,omitzero"`
}

// IsZero reports whether the source says nothing of today's visits, so that its link
// needs no programme.
func (s *Source) IsZero() bool {
	return len(s.Rules) == 0 && s.ValidFrom.IsZero() && s.ExpiredURL == "" && s.MaxClicks == 0 && s.ExhaustedURL == "" && !s.Confirm
}

// ParseSource reads a source that Encode has written.
func ParseSource(text []byte) (s Source, err error) {
	if len(text) > 0 {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// Encode returns the source as JSON, nil for nothing.
func (s *Source) Encode() []byte {
	if s.IsZero() && s.LastRule == 0 && s.LastVariant == 0 {
		return nil
	}
	written := *s
	if len(written.Rules) == 0 {
		written.Rules = nil
	}
	text, err := json.Marshal(written)
	if err != nil { // a time beyond the year 9999, which Compile refuses
		return nil
	}
	return text
}

// Rule is one rule of a link. The first rule decides that has no failing condition.
type Rule struct {
	ID     int         `json:"id,omitzero" minimum:"1" maximum:"250" doc:"Names the rule in statistics, and stays its own when rules are moved. Default: that of the rule before with the same name, or without a name the same conditions; otherwise one that no rule of the link had."`
	Name   string      `json:"name,omitzero" maxLength:"64" doc:"For people, at most 64 bytes."`
	When   []Condition `json:"when,omitzero" maxItems:"8" doc:"The conditions, all of which must hold. None: the rule matches every visitor."`
	To     string      `json:"to,omitzero" maxLength:"8192" example:"https://example.com/ios" doc:"The target. Give exactly one of to, split and status."`
	Split  *Split      `json:"split,omitzero" doc:"Divides visitors among targets."`
	Status int         `json:"status,omitzero" enum:"404,410" doc:"Refuses visitors: 404 as if there were no link, or 410."`
}

// Condition is one condition of a rule. Exactly one of its kinds is given.
type Condition struct {
	Not      bool       `json:"not,omitzero" doc:"The condition holds where it otherwise would not."`
	Agent    []string   `json:"agent,omitzero" maxItems:"16" enum:"ios,android,mobile,tablet,desktop,windows,macos,linux,chromeos,chrome,firefox,edge,safari,opera,samsung,android_browser,bot,preview" doc:"Device, system, browser or kind of software; one of them is enough. preview: fetchers of link previews, which are bots."`
	Country  []string   `json:"country,omitzero" maxItems:"250" pattern:"^[A-Z]{2}$" patternDescription:"the code of a country in two capital letters, such as DE" example:"[\"DE\",\"AT\"]" doc:"Countries (ISO 3166-1 alpha-2); one of them is enough. An unknown country is none of them."`
	City     []string   `json:"city,omitzero" maxItems:"16" minLength:"1" maxLength:"128" doc:"English names of cities, in any case; one of them is enough."`
	Language []string   `json:"language,omitzero" maxItems:"16" minLength:"2" maxLength:"15" example:"[\"de\",\"pt-BR\",\"zh-Hant\"]" doc:"Languages that the visitor prefers (quality 0.9 or more), of any region and script or of one; one of them is enough. All codes of a language are the same (no and nb, he and iw), and a macrolanguage, such as zh, has all its languages."`
	Address  []string   `json:"address,omitzero" maxItems:"16" minLength:"2" maxLength:"43" example:"[\"192.0.2.0/24\",\"10.0.*.1\"]" doc:"Addresses, networks, and IPv4 addresses with * for a number; one of them is enough."`
	Query    *Parameter `json:"query,omitzero" doc:"A parameter of the visitor's query."`
	From     time.Time  `json:"from,omitzero" doc:"From this moment on. Together with until: between the two."`
	Until    time.Time  `json:"until,omitzero" doc:"Before this moment."`
	Week     *Schedule  `json:"week,omitzero" doc:"At these hours of the week."`
}

// Parameter is a condition on a parameter of the visitor's query.
type Parameter struct {
	Key    string  `json:"key" minLength:"1" maxLength:"64" doc:"The parameter, in its exact case. Alone: it is there, with any value."`
	Equals *string `json:"equals,omitzero" maxLength:"256" doc:"It has this value."`
	Empty  bool    `json:"empty,omitzero" doc:"It has no value."`
}

// Schedule is a list of the hours of a week in a time zone.
type Schedule struct {
	Zone  string   `json:"zone" minLength:"1" maxLength:"64" example:"Europe/Berlin" doc:"A time zone of the IANA database."`
	Hours []string `json:"hours" minItems:"1" maxItems:"16" minLength:"5" maxLength:"40" example:"[\"mon-fri 09:00-17:30\",\"sat 10:00-14:00\"]" doc:"Days and times by quarters of an hour. An end that is not later than its start is on the next day."`
}

// Split divides visitors among variants.
type Split struct {
	By       string    `json:"by,omitzero" enum:"visitor,cookie,none" default:"visitor" doc:"visitor: by network and browser, so that a visitor keeps the variant, without a cookie. cookie: a cookie keeps the variant. none: by chance at each visit."`
	Variants []Variant `json:"variants" minItems:"2" maxItems:"8"`
}

// Variant is one target of a split.
type Variant struct {
	ID     int    `json:"id,omitzero" minimum:"1" maximum:"250" doc:"Names the variant in statistics. Default: that of the variant before with the same name, or without a name the same target; otherwise one that no variant of the link had."`
	Name   string `json:"name,omitzero" maxLength:"64" doc:"For people, at most 64 bytes."`
	Weight int    `json:"weight" minimum:"0" maximum:"65535" doc:"Its share, in relation to the sum of all weights."`
	To     string `json:"to" minLength:"1" maxLength:"8192" doc:"The target."`
}

// The subjects of a split.
const (
	ByVisitor = "visitor"
	ByCookie  = "cookie"
	ByNone    = "none"
)

// The modes of a click budget.
const (
	ModeEventual = "eventual"
	ModeExact    = "exact"
)
