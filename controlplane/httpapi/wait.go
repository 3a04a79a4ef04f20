package httpapi

import (
	"context"
	"fmt"
	"net/http"
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
		if applied := await(ctx, a.waiter, in, at); applied != "" {
			r.header.Set(api.HeaderApplied, applied)
		}
	}
	return r
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
	// WaitApplied returns once the live edges of this region, or of all, have the change
	// at a position on their disks, or when the time is up or ctx ends.
	WaitApplied(ctx context.Context, at waypost.Position, everywhere bool, most time.Duration) fleet.Applied
}

// waiting is for requests that change something.
type waiting struct {
	Wait        string  `query:"wait" enum:"region,all" doc:"Answer only when the edges of this control plane's region, or all edges, have the change on their disks, as far as they are alive. The header Waypost-Applied reports the outcome; the change is made in any case."`
	WaitTimeout float64 `query:"wait_timeout" minimum:"0.05" maximum:"10" default:"2" doc:"Seconds to wait at most."`
}

// maxBehind bounds the edges that an answer names.
const maxBehind = 10

// await waits as a request asks, and returns the value of Waypost-Applied: "region;
// edges=2" or "all; edges=3" when that many live edges have the change on their disks,
// "timeout; behind=NODE,NODE" when the named ones, at most ten, lacked it in time.
func await(ctx context.Context, waiter Waiter, in *waiting, at waypost.Position) string {
	if in.Wait == "" || at.IsZero() {
		return ""
	}
	// The change is made: the time limit of the request, which is for making it, does not
	// bound the waiting. A client that leaves ends it.
	applied := waiter.WaitApplied(callFrom(ctx).request.Context(), at, in.Wait == "all", time.Duration(in.WaitTimeout*float64(time.Second)))
	if len(applied.Behind) == 0 {
		return fmt.Sprintf("%s; edges=%d", in.Wait, applied.Edges)
	}
	return "timeout; behind=" + strings.Join(applied.Behind[:min(len(applied.Behind), maxBehind)], ",")
}
