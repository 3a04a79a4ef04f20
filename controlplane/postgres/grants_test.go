package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// grants lists the privileges of each role on each table after all migrations: r reads, a
// adds, w changes, d deletes. Everything else is forbidden.
const grants = `
api_key: backup=r operator=rawd reaper=rwd tenant=raw
app_user: backup=r operator=rawd tenant=raw
audit: backup=r operator=ra tenant=ra
budget: backup=r operator=rawd reaper=rd tenant=r
budget_account: backup=r operator=rawd tenant=r
budget_awaited: backup=r operator=rawd
budget_node: backup=r operator=rawd
budget_state: backup=r operator=rawd
changelog: backup=r operator=rawd stream=r
changelog_epoch: backup=r operator=rawd reaper=r stream=r tenant=r
changelog_head: backup=r operator=rawd reaper=r stream=r tenant=r
cleanup: backup=r operator=rawd reaper=rw
click_batch: backup=r ingest=rawd operator=rawd
click_day: backup=r ingest=rawd operator=rawd reaper=rd tenant=rwd
click_dead_letter: backup=r ingest=rawd operator=rawd
click_dead_letter_more: backup=r ingest=rawd operator=rawd
click_event: backup=r ingest=rawd operator=rawd reaper=rd tenant=rwd
click_pack: backup=r ingest=rawd operator=rawd tenant=rwd
click_progress: backup=r ingest=rawd operator=rawd
click_set_aside: backup=r ingest=rawd operator=rawd reaper=rd
click_watermark: backup=r ingest=rawd operator=rawd
click_workspace_day: backup=r ingest=rawd operator=rawd tenant=rwd
click_workspace_part: backup=r ingest=rawd operator=rawd tenant=rwd
cluster: backup=r ingest=r operator=rawd reaper=r stream=r tenant=r
control_node: backup=r operator=rawd
domain: backup=r ingest=r operator=rawd reaper=r search=rw stream=r tenant=raw
domain_proof: backup=r operator=rawd tenant=rawd
edge_boot: backup=r operator=rawd
edge_order: backup=r operator=rawd
idempotency: backup=r operator=rawd tenant=ra
import: backup=r operator=rawd tenant=rawd
import_part: backup=r operator=rawd tenant=rawd
import_rows: backup=r operator=rawd tenant=rawd
key_burn: backup=r operator=rawd
key_issue: backup=r operator=rawd
key_lease: backup=r operator=rawd stream=r
key_range: backup=r operator=rawd stream=r
key_state: backup=r operator=rawd
link: backup=r ingest=r operator=rawd reaper=rwd search=r stream=r tenant=raw
link_alias: backup=r ingest=r operator=rawd reaper=rd search=r stream=r tenant=rawd
link_block: backup=r operator=rawd
link_change: backup=r operator=rawd reaper=rd tenant=rawd
link_click: backup=r ingest=rawd operator=rawd reaper=rd search=r tenant=rwd
link_dedupe: backup=r operator=rawd tenant=rawd
link_former_key: backup=r ingest=r operator=rawd
link_tag: backup=r operator=rawd search=rawd tenant=r
membership: backup=r operator=rawd tenant=rawd
node_credential: backup=r operator=rawd
node_enrolment: backup=r operator=rawd
reserved_key: backup=r operator=rawd tenant=raw
retired_code: backup=r ingest=r operator=rawd reaper=ra search=ra
second_factor: backup=r operator=rawd
sign_in_link: backup=r operator=rawd
stats_answer: backup=r operator=rawd tenant=rawd
stats_answer_day: backup=r operator=rawd tenant=rawd
stats_question: backup=r operator=rawd tenant=rawd
stats_view: backup=r operator=rawd tenant=rawd
unknown_address: backup=r ingest=rawd operator=rawd tenant=r
unknown_report: backup=r ingest=rawd operator=rawd
user_session: backup=r operator=rawd
visitor_salt: backup=r operator=rawd stream=r
workspace: backup=r ingest=r operator=rawd reaper=r search=rw tenant=rw
`

// whoMay selects the privileges of each role on each table.
const whoMay = `
	SELECT c.relname::text, array_agg(replace(r.rolname, 'waypost_', '') || '=' || p.can ORDER BY r.rolname)
	FROM pg_class c CROSS JOIN pg_roles r CROSS JOIN LATERAL (
		SELECT CASE WHEN has_any_column_privilege(r.oid, c.oid, 'SELECT') THEN 'r' ELSE '' END
		    || CASE WHEN has_any_column_privilege(r.oid, c.oid, 'INSERT') THEN 'a' ELSE '' END
		    || CASE WHEN has_any_column_privilege(r.oid, c.oid, 'UPDATE') THEN 'w' ELSE '' END
		    || CASE WHEN has_table_privilege(r.oid, c.oid, 'DELETE') THEN 'd' ELSE '' END
		    || CASE WHEN has_table_privilege(r.oid, c.oid, 'TRUNCATE, TRIGGER, REFERENCES') THEN '!' ELSE '' END AS can) p
	WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'goose_db_version'
	  AND r.rolname LIKE 'waypost\_%' AND p.can <> ''
	GROUP BY c.relname ORDER BY c.relname`

func TestEachRoleMayDoWithEachTableWhatItNeedsAndNoMore(t *testing.T) {
	_, hand := open(t)
	rows, err := hand.Query(t.Context(), whoMay)
	require.NoError(t, err)
	var table string
	var roles []string
	var b strings.Builder
	_, err = pgx.ForEachRow(rows, []any{&table, &roles}, func() error {
		fmt.Fprintf(&b, "%s: %s\n", table, strings.Join(roles, " "))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(grants), strings.TrimSpace(b.String()))

	require.Zero(t, number(t, hand, `
		SELECT count(*) FROM pg_class c CROSS JOIN pg_roles r
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relispartition AND r.rolname LIKE 'waypost\_%'
		  AND (has_table_privilege(r.oid, c.oid, 'INSERT, UPDATE, DELETE')
		       OR has_table_privilege(r.oid, c.oid, 'SELECT') AND r.rolname NOT IN ('waypost_operator', 'waypost_backup', 'waypost_stream'))`),
		"partitions are reached through their tables")
}

// mayTruncate lists the tables of which TRUNCATE is allowed.
var mayTruncate []string

func TestSchema_RefusesTruncateOfEveryTable(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("kept"))
	require.NoError(t, db.MaintainOnce(t.Context()), "makes partitions")
	rows, err := hand.Query(t.Context(), `SELECT oid::regclass::text FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Subset(t, tables, []string{
		"changelog", "changelog_0", "changelog_1000000", "changelog_default", "changelog_epoch", "changelog_head", "click_event_default",
		"cluster", "goose_db_version", "key_burn", "key_lease", "key_range", "key_state", "link", "domain", "retired_code", "visitor_salt",
	})
	for _, role := range []string{"origin", "replica"} {
		exec(t, hand, `SET session_replication_role = `+role)
		var may []string
		for _, table := range tables {
			tx, err := hand.Begin(t.Context())
			require.NoError(t, err)
			if _, err = tx.Exec(t.Context(), `TRUNCATE `+table+` CASCADE`); err == nil {
				may = append(may, table)
			} else {
				require.ErrorContains(t, err, "is refused", table)
			}
			require.NoError(t, tx.Rollback(t.Context()))
		}
		require.Equal(t, mayTruncate, may, "in the role %s", role)
	}
}

// ofTenants is the tables with rows of tenants, or of their people, and partitions of
// such.
const ofTenants = `
	c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND (
		EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname IN ('workspace_id', 'home_id', 'payload', 'salt'))
		OR c.relname IN ('workspace', 'user_session', 'click_dead_letter'))`

func TestPoliciesAreOfTheRolesThatTheyAreMeantFor(t *testing.T) {
	_, hand := open(t)
	require.GreaterOrEqual(t, number(t, hand, `SELECT count(*) FROM pg_class c WHERE `+ofTenants), int64(25))
	require.Empty(t, textOf(t, hand, `SELECT coalesce(string_agg(c.relname, ' '), '') FROM pg_class c
		WHERE `+ofTenants+` AND NOT (c.relrowsecurity AND c.relforcerowsecurity)`), "they need ENABLE and FORCE ROW LEVEL SECURITY")
	rows, err := hand.Query(t.Context(), `
		SELECT DISTINCT p.polname::text || ' ' || p.polcmd::text || ' ' || p.polpermissive || ' ' || coalesce((SELECT string_agg(rolname, ','
			ORDER BY rolname) FROM pg_roles WHERE oid = ANY (p.polroles)), 'everybody')
		FROM pg_policy p ORDER BY 1`)
	require.NoError(t, err)
	kinds, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	const system = "waypost_ingest,waypost_operator,waypost_reaper,waypost_stream"
	require.ElementsMatch(t, []string{
		"append a true everybody", // of the changelog, which triggers write as the owner
		"backup r true waypost_backup",
		"scrub w true everybody", // of the changelog, by the triggers of salts
		"search * true waypost_search",
		"search r true waypost_search",
		"shared r true waypost_tenant",
		"system * true " + system,
		"system r true " + system,
		"tenant * true waypost_tenant",
		"tenant r true waypost_tenant",
	}, kinds)
	require.Empty(t, textOf(t, hand, `SELECT coalesce(string_agg(c.relname, ' '), '') FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
		WHERE p.polname IN ('append', 'scrub') AND c.relname <> 'changelog'`))
	for _, role := range []string{"tenant", "nobody", "ingest", "reaper"} {
		require.Zero(t, number(t, hand, `SELECT count(*) FROM pg_roles r WHERE rolname = 'waypost_`+role+`'
			AND (has_table_privilege(r.oid, 'changelog', 'INSERT, UPDATE, DELETE') OR rolbypassrls OR rolsuper OR rolcanlogin)`), role)
	}
}

func TestWithoutWorkspacesATenantSeesNothingInAnyTable(t *testing.T) {
	db, hand := open(t)
	insert(t, db, link("mine"))
	for _, sql := range []string{
		`UPDATE link SET tags = '{red}'`,
		`INSERT INTO domain (workspace_id, host) VALUES (1, 'own.example'), (NULL, 'shared.example')`,
		`INSERT INTO domain_proof (domain_id, workspace_id, host) SELECT id, 1, host FROM domain WHERE workspace_id = 1`,
		`INSERT INTO app_user (home_id, email, name) VALUES (1, 'a@example.com', 'A')`,
		`INSERT INTO membership (workspace_id, user_id, role) SELECT 1, id, 'admin' FROM app_user`,
		`INSERT INTO user_session (user_id, hash, expires_at) SELECT id, sha256('s'), now() FROM app_user`,
		`INSERT INTO api_key (workspace_id, name, prefix, hash, scopes) VALUES (1, 'k', 'wp', sha256('k'), '{admin}')`,
		`INSERT INTO audit (workspace_id, actor, action, subject, detail) VALUES (1, 'a', 'b', 'c', '{}')`,
		`INSERT INTO idempotency (workspace_id, route, key, request, status, header, body) VALUES (1, 'r', 'k', sha256('r'), 200, '{}', '')`,
		`INSERT INTO link_dedupe (workspace_id, domain_id, target, link_id) SELECT 1, 1, sha256('t'), id FROM link`,
		`INSERT INTO link_click (link_id, workspace_id, clicks, last_accessed_at) SELECT id, 1, 5, now() FROM link`,
		`INSERT INTO click_pack (workspace_id, area, links, days, clicks, bot_clicks, newest, details)
			VALUES (1, 8, '{1}', '{today}', '{1}', '{0}', '{now}', '{""}')`,
		`INSERT INTO click_day VALUES (1, current_date, 1, 1, 0, '', '', '')`,
		`INSERT INTO click_workspace_day VALUES (1, current_date, 1, 0, '', '', '')`,
		`INSERT INTO click_workspace_part VALUES (1, current_date, 1, 0, '', '', '')`,
		`INSERT INTO click_event VALUES (now(), 1, 1, 1, false, '', '', '', '', '', '')`,
		`INSERT INTO click_set_aside (workspace_id, day, what, reason, body) VALUES (1, current_date, 'part', '', '')`,
		`ALTER TABLE reserved_key ALTER COLUMN lease_id DROP NOT NULL`,
		`INSERT INTO reserved_key (code, workspace_id, service) VALUES ('Ab3dEf7', 1, 'shop')`,
		`INSERT INTO visitor_salt (day) VALUES ('2026-01-01')`,
		`INSERT INTO budget (link_id, workspace_id) VALUES (1, 1)`,
		`INSERT INTO budget_account VALUES (1, 'edge-1', gen_random_uuid(), 1, 0, 0, 0)`,
		`INSERT INTO link_alias (link_id, workspace_id, domain_id, code, title) SELECT id, 1, 1, 'other', '' FROM link`,
		`INSERT INTO unknown_address VALUES (1, current_date, 0, 'hr', 1, 5, 0, '{1,2,3,4,5}')`,
		`INSERT INTO import (id, workspace_id, state, document) VALUES ('an-import-of-rows', 1, 'ready', '{}')`,
		`INSERT INTO import_part VALUES ('an-import-of-rows', 1, 1, 0, sha256(''), '')`,
		`INSERT INTO import_rows VALUES ('an-import-of-rows', false, 0, 1, '')`,
		`INSERT INTO stats_view (workspace_id, name, query) VALUES (1, 'spring', 'tag=spring')`,
		`INSERT INTO stats_question (workspace_id, key, question, first_day) VALUES (1, sha256(''), '{}', current_date)`,
		`INSERT INTO stats_answer SELECT id, 1, now(), current_date, now(), '{}', 1, 0, '', NULL FROM stats_question`,
		`INSERT INTO stats_answer_day SELECT id, 1, current_date, 1, 1, 0, '', '', '', '' FROM stats_question`,
	} {
		exec(t, hand, sql)
	}
	rows, err := hand.Query(t.Context(), `SELECT c.oid::regclass::text, has_table_privilege('waypost_tenant', c.oid, 'SELECT')
		FROM pg_class c WHERE `+ofTenants+` AND NOT c.relispartition ORDER BY 1`)
	require.NoError(t, err)
	may := map[string]bool{}
	var table string
	var can bool
	_, err = pgx.ForEachRow(rows, []any{&table, &can}, func() error { may[table] = can; return nil })
	require.NoError(t, err)
	for table, can := range may {
		if !can {
			continue
		}
		require.Positive(t, number(t, hand, `SELECT count(*) FROM `+table), "%s: the test needs a row", table)
		exec(t, hand, `SET ROLE waypost_tenant`)
		require.Zero(t, number(t, hand, `SELECT count(*) FROM `+table), "%s, unset", table)
		exec(t, hand, `SET waypost.workspaces = ''`)
		require.Zero(t, number(t, hand, `SELECT count(*) FROM `+table), "%s, empty, as it is after a commit", table)
		exec(t, hand, `SET waypost.workspaces = '1'`)
		require.Positive(t, number(t, hand, `SELECT count(*) FROM `+table), "%s, of the workspace", table)
		exec(t, hand, `SET waypost.workspaces = '2'`)
		if table != "domain" { // of which some are shared
			require.Zero(t, number(t, hand, `SELECT count(*) FROM `+table), "%s, of another workspace", table)
		}
		exec(t, hand, `RESET ROLE`)
		exec(t, hand, `RESET waypost.workspaces`)
	}
}
