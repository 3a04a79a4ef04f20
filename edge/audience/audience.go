package audience

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"waypost"
)

// Config of an Audience. Zero fields mean the default.
type Config struct {
	Salts   Salts                 // required
	GeoDB   *GeoDB                // nil: countries and cities are unknown
	Logger  *slog.Logger          // default: discarded; it gets no data of a visitor
	Metrics prometheus.Registerer // default: none
}

// Audience describes visitors. One goroutine at a time uses it.
type Audience struct {
	cfg    Config
	warned rate.Sometimes // of panics of the library of user agents

	agents *cache[agent]
	bots   *cache[string] // their names by their agents
	hosts  *cache[string]

	days    [keptDays]opened
	nextDay int

	host    []byte
	address [16]byte
	sum     [32]byte
}

// Sizes of the caches, in entries. An agent has at most waypost.MaxAgent bytes and a host
// MaxName, so that all of them together take less than 10 MiB.
const (
	keptAgents = 8192
	keptBots   = 1024
	keptHosts  = 8192
)

// New makes an Audience.
func New(cfg Config) *Audience {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Audience{
		cfg: cfg, agents: newCache[agent](keptAgents), bots: newCache[string](keptBots), hosts: newCache[string](keptHosts),
		host: make([]byte, 0, 2*MaxName), warned: rate.Sometimes{First: 1, Interval: time.Minute},
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(cacheMetrics{a})
	}
	return a
}

// Profile describes the visitor of a click. The strings are interned as long as they are
// in use. Visitor is 0 if there is no address, or the salt of its day is gone.
func (a *Audience) Profile(c *waypost.Click) (p waypost.ClickProfile, visitor uint64) {
	is := a.agentOf(c.Agent)
	p = waypost.ClickProfile{Device: is.device, Browser: is.browser, OS: is.os, Referrer: a.hostOf(c.Referrer), Bot: c.Bot || is.bot}
	if p.Bot {
		p.Device, p.Browser = deviceBot, a.botOf(c.Agent)
	}
	if c.Address == [16]byte{} {
		return p, 0
	}
	d := a.dayOf(c.At)
	if d == nil {
		return p, 0
	}
	addr := d.open(&a.address, &c.Address)
	if a.cfg.GeoDB != nil {
		if at := a.cfg.GeoDB.find(addr); at != nil {
			p.Country, p.City = at.country, at.city
		}
	}
	return p, d.visitor(&a.address, c.Agent, a.sum[:])
}

func (a *Audience) agentOf(text []byte) agent {
	if len(text) == 0 {
		return agent{device: deviceUnknown}
	}
	is, known := a.agents.get(text)
	if !known {
		is = parseAgent(string(text), func(panicked any) {
			a.warned.Do(func() {
				a.cfg.Logger.Warn("recovered from a panic in reading a user agent", "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
			})
		})
		a.agents.put(text, is)
	}
	return is
}

func (a *Audience) botOf(text []byte) string {
	name, known := a.bots.get(text)
	if !known {
		name = nameOfBot(string(text))
		a.bots.put(text, name)
	}
	return name
}

func (a *Audience) hostOf(referrer []byte) string {
	if len(referrer) == 0 {
		return ""
	}
	a.host = appendHost(a.host[:0], referrer)
	if len(a.host) == 0 {
		return ""
	}
	host, known := a.hosts.get(a.host)
	if !known {
		host = string(a.host)
		a.hosts.put(a.host, host)
	}
	return host
}
