package main

import (
	"fmt"
	"log/slog"

	"waypost/api/requestid"
	"waypost/internal/config"
)

// logger writes to standard error, as configured.
func (p *program) logger(cfg config.Log) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		return nil, &usageError{fmt.Errorf("log.level: %w", err)}
	}
	options := &slog.HandlerOptions{Level: level}
	var lines slog.Handler = slog.NewJSONHandler(p.stderr, options)
	if cfg.Format == "text" || cfg.Format == "auto" && onTerminal(p.stderr) {
		lines = slog.NewTextHandler(p.stderr, options)
	}
	log := slog.New(requestid.Log(lines))
	for _, name := range config.UnknownVariables(p.environ) {
		log.Warn("ignored an unknown environment variable", "name", name)
	}
	return log, nil
}
