package fastpath

// Handler answers the requests of one connection. Its methods are called by the
// goroutine that reads the connection, one after the other.
type Handler interface {
	// Answer answers the bytes of one read if they are one plain request, by one call
	// of s.Write. False means that nothing was done. An error means that the answer
	// could not be written.
	Answer(s *Socket, b []byte) (answered bool, err error)

	// ArmRead sets the deadline of the next wait for a request.
	ArmRead() error

	// WriteSlowly writes the bytes that the kernel had no room for, and waits for it.
	WriteSlowly(p []byte) (int, error)
}
