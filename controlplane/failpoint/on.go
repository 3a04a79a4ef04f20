//go:build failpoints

// Package failpoint marks the places at which tests kill or slow the process.
//
// FAILPOINT is a list of what to do where, separated by semicolons:
//
//	PLACE=COUNT    the process kills itself with SIGKILL once it has passed the place
//	               so many times, such as "lease keys: committed=3"; PLACE alone: at once
//	PLACE~FILE     whoever comes to the place waits as long as the file says, such as
//	               "2s", or until there is no such file
//	NAME@DURATION  a limit of the program is another one
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
	limits map[string]time.Duration
}

var settings = func() setting {
	s, err := read(os.Getenv("FAILPOINT"))
	if err != nil {
		panic("FAILPOINT: " + err.Error())
	}
	return s
}()

func read(text string) (setting, error) {
	s := setting{kills: make(map[string]*kill), slow: make(map[string]string), limits: make(map[string]time.Duration)}
	for _, entry := range strings.Split(text, ";") {
		if place, file, ok := strings.Cut(entry, "~"); ok {
			s.slow[place] = file
			continue
		}
		if name, limit, ok := strings.Cut(entry, "@"); ok {
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
	k := settings.kills[name]
	if k == nil || k.passed.Add(1) <= k.left {
		return
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}

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

// Limit gives a limit of the program, or the one that a test has set instead.
func Limit(name string, d time.Duration) time.Duration {
	if other, ok := settings.limits[name]; ok {
		return other
	}
	return d
}
