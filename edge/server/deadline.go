package server

import (
	"net"
	"time"
)

// deadline is one of a connection. fasthttp sets three for every request, and each is
// a timer of the runtime's to move, which costs as much as finding the link. Here they
// are only noted, and told to the connection when it has to read or write: a request
// that has come whole needs none. One that is nearly right already is left: a
// connection may be ended early by the slack, never late.
type deadline struct{ wanted, armed time.Time }

// slackOf gives the slack for the shortest of the timeouts.
func slackOf(timeouts ...time.Duration) time.Duration {
	const part = 16
	shortest := timeouts[0]
	for _, t := range timeouts[1:] {
		shortest = min(shortest, t)
	}
	return shortest / part
}

// due reports whether the connection has to be told.
func (d *deadline) due(slack time.Duration) bool {
	if d.wanted.IsZero() || d.armed.IsZero() {
		return d.wanted.IsZero() != d.armed.IsZero()
	}
	early := d.wanted.Sub(d.armed)
	return early < 0 || early > slack
}

// want notes deadlines. Like those of a connection that is closed, they fail once a
// handshake has.
func (v *visitor) want(reading, writing time.Time) error {
	v.reading.wanted, v.writing.wanted = reading, writing
	return v.over
}

// armReading comes before a read. It keeps the deadline of a connection that was told
// to end.
func (v *visitor) armReading() error {
	if !v.reading.due(v.slack) {
		return nil
	}
	v.reading.armed = v.reading.wanted
	err := v.raw.SetReadDeadline(v.reading.armed)
	if v.phase.Load() == phaseEnding {
		err = v.raw.SetReadDeadline(past)
	}
	return err
}

// armWriting comes before a write.
func (v *visitor) armWriting() error {
	if !v.writing.due(v.slack) {
		return nil
	}
	v.writing.armed = v.writing.wanted
	return v.raw.SetWriteDeadline(v.writing.armed)
}

func (v *visitor) write(to net.Conn, p []byte) (int, error) {
	if err := v.armWriting(); err != nil {
		return 0, err
	}
	return to.Write(p)
}
