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

// importProgress shows how much of a file of size bytes, 0 for unknown, is read: as
// a bar on a terminal, and elsewhere by a line now and then. Lines takes all other
// output until finish is called, a line in each write, by several goroutines
// at once: a bar stays below it.
func (p linksCommands) importProgress(size int64) (progress func(rows int, bytes int64), lines io.Writer, finish func()) {
	if !onTerminal(p.stderr) || size == 0 {
		lines = &oneByOne{to: p.stderr}
		l := &progressLines{to: lines, last: time.Now()}
		return func(rows int, bytes int64) { l.note(time.Now(), "%d rows so far%s", rows, shareOf(size, bytes)) }, lines, func() {}
	}
	bars := mpb.New(mpb.WithOutput(p.stderr), mpb.WithWidth(60))
	var rowsDone atomic.Int64 // the bar is drawn by a goroutine of its own
	bar := bars.AddBar(size,
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			return strconv.FormatInt(rowsDone.Load(), 10) + " rows"
		}, decor.WC{W: 14})),
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

// exportProgress shows how many links are done, on a terminal by a bar, and elsewhere
// by a line now and then. How many there are is not known.
func (p linksCommands) exportProgress() (count func(links int), finish func()) {
	if !onTerminal(p.stderr) {
		l := &progressLines{to: p.stderr, last: time.Now()}
		return func(n int) { l.note(time.Now(), "%d links so far", n) }, func() {}
	}
	bars := mpb.New(mpb.WithOutput(p.stderr), mpb.WithWidth(60))
	bar := bars.New(0, mpb.SpinnerStyle(), mpb.PrependDecorators(decor.CurrentNoUnit("%d links", decor.WC{W: 16})))
	return func(n int) { bar.SetCurrent(int64(n)) }, sync.OnceFunc(func() {
		bar.Abort(true)
		bars.Wait()
	})
}

// progressEvery separates two lines of progress where there is no bar, such as in a log.
const progressEvery = 10 * time.Second

// progressLines reports progress, a line now and then.
type progressLines struct {
	to   io.Writer
	last time.Time
}

// note writes a line if the last one is long enough ago.
func (l *progressLines) note(now time.Time, format string, args ...any) {
	if now.Sub(l.last) < progressEvery {
		return
	}
	l.last = now
	_, _ = fmt.Fprintf(l.to, format+"\n", args...) // a failed report is no reason to stop
}

// shareOf describes how much of a file is read; "" when the size is unknown (0).
func shareOf(size, read int64) string {
	if size == 0 {
		return ""
	}
	return fmt.Sprintf(", %d %% of the file", min(100*read/size, 100))
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
