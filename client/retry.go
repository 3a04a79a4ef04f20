package client

import (
	"context"
	"time"
)

// Pauses between tries, unless the API asks for more.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 4 * time.Second
)

// Retry repeats requests that fail. It pauses 250 ms after the first failure, and twice
// as long after each further one, up to 4 s, or for as long as the API asks.
type Retry struct {
	// Tries bounds how often a request is sent.
	Tries int

	// Again reports whether another try is of use after an error, and how long to pause at
	// least, as [Passing] does.
	Again func(err error) (after time.Duration, ok bool)

	// Pause waits; default: [Pause].
	Pause func(ctx context.Context, d time.Duration) error
}

// Do calls try until it succeeds, and returns the error of the last try. Do also returns
// that error, and not ctx's, when ctx ends a pause, because it says what the last request
// did.
func (r Retry) Do(ctx context.Context, try func() error) error {
	if r.Pause == nil {
		r.Pause = Pause
	}
	pause := firstPause
	for n := 1; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		after, ok := r.Again(err)
		if !ok || n == r.Tries || r.Pause(ctx, max(pause, after)) != nil {
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

// Pause waits for d, or returns the error of ctx once that ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
