//go:build failpoints

// Package failpoint marks the places at which tests kill or slow the process.
//
// FAILPOINT is a list of places and actions, separated by semicolons:
//
//	PLACE=COUNT    the process kills itself with SIGKILL once it has passed the place
//	               that many times, such as "lease keys: committed=3"; PLACE alone: at once
//	PLACE!FILE     each time that the process passes the place while the file exists, it
//	               kills the process with the id in the file, and its children, and
//	               renames the file; it does not kill itself
//	PLACE~FILE     a process that reaches the place waits for the time in the file, such as
//	               "2s", or until the file is removed
//	NAME@DURATION  sets a limit of the program
//	NAME@NUMBER    sets a number of the program
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// kill is a place at which the process ends.
type kill struct {
	left   int64
	passed atomic.Int64
}

type setting struct {
	kills  map[string]*kill
	slow   map[string]string // place to file
	others map[string]string // place to file
	limits map[string]time.Duration
	counts map[string]int64
}

var settings = func() setting {
	s, err := read(os.Getenv("FAILPOINT"))
	if err != nil {
		panic("FAILPOINT: " + err.Error())
	}
	return s
}()

func read(text string) (setting, error) {
	s := setting{
		kills: make(map[string]*kill), slow: make(map[string]string), others: make(map[string]string),
		limits: make(map[string]time.Duration), counts: make(map[string]int64),
	}
	for _, entry := range strings.Split(text, ";") {
		if place, file, ok := strings.Cut(entry, "~"); ok {
			s.slow[place] = file
			continue
		}
		if place, file, ok := strings.Cut(entry, "!"); ok {
			s.others[place] = file
			continue
		}
		if name, limit, ok := strings.Cut(entry, "@"); ok {
			if n, err := strconv.ParseInt(limit, 10, 64); err == nil {
				s.counts[name] = n
				continue
			}
			d, err := time.ParseDuration(limit)
			if err != nil {
				return s, err
			}
			s.limits[name] = d
			continue
		}
		place, count, counted := strings.Cut(entry, "=")
		k := &kill{}
		if counted {
			var err error
			if k.left, err = strconv.ParseInt(count, 10, 32); err != nil {
				return s, fmt.Errorf("%q is not PLACE=COUNT", entry)
			}
		}
		s.kills[place] = k
	}
	return s, nil
}

// Hit marks a place.
func Hit(name string) {
	if file, ok := settings.slow[name]; ok {
		wait(file)
	}
	if file, ok := settings.others[name]; ok {
		killOther(file)
	}
	k := settings.kills[name]
	if k == nil || k.passed.Add(1) <= k.left {
		return
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}

// killOther kills the process that a file names, and its children, because PostgreSQL's
// children live on for a while without their parent. Of several concurrent callers, the
// one that renames the file kills them.
func killOther(file string) {
	mine := file + "." + strconv.FormatUint(others.Add(1), 10)
	if os.Rename(file, mine) != nil {
		return
	}
	text, err := os.ReadFile(mine)
	if err != nil {
		panic(err)
	}
	parent := strings.TrimSpace(string(text))
	children, err := os.ReadFile("/proc/" + parent + "/task/" + parent + "/children")
	if err != nil {
		return // it is gone
	}
	for _, id := range append([]string{parent}, strings.Fields(string(children))...) {
		pid, err := strconv.Atoi(id)
		if err != nil || pid <= 1 {
			panic(fmt.Sprintf("%s has no process: %q", file, text))
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
	}
}

var others atomic.Uint64

// wait lasts as long as a file says, and no longer than the file is there.
func wait(file string) {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(file)
		if err != nil {
			return
		}
		d, err := time.ParseDuration(strings.TrimSpace(string(text)))
		if err != nil || time.Since(began) >= d {
			return
		}
	}
}

// Number returns a number of the program, or the one that a test has set instead.
func Number(name string, n int64) int64 {
	if other, ok := settings.counts[name]; ok {
		return other
	}
	return n
}

// Limit returns a limit of the program, or the one that a test has set instead.
func Limit(name string, d time.Duration) time.Duration {
	if other, ok := settings.limits[name]; ok {
		return other
	}
	return d
}
