// Package requestid names each request, so that the logs of all nodes on its way show the
// same id.
// An edge makes the id of a question, such as a report, and the control plane takes it
// over. Ids are for logs alone: nothing is decided by them.
package requestid

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"
)

// Header carries the id of a request, and of an answer.
const Header = "X-Request-Id"

// MaxLen bounds an id, in bytes.
const MaxLen = 64

// Key is the attribute of log lines that holds the id.
const Key = "request_id"

type key struct{}

// New returns a context with an id of its own, 32 random hex digits.
func New(ctx context.Context) context.Context {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails, and ends the process where there is no randomness
	return with(ctx, hex.EncodeToString(id[:]))
}

func with(ctx context.Context, id string) context.Context { return context.WithValue(ctx, key{}, id) }

// From returns the id of a context; "": it has none.
func From(ctx context.Context) string {
	id, _ := ctx.Value(key{}).(string)
	return id
}

// Valid reports whether an id from outside is taken: 1 to 64 of A-Z, a-z, 0-9, dot, _
// and -.
func Valid(id string) bool {
	if id == "" || len(id) > MaxLen {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// Mark sends the id of a request's context along.
func Mark(r *http.Request) {
	if id := From(r.Context()); id != "" {
		r.Header.Set(Header, id)
	}
}

// Handler adds an id to each request and its answer: the one that the client has sent if
// that is valid and the only one, or else a new one.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ctx context.Context
		if sent := r.Header[Header]; len(sent) == 1 && Valid(sent[0]) {
			ctx = with(r.Context(), sent[0])
		} else {
			ctx = New(r.Context())
		}
		w.Header()[Header] = []string{From(ctx)}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Log adds the id of the context to each line.
func Log(to slog.Handler) slog.Handler { return lines{to} }

type lines struct{ slog.Handler }

// Handle implements [slog.Handler].
func (l lines) Handle(ctx context.Context, r slog.Record) error {
	if id := From(ctx); id != "" {
		r = r.Clone()
		r.AddAttrs(slog.String(Key, id))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (l lines) WithAttrs(attrs []slog.Attr) slog.Handler { return lines{l.Handler.WithAttrs(attrs)} }

// WithGroup implements [slog.Handler].
func (l lines) WithGroup(name string) slog.Handler { return lines{l.Handler.WithGroup(name)} }
