package clicks_test

import (
	"os"
	"testing"

	"waypost/internal/leaktest"
)

// The tests that kill a process start this program again, as that process.
func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		if err := victim(dir, os.Getenv(victimURL)); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}
