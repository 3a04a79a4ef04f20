package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

func TestMigratePrintsWhatASuperuserRunsForALoginThatMayMakeNoRoles(t *testing.T) {
	r := devtest.Run(t, []string{"WAYPOST_CONTROL_DATABASE_URL=postgres://app@127.0.0.1:1/waypost"}, "migrate", "--print-roles")
	require.Zero(t, r.Code, r.Stderr)
	require.Contains(t, r.Stdout, "SET waypost.login = 'app';")
	require.Contains(t, r.Stdout, "CREATE ROLE")

	r = devtest.Run(t, []string{"WAYPOST_CONTROL_DATABASE_URL=postgres://o'brien@127.0.0.1:1/waypost"}, "migrate", "--print-roles")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, "no name of a login")
}
