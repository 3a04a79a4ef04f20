package handover

import (
	"context"
	"log/slog"
	"net"
	"os"
)

// Listen makes the socket of a directory.
func Listen(ctx context.Context, dir string) (*net.UnixListener, error) { return listen(ctx, dir) }

// Talk holds one conversation.
func Talk(ctx context.Context, c *net.UnixConn, incumbent Incumbent) {
	cfg := Config{Incumbent: incumbent, Formats: "replica 1", Timeout: graceful, Logger: slog.New(slog.DiscardHandler)}
	s := &server{cfg: cfg, busy: make(chan struct{}, 1)}
	s.talk(ctx, conn{c})
}

// Decode reads a message that came with a number of files, and returns it as it would be
// written again.
func Decode(b []byte, files int) (kind, reason string, names []string, err error) {
	m, err := decode(b, files)
	return string(m.Kind), m.Reason, m.Files, err
}

// Judge says why a process of a user gets nothing.
func Judge(asks, formats string, version, uid int) error {
	s := &server{cfg: Config{Formats: "replica 1"}}
	return s.judge(message{Kind: kind(asks), Protocol: version, Formats: formats}, peer{pid: 1, uid: uid})
}

// SocketPath returns the path of a directory's socket.
func SocketPath(dir string) string { return dir + string(os.PathSeparator) + socketName }
