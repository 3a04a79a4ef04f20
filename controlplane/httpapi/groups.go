package httpapi

import (
	"encoding/csv"
	"strings"

	"waypost/controlplane"
)

const groupDescription = "\n\nWith `tag`, `domain` or `created_by`, the statistics are those of a group: of all clicks of the links that have the tags, " +
	"the domain and the creator now, whenever the clicks were. A deleted link is in no group until it is restored. Unique visitors of a " +
	"group are the different visitors of all its links on each day, up to 2,048 exactly and more with a standard error of 0.8 %, added up " +
	"over the days."

// inGroup holds the parameters that name a group of links.
type inGroup struct {
	Tags      []string `query:"tag" maxItems:"8" minLength:"1" maxLength:"600" example:"spring,mail" doc:"A tag of the links. Several tags, with commas between them or given several times: links that have all of them. A tag that has a comma is put in double quotes."`
	Domain    string   `query:"domain" maxLength:"253" example:"go.example.com" doc:"Host of the links' domain."`
	CreatedBy string   `query:"created_by" maxLength:"512" example:"ann@example.com" doc:"Creator of the links, as they show it."`
	Code      string   `query:"code" maxLength:"256" doc:"Refused: a single link, and a pattern, has its statistics under its code."`
	Pattern   string   `query:"pattern" maxLength:"256" doc:"Refused likewise."`
}

// group returns the group that a client names.
func (in *inGroup) group() (controlplane.GroupQuery, error) {
	q := controlplane.GroupQuery{Host: in.Domain, Creator: in.CreatedBy}
	for _, text := range in.Tags {
		tags, err := csv.NewReader(strings.NewReader(text)).Read()
		if err != nil {
			return q, invalid("query.tag", "must be a tag, or several with commas between them")
		}
		q.Tags = append(q.Tags, tags...)
	}
	switch {
	case in.Code != "":
		return q, invalid("query.code", "ask for the statistics of one link at /api/v1/urls/{code}/stats")
	case in.Pattern != "":
		return q, invalid("query.pattern", "ask for the statistics of a pattern at /api/v1/urls/{code}/stats, with the pattern as the code")
	}
	return q, nil
}
