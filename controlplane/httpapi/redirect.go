package httpapi

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"

	"waypost"
	"waypost/rules"
)

var redirectHeaders = map[string]header{
	"Location": textHeader("The target, with an international host in punycode and with everything percent-encoded that no URI may " +
		"hold (RFC 3986): blanks, characters outside ASCII, and \" < > \\ ^ ` { | }. Nothing else of it is changed."),
	"Cache-Control": textHeader("How long a browser may keep the redirect."),
}

// registerRedirect registers the redirect of links under the control plane's own address.
func registerRedirect(rt *router, links Links, contact string) {
	answers := map[int]answer{}
	for _, status := range []int{301, 302, 307, 308} {
		answers[status] = answer{Description: http.StatusText(status), Headers: redirectHeaders}
	}
	handle(rt, operation{
		id: "redirect", method: http.MethodGet, path: "/{code}", summary: "Follow a link", anyQuery: true,
		description: "The same redirect as on an edge, from the database. It is not counted: only edges count clicks. " +
			"Countries and cities are unknown here to the link's rules, and a cookie does not keep a variant. " +
			"Codes with slashes, and paths that are forwarded, are below this path.",
		answers: answers, problems: []int{
			http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusGone, http.StatusRequestURITooLong,
			http.StatusUnavailableForLegalReasons,
		},
	}, func(ctx context.Context, _ *redirectInput) (*redirectOutput, error) {
		r := callFrom(ctx).request
		v := waypost.ParseVisit([]byte(r.URL.EscapedPath() + "?" + r.URL.RawQuery))
		request := rules.Request{
			Address: callFrom(ctx).client, UserAgent: []byte(r.UserAgent()), AcceptLanguage: []byte(r.Header.Get("Accept-Language")),
			Cookie: []byte(r.Header.Get("Cookie")), Chance: uint16(rand.Uint32()), //nolint:gosec // chance, no secret
		}
		res, err := links.Resolve(ctx, r.Host, &v, &request)
		switch {
		case err != nil:
			return nil, err
		case v.Preview:
			return nil, waypost.ErrNoLink
		case res.Gated:
			return nil, waypost.Errorf(waypost.EForbidden, "the link asks its visitors or counts their visits: only edges redirect it")
		// The target was checked long ago; this guards against a damaged record.
		case res.Redirects() && len(res.Location) > 0 && !bytes.ContainsAny(res.Location, "\r\n\x00"):
			return &redirectOutput{redirect(res)}, nil
		case res.Redirects():
			return nil, waypost.Errorf(waypost.EUnavailable, "the link has no valid target")
		case res.Status == http.StatusServiceUnavailable:
			return nil, waypost.Errorf(waypost.EUnavailable, "the link's rules cannot be read")
		case res.Status == http.StatusNotFound:
			return nil, waypost.ErrNoLink
		case res.Blocked && res.Status == http.StatusGone:
			return nil, waypost.Errorf(waypost.EGone, "%s", blockedText(contact, ""))
		case res.Blocked:
			return nil, waypost.Errorf(waypost.EBlocked, "%s", blockedText(contact, " for legal reasons"))
		case res.Status == http.StatusGone:
			return nil, waypost.Errorf(waypost.EGone, "the link has expired or was deleted")
		case res.Status == http.StatusRequestURITooLong:
			p := newProblem(waypost.ETooLarge, "the location is too long with the path or the query")
			p.Title, p.Status = "Address too long", res.Status
			return nil, p
		}
		return nil, waypost.Errorf(waypost.EMalformed, "the path or the query cannot be forwarded to the link's target")
	})
	rt.redirect, _ = rt.mux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/code"}})
}

// blockedText informs a visitor that a link is blocked, and whom to ask.
func blockedText(contact, why string) string {
	text := "the operator of this service has blocked the link" + why
	if contact != "" {
		text += "; questions: " + contact
	}
	return text
}

type redirectInput struct {
	Code string `path:"code" doc:"The link's short code."`
}

type redirectOutput struct{ Instead responder }

// redirect is the answer to a visitor.
type redirect waypost.Resolution

func (res redirect) respond(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	// http.Redirect would parse the target and change it.
	h["Location"] = []string{string(res.Location)}
	h.Set("Cache-Control", "private, no-store")
	if res.MaxAge > 0 {
		h.Set("Cache-Control", "private, max-age="+strconv.FormatInt(res.MaxAge, 10))
	}
	w.WriteHeader(res.Status)
}
