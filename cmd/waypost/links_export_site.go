package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"waypost/client"
	"waypost/internal/redirectfile"
)

// writtenFormats are the formats of redirects that an export can write.
var writtenFormats = []string{string(redirectfile.Netlify), string(redirectfile.CloudflarePages), string(redirectfile.Nginx)}

// exportSite writes the links of a domain as the redirects of another server. It names
// the links that the file cannot say, on standard error.
func (p linksCommands) exportSite(ctx context.Context, x *exporter, name string) error {
	format := redirectfile.Format(x.format)
	x.format = "jsonl"
	var links linkLines
	if err := x.all(ctx, &links); err != nil {
		return fmt.Errorf("the export stopped after %s, and nothing was written: %w", numberOf(x.links, "link", "links"), err)
	}
	var unsaid []redirectfile.Unsaid
	write := func(to io.Writer) (err error) {
		unsaid, err = redirectfile.Write(to, format, links.links)
		return err
	}
	var err error
	if name == "-" {
		err = write(p.stdout)
	} else {
		err = replaceFile(name, write)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	for _, u := range unsaid {
		_, _ = fmt.Fprintf(p.stderr, "left out: %s: %s\n", printable(u.Code), u.Reason)
	}
	if name == "-" {
		return nil
	}
	written := len(links.links) - len(unsaid)
	return p.print(fmt.Sprintf("%s written to %s, %d left out", numberOf(written, "link", "links"), name, len(unsaid)),
		map[string]any{"links": written, "left_out": len(unsaid), "file": name})
}

// linkLines gathers links from the JSON lines that are written to it, whole lines at a
// time.
type linkLines struct{ links []redirectfile.Link }

func (w *linkLines) Write(p []byte) (int, error) {
	for lines := json.NewDecoder(bytes.NewReader(p)); ; {
		var l client.Link
		switch err := lines.Decode(&l); {
		case errors.Is(err, io.EOF):
			return len(p), nil
		case err != nil:
			return 0, fmt.Errorf("read a link of the API: %w", err)
		}
		written := redirectfile.Link{
			Code: l.ShortCode, Target: l.OriginalURL, Status: l.RedirectStatus,
			ForwardPath: l.ForwardPath, ForwardQuery: l.ForwardQuery, More: moreThanRedirects(&l),
		}
		w.links = append(w.links, written)
		for _, a := range l.Aliases {
			alias := written
			if alias.Code = a.ShortCode; a.Domain != l.Domain {
				alias.More = "it is an alias on another domain, " + a.Domain
			}
			w.links = append(w.links, alias)
		}
	}
}

// moreThanRedirects says what a link does that the redirects of another server cannot, ""
// for nothing.
func moreThanRedirects(l *client.Link) string {
	switch {
	case !l.Active:
		return "it is disabled"
	case l.Blocked != nil:
		return "an operator blocks it"
	case l.ExpiresAt != nil:
		return "it expires"
	case l.ValidFrom != nil:
		return "it has a first day"
	case len(l.Rules) > 0:
		return "it has rules"
	case l.MaxClicks > 0:
		return "it has a number of clicks"
	case l.HasPassword:
		return "it has a password"
	case l.Confirm:
		return "it asks visitors to press a button"
	}
	return ""
}
