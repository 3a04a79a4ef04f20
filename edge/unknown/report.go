package unknown

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"

	"waypost"
	"waypost/api"
	"waypost/api/edgepost"
	"waypost/api/requestid"
)

const (
	sendTimeout = 10 * time.Second
	lastTimeout = time.Second / 2 // for the last reports, at a stop
	maxAnswer   = 4 << 10         // bytes
)

// Run counts visits and reports them until ctx ends, and then what is left, if the
// control plane answers at once. Node is the name of the edge.
func (r *Recorder) Run(ctx context.Context, node string) {
	r.node = node
	reports := make(chan *api.EdgeUnknown)
	var sent atomic.Bool // no report is under way
	sent.Store(true)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.sendAll(ctx, reports, &sent)
	}()
	empty, due := time.NewTicker(r.cfg.Tick), time.NewTicker(r.cfg.Interval)
	defer empty.Stop()
	defer due.Stop()
	for {
		select {
		case <-empty.C:
			r.empty()
		case <-due.C:
			if sent.Load() {
				if report := r.nextReport(); report != nil {
					sent.Store(false)
					reports <- report
				}
			}
		case <-ctx.Done():
			close(reports)
			<-ended
			if r.empty(); sent.Load() {
				r.sendRest(context.WithoutCancel(ctx))
			}
			return
		}
	}
}

// sendAll sends reports, each until the control plane has taken it. The bytes of a report
// stay the same, so that a report that arrives twice counts once.
func (r *Recorder) sendAll(ctx context.Context, reports <-chan *api.EdgeUnknown, sent *atomic.Bool) {
	for report := range reports {
		for failing := false; ; failing = true {
			ctx := requestid.New(ctx)
			err := r.send(ctx, report)
			if err == nil {
				break
			}
			if !failing && ctx.Err() == nil {
				r.cfg.Logger.WarnContext(ctx, "cannot report unknown addresses, will try again", "error", err)
			}
			select {
			case <-ctx.Done():
				return // it may have arrived
			case <-time.After(r.cfg.Interval):
			}
		}
		sent.Store(true)
	}
}

func (r *Recorder) sendRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastTimeout)
	defer cancel()
	for report := r.nextReport(); report != nil && r.send(requestid.New(ctx), report) == nil; {
		report = r.nextReport()
	}
}

// nextReport returns a report of what was not reported; nil without news.
func (r *Recorder) nextReport() *api.EdgeUnknown {
	news := r.table.takeNews(waypost.Day(time.Now().UnixMilli()), api.MaxEdgeUnknown)
	if len(news) == 0 {
		return nil
	}
	r.seq++
	return &api.EdgeUnknown{Node: r.node, Boot: hex.EncodeToString(r.cfg.Boot[:]), Seq: r.seq, Addresses: news}
}

func (r *Recorder) send(ctx context.Context, report *api.EdgeUnknown) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	res, err := edgepost.Send(ctx, r.cfg.Client, r.cfg.URL, api.PathEdgeUnknown, report, maxAnswer, false)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("the control plane answered %s: %.200q", res.Status, res.Body)
	}
	return err
}
