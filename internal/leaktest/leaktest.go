// Package leaktest makes tests fail that leave goroutines behind.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience limits the time that goroutines have to end after the last test. A goroutine
// that was told to end does so within milliseconds, but not on a machine that stands
// still for a while.
const patience = 30 * time.Second

// Main runs the tests of a package, as its TestMain, and exits. It fails when goroutines
// are left that no option allows.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(patient{m, options}, options...)
}

// patient lets goroutines end before it says how the tests went.
type patient struct {
	m       *testing.M
	options []goleak.Option
}

func (p patient) Run() int {
	code := p.m.Run()
	if code == 0 {
		for began := time.Now(); goleak.Find(p.options...) != nil && time.Since(began) < patience; {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return code
}
