package services_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/services"
)

var quiet = slog.New(slog.DiscardHandler)

// diary notes what happened, in order.
type diary struct {
	mu   sync.Mutex
	said []string
}

func (d *diary) note(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said = append(d.said, text)
}

// until runs until its context ends.
func (d *diary) until(name string) services.Service {
	return services.Service{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		d.note(name + " ended")
		return ctx.Err()
	}}
}

func TestRun_StopsInReverseOrder(t *testing.T) {
	var d diary
	last := d.until("last")
	last.Stop = func(ctx context.Context) error {
		d.note("last is asked to stop")
		return ctx.Err()
	}
	only := services.Service{Name: "only", Stop: func(context.Context) error { d.note("only stopped"); return nil }}
	ctx, cancel := context.WithCancel(t.Context())
	stopper := services.Service{Name: "stopper", Run: func(context.Context) error { cancel(); return nil }}
	err := services.Run(ctx, quiet, services.Stage{d.until("first")}, services.Stage{only}, services.Stage{last}, services.Stage{stopper})
	require.NoError(t, err)
	require.Equal(t, []string{"last is asked to stop", "last ended", "only stopped", "first ended"}, d.said)
}

func TestRun_AFailureStopsAll(t *testing.T) {
	var d diary
	broken, late := errors.New("broken"), errors.New("late")
	first := d.until("first")
	first.Stop = func(context.Context) error { return late }
	err := services.Run(t.Context(), quiet, services.Stage{first}, services.Stage{
		{Name: "broken", Run: func(context.Context) error { return broken }},
	})
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, late)
	require.Equal(t, []string{"first ended"}, d.said)
}

func TestRun_ErrStopIsNoFailure(t *testing.T) {
	var d diary
	err := services.Run(t.Context(), quiet, services.Stage{d.until("first")}, services.Stage{
		{Name: "stop", Run: func(context.Context) error { return services.ErrStop }},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"first ended"}, d.said)
}
