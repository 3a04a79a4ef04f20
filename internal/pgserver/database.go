package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// prepare waits until the server answers and makes the role and its database where they
// are missing. Each step stands alone, so the next start completes them after a kill.
func (s *Server) prepare(ctx context.Context) (err error) {
	conn, err := s.await(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, step := range []struct{ exists, make string }{
		{"SELECT FROM pg_roles WHERE rolname = '" + Role + "'", "CREATE ROLE " + Role + " LOGIN CREATEROLE"},
		{"SELECT FROM pg_roles WHERE rolname = '" + Role + "' AND rolcreaterole", "ALTER ROLE " + Role + " CREATEROLE"},
		{"SELECT FROM pg_database WHERE datname = '" + Role + "'", "CREATE DATABASE " + Role + " OWNER " + Role},
	} {
		tag, err := conn.Exec(ctx, step.exists)
		if err == nil && tag.RowsAffected() == 0 {
			_, err = conn.Exec(ctx, step.make)
		}
		if err != nil {
			return fmt.Errorf("prepare the private PostgreSQL: %w", err)
		}
	}
	return nil
}

// await connects as superuser as soon as the server lets it. Crash recovery may
// take long, so only ctx and the server's own end bound it.
func (s *Server) await(ctx context.Context) (*pgx.Conn, error) {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		// An earlier attempt would log a fatal error.
		if acceptsConnections(s.data) {
			conn, err := pgx.Connect(ctx, s.url(superuser, superuser))
			if err != nil {
				return nil, fmt.Errorf("connect to the private PostgreSQL: %w", err)
			}
			return conn, nil
		}
		select {
		case <-s.done:
			return nil, fmt.Errorf("PostgreSQL ended while starting: %s", reason(s.tail.bytes()))
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for PostgreSQL: %w", context.Cause(ctx))
		case <-poll.C:
		}
	}
}

// acceptsConnections reads the state that the postmaster writes in the eighth line of its
// lock file (PostgreSQL: miscadmin.h, LOCK_FILE_LINE_PM_STATUS).
func acceptsConnections(data string) bool {
	status := lockLine(data, 8)
	return status == "ready" || status == "standby" // which can be read from
}

// lockLine returns a line of the postmaster's lock file, "" without one.
func lockLine(data string, number int) string {
	text, _ := os.ReadFile(filepath.Join(data, "postmaster.pid")) // there may be none
	lines := strings.Split(string(text), "\n")
	if len(lines) < number {
		return ""
	}
	return strings.TrimSpace(lines[number-1])
}

// CreateDatabase makes a database of [Role] as a copy of template, which no one
// may be connected to; "" means an empty one.
func (s *Server) CreateDatabase(ctx context.Context, name, template string) error {
	if template == "" {
		template = "template1"
	}
	// The log has no use for the content of a copy: files are copied as they are.
	return s.exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+
		" OWNER "+Role+" TEMPLATE "+pgx.Identifier{template}.Sanitize()+" STRATEGY file_copy")
}

// DropDatabase removes a database, if it is there, and ends all connections to it.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	return s.exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
}

func (s *Server) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.url(superuser, superuser))
	if err != nil {
		return fmt.Errorf("connect to the private PostgreSQL: %w", err)
	}
	_, err = conn.Exec(ctx, sql)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}
