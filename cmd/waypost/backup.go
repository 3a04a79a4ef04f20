package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost/controlplane/backup"
	"waypost/controlplane/postgres"
)

func (p serverCommands) backupCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "backup",
		Short: "Back up the database to a directory, while the system runs",
		Long: `Back up the database to a directory, while the system runs and is written to. The
directory gets the dump, the SQL of the roles, and manifest.json, which says of which
moment the dump is: the position and the digest of the changelog, the number of links, and
size and SHA-256 of each file. It holds no cluster secret, only its check value, so keep
the secret elsewhere. It holds salts of visitors and hashes of passwords, so encrypt it.

The login needs the role waypost_backup and nothing else. It needs pg_dump of
PostgreSQL's own version or a newer one, on this machine. Writes become slower the longer
the dump lasts, so take it at a quiet time or from a standby.

The directory must not be there yet, and it is there as a whole or not at all. A backup
that was killed leaves a directory .NAME.*.partial next to it, which you may remove.
The exit status is 0 if the backup is whole and on the disk.`,
		Example: `  psql -c "CREATE ROLE nightly LOGIN PASSWORD '…'" -c 'GRANT waypost_backup TO nightly'
  waypost backup --out /backups/$(date +%F) --database-url-file /etc/waypost/secrets/backup-url
  waypost backup --out /backups/$(date +%F) --output json | jq -r .position`,
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" {
				return &usageError{errors.New("--out is missing: the directory that the backup will be")}
			}
			cfg, done, err := p.backupConfig()
			if err != nil {
				return err
			}
			m, err := backup.Make(c.Context(), cfg, out)
			done()
			if err != nil {
				return withRemedy(fmt.Errorf("back up: %w", err))
			}
			if !m.AddsUp() {
				_, _ = fmt.Fprintln(p.stderr, "waypost: warning: PostgreSQL's rows do not add up to the digest of the changelog, and the backup is as they are: "+
					"run `waypost verify --source`")
			}
			return p.print(fmt.Sprintf("backed up %d links at position %s to %s, %s", m.Links, m.Position, out, sizeText(m.Files[backup.DumpFile].Size)), m)
		},
	}
	c.Flags().StringVar(&out, "out", "", "directory that the backup will be; it must not be there yet")
	return p.bind(c, databaseSettings...)
}

func (p serverCommands) restoreCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "restore DIR",
		Short: "Restore a backup into an empty database",
		Long: `Restore a backup of 'waypost backup' into an empty database. Sizes and SHA-256 of all
files are compared with the manifest before anything is touched. Then it makes the
missing roles, restores the dump in one transaction, and compares the rows with the
digest in the manifest. A database that holds anything is refused. After a failure the
database is empty as before, or the message says how to clean up.

The database URL is that of a superuser of PostgreSQL, because the dump says who owns
what. The owner of the backup's tables owns the database afterwards; if that role is
missing it is made, without a password. pg_restore has to be of the version of pg_dump
and PostgreSQL, or newer.

With --cluster-secret-file or WAYPOST_CONTROL_CLUSTER_SECRET another secret than the
backup's is refused. The exit status is 0 if the database is whole.

Afterwards control planes open a new epoch: no key is issued a second time, edges repair
the links that differ, and click budgets are frozen until all edges have reported.`,
		Example: `  createdb --host db2 --username postgres waypost
  waypost restore /backups/2026-11-24 --database-url postgres://postgres@db2/waypost
  waypost restore /backups/2026-11-24 --database-url-file … --cluster-secret-file /etc/waypost/secrets/cluster-secret`,
		RunE: func(c *cobra.Command, args []string) error {
			cfg, done, err := p.backupConfig()
			if err != nil {
				return err
			}
			check, err := p.secretCheck()
			if err != nil {
				return err
			}
			r, err := backup.Restore(c.Context(), cfg, args[0], check)
			done()
			if err != nil {
				return withRemedy(fmt.Errorf("restore: %w", err))
			}
			return p.print(restoredText(r, check != nil), r)
		},
	}
	return p.bind(c, append([]string{"control.cluster_secret"}, databaseSettings...)...)
}

// secretCheck returns the check value of the cluster secret in the settings, or nil
// without a secret.
func (p serverCommands) secretCheck() ([]byte, error) {
	cfg, err := p.settings(nil)
	if err != nil || cfg.Control.ClusterSecret.Reveal() == "" {
		return nil, err
	}
	var secret [32]byte
	text := strings.TrimSpace(cfg.Control.ClusterSecret.Reveal())
	if n, err := hex.Decode(secret[:], []byte(text[:min(len(text), 64)])); err != nil || n != len(secret) || len(text) != 64 {
		return nil, &usageError{errors.New("control.cluster_secret: not 32 bytes in hex")}
	}
	return postgres.SecretCheck(secret), nil
}

// backupConfig returns the settings of both commands. Progress goes to standard error
// until done is called.
func (p serverCommands) backupConfig() (cfg backup.Config, done func(), err error) {
	_, url, err := p.databaseURL()
	if err != nil {
		return cfg, nil, err
	}
	line := newProgressLine(p.stderr)
	progress := func(bytes, size int64) { line.show(time.Now(), "%s so far%s", sizeText(bytes), shareOf(size, bytes)) }
	return backup.Config{DatabaseURL: url, Environ: p.environ, Version: productVersion(), Progress: progress}, line.finish, nil
}

// sizeText writes a number of bytes in megabytes.
func sizeText(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

func restoredText(r backup.Restored, secretKnown bool) string {
	m := r.Manifest
	var b strings.Builder
	adds := "add up to the digest of the manifest"
	if !m.AddsUp() {
		adds = "are the rows of the backup\n" +
			"WARNING: they do not add up to the digest of the changelog, and did not when the backup was made: rows were lost or changed.\n" +
			"No edge takes a repair or a snapshot before waypost verify --source --recompute"
	}
	fmt.Fprintf(&b, "restored %d links as of %s; the rows %s\n", m.Links, m.Made.Format(time.RFC3339), adds)
	if len(r.MadeRoles) > 0 {
		fmt.Fprintf(&b, "made the roles %s\n", strings.Join(r.MadeRoles, ", "))
		for _, role := range r.MadeRoles {
			if role == m.Owner {
				fmt.Fprintf(&b, "%s has no password yet: ALTER ROLE %q PASSWORD '…'\n", role, role)
			}
		}
	}
	b.WriteString("Next:\n")
	if !secretKnown {
		b.WriteString("  - have the cluster secret of that time at hand: a control plane with another one refuses to start\n")
	}
	b.WriteString(`  - run waypost migrate, with the login of the control plane
  - start one control plane: it opens a new epoch, and skips the keys that may have been issued since the backup
  - if no data directory of a control plane is left, no key is issued until you run waypost ranges resume
  - edges replace the links that differ while they serve; clicks counted after the backup come again
  - exact click budgets are frozen until every edge has reported
  - run waypost verify --all, and revoke again the edges' credentials that were revoked after the backup`)
	return b.String()
}
