package scoped

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/internal/logtest"
)

func TestClassify_BlamesPostgreSQLAndTheNetworkForWhatTheyDid(t *testing.T) {
	_, number := json.Marshal(math.Inf(1))
	_, year := json.Marshal(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		err  error
		want waypost.ErrorCode
	}{
		"a value that JSON cannot hold":      {number, waypost.EInternal},
		"a time that JSON cannot hold":       {year, waypost.EInternal},
		"a type that JSON cannot hold":       {&json.UnsupportedTypeError{Type: reflect.TypeFor[func()]()}, waypost.EInternal},
		"a column that cannot be read":       {pgx.ScanArgError{Err: io.ErrUnexpectedEOF}, waypost.EInternal},
		"an undefined column":                {&pgconn.PgError{Code: "42703"}, waypost.EInternal},
		"a connection that ended":            {io.EOF, waypost.EUnavailable},
		"a connection that broke off":        {io.ErrUnexpectedEOF, waypost.EUnavailable},
		"a connection that was reset":        {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, waypost.EUnavailable},
		"a connection that was closed":       {net.ErrClosed, waypost.EUnavailable},
		"an error that is not known":         {errors.New("conn busy"), waypost.EUnavailable},
		"a transaction that is over":         {pgx.ErrTxClosed, waypost.EUnavailable},
		"a commit that rolled back":          {pgx.ErrTxCommitRollback, waypost.EUnavailable},
		"a deadline":                         {context.DeadlineExceeded, waypost.EUnavailable},
		"a caller that has left":             {context.Canceled, waypost.EUnavailable},
		"a server that is shutting down":     {&pgconn.PgError{Code: "57P01"}, waypost.EUnavailable},
		"a value that PostgreSQL refuses":    {&pgconn.PgError{Code: "23514"}, waypost.EInvalid},
		"an error that the program has made": {waypost.Errorf(waypost.EConflict, "taken"), waypost.EConflict},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, waypost.CodeOf(Classify("test", c.err)))
			require.Equal(t, c.want, waypost.CodeOf(Classify("test", fmt.Errorf("wrapped: %w", c.err))))
		})
	}
}

func TestPool_RunEveryLogsWhenAnErrorBeginsChangesAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		log, rounds := &logtest.Buffer{}, []error{
			nil, errors.New("first"), errors.New("first"), errors.New("second"), errors.New("second"), nil, nil, errors.New("second"),
		}
		NewPool(log.Logger(), 1).RunEvery(ctx, time.Second, "tests", func(context.Context) error {
			err := rounds[0]
			if rounds = rounds[1:]; len(rounds) == 0 {
				defer cancel()
			}
			return err
		})
		require.Equal(t, 1, strings.Count(log.String(), "error=first"), log.String())
		require.Equal(t, 1, strings.Count(log.String(), "error=second"), log.String())
		require.Equal(t, 1, strings.Count(log.String(), "finished a round again"), log.String())
	})
}
