//go:build linux

package main

import (
	"runtime"
	"time"

	"waypost/bench"
)

// usage is what this program and PostgreSQL have used up to some moment.
type usage struct {
	at          time.Time
	cpu         bench.CPU
	allocations uint64
}

// use reads the usage.
func (d *database) use() (u usage, err error) {
	u.cpu, err = bench.CPUTime(d.Server.PID())
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	u.allocations, u.at = memory.Mallocs, time.Now()
	return u, err
}

// spent is what one thing cost in a round.
type spent struct {
	wall, cpu, postgres float64 // nanoseconds
	allocations         float64
}

// since divides what was used since an earlier moment by the number of things done.
func (u usage) since(before usage, things int64) spent {
	self, postgres := u.cpu.Since(before.cpu)
	per := func(n float64) float64 { return n / float64(things) }
	return spent{
		wall:        per(float64(u.at.Sub(before.at))),
		cpu:         per(float64(self)),
		postgres:    per(float64(postgres)),
		allocations: per(float64(u.allocations - before.allocations)),
	}
}
