package postgres

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/replication"
)

// ClusterConfig is what is set once per cluster, for ever.
type ClusterConfig struct {
	CodeLength, PrefixLength int
	Secret                   [32]byte // keys the permutation of codes; never stored
	DefaultHost              string   // of the shared domain; may change
}

// EnsureCluster writes the cluster's settings at the first start, and at every
// later one refuses a configuration that contradicts them: with another secret or
// length, codes would repeat. It gives the cluster's identity.
func (db *DB) EnsureCluster(ctx context.Context, cfg ClusterConfig) (replication.Cluster, error) {
	mac := hmac.New(sha256.New, cfg.Secret[:])
	mac.Write([]byte("waypost cluster secret check"))
	check := mac.Sum(nil)

	var id replication.Cluster
	var code, prefix int
	var stored []byte
	_, err := db.execIn(ctx, system, `INSERT INTO cluster (code_length, prefix_length, secret_check) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		cfg.CodeLength, cfg.PrefixLength, check)
	if err == nil {
		err = db.queryRowIn(ctx, system, `SELECT id, code_length, prefix_length, secret_check FROM cluster`, nil,
			(*[16]byte)(&id), &code, &prefix, &stored)
	}
	if err != nil {
		return id, classify("read the cluster's settings", err)
	}
	if code != cfg.CodeLength || prefix != cfg.PrefixLength {
		return id, fmt.Errorf("this cluster has code length %d and prefix length %d, the configuration says %d and %d: set once, they cannot change",
			code, prefix, cfg.CodeLength, cfg.PrefixLength)
	}
	if !hmac.Equal(stored, check) {
		return id, fmt.Errorf("the cluster secret is not the one that this database was set up with: configure that one, or codes would repeat")
	}
	if err := db.ensureHost(ctx, cfg.DefaultHost); err != nil {
		return id, err
	}
	return id, db.WatchOnce(ctx)
}

func (db *DB) ensureHost(ctx context.Context, host string) error {
	var have string
	err := db.queryIn(ctx, system, `SELECT host FROM domain WHERE id = $1`, []any{waypost.DefaultDomain}, func(rows pgx.Rows) error {
		for rows.Next() {
			if err := rows.Scan(&have); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err != nil {
		return classify("read the default domain", err)
	}
	if have == host {
		return nil
	}
	err = db.change(ctx, "set the default domain", func(tx pgx.Tx, _ uint32) error {
		_, err := tx.Exec(ctx, `UPDATE domain SET host = $1 WHERE id = $2`, host, waypost.DefaultDomain)
		return err
	})
	if waypost.CodeOf(err) == waypost.EInvalid {
		return fmt.Errorf("the base URL's host %q belongs to another domain of this cluster", host)
	}
	return err
}
