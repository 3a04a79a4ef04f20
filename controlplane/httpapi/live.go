package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// Times and limits of live streams.
const (
	newsEvery      = 500 * time.Millisecond // at most, for a workspace
	fleetNewsEvery = 2 * time.Second        // state of the edges, for operators
	heartbeatEvery = 5 * time.Second        // and the session is checked again
	newsWriteLimit = 10 * time.Second       // of one event; a slower reader is cut off

	maxStreams        = 2000 // in all
	maxStreamsOfOne   = 16   // of one credential
	maxAnonymousShare = 200  // of requests without a credential
	maxWorkspaceShare = 500  // of all credentials of a workspace

	// pulseKept is the time for which the news of a workspace is kept without a stream, so
	// that streams that come and go read the database as seldom as one that stays.
	pulseKept = time.Minute
)

// liveAPI streams news to consoles.
type liveAPI struct {
	clicks   Clicks
	fleet    *fleetAPI
	auth     *authenticator
	stopping <-chan struct{} // nil: never

	mu      sync.Mutex
	streams map[string]int // by credential
	all     int
	pulses  map[waypost.WorkspaceID]*pulse // of workspaces with a stream now or recently
	edges   pulse
}

// pulse is news that streams share, so that it is looked up once for all of them.
type pulse struct {
	streams int       // guarded by liveAPI.mu
	left    time.Time // by the last stream; guarded by liveAPI.mu

	mu   sync.Mutex
	at   time.Time
	took time.Duration // for the last look
	text []byte        // the last event's data; nil: none yet
}

// fresh returns the data of an event; it is looked up when it is older than age. An error
// leaves the data as it was, because the heartbeat still shows that the stream is alive.
func (p *pulse) fresh(age time.Duration, look func() (any, error)) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Looks take a twentieth of the time at most.
	if time.Since(p.at) < max(age, 20*p.took) {
		return p.text
	}
	began := time.Now()
	found, err := look()
	p.at, p.took = time.Now(), time.Since(began)
	if err != nil {
		return p.text
	}
	if text, err := encode(nil, found); err == nil {
		p.text = text
	}
	return p.text
}

type liveOutput struct {
	api   *liveAPI
	ctx   context.Context //nolint:containedctx // of the request; the output writes itself
	actor controlplane.Actor
	key   string // that the stream is counted by
}

func registerLive(rt *router, a *liveAPI) {
	a.streams, a.pulses = make(map[string]int), make(map[waypost.WorkspaceID]*pulse)
	handle(rt, operation{
		id: "live", method: http.MethodGet, path: api.PathLive, summary: "Stream news of the workspace as server-sent events",
		description: "Events: `workspace`, with `clicks` of all time and the id `newest_link`, when one has changed; `edges` every 2 s, for " +
			"operators (an EdgeList); `heartbeat` every 5 s; `ended` when the credential is no longer valid. A stream that stays silent for " +
			"longer is broken. It does not count as a request of the credential. 429: too many streams.",
		signed: true, unbounded: true, uncounted: true, problems: []int{http.StatusTooManyRequests},
		answers: map[int]answer{http.StatusOK: {
			Description: "OK", Content: map[string]media{"text/event-stream": {textSchema}},
		}},
	}, func(ctx context.Context, _ *struct{}) (*liveOutput, error) {
		return &liveOutput{api: a, ctx: ctx, actor: actorFrom(ctx), key: callFrom(ctx).credential}, nil
	})
}

// enter counts a stream; ok unless there are too many.
func (a *liveAPI) enter(key string, ws waypost.WorkspaceID) (p *pulse, leave func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	most := maxStreamsOfOne
	if key == "" {
		most = maxAnonymousShare
	}
	if p = a.pulses[ws]; p == nil {
		p = new(pulse)
	}
	if a.all >= maxStreams || a.streams[key] >= most || p.streams >= maxWorkspaceShare {
		return nil, nil, false
	}
	for other, old := range a.pulses {
		if old.streams == 0 && time.Since(old.left) > pulseKept {
			delete(a.pulses, other)
		}
	}
	a.all++
	a.streams[key]++
	a.pulses[ws] = p
	p.streams++
	return p, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all--
		if a.streams[key]--; a.streams[key] == 0 {
			delete(a.streams, key)
		}
		p.streams--
		p.left = time.Now()
	}, true
}

// respond streams until the client leaves, its session ends or the control plane stops.
func (o *liveOutput) respond(w http.ResponseWriter, r *http.Request) {
	p, leave, ok := o.api.enter(o.key, o.actor.Workspace)
	if !ok {
		writeProblem(w, tooMany("too many live streams are open", heartbeatEvery))
		return
	}
	defer leave()
	connection := http.NewResponseController(w)
	if connection.SetReadDeadline(time.Time{}) != nil {
		writeProblem(w, newProblem(waypost.EUnavailable, "this connection cannot carry a stream"))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx would gather the events
	s := stream{w: w, connection: connection}
	tick := time.NewTicker(newsEvery)
	defer tick.Stop()
	var workspace, edges string
	var fleetAt, beatAt time.Time
	for {
		if o.reads() {
			if text := p.fresh(newsEvery/2, o.workspaceNews); text != nil && string(text) != workspace {
				workspace = string(text)
				s.send("workspace", workspace)
			}
		}
		if o.actor.CheckOperator() == nil && time.Since(fleetAt) >= fleetNewsEvery-newsEvery/2 {
			fleetAt = time.Now()
			if edges = string(o.api.edges.fresh(fleetNewsEvery/2, o.fleetNews)); edges != "" {
				s.send("edges", edges)
			}
		}
		if time.Since(beatAt) >= heartbeatEvery-newsEvery/2 {
			if !beatAt.IsZero() && !o.valid(r) {
				s.send("ended", "{}")
				return
			}
			beatAt = time.Now()
			s.send("heartbeat", "")
		}
		if s.err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-o.api.stopping:
			return
		}
	}
}

// valid reports whether the credential of the stream still is, and learns its permissions
// now. It is valid until the database says otherwise.
func (o *liveOutput) valid(r *http.Request) bool {
	ctx, cancel := context.WithTimeout(r.Context(), newsWriteLimit)
	defer cancel()
	actor, err := o.api.auth.actor(ctx, r, false)
	code := waypost.CodeOf(err)
	if p, ok := errors.AsType[*problem](err); ok && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden) {
		return false
	}
	if err != nil {
		return code != waypost.EUnauthorized && code != waypost.EForbidden
	}
	same := actor.Workspace == o.actor.Workspace
	o.actor = actor
	return same
}

// reads reports whether the actor may read the news of its workspace.
func (o *liveOutput) reads() bool {
	return o.actor.Can(controlplane.ScopeAnalytics) || o.actor.Can(controlplane.ScopeLinksRead)
}

// shared returns the context of a lookup for all streams: the stream that happens to ask
// may end, and the others want the answer.
func (o *liveOutput) shared() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(o.ctx), heartbeatEvery)
}

// workspaceNews reads the values that a console compares to learn that something has
// changed.
func (o *liveOutput) workspaceNews() (any, error) {
	ctx, cancel := o.shared()
	defer cancel()
	news, err := o.api.clicks.News(ctx, o.actor)
	if err != nil {
		return nil, err
	}
	return &api.LiveWorkspace{Clicks: news.Clicks, NewestLink: strconv.FormatInt(news.NewestLink, 10)}, nil
}

func (o *liveOutput) fleetNews() (any, error) {
	ctx, cancel := o.shared()
	defer cancel()
	out, err := o.api.fleet.edges(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &out.Body, nil
}

// stream writes events. Its first error stays.
type stream struct {
	w          http.ResponseWriter
	connection *http.ResponseController
	err        error
}

// send writes an event with data of one line.
func (s *stream) send(kind, data string) {
	if s.err != nil {
		return
	}
	if s.err = s.connection.SetWriteDeadline(time.Now().Add(newsWriteLimit)); s.err != nil {
		return
	}
	text := "event: " + kind + "\n"
	if data != "" {
		text += "data: " + data + "\n"
	}
	if _, s.err = s.w.Write([]byte(text + "\n")); s.err == nil {
		s.err = s.connection.Flush()
	}
}
