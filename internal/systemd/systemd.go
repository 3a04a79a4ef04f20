// Package systemd notifies the service manager that a process serves, or that it stops
// (sd_notify(3)).
// Without a service manager that listens, it does nothing.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
)

// variable names the socket at which the service manager listens.
const variable = "NOTIFY_SOCKET"

// Ready says that the process serves.
func Ready(ctx context.Context) error { return notify(ctx, "READY=1") }

// Stopping says that the process is about to end.
func Stopping(ctx context.Context) error { return notify(ctx, "STOPPING=1") }

func notify(ctx context.Context, state string) error {
	c, err := dial(ctx)
	if c == nil {
		return err
	}
	_, err = c.Write([]byte(state + "\n"))
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	return nil
}

func dial(ctx context.Context) (*net.UnixConn, error) {
	path := os.Getenv(variable)
	if path == "" {
		return nil, nil //nolint:nilnil // nobody listens
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "unixgram", path)
	if err != nil {
		return nil, fmt.Errorf("tell systemd: %w", err)
	}
	return c.(*net.UnixConn), nil
}
