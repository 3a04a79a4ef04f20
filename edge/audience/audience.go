package audience

import (
	"net/netip"

	"waypost"
	"waypost/rules/agents"
)

// Config of an Audience. Zero fields mean the default.
type Config struct {
	Salts  Salts              // required
	GeoDB  *GeoDB             // nil: countries and cities are unknown
	Agents *agents.Classifier // nil: the words of its package alone
}

// Audience describes visitors. One goroutine at a time uses it.
type Audience struct {
	cfg Config

	days    [keptDays]opened
	nextDay int

	host    []byte
	address [16]byte
	sum     [32]byte
}

// New makes an Audience.
func New(cfg Config) *Audience {
	return &Audience{cfg: cfg, host: make([]byte, 0, 2*MaxName)}
}

// Profile describes the visitor of a click. Visitor is 0 if there is no address, or the
// salt of its day is gone.
func (a *Audience) Profile(c *waypost.Click) (p waypost.ClickProfile, visitor uint64) {
	is := a.cfg.Agents.Classify(c.Agent)
	if c.Bot && is.Set&agents.Bot == 0 {
		is.Set, is.Browser = is.Set|agents.Bot, ""
	}
	p = waypost.ClickProfile{
		Device: is.Device(), Browser: is.Browser, OS: is.System, Referrer: a.hostOf(c.Referrer), Bot: is.Set&agents.Bot != 0,
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

// Visitor returns the number of a visitor as in Profile, and whether the agent is a
// bot's.
func (a *Audience) Visitor(agent []byte, from netip.Addr, at int64) (visitor uint64, bot bool) {
	bot = a.cfg.Agents.Classify(agent).Set&agents.Bot != 0
	if d := a.dayOf(at); d != nil && from.IsValid() {
		a.address = from.As16()
		visitor = d.visitor(&a.address, agent, a.sum[:])
	}
	return visitor, bot
}

func (a *Audience) hostOf(referrer []byte) string {
	if len(referrer) == 0 {
		return ""
	}
	a.host = appendHost(a.host[:0], referrer)
	return string(a.host)
}
