package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"waypost"
)

// Limits of bodies in bytes. A bulk body has room for 1,000 of the longest URLs
// with as much again beside each.
const (
	maxBody     = 1 << 20
	maxBulkBody = 12 << 20
	maxBulky    = 16        // bulk requests that are read and answered at once
	maxTrusted  = 256 << 10 // of a body's length as its header tells it, before the body is there
)

// body is a request body of type T that is JSON but has not been judged further.
// Huma documents it as a T; decode reads it, more strictly than huma would.
type body[T any] struct {
	raw       []byte
	unchecked bool // nobody has seen yet whether it is JSON
}

// Schema tells huma that the body is documented as a T.
func (body[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// UnmarshalJSON keeps the text, which belongs to huma until then.
func (b *body[T]) UnmarshalJSON(data []byte) error {
	b.raw = bytes.Clone(data)
	return nil
}

// check sees that the body is JSON, once.
func (b *body[T]) check() error {
	if !b.unchecked {
		return nil
	}
	b.unchecked = false
	return checkSyntax(b.raw)
}

// withBody makes op take a JSON body of at most limit bytes, which readBody reads.
func withBody(op huma.Operation, limit int64) huma.Operation {
	op.MaxBodyBytes = limit + 1 // huma's bound is the first length that is too much
	op.SkipValidateBody = true
	op.BodyReadTimeout = -1 // the body is read by then: no deadline is left on the connection
	return op
}

// readBody reads the body of an operation that takes one, within the limits of
// size and time, and sees that it is JSON. Huma then finds nothing to complain
// about.
func (s *server) readBody(ctx huma.Context, next func(huma.Context)) {
	if ctx.Operation().RequestBody == nil {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	limit := ctx.Operation().MaxBodyBytes - 1
	leave, err := s.enterBulky(ctx.Context(), limit)
	if err != nil {
		s.refuse(ctx, w, err)
		return
	}
	defer leave()
	data, err := s.readBytes(w, r, limit)
	if err == nil {
		err = checkSyntax(data)
	}
	if err != nil {
		s.refuse(ctx, w, err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	r.Header.Set("Content-Type", "application/json")
	next(ctx)
}

// readBytes reads the body of a request that says that it is JSON.
func (s *server) readBytes(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	// The context does not end a read of the connection; a deadline there does. Not every
	// ResponseWriter has one.
	deadline, _ := r.Context().Deadline()
	if err := http.NewResponseController(w).SetReadDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, waypost.WrapError(waypost.EInternal, "internal error", err)
	}
	var buf bytes.Buffer
	buf.Grow(int(min(max(r.ContentLength, 0), limit, maxTrusted)) + bytes.MinRead)
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		return nil, unreadable(err, limit)
	}
	data := buf.Bytes()
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, waypost.Errorf(waypost.EMalformed, "the body is empty; send a JSON object")
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, waypost.Errorf(codeUnsupportedMedia, "send Content-Type: application/json")
	}
	return data, nil
}

// checkSyntax sees that a body is JSON.
func checkSyntax(data []byte) error {
	if json.Valid(data) {
		return nil
	}
	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return waypost.Errorf(waypost.EMalformed, "the body is no JSON at byte %d: %s", syntax.Offset, syntax.Error())
	}
	return waypost.WrapError(waypost.EMalformed, "the body is no JSON", err)
}

// unreadable says why a body could not be read to its end.
func unreadable(err error, limit int64) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return waypost.Errorf(waypost.ETooLarge, "the body must be at most %d bytes", limit)
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return waypost.Errorf(codeRequestTimeout, "the body did not arrive in time")
	}
	return waypost.WrapError(waypost.EMalformed, "the body could not be read to its end", err)
}

// isJSON reports whether a body of this content type is taken for JSON. One
// without a type is.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/json" {
		return false
	}
	charset, ok := params["charset"]
	return !ok || charset == "utf-8" || charset == "UTF-8"
}

// jsonFormat reads into bodies that readBody has checked, and writes. Text is not
// escaped for HTML, so that URLs stay readable.
var jsonFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		if quick, ok := v.(appender); ok {
			if text, ok := quick.appendJSON(nil); ok {
				_, _ = w.Write(append(text, '\n'))
				return nil
			}
		}
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return err
		}
		// A failed write means that the client has left, and huma would panic over it.
		_, _ = w.Write(buf.Bytes())
		return nil
	},
	Unmarshal: func(data []byte, v any) error {
		return v.(json.Unmarshaler).UnmarshalJSON(data)
	},
}
