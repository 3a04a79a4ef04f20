package replica

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPacer_SleepsOnlyOnOneProcessor(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for processors, slept := range map[int]time.Duration{1: pacePause, 2: 0} {
		runtime.GOMAXPROCS(processors)
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			p := pacer{since: start.Add(-paceRun)}
			for range paceRecords {
				p.step()
			}
			require.Equal(t, slept, time.Since(start))
		})
	}
}
