package linkfile

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waypost/api"
)

// rulesOptions returns the options that read rules with days as in other cells, and
// without unknown fields.
func (m *Mapper) rulesOptions() json.Options {
	return json.JoinOptions(json.RejectUnknownMembers(true), json.WithUnmarshalers(
		json.UnmarshalFromFunc(func(dec *jsontext.Decoder, to *time.Time) error {
			token, err := dec.ReadToken()
			if err != nil {
				return err
			}
			switch token.Kind() {
			case '"':
				*to, err = api.ParseMoment(token.String(), m.zone, dec.StackPointer().LastToken() == "until")
			case 'n':
				*to = time.Time{}
			default:
				err = errors.New("expected text such as \"2030-12-31T23:59:59Z\"")
			}
			return err
		})))
}

// setRules reads the rules of a cell, which are JSON as in the API.
func (d *draft) setRules(to *[]api.Rule, s string) error {
	if s = strings.TrimSpace(s); s == "" { // spreadsheets add line ends
		return nil
	}
	if err := json.Unmarshal([]byte(s), to, d.mapper.rulesOptions()); err != nil {
		return errors.New(rulesFault(err))
	}
	return nil
}

var pathIndex = regexp.MustCompile(`/(\d+)`)

// rulesFault describes a fault of rules, with its place, in words for people who do not
// know Go.
func rulesFault(err error) string {
	if bad, ok := errors.AsType[*json.SemanticError](err); ok {
		where := "rules" + strings.ReplaceAll(pathIndex.ReplaceAllString(string(bad.JSONPointer), "[$1]"), "/", ".")
		switch {
		case errors.Is(bad.Err, json.ErrUnknownName):
			return where + " is an unknown field"
		case bad.Err != nil:
			return where + ": " + bad.Err.Error()
		}
		return fmt.Sprintf("%s: expected %s, and there is %s", where, cmp.Or(expected[bad.GoType.Kind()], "a whole number"), kinds[bad.JSONKind])
	}
	if bad, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return "rules are no JSON list of rules: " + bad.Err.Error()
	}
	return "rules are no JSON list of rules: " + err.Error()
}

// kinds names the kinds of JSON values.
var kinds = map[jsontext.Kind]string{
	'n': "null", 't': "true", 'f': "false", '"': "text", '0': "a number", '{': "an object", '[': "a list",
}

// expected names the kinds of JSON values that types are written as; "": a number.
var expected = map[reflect.Kind]string{
	reflect.String: "text", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Struct: "an object", reflect.Map: "an object",
}
