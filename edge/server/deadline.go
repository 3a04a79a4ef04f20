package server

import "time"

// deadline is one of a connection's two deadlines. fasthttp sets three deadlines for
// every request, and each costs as much as finding the link, because a runtime timer
// moves. Here they are only noted, and armed when the connection has to wait. A request
// that has arrived whole arms no deadline. A deadline that is nearly right is not armed
// again, so a connection may end early by the slack, but never late.
type deadline struct{ wanted, armed time.Time }

// slackOf returns the slack that the shortest of the timeouts allows.
func slackOf(timeouts ...time.Duration) time.Duration {
	const part = 16
	shortest := timeouts[0]
	for _, t := range timeouts[1:] {
		shortest = min(shortest, t)
	}
	return shortest / part
}

// due reports whether the deadline has to be armed.
func (d *deadline) due(slack time.Duration) bool {
	if d.wanted.IsZero() || d.armed.IsZero() {
		return d.wanted.IsZero() != d.armed.IsZero()
	}
	early := d.wanted.Sub(d.armed)
	return early < 0 || early > slack
}

// want notes deadlines. It fails after a failed handshake, as on a closed connection.
func (c *conn) want(reading, writing time.Time) error {
	c.reading.wanted, c.writing.wanted = reading, writing
	return c.failed
}

// ArmRead comes before a read. It keeps the deadline of a connection that was told to
// end.
func (c *conn) ArmRead() error {
	if !c.reading.due(c.slack) {
		return nil
	}
	c.reading.armed = c.reading.wanted
	err := c.raw.SetReadDeadline(c.reading.armed)
	if c.phase.Load() == phaseEnding {
		err = c.raw.SetReadDeadline(past)
	}
	return err
}

// armWrite comes before a write that may wait.
func (c *conn) armWrite() error {
	if !c.writing.due(c.slack) {
		return nil
	}
	c.writing.armed = c.writing.wanted
	return c.raw.SetWriteDeadline(c.writing.armed)
}
