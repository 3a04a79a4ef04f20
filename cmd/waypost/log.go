package main

import (
	"fmt"
	"log/slog"

	"waypost/internal/config"
)

// logger writes to standard error, as configured.
func (p *program) logger(cfg config.Log) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		return nil, &usageError{fmt.Errorf("log.level: %w", err)}
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" || cfg.Format == "auto" && onTerminal(p.stderr) {
		return slog.New(slog.NewTextHandler(p.stderr, options)), nil
	}
	return slog.New(slog.NewJSONHandler(p.stderr, options)), nil
}
