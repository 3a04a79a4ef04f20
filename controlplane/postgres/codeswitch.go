package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres/scoped"
	"waypost/internal/codes"
	"waypost/internal/failpoint"
	"waypost/internal/patterns"
)

// Collisions implements controlplane.DomainStore. Codes of ASCII are read in the order of
// their keys, and all others are held in memory.
func (db *DomainStore) Collisions(
	ctx context.Context, id waypost.DomainID, limit int,
) (found []controlplane.Collision, count int, err error) {
	const codesOf = `
		SELECT coalesce(typed_code, code) AS c, deleted_at IS NOT NULL AS gone FROM link WHERE domain_id = $1
		UNION ALL
		SELECT coalesce(a.typed_code, a.code), l.deleted_at IS NOT NULL FROM link_alias a JOIN link l ON l.id = a.link_id WHERE a.domain_id = $1
		UNION ALL
		SELECT code, true FROM retired_code r WHERE domain_id = $1
			AND NOT EXISTS (SELECT FROM link_alias a WHERE (a.link_id, a.n) = (r.link_id, r.n))`
	// PostgreSQL does not bring patterns, and codes with characters beyond ASCII, into the
	// order of their keys.
	const unordered = `[^\x01-\x29\x2b-\x7a\x7c-\x7f]`
	others := make(map[waypost.Code]controlplane.Collision)
	var group controlplane.Collision
	var key waypost.Code
	end := func() {
		more, both := others[key]
		if delete(others, key); both {
			group.Codes, group.Lives = append(group.Codes, more.Codes...), group.Lives || more.Lives
		}
		if len(group.Codes) < 2 || !group.Lives {
			return
		}
		if count++; len(found) < limit {
			found = append(found, group)
		}
	}
	read := func(c waypost.Code, gone bool, into *controlplane.Collision) {
		into.Lives = into.Lives || !gone
		if gone {
			c += " (deleted)"
		}
		if len(into.Codes) < 10 {
			into.Codes = append(into.Codes, string(c))
		}
	}
	var c waypost.Code
	var gone bool
	err = db.pool.Within(ctx, scoped.Operator, "look for codes that differ in case", func(tx pgx.Tx) error {
		query := func(sql string, f func()) error {
			rows, err := tx.Query(ctx, sql, id)
			if err == nil {
				_, err = pgx.ForEachRow(rows, []any{&c, &gone}, func() error { f(); return nil })
			}
			return err
		}
		if _, err := tx.Exec(ctx, addUpTimeout); err != nil {
			return err
		}
		err := query(`SELECT DISTINCT c, gone FROM (`+codesOf+`) x WHERE c ~ '`+unordered+`'`, func() {
			k := codes.Fold(c)
			keys := []waypost.Code{k}
			if !gone && waypost.IsPattern(string(k)) { // of a shape there is one alone
				keys = append(keys, waypost.Code("shape of "+patterns.Shape(string(k))))
			}
			for _, k := range keys {
				other := others[k]
				read(c, gone, &other)
				others[k] = other
			}
		})
		if err != nil {
			return err
		}
		return query(`SELECT c, gone FROM (SELECT DISTINCT * FROM (`+codesOf+`) x) x WHERE c !~ '`+unordered+`' ORDER BY lower(c), c`, func() {
			if k := codes.Fold(c); k != key {
				end()
				key, group = k, controlplane.Collision{}
			}
			read(c, gone, &group)
		})
	})
	end()
	for k := range others {
		key, group = k, controlplane.Collision{}
		end()
	}
	return found, count, err
}

func (db *DomainStore) RefuseSwitch(ctx context.Context, id waypost.DomainID) error {
	return db.pool.change(ctx, "refuse a switch", func(tx pgx.Tx, _ uint32) error {
		return scoped.Exec(ctx, tx, `UPDATE domain SET ignores_case = false WHERE id = $1 AND case_switching`, id)
	})
}

func (db *DomainStore) SwitchingDomains(ctx context.Context) (all []waypost.Domain, err error) {
	err = db.pool.QueryIn(ctx, scoped.Operator, `SELECT `+domainColumns+` FROM domain WHERE case_switching ORDER BY id`, nil, scoped.Each(func(rows pgx.Rows) error {
		d, err := scanDomain(rows)
		all = append(all, d)
		return err
	}))
	return all, scoped.Classify("look for domains that are being switched", err)
}

const switching = "switch the codes of a domain"

// SwitchCodes implements controlplane.DomainStore. Each transaction holds the head of the
// changelog, so that several control planes may do the work at once.
func (db *DomainStore) SwitchCodes(ctx context.Context, id waypost.DomainID) error {
	s := codeSwitch{domain: id}
	for done := false; !done; {
		err := db.pool.change(ctx, switching, func(tx pgx.Tx, _ uint32) (err error) {
			done, err = s.step(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// codeSwitch changes the keys of the links and aliases of a domain as its case demands.
type codeSwitch struct {
	domain waypost.DomainID
	part   int    // of the work: links, aliases, retired codes
	after  string // the code up to which this part is done
}

// step does the work of one transaction, and returns true after the last.
func (s *codeSwitch) step(ctx context.Context, tx pgx.Tx) (done bool, err error) {
	var ignores bool
	err = tx.QueryRow(ctx, `SELECT ignores_case FROM domain WHERE id = $1 AND case_switching`, s.domain).Scan(&ignores)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return true, nil
	case err != nil:
		return false, err
	case s.part < len(rekeyed):
		return false, s.rekey(ctx, tx, ignores)
	case ignores && s.part == len(rekeyed):
		return false, s.retire(ctx, tx)
	}
	_, err = tx.Exec(ctx, `UPDATE domain SET case_switching = false WHERE id = $1`, s.domain)
	return true, err
}

// proceed notes that the codes up to last are done. Fewer than a batch are the last ones.
func (s *codeSwitch) proceed(done int, last string) {
	if s.after = last; done < waypost.MaxBulk {
		s.part, s.after = s.part+1, ""
	}
}

// rekeyed has the tables in which keys change, and the statements that change the key of
// code n.code in domain $1 to n.key. Aliases whose links have moved name the new keys.
var rekeyed = []struct{ table, change, follow string }{
	{"link", `
		     free AS (SELECT n.*, l.id FROM n JOIN link l ON l.domain_id = $1 AND l.code = n.code
		              WHERE NOT EXISTS (SELECT FROM link o WHERE o.domain_id = $1 AND o.code = n.key AND o.deleted_at IS NOT NULL)
		                AND NOT EXISTS (SELECT FROM link_alias o WHERE o.domain_id = $1 AND o.code = n.key)),
		     former AS (INSERT INTO link_former_key (domain_id, code, link_id) SELECT $1, code, id FROM free
		                ON CONFLICT (domain_id, code) DO UPDATE SET link_id = excluded.link_id)
		UPDATE link l SET code = f.key, typed_code = nullif(f.typed, f.key) FROM free f WHERE l.id = f.id`, `
		UPDATE link_alias a SET target = l.domain_id || '/' || l.code FROM link l
		WHERE l.domain_id = $1 AND l.code = ANY ($2) AND l.aliases IS NOT NULL AND a.link_id = l.id
		  AND a.target <> l.domain_id || '/' || l.code`},
	{"link_alias", `
		     free AS (SELECT n.*, a.link_id, a.n FROM n JOIN link_alias a ON a.domain_id = $1 AND a.code = n.code
		              WHERE NOT EXISTS (SELECT FROM link o WHERE o.domain_id = $1 AND o.code = n.key)
		                AND NOT EXISTS (SELECT FROM retired_code r WHERE r.domain_id = $1 AND r.code = n.key
		                                AND (r.link_id, r.n) IS DISTINCT FROM (a.link_id, a.n))),
		     retired AS (INSERT INTO retired_code (domain_id, code, link_id, n) SELECT $1, key, link_id, n FROM free ON CONFLICT DO NOTHING)
		UPDATE link_alias a SET code = f.key, typed_code = nullif(f.typed, f.key) FROM free f WHERE a.domain_id = $1 AND a.code = f.code`, ""},
}

// rekey changes the keys of the next links or aliases. Of deleted links whose codes
// differ in case alone, one gets the key, and the others keep theirs, under which no
// visitor comes.
func (s *codeSwitch) rekey(ctx context.Context, tx pgx.Tx, ignores bool) error {
	of := &rekeyed[s.part]
	var former, keys, all []string
	var code string
	var typed waypost.Code
	taken := make(map[string]bool)
	rows, _ := tx.Query(ctx, `SELECT code, coalesce(typed_code, code) FROM `+of.table+`
		WHERE domain_id = $1 AND code > $2 AND ($3 OR typed_code IS NOT NULL) ORDER BY code LIMIT $4`,
		s.domain, s.after, ignores, waypost.MaxBulk)
	seen, last := 0, ""
	_, err := pgx.ForEachRow(rows, []any{&code, &typed}, func() error {
		seen, last = seen+1, code
		key := string(typed)
		if ignores {
			key = string(codes.Fold(typed))
		}
		if key != code && !taken[key] {
			taken[key] = true
			former, keys, all = append(former, code), append(keys, key), append(all, string(typed))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.proceed(seen, last); len(keys) == 0 {
		return nil
	}
	failpoint.Hit(switching + ": keys")
	_, err = tx.Exec(ctx, `SELECT set_config('waypost.switching', 'on', true)`)
	if err == nil {
		_, err = tx.Exec(ctx, `WITH n AS (SELECT * FROM unnest($2::text[], $3::text[], $4::text[]) n (code, key, typed)),`+of.change,
			s.domain, former, keys, all)
	}
	if err == nil && of.follow != "" {
		_, err = tx.Exec(ctx, of.follow, s.domain, keys)
	}
	return err
}

// retire retires the next retired codes in the form without case, too.
func (s *codeSwitch) retire(ctx context.Context, tx pgx.Tx) error {
	rows, _ := tx.Query(ctx, `SELECT code FROM retired_code WHERE domain_id = $1 AND code > $2 ORDER BY code LIMIT $3`,
		s.domain, s.after, waypost.MaxBulk)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	last := ""
	for i := range all {
		last = all[i]
		all[i] = string(codes.Fold(waypost.Code(all[i])))
	}
	s.proceed(len(all), last)
	return scoped.Exec(ctx, tx, `INSERT INTO retired_code (domain_id, code) SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING`, s.domain, all)
}
