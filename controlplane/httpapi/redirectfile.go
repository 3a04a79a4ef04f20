package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/internal/redirectfile"
)

// maxRedirectFile bounds the text of a file, and its request has room for escapes.
const maxRedirectFile = 8 << 20

type redirectFileInput struct{ Body api.RedirectFile }

type redirectFileOutput struct{ Body api.RedirectLines }

// registerRedirectFile registers the reading of redirects, so that programs without a
// parser of their own, such as the console, can import them. It creates nothing.
func registerRedirectFile(rt *router) {
	handle(rt, operation{
		id: "read-redirects", method: http.MethodPost, path: api.PathRedirects, summary: "Read the redirects of a site as links",
		description: "Creates nothing: create the links with the bulk request.",
		scopes:      []controlplane.Scope{controlplane.ScopeLinksWrite}, maxBody: maxLinksBody,
	}, readRedirects)
}

func readRedirects(_ context.Context, in *redirectFileInput) (*redirectFileOutput, error) {
	f := &in.Body
	if len(f.Text) > maxRedirectFile {
		return nil, waypost.Errorf(waypost.ETooLarge, "the file is larger than %d MiB: send it in parts, or use the command", maxRedirectFile>>20)
	}
	read, err := redirectfile.Read(strings.NewReader(f.Text), redirectfile.Format(f.Format), f.Site)
	if err != nil {
		return nil, waypost.Errorf(waypost.EInvalid, "%v", err)
	}
	lines := make([]any, strings.Count(f.Text, "\n")+1)
	for _, r := range read.Redirects {
		lines[r.Line-1] = &api.NewLink{
			OriginalURL: r.Target, CustomCode: r.Code, Domain: r.Host, RedirectStatus: r.Status,
			ForwardPath: r.ForwardPath, ForwardQuery: r.ForwardQuery,
		}
	}
	for _, r := range read.Refused {
		lines[r.Line-1] = struct {
			Refused string `json:"refused"`
		}{r.Reason + ": " + r.Text}
	}
	var text strings.Builder
	for to, i := json.NewEncoder(&text), 0; i < len(lines); i++ {
		if lines[i] == nil {
			text.WriteByte('\n')
		} else if err := to.Encode(lines[i]); err != nil {
			return nil, err
		}
	}
	notes := read.Notes
	if notes == nil {
		notes = []string{}
	}
	return &redirectFileOutput{api.RedirectLines{Links: text.String(), Notes: notes}}, nil
}
