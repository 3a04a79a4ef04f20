package server

import (
	"encoding/json"
	"fmt"
	"html"
	"strings"

	"github.com/valyala/fasthttp"

	"waypost"
)

// Blocks knows the short addresses that operators have blocked. Its methods may be called
// by many goroutines at once.
type Blocks interface {
	// Policy returns the policy with which the code of a host is blocked, 0 for one that is
	// not. Folded says that the domain ignores case, and code is in its form without case.
	// A nil host means the default domain. It neither waits nor allocates, and is fast
	// while nothing is blocked: each visit asks it.
	Policy(host, code []byte, folded bool) waypost.BlockPolicy
}

// blockedBodies are the bodies for blocked codes, by status.
type blockedBodies map[int]preparedBody

// prepareBlocked prepares the bodies. They say whom to ask, if there is a contact.
func prepareBlocked(contact string) blockedBodies {
	bodies := blockedBodies{}
	for _, t := range []errorText{
		{451, waypost.EBlocked, "Unavailable for legal reasons", "The operator of this service has blocked this link for legal reasons."},
		{410, waypost.EGone, "Link blocked", "The operator of this service has blocked this link."},
	} {
		if contact != "" {
			t.detail += " Questions: " + contact
		}
		page := strings.NewReplacer("{status}", fmt.Sprint(t.status), "{title}", t.title, "{detail}", html.EscapeString(t.detail))
		detail, err := json.Marshal(t.detail)
		if err != nil {
			panic("server: " + err.Error()) // any text can be encoded
		}
		bodies[t.status] = preparedBody{
			html: []byte(page.Replace(errorPage)),
			problem: fmt.Appendf(nil, `{"type":%q,"title":%q,"status":%d,"detail":%s}`,
				waypost.ProblemType(t.code), t.title, t.status, detail),
		}
	}
	return bodies
}

// refusal returns the answer of a resolution without a redirect: the answer of its
// status, or of a block.
func (s *Server) refusal(res *waypost.Resolution, page bool) answer {
	a := problem(res.Status, page)
	if !res.Blocked {
		return a
	}
	if a.body = s.blockedBodies[res.Status].problem; page {
		a.body = s.blockedBodies[res.Status].html
	}
	return a
}

// sendBlocked answers for a blocked code.
func (s *Server) sendBlocked(ctx *fasthttp.RequestCtx, c *conn, res *waypost.Resolution) {
	a := s.refusal(res, wantsPage(&ctx.Request.Header))
	s.send(ctx, c, &a)
}
