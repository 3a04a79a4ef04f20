//go:build !linux || !(amd64 || arm64)

package fastpath

import "net"

// Socket is never open on this system; the library reads all connections.
type Socket struct{}

func (*Socket) Open(net.Conn, Handler) {}

func (*Socket) IsOpen() bool { return false }

func (*Socket) Read([]byte) (int, error) { return 0, net.ErrClosed }

func (*Socket) Write([]byte) (int, error) { return 0, net.ErrClosed }
