package httpapi

import (
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"waypost"
)

// anyQuery are the operations whose requests may have parameters that nobody knows:
// visitors come with what others have put behind a link, probes with what keeps
// caches away.
var anyQuery = []string{"redirect", "service", "health"}

// strictQuery refuses parameters that the operation does not have: a filter that is
// misspelt would select everything.
func (s *server) strictQuery(ctx huma.Context, next func(huma.Context)) {
	op := ctx.Operation()
	r, w := humago.Unwrap(ctx)
	if r.URL.RawQuery == "" || slices.Contains(anyQuery, op.OperationID) {
		next(ctx)
		return
	}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		s.refuse(ctx, w, waypost.Errorf(waypost.EMalformed, "the query cannot be read: it has a percent sign without two hexadecimal digits, or a semicolon"))
		return
	}
	var wrong []error
	for name, values := range given {
		i := slices.IndexFunc(op.Parameters, func(p *huma.Param) bool { return p.In == "query" && p.Name == name })
		switch {
		case i < 0:
			wrong = append(wrong, unexpected("query", name, "unknown parameter"))
		case len(values) > 1 && op.Parameters[i].Schema.Type != huma.TypeArray:
			wrong = append(wrong, &huma.ErrorDetail{Location: "query." + name, Message: "expected once"})
		}
	}
	if len(wrong) > 0 {
		s.refuse(ctx, w, fieldErrorsOf(wrong))
		return
	}
	next(ctx)
}
