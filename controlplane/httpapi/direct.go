package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"waypost"
)

// direct registers an operation like handle, and answers most of its requests without
// huma, whose reflection takes more time than all the rest: those that bring a body alone,
// with no query and no Idempotency-Key. Input makes what huma would have read; show writes
// the headers of an output and gives its status and body.
func direct[I, O any](s *server, op huma.Operation, h func(context.Context, *I) (*O, error),
	input func(header http.Header, body []byte) *I, show func(*O, http.Header) (status int, body any),
) {
	handle(s, op, h)
	limit := op.MaxBodyBytes - 1
	documented := s.api.OpenAPI().Paths[op.Path].Post
	s.directs[op.Path] = func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = op.Method + " " + op.Path // for the metrics
		refuse := func(err error) { writeProblem(w, s.problem(r.Context(), op.OperationID, err)) }
		who, err := s.admit(r.Context(), w, r, documented)
		if err != nil {
			refuse(err)
			return
		}
		leave, err := s.enterBulky(r.Context(), limit)
		if err != nil {
			refuse(err)
			return
		}
		defer leave()
		data, err := s.readBytes(w, r, limit)
		if err != nil {
			refuse(err)
			return
		}
		// As huma does it: no deadline is left on the connection.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		out, err := h(context.WithValue(r.Context(), askerKey{}, who), input(r.Header, data))
		if err != nil {
			refuse(err)
			return
		}
		status, body := show(out, w.Header())
		w.Header()["Content-Type"] = []string{"application/json"}
		w.WriteHeader(status)
		if err := jsonFormat.Marshal(w, body); err != nil {
			panic(err) // as huma does it
		}
	}
}

// answerDirectly answers a request that needs nothing of huma, if it is one.
func (s *server) answerDirectly(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost || r.URL.RawQuery != "" || r.URL.RawPath != "" || len(r.Header["Idempotency-Key"]) > 0 {
		return false
	}
	answer, ok := s.directs[r.URL.Path]
	if ok {
		answer(w, r)
	}
	return ok
}

func (o *createOutput) show(h http.Header) (status int, body any) {
	setAll(h, "Location", o.Location, "Waypost-Position", o.Position, "Etag", o.ETag, "Waypost-Applied", o.Applied)
	return o.Status, o.Body
}

func (o *bulkOutput) show(h http.Header) (status int, body any) {
	setAll(h, "Waypost-Position", o.Position, "Preference-Applied", o.Minimal, "Waypost-Applied", o.Applied)
	return http.StatusOK, o.Body
}

// setAll sets headers, given by names in their canonical form and values, but for empty ones.
func setAll(h http.Header, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			h[pairs[i]] = []string{pairs[i+1]}
		}
	}
}

// enterBulky waits until a body of such a limit may be in memory. The caller calls leave.
func (s *server) enterBulky(ctx context.Context, limit int64) (leave func(), err error) {
	if limit <= maxBody {
		return func() {}, nil
	}
	select {
	case s.bulky <- struct{}{}:
		return func() { <-s.bulky }, nil
	case <-ctx.Done():
		return nil, waypost.Errorf(waypost.EUnavailable, "too many large requests at once; nothing was created")
	}
}

// appender is a body that can write itself as encoding/json would, to the byte but for the
// end of the line, at a fraction of the cost; not ok when it leaves that to it.
type appender interface {
	appendJSON(to []byte) (text []byte, ok bool)
}

func (l link) appendJSON(b []byte) ([]byte, bool) {
	if len(l.Metadata.RawMessage) > 0 || len(l.Warnings) > 0 {
		return nil, false
	}
	w := jsonWriter{b, true}
	w.text(`{"id":`, l.ID)
	w.text(`,"short_code":`, l.ShortCode)
	w.text(`,"short_url":`, l.ShortURL)
	w.text(`,"domain":`, l.Domain)
	w.text(`,"original_url":`, l.OriginalURL)
	w.number(`,"redirect_status":`, int64(l.RedirectStatus))
	w.truth(`,"forward_query":`, l.ForwardQuery)
	w.truth(`,"forward_path":`, l.ForwardPath)
	w.text(`,"title":`, l.Title)
	w.text(`,"description":`, l.Description)
	w.texts(`,"tags":`, l.Tags)
	w.raw(`,"metadata":null`)
	w.text(`,"created_by":`, l.CreatedBy)
	w.truth(`,"active":`, l.Active)
	w.number(`,"click_count":`, l.ClickCount)
	w.moment(`,"last_accessed_at":`, l.LastAccessedAt)
	w.moment(`,"created_at":`, &l.CreatedAt)
	w.moment(`,"updated_at":`, &l.UpdatedAt)
	w.moment(`,"expires_at":`, l.ExpiresAt)
	w.raw(`}`)
	return w.b, w.ok
}

func (a bulkAnswer) appendJSON(b []byte) ([]byte, bool) {
	if a.Results == nil {
		return nil, false
	}
	w := jsonWriter{append(b, `{"results":[`...), true}
	for i := range a.Results {
		r := &a.Results[i]
		if r.Error != nil {
			return nil, false
		}
		if i > 0 {
			w.raw(`,`)
		}
		w.number(`{"status":`, int64(r.Status))
		if r.Link != nil {
			w.raw(`,"link":`)
			if w.b, w.ok = r.Link.appendJSON(w.b); !w.ok {
				return nil, false
			}
		}
		if r.Code != "" {
			w.text(`,"short_code":`, r.Code)
		}
		w.raw(`}`)
	}
	w.raw(`]}`)
	return w.b, w.ok
}

// jsonWriter writes values behind what is to stand before them.
type jsonWriter struct {
	b  []byte
	ok bool // so far
}

func (w *jsonWriter) raw(s string) { w.b = append(w.b, s...) }

func (w *jsonWriter) number(before string, n int64) {
	w.b = strconv.AppendInt(append(w.b, before...), n, 10)
}

func (w *jsonWriter) truth(before string, is bool) {
	w.b = strconv.AppendBool(append(w.b, before...), is)
}

// text leaves characters that have to be escaped to encoding/json.
func (w *jsonWriter) text(before, s string) {
	w.b = append(append(w.b, before...), '"')
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			w.ok = false
			return
		}
	}
	w.b = append(append(w.b, s...), '"')
}

func (w *jsonWriter) texts(before string, all []string) {
	w.ok = w.ok && all != nil
	w.raw(before)
	separator := `[`
	for _, s := range all {
		w.text(separator, s)
		separator = `,`
	}
	if len(all) == 0 {
		w.raw(separator)
	}
	w.raw(`]`)
}

func (w *jsonWriter) moment(before string, t *time.Time) {
	w.raw(before)
	if t == nil {
		w.raw(`null`)
		return
	}
	var err error
	if w.b, err = t.AppendText(append(w.b, '"')); err != nil {
		w.ok = false
	}
	w.raw(`"`)
}
