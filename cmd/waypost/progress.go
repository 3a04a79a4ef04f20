package main

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// importProgress shows how much of a file of so many bytes, 0 for unknown, is read: as a bar on a terminal, and elsewhere by a line now and
// then. Lines takes what else there is to say until finish is called, a line in each write, by several goroutines at once: a bar stays
// below it.
func (p *program) importProgress(size int64) (progress func(rows int, bytes int64), lines io.Writer, finish func()) {
	if !onTerminal(p.stderr) || size == 0 {
		lines = &oneByOne{to: p.stderr}
		l := &progressLines{to: lines, size: size, last: time.Now()}
		return func(rows int, bytes int64) { l.note(time.Now(), rows, bytes) }, lines, func() {}
	}
	bars := mpb.New(mpb.WithOutput(p.stderr), mpb.WithWidth(60))
	var rowsDone atomic.Int64 // the bar is drawn by a goroutine of its own
	bar := bars.AddBar(size,
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return strconv.FormatInt(rowsDone.Load(), 10) + " rows" }, decor.WC{W: 14})),
		mpb.AppendDecorators(decor.Percentage(), decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 8})),
	)
	progress = func(rows int, bytes int64) {
		rowsDone.Store(int64(rows))
		bar.SetCurrent(bytes)
	}
	return progress, bars, func() {
		bar.Abort(false)
		bars.Wait()
	}
}

// progressEvery is how often progress is told where nobody sees a bar, such as in a log.
const progressEvery = 10 * time.Second

type progressLines struct {
	to   io.Writer
	size int64 // bytes; 0: unknown
	last time.Time
}

func (l *progressLines) note(now time.Time, rows int, bytes int64) {
	if now.Sub(l.last) < progressEvery {
		return
	}
	l.last = now
	of := ""
	if l.size > 0 {
		of = fmt.Sprintf(", %d %% of the file", min(100*bytes/l.size, 100))
	}
	// That nobody can be told is no reason to stop.
	_, _ = fmt.Fprintf(l.to, "%d rows so far%s\n", rows, of)
}

// oneByOne lets one goroutine write at a time.
type oneByOne struct {
	mu sync.Mutex
	to io.Writer
}

func (o *oneByOne) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to.Write(p)
}
