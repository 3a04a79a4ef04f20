package system_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"waypost/test/devtest"
)

var (
	// twoEdges is for tests that change only links and domains of their own.
	twoEdges = &devtest.Shared{Config: devtest.Config{Env: []string{
		"WAYPOST_CLEANUP_INTERVAL=200ms", "WAYPOST_CLEANUP_PURGE_AFTER=1h",
	}}}
	// oneEdge is for tests that let edges of their own join it.
	oneEdge = &devtest.Shared{Config: devtest.Config{Edges: "us-east-1=127.0.0.1:0"}}
)

// Most of these tests wait for processes, so more of them than there are processors run
// at a time, unless the command line sets another number.
func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if err := devtest.Cleanup(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
