package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/fleet"
)

// replayed is an answer that was given before.
type replayed struct {
	answer *controlplane.Response
	header http.Header
}

func (r *replayed) respond(w http.ResponseWriter, _ *http.Request) {
	for name, values := range r.header {
		w.Header()[name] = values
	}
	writeBody(w, r.answer.Status, jsonType, r.answer.Body)
}

// replay repeats an answer, after waiting for its change as the repeated request asks.
func (a *linksAPI) replay(ctx context.Context, in *waiting, before *controlplane.Response) *replayed {
	r := &replayed{answer: before, header: http.Header{}}
	for name, value := range before.Header {
		r.header.Set(name, value)
	}
	r.header.Set(api.HeaderReplayed, "true")
	if at, err := waypost.ParsePosition(r.header.Get(api.HeaderPosition)); err == nil {
		if applied := await(ctx, a.waiter, in, at); applied != nil {
			r.addOutcome(applied)
		}
	}
	return r
}

// addOutcome adds the outcome of waiting.
func (r *replayed) addOutcome(applied *api.Applied) {
	field, err := encode(nil, applied)
	if err != nil {
		panic("httpapi: " + err.Error()) // texts and numbers can be encoded
	}
	r.header.Set(api.HeaderApplied, appliedText(applied))
	answer := *r.answer
	answer.Body = slices.Concat([]byte(`{"applied":`), bytes.TrimSpace(field), []byte(","), bytes.TrimPrefix(answer.Body, []byte("{")))
	r.answer = &answer
}

// answerOf makes the answer to keep: the bytes that the client gets.
func answerOf(status int, header map[string]string, body any) (controlplane.Response, error) {
	text, err := encode(nil, body)
	if err != nil {
		return controlplane.Response{}, err
	}
	for name, value := range header {
		if value == "" {
			delete(header, name)
		}
	}
	return controlplane.Response{Status: status, Header: header, Body: text}, nil
}

// Waiter knows when edges have a change.
type Waiter interface {
	// WaitApplied returns once the edges of this region, or of all, have the change at a
	// position on their disks, except silent ones, or when the time is up or ctx ends.
	WaitApplied(ctx context.Context, at waypost.Position, everywhere bool, most time.Duration) api.Applied
}

// waiting is for requests that change something.
type waiting struct {
	Wait        string  `query:"wait" enum:"region,all" doc:"Answer only when the edges of this control plane's region, or all edges, have the change on their disks, as far as they are heard of. The field applied and the header Waypost-Applied report the outcome; the change is made in any case."`
	WaitTimeout float64 `query:"wait_timeout" minimum:"0.05" maximum:"10" default:"2" doc:"Seconds to wait at most."`
}

// maxNamed bounds the edges that an answer names.
const maxNamed = 10

// await waits as a request asks, and returns the outcome; nil when the request does not
// wait.
func await(ctx context.Context, waiter Waiter, in *waiting, at waypost.Position) *api.Applied {
	if in.Wait == "" || at.IsZero() {
		return nil
	}
	// The change is made: the time limit of the request, which is for making it, does not
	// bound the waiting. A client that leaves ends it.
	a := waiter.WaitApplied(callFrom(ctx).request.Context(), at, in.Wait == "all", time.Duration(in.WaitTimeout*float64(time.Second)))
	some := func(names []string) []string { return append([]string{}, names[:min(len(names), maxNamed)]...) }
	a.Behind, a.Silent = some(a.Behind), some(a.Silent)
	return &a
}

// appliedText returns the value of Waypost-Applied, such as "all; edges=3" or "timeout;
// behind=eu-1,eu-2; silent=eu-3".
func appliedText(a *api.Applied) string {
	if a == nil {
		return ""
	}
	text := a.Outcome
	if a.Outcome == fleet.OutcomeAll || a.Outcome == fleet.OutcomeRegion {
		text += fmt.Sprintf("; edges=%d", a.Edges)
	}
	if len(a.Behind) > 0 {
		text += "; behind=" + strings.Join(a.Behind, ",")
	}
	if len(a.Silent) > 0 {
		text += "; silent=" + strings.Join(a.Silent, ",")
	}
	return text
}
