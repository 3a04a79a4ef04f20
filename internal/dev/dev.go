// Package dev runs a whole Waypost system on one machine for development: a
// private PostgreSQL, one control plane and an edge for each region, each as a
// process of its own, and keeps them running.
//
// It is wiring and supervision only: the processes are the same commands that run
// in production. It is not meant for production.
package dev

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"waypost/client"
	"waypost/internal/config"
	"waypost/internal/datadir"
	"waypost/internal/pgserver"
)

// Config of a system.
type Config struct {
	Settings   config.Config // of the user; addresses, secrets and directories of the children are derived
	Executable string        // the waypost program that the children run
	Environ    []string      // of the children, except WAYPOST_*

	Stdout io.Writer // gets what to try next, once
	Stderr io.Writer // gets the log of every process, with its name in front
	Color  bool      // of the names

	// Renew, when something comes, restarts the edges with the program as it is on the
	// disk then, without losing a request.
	Renew <-chan os.Signal

	// Database brings the database at url up to the schema and lets key act in the
	// default workspace.
	Database func(ctx context.Context, url, key string) error

	// SignIn returns a token that signs the developer in to the console, once.
	SignIn func(ctx context.Context, url string) (token string, err error)
}

// How long the parts may take to stop, one after the other. All take less than a second
// where the disk keeps up. With the grace of PostgreSQL's abort the whole stays below
// 50 s.
const (
	stopEdges    = 10 * time.Second
	stopControl  = 20 * time.Second
	stopPostgres = 10 * time.Second
)

// system is a running one.
type system struct {
	cfg     Config
	plan    plan
	dir     *datadir.Dir
	secrets secrets
	out     *output
	log     *slog.Logger
	state   *stateFile
	ready   atomic.Bool             // every edge was at the head
	fail    context.CancelCauseFunc // aborts the start
}

// Plan judges the settings of the development system; its errors are mistakes of
// the user. Run judges them, too.
func Plan(s config.Config) error {
	_, err := makePlan(s)
	return err
}

// Run starts everything, and holds it until ctx ends or something cannot be
// started; then it stops everything. A stop that was asked for is no error.
// Nothing is left running, however this process ends.
func Run(ctx context.Context, cfg Config) error {
	p, err := makePlan(cfg.Settings)
	if err != nil {
		return err
	}
	dataDir, err := filepath.Abs(cfg.Settings.Dev.DataDir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if _, err := datadir.Inspect(dataDir, datadir.Dev); err != nil {
		return err
	}
	if err := p.claimPorts(ctx); err != nil {
		return err
	}
	// Other users may traverse the directory, as PostgreSQL must when it runs as another
	// user, but not list it. Every secret in it is in a directory of its own.
	dir, err := datadir.Open(dataDir, datadir.Dev, 0o711)
	if err != nil {
		return err
	}
	out := newOutput(cfg.Stderr, cfg.Color)
	own := out.named("dev")
	s := &system{
		cfg: cfg, plan: p, dir: dir, out: out,
		log:   slog.New(slog.NewTextHandler(own, &slog.HandlerOptions{Level: p.logLevel})),
		state: newStateFile(StateFile(dataDir)),
	}
	err = s.run(ctx)
	return errors.Join(err, out.flush(), dir.Close())
}

// run starts PostgreSQL, the control plane and the edges, in this order, and
// stops them in the opposite one.
func (s *system) run(outer context.Context) (err error) {
	ctx, fail := context.WithCancelCause(outer)
	defer fail(nil)
	s.fail = fail
	if err := s.state.remove(); err != nil { // that of a predecessor who was killed
		return err
	}
	_, statErr := os.Stat(s.dir.Path("postgres", "data"))
	if s.secrets, err = loadSecrets(s.dir.Path("secrets"), statErr == nil); err != nil {
		return err
	}
	s.log.Info("starting", "data_dir", s.dir.Path())

	postgres := s.keeper("postgres", stopPostgres, s.startPostgres, s.state.setPostgres)
	if err := postgres.startProcess(ctx); err != nil {
		return orStopped(outer, ctx, err)
	}
	defer func() { err = errors.Join(err, postgres.stopProcess()) }()
	server, ok := postgres.current().(*pgserver.Server)
	if !ok {
		return orStopped(outer, ctx, errors.New("PostgreSQL ended while the system was starting"))
	}
	if err := s.state.setSystem(s.plan.apiURL(), s.plan.fleetURL(), s.secrets.apiKey, server.URL()); err != nil {
		return err
	}
	if err := s.cfg.Database(ctx, server.URL(), s.secrets.apiKey); err != nil {
		return orStopped(outer, ctx, err)
	}

	control := s.keeper("control", stopControl, s.startControl(server.URL()), s.state.setControl)
	if err := control.startProcess(ctx); err != nil {
		return orStopped(outer, ctx, err)
	}
	defer func() { err = errors.Join(err, control.stopProcess()) }()

	edges, err := s.beginEdges(ctx)
	defer func() { err = errors.Join(err, endAll(edges)) }()
	if err != nil {
		return orStopped(outer, ctx, err)
	}
	return orStopped(outer, ctx, s.serve(ctx, edges, server.URL()))
}

// serve waits until every edge has all links, says so, and holds until ctx ends.
func (s *system) serve(ctx context.Context, edges []*keeper, databaseURL string) error {
	if err := s.awaitReady(ctx, edges); err != nil {
		return err
	}
	s.ready.Store(true)
	// The account may be disabled or gone, which is no reason to stop.
	token, err := s.cfg.SignIn(ctx, databaseURL)
	if err != nil {
		s.log.Warn("cannot make a sign-in link", "error", err)
	} else if err := s.state.setConsole(SignInURL(s.plan.apiURL(), token)); err != nil {
		return err
	}
	if err := s.state.publish(); err != nil {
		return err
	}
	s.log.Info("ready", "state", s.state.path)
	_, err = io.WriteString(s.cfg.Stdout, s.nextSteps())
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.cfg.Renew:
			s.log.Info("asking the edges to restart")
			for _, k := range edges {
				k.renew()
			}
		}
	}
	s.log.Info("stopping")
	return errors.Join(err, s.state.remove())
}

// awaitReady waits until every edge serves and has the whole changelog, and the API takes
// the key of this system.
func (s *system) awaitReady(ctx context.Context, edges []*keeper) error {
	api, err := client.New(s.plan.apiURL(), s.secrets.apiKey)
	if err != nil {
		return err
	}
	defer api.Close()
	poll, say := time.NewTicker(25*time.Millisecond), time.NewTicker(5*time.Second)
	defer poll.Stop()
	defer say.Stop()
	for {
		_, err := api.Edges.Fleet(ctx)
		if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusUnauthorized {
			return fmt.Errorf("the API refuses the key of this system, which was revoked or has ended: "+
				"remove %s and start again, to have a new one made", s.secrets.apiKeyFile)
		}
		for _, k := range edges {
			err = cmp.Or(err, current(ctx, k))
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-say.C:
			s.log.Info("waiting until the system is ready", "because", err)
		case <-poll.C:
		}
	}
}

// current asks the edge's admin listener, which has another address after each restart,
// and returns an error unless the edge serves and is at the head of the changelog.
func current(ctx context.Context, k *keeper) error {
	p := k.current()
	if p == nil {
		return errEnded
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, adminOf(p)+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	var answer struct{ Lag *uint64 }
	err = errors.Join(json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&answer), res.Body.Close())
	if err == nil && (res.StatusCode != http.StatusOK || answer.Lag == nil || *answer.Lag > 0) {
		err = fmt.Errorf("%s is not at the head of the changelog yet", k.name)
	}
	return err
}

// orStopped replaces an error that is a mere consequence. After the user's stop it
// returns nil, and after the failure of a process that was starting, that failure.
func orStopped(outer, ctx context.Context, err error) error {
	switch {
	case outer.Err() != nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// noteEnd aborts the start when a process fails before everything was ready once, because
// the process has logged the reason and would fail again. A killed process is started
// again like at any other time.
func (s *system) noteEnd(name string, err error) {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if ok && exit.Exited() && !s.ready.Load() {
		s.fail(fmt.Errorf("%s ended while starting: %s", name, strings.TrimPrefix(s.out.named(name).lastLine(), "waypost: ")))
	}
}

func (s *system) beginEdges(ctx context.Context) ([]*keeper, error) {
	var edges []*keeper
	var group errgroup.Group
	for i, e := range s.plan.edges {
		k := s.keeper("edge "+string(e.Region), stopEdges, s.startEdge(i, e), func(p process) error { return s.state.setEdge(i, e, p) })
		edges = append(edges, k)
		group.Go(func() error { return k.startProcess(ctx) })
	}
	return edges, group.Wait()
}

func endAll(keepers []*keeper) error {
	var group errgroup.Group
	for _, k := range keepers {
		group.Go(k.stopProcess)
	}
	return group.Wait()
}

func (s *system) startPostgres(ctx context.Context) (process, error) {
	return pgserver.Start(ctx, pgserver.Config{Dir: s.dir.Path("postgres"), Output: s.out.named("postgres"), Logger: s.log})
}

// nextSteps lists commands for a newcomer.
func (s *system) nextSteps() string {
	api, edge := s.plan.apiURL(), s.plan.edgeURLs()[0]
	var b strings.Builder
	fmt.Fprintf(&b, "\nWaypost is running: the API at %s", api)
	for i, e := range s.plan.edges {
		fmt.Fprintf(&b, ", edge %s at %s", e.Region, s.plan.edgeURLs()[i])
	}
	waypost := s.cfg.Executable
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, waypost); err == nil && len(rel) < len(waypost) {
			waypost = rel
		}
	}
	dataDir := ""
	if s.cfg.Settings.Dev.DataDir != config.DefaultDataDir(os.Getenv) {
		dataDir = " --data-dir " + s.dir.Path()
	}
	console := ""
	if s.state.state.Console != "" {
		console = "\nConsole: " + s.state.state.Console + "\n(signs in once; `waypost admin sign-in --email dev@localhost" + dataDir + "` makes another)\n"
	}
	fmt.Fprintf(&b, `.
%[5]s
Create a link:             curl -s %[1]s/api/v1/urls -H 'Content-Type: application/json' -d '{"original_url":"https://example.com/hello"}'
Follow it at an edge:      curl -i %[2]s/SHORT_CODE
From the command line:     %[3]s links create https://example.com/hello%[4]s
Import many:               %[3]s import FILE.csv%[4]s
Stop everything:           Ctrl-C

`, api, edge, waypost, dataDir, console)
	return b.String()
}

// SignInURL returns the console's page that signs in with a token. The token is in the
// fragment, which browsers do not send, so that no log has it.
func SignInURL(base, token string) string { return base + "/console/sign-in#" + token }

// urlOf returns the URL by which this machine reaches a listener on addr.
func urlOf(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "http://" + addr
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
