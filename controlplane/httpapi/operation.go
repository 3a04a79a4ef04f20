package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/internal/codes"
)

// Limits of bodies in bytes. A body with many links has room for 1,000 of the longest
// URLs and as much again for their other fields.
const (
	maxBody      = 1 << 20
	maxLinksBody = 12 << 20
	maxTrusted   = 64 << 10 // of the announced length, before the body has arrived
)

// Large bodies are read into memory that workspaces share, and are answered some at a
// time. A client that sends slowly uses its workspace's memory, and nothing else.
const (
	largeMemory      = 16 * maxLinksBody // bytes of all workspaces
	largeMemoryOfOne = largeMemory / 4
	largeAtOnce      = 16
	largeAtOnceOfOne = largeAtOnce / 2
)

// operation describes one operation of the API. The rest of its description follows from
// the types of its input and output.
type operation struct {
	id, method, path     string
	summary, description string

	scopes []controlplane.Scope // one of them is needed; the first is the one to ask for
	signed bool                 // any valid credential is enough

	status   int            // of success; default 200, or 204 without a body
	problems []int          // besides those that every such operation can answer
	answers  map[int]answer // besides, or instead of, those that follow from the output
	maxBody  int64          // default maxBody
	octets   bool           // the body is any bytes, which have a minute to arrive

	anyQuery  bool // parameters that the operation does not know are ignored
	ownPages  bool // pages of other origins are refused
	unbounded bool // takes as long as it takes
	uncounted bool // takes no request of the credential's rate
}

// handle registers an operation. An input is a struct with fields that hold parameters,
// by the tags path, query and header. A field Body holds the decoded body, and a field
// Raw its text; with the tag raw:"true" on Body the operation decodes the text itself. An
// output is a struct: its fields with the tag header become headers, and its fields
// Status and Body the status and body. A field Instead holds an answer of another shape,
// which is sent in place of the output unless it is nil. An output that is a [responder]
// writes itself.
func handle[I, O any](rt *router, op operation, h func(context.Context, *I) (*O, error)) {
	in, out := reflect.TypeFor[I](), reflect.TypeFor[O]()
	b := binding{op: op, parameters: rt.document.schemas.parametersOf(in), out: outputOf(out)}
	if f, ok := in.FieldByName("Body"); ok {
		b.body = rt.document.schemas.of(f.Type, "")
		b.bodyIndex, b.decodes = f.Index, f.Tag.Get("raw") != "true"
		if b.op.maxBody == 0 {
			b.op.maxBody = maxBody
		}
	}
	if f, ok := in.FieldByName("Raw"); ok {
		b.rawIndex = f.Index
	}
	rt.document.addOperation(&b)
	b.ofLink = strings.HasPrefix(op.path, api.PathLinks+"/{code}") || op.path == "/stats/{code}"
	pattern := op.path
	if pattern == "/" {
		pattern = "/{$}" // the root only
	}
	rt.mux.HandleFunc(op.method+" "+pattern, func(w http.ResponseWriter, r *http.Request) {
		c := &call{request: r}
		err := rt.run(w, r, &b, c, func(ctx context.Context, v reflect.Value) (any, error) {
			out, err := h(ctx, v.Addr().Interface().(*I))
			if err != nil {
				return nil, err
			}
			return out, nil
		}, in)
		if err != nil {
			p := rt.problem(r.Context(), op.id, err)
			asksForCode := waypost.CodeOf(err) == waypost.ESecondFactor && !errors.Is(err, controlplane.ErrCode)
			if (op.needsCredential() || op.ownPages) && isRefusal(p.Status) && !asksForCode {
				rt.refusals.handleRefusal(r.Context(), c.actor, refusedSender(r, p.Status, &c.sender), p.Detail, time.Now())
			}
			writeProblem(w, p)
		}
	})
}

// body is the input or output of an operation that has a body alone.
type body[T any] struct{ Body T }

func bodyOf[T any](value T) *body[T] { return &body[T]{value} }

// answered returns the result of a service as the body of an answer.
func answered[T any](value T, err error) (*body[T], error) { return &body[T]{value}, err }

// byID names the object of an operation; bodyByID has a body as well.
type byID struct {
	ID int64 `path:"id" minimum:"1"`
}

type bodyByID[T any] struct {
	byID
	Body T
}

// mapped returns the bodies of all items of a list. It is never nil.
func mapped[T, B any](all []T, show func(*T) B) []B {
	shown := make([]B, len(all))
	for i := range all {
		shown[i] = show(&all[i])
	}
	return shown
}

// binding connects an operation to HTTP.
type binding struct {
	op         operation
	parameters []parameter
	body       *schema // nil: there is none
	bodyIndex  []int
	rawIndex   []int // nil: the text is not kept
	decodes    bool
	ofLink     bool // the path has the code of a link: 404 unless a link can have it
	out        output
}

// call is the request that an operation answers.
type call struct {
	sender
	request *http.Request // its context has no bound in time
}

type callKey struct{}

func callFrom(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// actorFrom returns the actor of an operation that is not public.
func actorFrom(ctx context.Context) controlplane.Actor { return callFrom(ctx).actor }

// run answers one request: it admits the sender, reads the input, and writes the output.
func (rt *router) run(w http.ResponseWriter, r *http.Request, b *binding, c *call, h func(context.Context, reflect.Value) (any,
	error), in reflect.Type,
) error {
	// A tenth of the time is kept back, so that the answer to a request that is out of time
	// still arrives within it.
	ctx, cancel := context.WithTimeout(r.Context(), rt.timeout-rt.timeout/10)
	defer cancel()
	c.client = rt.auth.limits.Client(r)
	if b.op.ownPages {
		if err := rt.auth.sameOrigin(r, true); err != nil {
			return err
		}
	}
	var err error
	if c.sender, err = rt.auth.admit(ctx, w, r, &b.op); err != nil {
		return err
	}
	v := reflect.New(in).Elem()
	if err := b.readParameters(v, r); err != nil {
		return err
	}
	leave, err := rt.readBody(ctx, w, r, b, v, c.actor.Workspace)
	if err != nil {
		return err
	}
	defer leave() // when h panics
	if b.op.unbounded {
		ctx = r.Context()
	}
	out, err := h(context.WithValue(ctx, callKey{}, c), v)
	leave() // before the client, which may be slow, takes the answer
	if errors.Is(err, waypost.ErrNoLink) && !b.op.anyQuery {
		err = noLink(r)
	}
	if err != nil {
		return rt.problem(ctx, b.op.id, err) // while ctx shows whether its time was up
	}
	return b.out.write(w, r, out, b.op.status)
}

// noLink names the link that a request is about and that is not there.
func noLink(r *http.Request) error {
	query := r.URL.Query()
	name := shortened(cmp.Or(r.PathValue("code"), query.Get("url"), query.Get("code"), query.Get("pattern")))
	if host := query.Get("domain"); host != "" {
		name = shortened(host) + "/" + name
	}
	return waypost.Errorf(waypost.ENotFound, "%s: %q", waypost.ErrNoLink.Message, name)
}

// readParameters refuses parameters that the operation does not have, because a misspelt
// filter would select everything.
func (b *binding) readParameters(v reflect.Value, r *http.Request) error {
	var query url.Values
	if r.URL.RawQuery != "" && !b.op.anyQuery {
		var err error
		if query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			return waypost.Errorf(waypost.EMalformed,
				"the query cannot be read: it has a percent sign without two hexadecimal digits, or a semicolon")
		}
	}
	wrong := readParameters(b.parameters, v, query, r.Header, func(name string) string {
		if name == "code" { // any spelling of a code names its link
			return string(codes.NormalForm(r.PathValue(name)))
		}
		return r.PathValue(name)
	})
	known := b.queryNames()
	for name := range query {
		if !slices.Contains(known, name) {
			wrong = append(wrong, api.FieldError{Location: "query." + shortened(name), Message: unknownName("parameter", known)})
		}
	}
	if len(wrong) > 0 {
		return wrong.sorted()
	}
	if b.ofLink && !waypost.ValidCode(string(codes.NormalForm(r.PathValue("code")))) {
		return noLink(r)
	}
	return nil
}

func (b *binding) queryNames() (names []string) {
	for i := range b.parameters {
		if b.parameters[i].In == "query" {
			names = append(names, b.parameters[i].Name)
		}
	}
	return names
}

// readBody reads the body of an operation that takes one. The caller calls leave.
func (rt *router) readBody(ctx context.Context, w http.ResponseWriter, r *http.Request, b *binding,
	v reflect.Value, ws waypost.WorkspaceID,
) (leave func(), err error) {
	leave = func() {}
	if b.body == nil && !b.op.octets {
		return leave, nil
	}
	var large *largeBody
	if b.op.maxBody > maxBody {
		large = &largeBody{ReadCloser: r.Body, rt: rt, of: ws}
		r.Body, leave = large, sync.OnceFunc(large.leave)
	}
	deadline, _ := ctx.Deadline()
	read := readJSON
	if b.op.octets {
		deadline, read = time.Now().Add(partTime), readOctets
		if err := http.NewResponseController(w).SetWriteDeadline(deadline.Add(partTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return nil, waypost.WrapError(waypost.EUnavailable, "the connection is broken", err)
		}
		ctx = r.Context()
	}
	text, err := read(w, r, b.op.maxBody, deadline)
	if err == nil && large != nil {
		err = large.enter(ctx)
	}
	if err == nil && b.decodes {
		err = b.body.decode(text, v.FieldByIndex(b.bodyIndex).Addr().Interface(), "body")
	}
	if err != nil {
		leave()
		return nil, err
	}
	if b.rawIndex != nil {
		v.FieldByIndex(b.rawIndex).SetBytes(text)
	}
	return leave, nil
}

// largeBody is a large body on its way into memory.
type largeBody struct {
	io.ReadCloser
	rt      *router
	of      waypost.WorkspaceID
	taken   int // bytes of the memory of large bodies
	left    int // of these, not yet used
	entered bool
}

// largeStep is the number of bytes that are taken at a time.
const largeStep = 64 << 10

var errManyLarge = waypost.Errorf(waypost.EUnavailable, "too many large requests at once; nothing was created")

// Read implements io.Reader.
func (l *largeBody) Read(p []byte) (int, error) {
	if l.left == 0 {
		if !l.rt.largeMemory.TryAcquire(l.of, largeStep) {
			return 0, errManyLarge
		}
		l.taken, l.left = l.taken+largeStep, largeStep
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// enter waits until the body, which has been read, may be answered.
func (l *largeBody) enter(ctx context.Context) error {
	if l.entered = l.rt.large.Acquire(ctx, l.of); !l.entered {
		return errManyLarge
	}
	return nil
}

func (l *largeBody) leave() {
	if l.taken > 0 {
		l.rt.largeMemory.Release(l.of, l.taken)
	}
	if l.entered {
		l.rt.large.Release(l.of, 1)
	}
}

// readJSON reads the body of a request that declares it as JSON.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, deadline time.Time) ([]byte, error) {
	text, err := readOctets(w, r, limit, deadline)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, waypost.Errorf(waypost.EMalformed, "the body is empty; send a JSON object")
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, waypost.Errorf(codeUnsupportedMedia, "send Content-Type: application/json")
	}
	return text, nil
}

// readOctets reads the body of a request. The body has until the deadline; the connection
// keeps none.
func readOctets(w http.ResponseWriter, r *http.Request, limit int64, deadline time.Time) ([]byte, error) {
	// The context does not end a read of the connection, but a deadline there does. Not
	// every ResponseWriter has one.
	connection := http.NewResponseController(w)
	if err := connection.SetReadDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, waypost.WrapError(waypost.EUnavailable, "the connection is broken", err)
	}
	var buf bytes.Buffer
	buf.Grow(int(min(max(r.ContentLength, 0), limit, maxTrusted)) + bytes.MinRead)
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		return nil, unreadable(err, limit)
	}
	if err := connection.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, waypost.WrapError(waypost.EUnavailable, "the connection is broken", err)
	}
	return buf.Bytes(), nil
}

// unreadable explains why a body could not be read to its end.
func unreadable(err error, limit int64) error {
	if errors.Is(err, errManyLarge) {
		return err
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return waypost.Errorf(waypost.ETooLarge, "the body must be at most %d bytes", limit)
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return waypost.Errorf(codeRequestTimeout, "the body did not arrive in time")
	}
	return waypost.WrapError(waypost.EMalformed, "the body could not be read to its end", err)
}

// isJSON reports whether a body of this content type is read as JSON. A body without a
// type is.
func isJSON(contentType string) bool {
	if contentType == "" || contentType == jsonType {
		return true
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != jsonType {
		return false
	}
	charset, ok := params["charset"]
	return !ok || charset == "utf-8" || charset == "UTF-8"
}

const jsonType = "application/json"

// responder is an answer that writes itself.
type responder interface {
	respond(w http.ResponseWriter, r *http.Request)
}

// output is the shape of an operation's output.
type output struct {
	headers []outputHeader
	body    reflect.Type // nil: there is none
	status  []int        // index of the field; nil: there is none
	bodyAt  []int
	instead []int
}

type outputHeader struct {
	name, description string
	key               string // canonical
	index             []int
}

func outputOf(t reflect.Type) (o output) {
	for _, f := range reflect.VisibleFields(t) {
		switch name, isHeader := f.Tag.Lookup("header"); {
		case isHeader:
			o.headers = append(o.headers, outputHeader{name, f.Tag.Get("doc"), http.CanonicalHeaderKey(name), f.Index})
		case f.Name == "Body":
			o.body, o.bodyAt = f.Type, f.Index
		case f.Name == "Status":
			o.status = f.Index
		case f.Name == "Instead":
			o.instead = f.Index
		}
	}
	return o
}

func (o *output) write(w http.ResponseWriter, r *http.Request, out any, status int) error {
	if writes, ok := out.(responder); ok {
		writes.respond(w, r)
		return nil
	}
	v := reflect.ValueOf(out).Elem()
	if o.instead != nil {
		if writes, ok := v.FieldByIndex(o.instead).Interface().(responder); ok {
			writes.respond(w, r)
			return nil
		}
	}
	for i := range o.headers {
		if value := v.FieldByIndex(o.headers[i].index).String(); value != "" {
			w.Header()[o.headers[i].key] = []string{value}
		}
	}
	if o.status != nil {
		status = int(v.FieldByIndex(o.status).Int())
	}
	if o.body == nil {
		if status == 0 {
			status = http.StatusNoContent
		}
		w.WriteHeader(status)
		return nil
	}
	text, err := encode(nil, v.FieldByIndex(o.bodyAt).Addr().Interface())
	if err != nil {
		return err
	}
	if status == 0 {
		status = http.StatusOK
	}
	writeBody(w, status, jsonType, text)
	return nil
}

// writeBody writes an answer. An error means that the client has left.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header()["Content-Type"] = []string{contentType}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// problem turns any error into the part that the client may see, and logs the rest.
func (rt *router) problem(ctx context.Context, operation string, err error) *problem {
	return problemOf(ctx, rt.log, operation, err)
}

// problemOf is problem for handlers without a router.
func problemOf(ctx context.Context, log *slog.Logger, operation string, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if fields, ok := errors.AsType[fieldErrors](err); ok {
		p := newProblem(waypost.EInvalid, fields.Error())
		p.Errors = fields[:min(len(fields), maxFieldErrors)]
		return p
	}
	code := waypost.CodeOf(err)
	if known := kinds[code].status; known != 0 && known != http.StatusInternalServerError {
		if known > http.StatusInternalServerError {
			log.WarnContext(ctx, "request refused for now", "operation", operation, "error", err)
		}
		return newProblem(code, waypost.MessageOf(err))
	}
	// A failure because the time is up, or because the client has left, is not a fault of
	// the control plane.
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		if !errors.Is(context.Cause(ctx), context.Canceled) { // the client waits for the answer
			log.WarnContext(ctx, "request took too long", "operation", operation, "error", err)
		}
		return newProblem(waypost.EUnavailable, "the answer took too long; the request may or may not have had an effect")
	}
	log.ErrorContext(ctx, "request failed", "operation", operation, "error", err)
	return newProblem(waypost.EInternal, "internal error")
}
