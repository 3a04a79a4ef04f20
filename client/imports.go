package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"waypost/api"
)

// Imports imports links from files.
type Imports struct{ c *Client }

// Begin makes an import, which awaits its file.
func (i Imports) Begin(ctx context.Context, n NewImport) (Import, error) {
	return Send[Import](ctx, i.c, http.MethodPost, api.PathImports, n)
}

// uploadTries bounds the tries of a part, which take some two minutes, because a control
// plane may be restarting.
const uploadTries = 32

// Upload sends the file of an import in parts, without those that the control plane has
// from an earlier call, and says that it was sent. It sends a part again when that is of
// use. Sent is called with the bytes so far after each part; it may be nil.
func (i Imports) Upload(ctx context.Context, id string, file io.Reader, sent func(bytes int64)) (Import, error) {
	begun, err := i.Find(ctx, id)
	if err != nil {
		return Import{}, err
	}
	sum, buf, total := sha256.New(), make([]byte, api.MaxImportPart), int64(0)
	for part := 1; ; part++ {
		n, err := io.ReadFull(file, buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return Import{}, fmt.Errorf("read the file: %w", err)
		}
		again := Retry{Tries: uploadTries, Again: Passing}
		if n == 0 && part > 1 {
			all := api.ReadImport{Parts: part - 1, SHA256: hex.EncodeToString(sum.Sum(nil))}
			err = again.Do(ctx, func() (err error) {
				begun, err = i.Read(ctx, id, all)
				return err
			})
			return begun, err
		}
		_, _ = sum.Write(buf[:n]) // never fails
		if part > begun.Parts {
			if err := again.Do(ctx, func() error { return i.SendPart(ctx, id, part, buf[:n]) }); err != nil {
				return Import{}, err
			}
		}
		if total += int64(n); sent != nil {
			sent(total)
		}
	}
}

// SendPart sends one part of a file, which has at most [api.MaxImportPart] bytes. Parts
// are numbered from 1 and may be sent in any order.
func (i Imports) SendPart(ctx context.Context, id string, part int, content []byte) error {
	return i.c.do(ctx, http.MethodPut, importPath(id)+"/parts/"+strconv.Itoa(part), octets(content), nil)
}

// Read says that all parts of a file were sent.
func (i Imports) Read(ctx context.Context, id string, r api.ReadImport) (Import, error) {
	return Send[Import](ctx, i.c, http.MethodPost, importPath(id)+"/read", r)
}

// Change changes an import that is ready.
func (i Imports) Change(ctx context.Context, id string, c ImportChange) (Import, error) {
	return Send[Import](ctx, i.c, http.MethodPatch, importPath(id), c)
}

// Run begins an import or resumes it. Dry: it counts only.
func (i Imports) Run(ctx context.Context, id string, dry bool) (Import, error) {
	return Send[Import](ctx, i.c, http.MethodPost, importPath(id)+"/run", api.RunImport{DryRun: dry})
}

// Stop stops an import that is checked or runs.
func (i Imports) Stop(ctx context.Context, id string) (Import, error) {
	return Send[Import](ctx, i.c, http.MethodPost, importPath(id)+"/stop", nil)
}

// Undo deletes the links that an import has made, unless they were changed since.
func (i Imports) Undo(ctx context.Context, id string) (Import, error) {
	return Send[Import](ctx, i.c, http.MethodPost, importPath(id)+"/undo", nil)
}

// List returns the imports of the workspace, newest first.
func (i Imports) List(ctx context.Context) ([]Import, error) {
	list, err := Get[api.ImportList](ctx, i.c, api.PathImports)
	return list.Imports, err
}

// Find finds an import by its id.
func (i Imports) Find(ctx context.Context, id string) (Import, error) {
	return Get[Import](ctx, i.c, importPath(id))
}

// WriteRefused writes the refused rows of an import to w, as a file that can be mended
// and imported.
func (i Imports) WriteRefused(ctx context.Context, id string, w io.Writer) error {
	_, err := i.c.copy(ctx, importPath(id)+"/refused", w)
	return err
}

// Remove removes an import and its rows. Its links stay.
func (i Imports) Remove(ctx context.Context, id string) error {
	return i.c.do(ctx, http.MethodDelete, importPath(id), nil, nil)
}

func importPath(id string) string { return api.PathImports + "/" + url.PathEscape(id) }
