//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"fmt"

	"waypost"
	"waypost/controlplane"
)

func mintInto(m *controlplane.Minter) func(context.Context, []waypost.Code) error {
	return func(ctx context.Context, into []waypost.Code) error {
		for i := range into {
			key, err := m.Mint(ctx)
			if err != nil {
				return err
			}
			into[i] = key.Code
		}
		return nil
	}
}

func mintManyInto(m *controlplane.Minter) func(context.Context, []waypost.Code) error {
	return func(ctx context.Context, into []waypost.Code) error {
		keys, err := m.MintMany(ctx, len(into))
		for i := range keys {
			into[i] = keys[i].Code
		}
		return err
	}
}

const (
	alphabet     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	randomLength = 7
)

func randomInto(_ context.Context, into []waypost.Code) error {
	for i := range into {
		into[i] = randomCode()
	}
	return nil
}

// randomCode makes a code as nanoid does: six random bits for a character, those
// that are none thrown away, and enough bytes at once that there are seldom too few.
func randomCode() waypost.Code {
	var text [randomLength]byte
	var random [12]byte
	for n := 0; ; {
		_, _ = rand.Read(random[:]) // it never fails
		for _, b := range random {
			if b &= 63; int(b) < len(alphabet) {
				text[n] = alphabet[b]
				if n++; n == randomLength {
					return waypost.Code(text[:])
				}
			}
		}
	}
}

// sequence asks PostgreSQL for every single number.
type sequence struct {
	db     *database
	prefix int
}

func newSequence(ctx context.Context, db *database) (*sequence, error) {
	prefix, err := db.unusedPrefix(ctx)
	if err == nil {
		_, err = db.Pool.Exec(ctx, `CREATE SEQUENCE IF NOT EXISTS bench_key MINVALUE 0`)
	}
	if err != nil {
		return nil, fmt.Errorf("making a sequence: %w", err)
	}
	return &sequence{db: db, prefix: prefix}, nil
}

func (s *sequence) into(ctx context.Context, into []waypost.Code) error {
	for i := range into {
		var n int64
		if err := s.db.Pool.QueryRow(ctx, `SELECT nextval('bench_key')`).Scan(&n); err != nil {
			return fmt.Errorf("asking the sequence: %w", err)
		}
		into[i] = s.db.Coder.Encode(s.prefix, n)
	}
	return nil
}
