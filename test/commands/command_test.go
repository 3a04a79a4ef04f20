package commands_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/admin"
	"waypost/test/devtest"
)

// controlEnv is a configuration of a control plane that is right.
func controlEnv(t *testing.T) []string {
	return []string{
		"WAYPOST_CONTROL_DATA_DIR=" + t.TempDir(),
		"WAYPOST_CONTROL_REGION=us-east-1", "WAYPOST_CONTROL_BASE_URL=https://go.example.com",
		"WAYPOST_CONTROL_DATABASE_URL=postgres://waypost@127.0.0.1:1/waypost", "WAYPOST_CONTROL_EDGE_TOKEN=0123456789abcdef",
		"WAYPOST_CONTROL_CLUSTER_SECRET=" + "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
		"WAYPOST_CONTROL_ADDR=127.0.0.1:0", "WAYPOST_CONTROL_ADMIN_ADDR=127.0.0.1:0",
	}
}

func TestWrongUsage_IsOneLineAndExitCode64(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		args []string
		want string
	}{
		"unknown command":                     {nil, []string{"bogus"}, `unknown command "bogus"`},
		"unknown subcommand":                  {nil, []string{"links", "bogus"}, `unknown command "bogus" for "waypost links": it has alias, block, blocks, create, delete, explain, export,`},
		"almost a command":                    {nil, []string{"link"}, `unknown command "link" for "waypost": did you mean links?`},
		"almost a subcommand":                 {nil, []string{"links", "creat", "x"}, `unknown command "creat" for "waypost links": did you mean create?`},
		"another name of a subcommand":        {nil, []string{"links", "show", "x"}, `unknown command "show" for "waypost links": did you mean get?`},
		"no command of one that runs, too":    {nil, []string{"edges", "enroll"}, `unknown command "enroll" for "waypost edges": did you mean enrol?`},
		"unknown flag":                        {nil, []string{"dev", "--bogus"}, "unknown flag: --bogus (see `waypost dev --help`)"},
		"wrong value of a setting":            {nil, []string{"control", "--code-length=x"}, `--code-length: "x" is no whole number`},
		"wrong duration of a setting":         {nil, []string{"edge", "--max-staleness=soon"}, `--max-staleness: "soon" is no duration such as 30s, 5m or 90d`},
		"wrong value of a flag":               {nil, []string{"links", "list", "--limit=x"}, `--limit: "x" is no whole number`},
		"value of a flag out of range":        {nil, []string{"links", "list", "--limit=99999999999999999999"}, "--limit: 99999999999999999999 is out of range"},
		"neither true nor false":              {nil, []string{"verify", "--all=maybe"}, `--all: "maybe" is neither true nor false`},
		"no duration":                         {nil, []string{"verify", "--all", "--timeout=x"}, `--timeout: "x" is no duration such as 30s, 10m or 2h`},
		"missing argument":                    {nil, []string{"links", "get"}, "CODE is missing: the command is `waypost links get CODE"},
		"argument too many":                   {nil, []string{"version", "x"}, "unknown command"},
		"unknown output format":               {nil, []string{"version", "--output=xml"}, `--output: "xml" is neither text nor json`},
		"missing setting":                     {nil, []string{"control"}, "control.region is missing: give --region"},
		"no file":                             {nil, []string{"control", "--config=/nowhere.yaml"}, "/nowhere.yaml"},
		"edge without region":                 {nil, []string{"dev", "--edges=127.0.0.1:0"}, `"127.0.0.1:0" is not REGION=HOST:PORT`},
		"the same region twice":               {nil, []string{"dev", "--edges=a=127.0.0.1:0,a=127.0.0.1:0"}, "region a is given twice"},
		"the same address":                    {nil, []string{"dev", "--edges=a=127.0.0.1:8081,b=127.0.0.1:8081"}, "a and b have the same address"},
		"the control's address":               {nil, []string{"dev", "--edges=a=127.0.0.1:8080"}, "has the control plane's address"},
		"a region's name":                     {nil, []string{"dev", "--edges=US=127.0.0.1:0"}, `region "US" must be`},
		"a scope":                             {nil, []string{"keys", "create", "--name=x", "--scopes=everything"}, `"everything" is none of`},
		"an expiry":                           {nil, []string{"links", "create", "https://example.com", "--expires-in=10ms"}, "less than a second"},
		"an administrator without an address": {nil, []string{"admin", "create"}, "--email is missing"},
		"what is no address":                  {nil, []string{"admin", "create", "--email=ann"}, "must look like somebody@example.com"},
		"a change of no user":                 {nil, []string{"users", "set", "1"}, "nothing to change"},
		"a change both ways":                  {nil, []string{"users", "set", "1", "--enable", "--disable"}, "not both"},
		"too long a grace":                    {nil, []string{"keys", "rotate", "1", "--grace=169h"}, "--grace"},
		"a deletion that nobody confirmed":    {nil, []string{"workspaces", "delete", "x"}, "--yes"},
		"a change of nothing":                 {nil, []string{"domains", "set", "1"}, "nothing to change: give --root, --not-found, --maintenance, --case or --exact-paths"},
		"an API's address":                    {nil, []string{"links", "list", "--api=localhost"}, `"localhost" is not a URL`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := devtest.Run(t, c.env, append(c.args, noDataDir(t, c.args)...)...)
			require.Equal(t, 64, r.Code, r.Stderr)
			require.Contains(t, r.Stderr, c.want)
			require.Equal(t, 1, strings.Count(r.Stderr, "\n"), r.Stderr)
			require.True(t, strings.HasPrefix(r.Stderr, "waypost: "))
			require.Empty(t, r.Stdout)
		})
	}
}

// noDataDir keeps `waypost dev` away from the user's own system, should a test be
// wrong.
func noDataDir(t *testing.T, args []string) []string {
	if args[0] == "dev" {
		return []string{"--data-dir", filepath.Join(t.TempDir(), "none")}
	}
	return nil
}

func TestAnUnknownConfigurationKeyIsShownWithACaret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "waypost.yaml")
	require.NoError(t, os.WriteFile(file, []byte("control:\n  regoin: us-east-1\n"), 0o600))
	r := devtest.Run(t, nil, "control", "--config", file)
	require.Equal(t, 64, r.Code)
	require.Equal(t, "waypost: "+file+":2:3: unknown key \"regoin\" (did you mean region?)\n"+
		"   1 | control:\n>  2 |   regoin: us-east-1\n         ^\n", r.Stderr)
}

func TestCheckConfigSaysWhetherTheConfigurationIsRight(t *testing.T) {
	r := devtest.Run(t, controlEnv(t), "control", "--check-config")
	require.Equal(t, devtest.Result{Stdout: "the configuration is right\n"}, r)

	r = devtest.Run(t, controlEnv(t), "control", "--check-config", "--addr", ":8080", "--fleet-listen", "10.0.0.1:7080")
	require.Zero(t, r.Code)
	require.Contains(t, r.Stderr, "warning: control.addr: credentials and links travel to and from :8080 without encryption")
	require.Contains(t, r.Stderr, "warning: control.fleet_listen: credentials and links travel to and from 10.0.0.1:7080 without encryption")

	r = devtest.Run(t, controlEnv(t), "control", "--check-config", "--code-length=20")
	require.Equal(t, 64, r.Code)
	require.Contains(t, r.Stderr, "control.code_length: 20 is not between 5 and 10")
}

func TestCheckConfig_WarnsOfAControlPlaneWithoutTLS(t *testing.T) {
	for base, warns := range map[string]bool{
		"http://127.0.0.1:1": false, "http://localhost:1": false, "http://[::1]:1": false, "https://10.0.0.1:7080": false,
		"http://10.0.0.1:7080": true, "http://control.example.com": true,
	} {
		r := devtest.Run(t, []string{"WAYPOST_EDGE_TOKEN=0123456789abcdef"}, "edge", "--check-config", "--region", "us-east-1", "--control-urls", base,
			"--data-dir", t.TempDir())
		require.Zero(t, r.Code, r.Stderr)
		require.Equal(t, warns, strings.Contains(r.Stderr, "edge.control_urls: credentials and links travel to and from "+base+" without encryption"), r.Stderr)
	}
}

func TestCheckConfigReadsTheCertificateOfAnEdge(t *testing.T) {
	pair := filepath.Join(t.TempDir(), "pair.pem")
	env := []string{
		"WAYPOST_EDGE_REGION=us-east-1", "WAYPOST_EDGE_CONTROL_URLS=http://127.0.0.1:1", "WAYPOST_EDGE_TOKEN=0123456789abcdef",
		"WAYPOST_EDGE_DATA_DIR=" + t.TempDir(), "WAYPOST_TLS_ADDR=127.0.0.1:0", "WAYPOST_TLS_CERT_FILE=" + pair, "WAYPOST_TLS_KEY_FILE=" + pair,
	}
	r := devtest.Run(t, env, "edge", "--check-config")
	require.Equal(t, 64, r.Code)
	require.Contains(t, r.Stderr, "pair.pem: no such file")

	require.NoError(t, os.WriteFile(pair, []byte("no PEM"), 0o600))
	r = devtest.Run(t, env, "edge", "--check-config")
	require.Equal(t, 64, r.Code)
	require.Contains(t, r.Stderr, "with key "+pair)
}

func TestAnUnreachableDatabaseEndsInOneLine(t *testing.T) {
	for _, args := range [][]string{{"control"}, {"migrate"}, {"keys", "create", "--name=x"}} {
		r := devtest.Run(t, controlEnv(t), args...)
		require.Equal(t, 1, r.Code, "%v: %s", args, r.Stderr)
		require.Equal(t, 1, strings.Count(r.Stderr, "\n"), r.Stderr)
		require.Contains(t, r.Stderr, "waypost: ")
		require.Contains(t, r.Stderr, "127.0.0.1:1")
		require.Contains(t, r.Stderr, "is PostgreSQL running there, and is the database URL right?")
	}
}

func TestABusyAddressEndsInOneLineBeforeAnythingIsStarted(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	busy := ln.Addr().String()
	dir := filepath.Join(t.TempDir(), "data")
	edgeEnv := []string{
		"WAYPOST_EDGE_REGION=us-east-1", "WAYPOST_EDGE_CONTROL_URLS=http://127.0.0.1:1", "WAYPOST_EDGE_TOKEN=t", "WAYPOST_EDGE_DATA_DIR=" + dir,
	}
	for _, c := range []struct {
		env  []string
		args []string
		flag string
	}{
		{nil, []string{"dev", "--data-dir", dir, "--control-addr", busy, "--edges=a=127.0.0.1:0"}, "--control-addr"},
		{nil, []string{"dev", "--data-dir", dir, "--control-addr=127.0.0.1:0", "--edges=a=" + busy}, "--edges"},
		{controlEnv(t), []string{"control", "--addr", busy}, "--addr"},
		{controlEnv(t), []string{"control", "--admin-addr", busy}, "--admin-addr"},
		{edgeEnv, []string{"edge", "--addr", busy}, "--addr"},
	} {
		r := devtest.Run(t, c.env, c.args...)
		require.Equal(t, 1, r.Code, r.Stderr)
		require.Equal(t, "waypost: address "+busy+" is in use by another program: stop that, or choose another address with "+c.flag+"\n", r.Stderr)
		require.NoDirExists(t, dir)
	}
}

// loneEdge starts an edge that no control plane answers, and waits until it listens.
func loneEdge(t *testing.T) (_ *devtest.Process, dataDir string) {
	dir := t.TempDir()
	edge := devtest.Spawn(t, []string{
		"WAYPOST_EDGE_REGION=us-east-1", "WAYPOST_EDGE_CONTROL_URLS=http://127.0.0.1:1", "WAYPOST_EDGE_TOKEN=0123456789abcdef",
		"WAYPOST_EDGE_DATA_DIR=" + dir,
	}, "edge", "--addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0")
	devtest.AwaitStatus(t, dir, func(s admin.Status) bool { return s.PID == edge.PID() })
	return edge, dir
}

// A panic ends a Go program with the same status as SIGQUIT.
func TestUnits_StayDownForAWrongConfigurationAlone(t *testing.T) {
	edge, _ := loneEdge(t)
	edge.Signal(syscall.SIGQUIT)
	crashed, wrong := edge.Exited(), devtest.Run(t, nil, "edge").Code
	require.NotEqual(t, crashed, wrong)
	for _, unit := range []string{"waypost-control.service", "waypost-edge@.service"} {
		text, err := os.ReadFile(filepath.Join("../../deploy", unit))
		require.NoError(t, err)
		require.Contains(t, string(text), fmt.Sprintf("\nRestartPreventExitStatus=%d\n", wrong), unit)
	}
}

func TestEdge_RestartsOnHangup(t *testing.T) {
	edge, dir := loneEdge(t)
	before, err := admin.ReadStatus(dir)
	require.NoError(t, err)
	edge.Signal(syscall.SIGHUP)
	after := devtest.AwaitStatus(t, dir, func(s admin.Status) bool { return s.Boot != before.Boot })
	require.Equal(t, before.PID, after.PID)
	require.Equal(t, before.Addr, after.Addr)
	edge.Signal(syscall.SIGTERM)
	require.Zero(t, edge.ExitCode(), edge.Output())
}

func TestAForeignDirectoryIsLeftAlone(t *testing.T) {
	foreign, other := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "thesis.tex"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(other, "format"), []byte("waypost dev 99\n"), 0o600))
	for dir, want := range map[string]string{
		foreign: "is not empty and was not made by Waypost (it has thesis.tex): choose another --data-dir",
		other:   `is of another kind or version ("waypost dev 99", not "waypost dev 1"): use the program that made it, or another --data-dir`,
	} {
		before := list(t, dir)
		r := devtest.Run(t, nil, "dev", "--data-dir", dir, "--control-addr=127.0.0.1:0", "--edges=a=127.0.0.1:0")
		require.Equal(t, 1, r.Code)
		require.Contains(t, r.Stderr, want)
		require.Equal(t, 1, strings.Count(r.Stderr, "\n"), r.Stderr)
		require.Equal(t, before, list(t, dir))
	}
}

func TestVersionIsNeverEmpty(t *testing.T) {
	r := devtest.Run(t, nil, "version", "--output=json")
	require.Zero(t, r.Code, r.Stderr)
	var v struct{ Version, Go, Platform string }
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &v))
	require.NotEmpty(t, v.Version)
	require.Contains(t, devtest.Run(t, nil, "version").Stdout, "waypost "+v.Version+" (")
}

func TestHelpTeachesByExamples(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"dev"},
		{"control"},
		{"edge"},
		{"migrate"},
		{"admin", "create"},
		{"login"},
		{"whoami"},
		{"doctor"},
		{"keys", "create"},
		{"keys", "rotate"},
		{"users", "add"},
		{"users", "set"},
		{"workspaces", "create"},
		{"workspaces", "set"},
		{"links", "create"},
		{"links", "get"},
		{"links", "list"},
		{"links", "delete"},
		{"import"},
		{"links", "export"},
	} {
		r := devtest.Run(t, nil, append(args, "--help")...)
		require.Zero(t, r.Code)
		require.Contains(t, r.Stdout, "Examples:\n  ", "%v", args)
	}
}

func TestHelpTellsNoDefaultOfZero(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"edge"}, {"links", "create"}, {"keys", "create"}, {"keys", "rotate"}} {
		r := devtest.Run(t, nil, append(args, "--help")...)
		require.Zero(t, r.Code)
		require.Contains(t, r.Stdout, " duration ", "%v", args)
		require.NotContains(t, r.Stdout, "(default 0s)", "%v", args)
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
