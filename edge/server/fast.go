package server

import (
	"errors"
	"io"
	"time"

	"waypost"
	"waypost/edge/fastpath"
	"waypost/rules"
)

var errPanicked = errors.New("a redirect panicked after its click was counted")

// answerFast answers one plain GET of a code on the fast path, and reports whether it
// did. It decides nothing that the handler does not decide in the same way: an unusual
// request, and an unusual record, are declined before anything was done, and the handler
// answers them (FuzzFastPath_AnswersLikeTheHandler). An error means that the answer could
// not be written, or that a panic came after the click was counted.
func (c *conn) answerFast(to io.Writer, b []byte) (answered bool, err error) {
	s := c.server
	var r fastpath.Request
	if s.noFastPath || s.draining.Load() || !r.Parse(b) {
		return false, nil
	}
	visit := waypost.ParseVisit(r.Target)
	if len(visit.Path) == 0 || visit.Path[len(visit.Path)-1] == '+' || isOwnPath(visit.Path) || !wellEscaped(visit.Path) {
		return false, nil
	}
	host, ok := parseHost(c.host[:0], r.Host)
	if ok && c.trusted && r.ForwardedHost != nil {
		host, ok = c.forwardedHost(r.ForwardedHost)
	}
	// The hooks of fasthttp end a connection that was just asked to end, so the fast path
	// leaves it to them.
	if !ok || !c.takeUp() {
		return false, nil
	}
	counted := false // or about to be, so that the handler must not answer as well
	defer func() {
		if p := recover(); p != nil {
			s.logPanic(c, p)
			if answered = counted; counted {
				err = errPanicked
			}
		}
		if !answered {
			c.phase.Store(phaseWaiting) // fasthttp's hook will find the request begun
		}
	}()
	var began time.Time
	timed := c.isTimed()
	if timed {
		began = time.Now()
	}
	by := asked{fast: &r}
	domain, res, err := s.decide(c, host, &visit, by)
	if err != nil || res.Status == 503 || res.Asks() || res.Link && visit.Preview {
		return false, nil
	}
	var a answer
	switch res.Status {
	case 404, 410, 451:
		a = s.refusal(&res, acceptsHTML(r.Accept))
	default:
		var of cookie
		if res.Keep {
			of = c.finder.cookie(&visit)
		}
		if a, err = s.redirect(&res, of); err != nil {
			return false, nil
		}
	}
	if a.variant != 0 && c.trusted { // the handler knows whether the proxy was asked over TLS
		return false, nil
	}
	// The handler waits for clicks, and distinguishes visitors from other software.
	if record := &c.finder.at.record; rules.Limited(&res) &&
		(s.cfg.Agents.IsBot(r.Agent) || s.cfg.Budgets == nil || !s.cfg.Budgets.Spend(record.Domain, record.Name)) {
		return false, nil
	}
	counted = res.Link
	now := time.Now()
	if res.Link && s.cfg.Clicks != nil {
		s.recordClick(c, waypost.Click{
			Domain: domain, Code: visit.Code, Rule: res.Rule, Variant: res.Variant,
			Agent: r.Agent, Referrer: r.Referrer, At: s.clickTime(now),
		}, &visit, s.clientOf(c, by))
	}
	out := a.appendTo(c.out[:0], s.date.line(now), c.secure)
	keep(&c.out, out)
	c.stripe.count(res.Status)
	c.writing.wanted = now.Add(s.cfg.WriteTimeout)
	_, err = to.Write(out)
	if c.requests++; timed {
		s.metrics.durations.Observe(time.Since(began).Seconds())
	}
	c.reading.wanted = now.Add(s.cfg.IdleTimeout)
	c.fast = true
	c.rest()
	return true, err
}
