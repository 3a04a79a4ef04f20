package server_test

import (
	"testing"

	"go.uber.org/goleak"

	"waypost/internal/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.Main(m,
		// One goroutine renews the Date header for as long as the process lives.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		// The goroutine that retires idle workers checks every ten seconds if it should end.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
	)
}
