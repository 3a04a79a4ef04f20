//go:build !linux || !(amd64 || arm64)

package server

import "net"

// socket is nothing here: see socket_linux.go.
type socket struct{}

func (*socket) open(*visitor, net.Conn) {}

func (*socket) isOpen() bool { return false }

func (*socket) read([]byte) (int, error) { return 0, net.ErrClosed }
