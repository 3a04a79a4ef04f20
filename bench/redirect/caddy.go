//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

const caddyConf = `{
	admin %s
	auto_https off
	log {
		level ERROR
	}
}
http://:%s {
	bind 127.0.0.1
	route {
		map {path} {target} {
			import links.map
			default ""
		}
		@unknown vars {target} ""
		respond @unknown 404
		redir {target} 302
	}
}
`

// caddy is Caddy with a map of the links.
type caddy struct {
	*target
	admin string
}

// startCaddy starts Caddy in a directory that has the links.
func (l *comparison) startCaddy(ctx context.Context, dir string) (*caddy, error) {
	addr, err1 := freeAddr()
	admin, err2 := freeAddr()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(dir, "Caddyfile"), fmt.Sprintf(caddyConf, admin, portOf(addr))); err != nil {
		return nil, err
	}
	t, err := l.startExternal(ctx, dir, external{
		name: "caddy", args: []string{"run", "--config", "Caddyfile"}, grace: 2 * time.Minute,
		ready: func(ctx context.Context) error { return dialOnce(ctx, addr) },
	})
	if err != nil {
		return nil, err
	}
	t.addr = addr
	return &caddy{target: t, admin: admin}, nil
}

// reload lets a running Caddy read its files again.
func (c *caddy) reload(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "caddy", "reload", "--config", "Caddyfile", "--address", c.admin)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("reload Caddy: %w: %.500s", err, out)
	}
	return nil
}
