package httpapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"waypost"
	"waypost/controlplane"
)

// Waiter knows when edges have a change.
type Waiter interface {
	// WaitApplied returns once the live edges of this region, or of all, have the change
	// at a position on their disks, or when the time is up or ctx ends.
	WaitApplied(ctx context.Context, at waypost.Position, everywhere bool, most time.Duration) controlplane.Applied
}

// Waiting is for requests that change something.
type Waiting struct {
	Wait        string  `query:"wait" enum:"region,all" doc:"Answer only when the edges of this control plane's region, or all edges, have the change on their disks, as far as they are alive. The header Waypost-Applied says what came of it; the change is made either way."`
	WaitTimeout float64 `query:"wait_timeout" minimum:"0.05" maximum:"10" default:"2" doc:"Seconds to wait at most."`
}

const appliedDoc = "With wait: \"region; edges=2\" or \"all; edges=3\" when so many live edges have the change on their disks, \"timeout; behind=NODE,NODE\" when the named ones, at most ten, did not have it in time."

// maxBehind bounds the edges that an answer names.
const maxBehind = 10

// await waits as a request wishes, and gives the value of Waypost-Applied.
func (s *server) await(ctx context.Context, in *Waiting, at waypost.Position) string {
	if in.Wait == "" || at.IsZero() || s.waiter == nil {
		return ""
	}
	// The change is made: the request's own time, which is for that, does not bound the
	// waiting. A client that leaves does.
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if asked, ok := ctx.Value(askedKey{}).(context.Context); ok {
		defer context.AfterFunc(asked, cancel)()
	}
	applied := s.waiter.WaitApplied(patient, at, in.Wait == "all", time.Duration(in.WaitTimeout*float64(time.Second)))
	if len(applied.Behind) == 0 {
		return fmt.Sprintf("%s; edges=%d", in.Wait, applied.Edges)
	}
	return "timeout; behind=" + strings.Join(applied.Behind[:min(len(applied.Behind), maxBehind)], ",")
}

// askedKey finds the context of a request without the bound of its own time.
type askedKey struct{}

// awaitReplay waits for the change of an answer that was given before.
func (s *server) awaitReplay(ctx context.Context, in *Waiting, err error) error {
	r, ok := errors.AsType[*replayed](err)
	if !ok {
		return err
	}
	if at, err := waypost.ParsePosition(r.header.Get("Waypost-Position")); err == nil {
		if applied := s.await(ctx, in, at); applied != "" {
			r.header.Set("Waypost-Applied", applied)
		}
	}
	return r
}
