package rules

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAgentCache_IsRightWhileManyShareIt has more agents than entries, so that readers
// meet entries that others write.
func TestAgentCache_IsRightWhileManyShareIt(t *testing.T) {
	var c agentCache
	var agents [][]byte
	var want []AgentSet
	for i := range 3 * len(c) {
		agent := fmt.Appendf(nil, "Mozilla/5.0 (%s) Chrome/%d", []string{"Windows NT 10.0", "iPad", "X11; Linux x86_64"}[i%3], i)
		agents, want = append(agents, agent), append(want, ParseAgent(agent))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				for i, agent := range agents {
					if got := c.parse(agent); got != want[i] {
						t.Errorf("%s: %v", agent, got.Names())
						return
					}
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, testing.AllocsPerRun(100, func() { c.parse(agents[0]) }))
}
