package pacer_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/pacer"
)

// slept returns how long pauses take after a time of work.
func slept(t *testing.T, processors int, p *pacer.Pacer, worked time.Duration) (pause time.Duration) {
	t.Helper()
	before := runtime.GOMAXPROCS(processors)
	defer runtime.GOMAXPROCS(before)
	synctest.Test(t, func(*testing.T) {
		if p != nil {
			p.Begin(10 * time.Millisecond)
		}
		time.Sleep(worked)
		start := time.Now()
		for range 100 {
			p.Step()
		}
		pause = time.Since(start)
	})
	return pause
}

func TestPacer_SleepsBetweenSlices(t *testing.T) {
	require.Zero(t, slept(t, 1, &pacer.Pacer{}, 10*time.Microsecond), "within a slice")
	require.Equal(t, 300*time.Microsecond, slept(t, 1, &pacer.Pacer{}, 200*time.Microsecond), "after a slice")
	require.Equal(t, 100*time.Microsecond, slept(t, 1, &pacer.Pacer{}, 20*time.Millisecond), "late work rests less")
	require.Zero(t, slept(t, 4, &pacer.Pacer{}, time.Second), "with enough processors")
	stop := make(chan struct{})
	close(stop)
	require.Zero(t, slept(t, 1, &pacer.Pacer{Stop: stop}, time.Second), "while a caller waits")
	require.Zero(t, slept(t, 1, nil, time.Second), "without a pacer")
}

func TestPacer_WorkWithoutATimeIsNeverLate(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(*testing.T) {
		var p pacer.Pacer
		p.Pause() // the first slice begins
		time.Sleep(time.Hour)
		start := time.Now()
		p.Pause()
		require.Equal(t, 3*time.Millisecond, time.Since(start))
	})
}
