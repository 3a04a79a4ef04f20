package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/api/linkfields"
	"waypost/controlplane"
)

// column is a column of the table link that holds a part of a link. Its parameter is an
// array where links are inserted.
type column struct {
	name  string
	kind  string // type of the parameter
	value string // expression of the parameter %[1]s

	one  func(controlplane.Insertion) any
	many func([]controlplane.Insertion) any // a slice
}

// columnOf makes a column from the value that a link has in it.
func columnOf[T any](name, kind, value string, of func(controlplane.Insertion) T) column {
	return column{
		name, kind, value,
		func(x controlplane.Insertion) any { return of(x) },
		func(links []controlplane.Insertion) any {
			values := make([]T, len(links))
			for i := range links {
				values[i] = of(links[i])
			}
			return values
		},
	}
}

// newColumns are the columns that never change, ownColumns the others.
var (
	newColumns = []column{
		columnOf("workspace_id", "bigint", "%s", func(x controlplane.Insertion) int64 { return int64(x.Link.Workspace) }),
		columnOf("domain_id", "integer", "%s", func(x controlplane.Insertion) int32 { return int32(x.Link.Domain) }),
		columnOf("code", "text", "%s", func(x controlplane.Insertion) string { return string(x.Link.Key()) }),
		columnOf("typed_code", "text", "%s", func(x controlplane.Insertion) *string {
			if x.Link.Folded == "" {
				return nil
			}
			return new(string(x.Link.Code))
		}),
		columnOf("custom", "boolean", "%s", func(x controlplane.Insertion) bool { return x.Link.Custom }),
		columnOf("created_by", "text", "%s", func(x controlplane.Insertion) string { return x.Link.CreatedBy }),
		columnOf("created_at", "timestamptz", "coalesce(%s, now())", func(x controlplane.Insertion) *time.Time {
			if x.Link.CreatedAt.IsZero() {
				return nil
			}
			return &x.Link.CreatedAt
		}),
		columnOf("slot", "smallint", "%s", func(x controlplane.Insertion) int16 {
			return int16(waypost.Slot(waypost.KindOf(string(x.Link.Key())), x.Link.Domain, []byte(x.Link.Key())))
		}),
	}
	ownColumns = slices.Concat([]column{
		columnOf("original_url", "text", "%s", func(x controlplane.Insertion) string { return x.Link.OriginalURL }),
		columnOf("location", "text", "%s", func(x controlplane.Insertion) *string {
			if x.Link.Location == x.Link.OriginalURL {
				return nil
			}
			return &x.Link.Location
		}),
		columnOf("redirect_status", "smallint", "%s", func(x controlplane.Insertion) int16 { return int16(x.Link.RedirectStatus) }),
		columnOf("expires_at", "timestamptz", "%s", func(x controlplane.Insertion) *time.Time {
			if x.Link.ExpiresAt.IsZero() {
				return nil
			}
			return &x.Link.ExpiresAt
		}),
		columnOf("forward_query", "boolean", "%s", func(x controlplane.Insertion) bool { return x.Link.Flags&waypost.ForwardQuery != 0 }),
		columnOf("forward_path", "boolean", "%s", func(x controlplane.Insertion) bool { return x.Link.Flags&waypost.ForwardPath != 0 }),
		columnOf("active", "boolean", "%s", func(x controlplane.Insertion) bool { return !x.Disabled }),
		columnOf("rules", "text", "(%s)::jsonb", func(x controlplane.Insertion) *string { return jsonText(x.Link.Rules) }),
		columnOf("programme", "bytea", "%s", func(x controlplane.Insertion) []byte { return x.Link.Programme }),
	}, detailColumns())
)

// detailColumns are the columns of details, which have the names of their fields.
func detailColumns() (columns []column) {
	for _, f := range linkfields.Details {
		switch f.Detail(&waypost.Details{}).(type) {
		case *string:
			columns = append(columns, columnOf(f.Name, "text", "%s", func(x controlplane.Insertion) string {
				return *f.Detail(&x.Link.Details).(*string)
			}))
		case *[]string:
			columns = append(columns, columnOf(f.Name, "text",
				"CASE WHEN %[1]s IS NULL THEN '{}' ELSE ARRAY(SELECT jsonb_array_elements_text((%[1]s)::jsonb)) END",
				func(x controlplane.Insertion) *string {
					texts := *f.Detail(&x.Link.Details).(*[]string)
					if len(texts) == 0 {
						return nil
					}
					text, _ := json.Marshal(texts) // never fails for texts
					return jsonText(text)
				}))
		case *json.RawMessage:
			columns = append(columns, columnOf(f.Name, "text", "(%s)::jsonb", func(x controlplane.Insertion) *string {
				return jsonText(*f.Detail(&x.Link.Details).(*json.RawMessage))
			}))
		}
	}
	return columns
}

func jsonText(text []byte) *string {
	if len(text) == 0 {
		return nil
	}
	s := string(text)
	return &s
}

// insertRows inserts links, and the stamps that are its last parameter.
var insertRows = func() string {
	var names, values, arrays []string
	for _, c := range append(slices.Concat(newColumns, ownColumns), column{name: "stamp", kind: "bigint", value: "%s"}) {
		names = append(names, c.name)
		values = append(values, fmt.Sprintf(c.value, "n."+c.name))
		arrays = append(arrays, fmt.Sprintf("unnest($%d::%s[])", len(arrays)+1, c.kind))
	}
	return `
INSERT INTO link (` + strings.Join(names, ", ") + `, rev_epoch, rev_seq)
SELECT ` + strings.Join(values, ", ") + `,
       (SELECT current_setting('waypost.epoch')::integer),
       (SELECT set_config('waypost.stamped', current_setting('waypost.seq'), true)::bigint)
FROM (SELECT ` + strings.Join(arrays, ", ") + `) AS n (` + strings.Join(names, ", ") + `)
WHERE NOT (n.custom AND n.domain_id = 1
           AND coalesce(n.typed_code, n.code)
               = ANY ((SELECT string_to_array(coalesce(current_setting('waypost.refused', true), ''), ','))::text[]))`
}()

// screenRows is the condition that the code of a row is not retired. The parameters are
// the domains and codes of all rows.
const screenRows = ` AND n.domain_id || '/' || n.code <> ALL ((SELECT link_screen_codes($2, $3))::text[])`

// insertArgs returns the parameters of insertRows.
func insertArgs(links []controlplane.Insertion, stamps []int64) []any {
	args := make([]any, 0, len(newColumns)+len(ownColumns)+1)
	for _, c := range newColumns {
		args = append(args, c.many(links))
	}
	for _, c := range ownColumns {
		args = append(args, c.many(links))
	}
	return append(args, stamps)
}

// updateSets are the assignments of an UPDATE of a link, from the parameter after the
// first on.
func updateSets(first int) string {
	var sets []string
	for i, c := range ownColumns {
		sets = append(sets, c.name+" = "+fmt.Sprintf(c.value, fmt.Sprintf("$%d::%s", first+i, c.kind)))
	}
	return strings.Join(sets, ", ")
}

// appendUpdate appends the parameters of updateSets.
func appendUpdate(args []any, l *waypost.Link) []any {
	x := controlplane.Insertion{Link: l, Disabled: !l.Active}
	for _, c := range ownColumns {
		args = append(args, c.one(x))
	}
	return args
}

// readDetails are the columns that appendDetails reads, with a comma behind each.
var readDetails = func() (columns string) {
	for _, f := range linkfields.Details {
		columns += "l." + f.Name + ", "
	}
	return columns
}()

// appendDetails appends where to scan readDetails.
func appendDetails(to []any, d *waypost.Details) []any {
	for _, f := range linkfields.Details {
		to = append(to, f.Detail(d))
	}
	return to
}
