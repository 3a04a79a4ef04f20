package postgres_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"waypost"
	"waypost/controlplane/postgres"
	"waypost/replication"
)

const salted = "2006-01-02" // a day long over

// today is the database's, in UTC.
func today(t *testing.T, hand *pgx.Conn) int32 {
	t.Helper()
	return int32(number(t, hand, `SELECT (now() AT TIME ZONE 'UTC')::date - '1970-01-01'::date`))
}

func saltOf(t *testing.T, f *follow, day string) *waypost.Salt {
	t.Helper()
	r, ok := f.rows["5/0/"+day]
	require.True(t, ok, day)
	_, salt, err := waypost.DecodeSalt(r.Name, r.Payload)
	require.NoError(t, err)
	return salt
}

func TestSaltsAreMadeAheadOnceHoweverManyControlPlanesMakeThem(t *testing.T) {
	url := cluster.Database(t)
	first, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	defer first.Close()
	second, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	defer second.Close()
	_, err = first.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2})
	require.NoError(t, err)
	hand := psql(t, url)
	f := newFollow(t, first)
	var group errgroup.Group
	for _, db := range []*postgres.DB{first, second, first, second} {
		group.Go(func() error { return db.MaintainOnce(t.Context()) })
	}
	require.NoError(t, group.Wait())
	f.catchUp(t, first, 1000)

	distinct := map[waypost.Salt]bool{}
	start := today(t, hand)
	for day := start; day < start+3; day++ {
		salt := saltOf(t, f, waypost.DayText(day))
		require.NotNil(t, salt)
		distinct[*salt] = true
	}
	require.Len(t, distinct, 3, "each day has its own")
	require.Equal(t, f.rows, newFollow(t, second).rows, "a snapshot holds the same as the tail")

	head, err := first.Head(t.Context())
	require.NoError(t, err)
	require.NoError(t, second.MaintainOnce(t.Context()))
	again, err := first.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, head.Position, again.Position, "when there is nothing to do, nothing is written")
}

func TestASaltIsDestroyedWhenItsDayIsLongOverAndLeavesNothingInTheLog(t *testing.T) {
	db, hand := open(t, func(c *postgres.Config) { c.SaltRetention = time.Hour })
	behind := newFollow(t, db)
	exec(t, hand, `SET DateStyle = 'SQL, DMY'`) // which names do not depend on
	exec(t, hand, `INSERT INTO visitor_salt (day) VALUES ('`+salted+`')`)
	current := newFollow(t, db)
	secret := hex.EncodeToString(saltOf(t, current, salted)[:])
	require.Equal(t, int64(1), number(t, hand, `SELECT count(*) FROM changelog WHERE payload LIKE '%' || $1 || '%'`, secret))

	require.NoError(t, db.MaintainOnce(t.Context()))
	require.Zero(t, number(t, hand, `SELECT count(*) FROM visitor_salt WHERE day < now() - interval '2 days'`))
	require.Zero(t, number(t, hand, `SELECT count(*) FROM changelog c WHERE c::text LIKE '%' || $1 || '%'`, secret))

	// Followers end alike, whether they saw the salt while it was one or replay what is
	// left of it.
	current.catchUp(t, db, 1000)
	behind.catchUp(t, db, 1000)
	require.NotContains(t, current.rows, "5/0/"+salted)
	require.Equal(t, current.rows, behind.rows)
	require.Equal(t, behind.rows, newFollow(t, db).rows)
}

func TestTheSaltOfADayThatIsNotOverForLongIsKept(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `INSERT INTO visitor_salt (day) SELECT (now() AT TIME ZONE 'UTC')::date - n FROM generate_series(1, 4) n`)
	require.NoError(t, db.MaintainOnce(t.Context()))
	require.EqualValues(t, -2, number(t, hand, `SELECT min(day) - (now() AT TIME ZONE 'UTC')::date FROM visitor_salt`),
		"yesterday's has been kept for a day at most, the one's before for two")
}

func TestADestroyedSaltIsNeverMadeAgain(t *testing.T) {
	db, hand := open(t)
	require.NoError(t, db.MaintainOnce(t.Context()))
	day := today(t, hand) + 1 // which a midnight does not change
	f := newFollow(t, db)
	secret := hex.EncodeToString(saltOf(t, f, waypost.DayText(day))[:])

	at, err := db.DestroySalt(t.Context(), operator, day)
	require.NoError(t, err)
	require.NoError(t, db.MaintainOnce(t.Context()))
	f.catchUp(t, db, 1000)
	require.Equal(t, at, f.at)
	require.Nil(t, saltOf(t, f, waypost.DayText(day)))
	require.Zero(t, number(t, hand, `SELECT count(*) FROM changelog c WHERE c::text LIKE '%' || $1 || '%'`, secret))

	_, err = db.DestroySalt(t.Context(), operator, day)
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	_, err = db.DestroySalt(t.Context(), operator, -3_000_000)
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	entries, err := db.Audit(t.Context(), waypost.DefaultWorkspace, 0, 10)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "salts.destroy", entries[0].Action)
	require.Equal(t, waypost.DayText(day), entries[0].Subject)
	require.NotContains(t, string(entries[0].Detail), secret)
}

func TestASaltCannotBeChangedAndOnlyTheSystemSeesIt(t *testing.T) {
	db, hand := open(t)
	require.NoError(t, db.MaintainOnce(t.Context()))
	for _, sql := range []string{
		`UPDATE visitor_salt SET salt = salt_new()`,
		`UPDATE visitor_salt SET day = day + 10`,
		`INSERT INTO visitor_salt (day, salt) VALUES ('` + salted + `', 'short')`,
		`INSERT INTO visitor_salt (day) VALUES ('infinity')`,
		`TRUNCATE visitor_salt`,
	} {
		_, err := hand.Exec(t.Context(), sql)
		require.Error(t, err, sql)
	}
	exec(t, hand, `SET ROLE waypost_tenant`)
	exec(t, hand, `SET waypost.workspaces = '1'`)
	for _, sql := range []string{`SELECT FROM visitor_salt`, `SELECT FROM changelog`, `UPDATE changelog SET payload = '' WHERE kind = 5`} {
		_, err := hand.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "permission denied", sql)
	}
	exec(t, hand, `SET ROLE waypost_operator`)
	_, err := hand.Exec(t.Context(), `UPDATE changelog SET payload = repeat('0', 64) WHERE kind = 5`)
	require.Error(t, err, "entries are emptied, nothing else")
	tag, err := hand.Exec(t.Context(), `UPDATE changelog SET payload = '' WHERE kind <> 5`)
	require.NoError(t, err)
	require.Zero(t, tag.RowsAffected())
}

func TestTheNameOfASaltInPostgreSQLIsThatInGo(t *testing.T) {
	_, hand := open(t)
	for _, day := range []string{"2000-01-01", "2024-02-29", "2026-12-31", "9999-12-31"} {
		var name string
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT salt_name($1::text::date)`, day).Scan(&name))
		require.Equal(t, day, name)
		n, err := waypost.ParseDay(name)
		require.NoError(t, err)
		require.Equal(t, day, waypost.DayText(n))
	}
	_, err := waypost.ParseDay(strings.Repeat("9", 20))
	require.Error(t, err)
	require.EqualValues(t, 5, waypost.KindSalt)
	require.NotEmpty(t, replication.AppendRecord(nil, &waypost.Record{Kind: waypost.KindSalt, Name: []byte(salted)}))
}
