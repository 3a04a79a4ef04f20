package certs

import (
	"log/slog"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"
)

// zapLogger passes certmagic's log lines on to log. It keeps only the fields below,
// because other fields may hold the address of a visitor. It limits the lines to some in
// a second, because visitors cause many of them.
func zapLogger(log *slog.Logger) *zap.Logger {
	return zap.New(&logCore{log: log, limit: rate.NewLimiter(rate.Every(time.Second), 20)})
}

var loggedFields = map[string]bool{
	"identifier": true, "identifiers": true, "subjects": true, "error": true, "issuer": true, "challenge_type": true,
	"attempt": true, "retrying_in": true, "remaining": true, "account_id": true, "ca": true,
}

type logCore struct {
	log    *slog.Logger
	limit  *rate.Limiter
	fields []zapcore.Field
}

// Enabled implements zapcore.Core. It drops certmagic's debug lines.
func (c *logCore) Enabled(level zapcore.Level) bool { return level >= zapcore.InfoLevel }

// With implements zapcore.Core.
func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	all := append(append([]zapcore.Field(nil), c.fields...), fields...)
	return &logCore{log: c.log, limit: c.limit, fields: all}
}

// Check implements zapcore.Core.
func (c *logCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) && c.limit.Allow() {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write implements zapcore.Core. Nothing of certmagic's ends the process.
func (c *logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range append(append([]zapcore.Field(nil), c.fields...), fields...) {
		if loggedFields[f.Key] {
			f.AddTo(values)
		}
	}
	attrs := []any{"event", e.Message}
	for key, value := range values.Fields {
		attrs = append(attrs, key, value)
	}
	switch {
	case e.Level >= zapcore.ErrorLevel:
		c.log.Error("certmagic reported an error", attrs...)
	case e.Level == zapcore.WarnLevel:
		c.log.Warn("certmagic warned", attrs...)
	default:
		c.log.Debug("certmagic reported an event", attrs...)
	}
	return nil
}

// Sync implements zapcore.Core.
func (c *logCore) Sync() error { return nil }
