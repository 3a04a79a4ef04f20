package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"waypost/internal/config"
)

func TestFlagsWinOverVariablesOverTheFileOverDefaults(t *testing.T) {
	file := write(t, "c.yaml", `
control:
  addr: 127.0.0.1:1111
  admin_addr: 127.0.0.1:2222
  region: from-file
  trusted_proxies: [10.0.0.0/8, "::1"]
cleanup:
  purge_after: 9s
`)
	flags := parse(t, "control", "--region=from-flag", "--strict-hosts")
	cfg, err := config.Load(config.Sources{File: file, Flags: flags, Environ: []string{
		"PATH=/bin", "WAYPOST_CONTROL_ADMIN_ADDR=127.0.0.1:3333", "WAYPOST_CONTROL_REGION=from-variable",
	}})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:1111", cfg.Control.Addr, "the file's")
	require.Equal(t, "127.0.0.1:3333", cfg.Control.AdminAddr, "the variable's")
	require.Equal(t, "from-flag", cfg.Control.Region)
	require.True(t, cfg.Control.StrictHosts)
	require.Equal(t, 7, cfg.Control.CodeLength, "the default")
	require.Equal(t, 9*time.Second, cfg.Cleanup.PurgeAfter)
	require.Equal(t, []string{"10.0.0.0/8", "::1"}, cfg.Control.TrustedProxies)
	require.Equal(t, "info", cfg.Log.Level, "a section that the file leaves out keeps its defaults")
}

func TestAMistakeInTheFileIsShownAtItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"unknown key":             {"control:\n  adr: 127.0.0.1:80\n", []string{`:2:3: unknown key "adr" (did you mean addr?)`, "\n>  2 |   adr: 127.0.0.1:80\n", "^"}},
		"unknown section":         {"controll:\n  addr: a\n", []string{`:1:1: unknown key "controll" (did you mean control?)`}},
		"wrong type":              {"control:\n  code_length: seven\n", []string{":2:16: this must be a whole number", "^"}},
		"a time without a unit":   {"edge:\n  drain_delay: 2\n", []string{":2:16: this must be a time with a unit, such as 5s"}},
		"neither true nor false":  {"edge:\n  strict_hosts: maybe\n", []string{":2:17: this must be true or false"}},
		"a section as a text":     {"edge: eu-west-1\n", []string{":1:7: "}},
		"broken YAML":             {"control: [\n", []string{":1:"}},
		"the same key twice":      {"control:\n  addr: a\n  addr: b\n", []string{":3:3: ", "addr"}},
		"two documents":           {"log:\n  level: info\n---\nlog:\n  level: warn\n", []string{"one YAML document"}},
		"a list of secret files":  {"edge:\n  token_file: [a]\n", []string{":2:15: this must be one text"}},
		"two sources of a secret": {"edge:\n  token: abc\n  token_file: /x\n", []string{"both edge.token and edge.token_file are given"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, "c.yaml", c.text)
			_, err := config.Load(config.Sources{File: file})
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.ErrorContains(t, err, file)
		})
	}
}

func TestAnEmptyFileIsNoMistake(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "control:\n"} {
		cfg, err := config.Load(config.Sources{File: write(t, "c.yaml", text)})
		require.NoError(t, err, "%q", text)
		require.Equal(t, 7, cfg.Control.CodeLength, "%q", text)
	}
}

func TestAFileThatCannotBeReadIsNamed(t *testing.T) {
	_, err := config.Load(config.Sources{Environ: []string{"WAYPOST_CONFIG=/nowhere/c.yaml"}})
	require.ErrorContains(t, err, "/nowhere/c.yaml")
}

func TestUnknownVariables_AreNamedWithAGuess(t *testing.T) {
	environ := []string{
		"WAYPOST_CONTROL_ADRESS=x", "WAYPOST_FOO=1", "WAYPOST_SERVICE_HOST=10.0.0.1", "WAYPOST_PORT=tcp://10.0.0.1:80",
		"WAYPOST_CONTROL_SERVICE_PORT_HTTP=80", "WAYPOST_PORT_80_TCP_ADDR=10.0.0.1", "WAYPOST_CONTROL_ADDR=:1", "OTHER=x",
	}
	require.Equal(t, []string{"WAYPOST_CONTROL_ADRESS (did you mean WAYPOST_CONTROL_ADDR?)", "WAYPOST_FOO"}, config.UnknownVariables(environ))
	cfg, err := config.Load(config.Sources{Environ: environ})
	require.NoError(t, err)
	require.Equal(t, ":1", cfg.Control.Addr)
}

func TestAWrongValueOfAVariableNamesTheVariable(t *testing.T) {
	_, err := config.Load(config.Sources{Environ: []string{"WAYPOST_CONTROL_CODE_LENGTH=many"}})
	require.EqualError(t, err, `WAYPOST_CONTROL_CODE_LENGTH: "many" is no whole number`)
}

func TestAWrongValueOfAFlagIsFoundAsItIsParsed(t *testing.T) {
	var flags config.Flags
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Bind(set, noVariables, "edge")
	require.ErrorContains(t, set.Parse([]string{"--max-staleness=soon"}), `"soon" is no duration`)
	require.Nil(t, set.Lookup("token"), "a secret has no flag")
	require.NotNil(t, set.Lookup("token-file"))
}

func TestAFlagThatIsGivenTwiceAddsToAList(t *testing.T) {
	cfg, err := config.Load(config.Sources{Flags: parse(t, "dev", "--edges=a=:1,b=:2", "--edges=c=:3")})
	require.NoError(t, err)
	require.Equal(t, []string{"a=:1", "b=:2", "c=:3"}, cfg.Dev.Edges)
}

func TestLoad_TakesASecretFromTheHighestLayer(t *testing.T) {
	file := write(t, "c.yaml", "edge:\n  token: from-the-file\n")
	secret := write(t, "token", "  from-its-own-file\n")
	cfg, err := config.Load(config.Sources{File: file, Environ: []string{"WAYPOST_EDGE_TOKEN_FILE=" + secret}})
	require.NoError(t, err)
	require.Equal(t, "from-its-own-file", cfg.Edge.Token.Reveal())
	cfg, err = config.Load(config.Sources{File: write(t, "f.yaml", "edge:\n  token_file: /nowhere\n"), Environ: []string{"WAYPOST_EDGE_TOKEN=a"}})
	require.NoError(t, err, "the file of a lower layer is not read")
	require.Equal(t, "a", cfg.Edge.Token.Reveal())

	_, err = config.Load(config.Sources{Environ: []string{"WAYPOST_EDGE_TOKEN_FILE=" + write(t, "empty", "\n")}})
	require.ErrorContains(t, err, "is empty")
	copies := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(copies, "edge-token"), []byte("\n"), 0o600))
	cfg, err = config.Load(config.Sources{Environ: []string{
		"CREDENTIALS_DIRECTORY=" + copies, "WAYPOST_EDGE_TOKEN_FILE=" + filepath.Join(copies, "edge-token"),
	}})
	require.NoError(t, err, "a copy of systemd that stands for a missing file")
	require.Empty(t, cfg.Edge.Token)
	_, err = config.Load(config.Sources{Environ: []string{"WAYPOST_EDGE_TOKEN=a", "WAYPOST_EDGE_TOKEN_FILE=" + secret}})
	require.ErrorContains(t, err, "both WAYPOST_EDGE_TOKEN and WAYPOST_EDGE_TOKEN_FILE are given")
}

func TestLoad_ReadsSecretsNextToTheFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "control.yaml")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "secrets"), 0o700))
	for name, text := range map[string]string{"control.yaml": "log: {}\n", "secrets/edge-token": "beside\n", "secrets/gossip-key": "unused"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cfg, err := config.Load(config.Sources{File: file, Environ: []string{"WAYPOST_GOSSIP_KEY=given"}})
	require.NoError(t, err)
	require.Equal(t, "beside", cfg.Control.EdgeToken.Reveal())
	require.Equal(t, "beside", cfg.Edge.Token.Reveal())
	require.Equal(t, "given", cfg.Gossip.Key.Reveal())
	require.Empty(t, cfg.Control.ClusterSecret, "no file, no secret")
}

func TestLoad_ReadsEachSecretFromAFile(t *testing.T) {
	secret := write(t, "secret", "0123456789abcdef\n")
	for path, names := range map[string]struct{ variable, flag string }{
		"control.database_url":   {"WAYPOST_CONTROL_DATABASE_URL_FILE", "database-url-file"},
		"control.cluster_secret": {"WAYPOST_CONTROL_CLUSTER_SECRET_FILE", "cluster-secret-file"},
		"control.edge_token":     {"WAYPOST_CONTROL_EDGE_TOKEN_FILE", "edge-token-file"},
		"edge.token":             {"WAYPOST_EDGE_TOKEN_FILE", "token-file"},
		"edge.enrol_token":       {"WAYPOST_ENROL_TOKEN_FILE", "enrol-token-file"},
		"edge.relay_token":       {"WAYPOST_EDGE_RELAY_TOKEN_FILE", "relay-token-file"},
		"gossip.key":             {"WAYPOST_GOSSIP_KEY_FILE", "gossip-key-file"},
		"client.api_key":         {"WAYPOST_API_KEY_FILE", "api-key-file"},
	} {
		t.Run(path, func(t *testing.T) {
			section, key, _ := strings.Cut(path, ".")
			flags := parse(t, path, "--"+names.flag+"="+secret)
			require.True(t, flags.Given(path))
			for source, from := range map[string]config.Sources{
				"file":     {File: write(t, "c.yaml", fmt.Sprintf("%s:\n  %s_file: %s\n", section, key, secret))},
				"variable": {Environ: []string{names.variable + "=" + secret}},
				"flag":     {Flags: flags},
			} {
				cfg, err := config.Load(from)
				require.NoError(t, err, source)
				require.Len(t, cfg.Environ(section), 1, "%s: only the secret differs from the defaults", source)
				require.Equal(t, strings.TrimSuffix(names.variable, "_FILE")+"=0123456789abcdef", cfg.Environ(section)[0], source)
			}
		})
	}
}

func TestASecretIsNeverPrinted(t *testing.T) {
	cfg, err := config.Load(config.Sources{Environ: []string{"WAYPOST_EDGE_TOKEN=tell-nobody", "WAYPOST_CONTROL_DATABASE_URL=postgres://u:tell-nobody@h/d"}})
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg.Edge.Token), "tell-nobody")
}

func TestEnvironHandsSettingsToAChild(t *testing.T) {
	cfg, err := config.Load(config.Sources{Environ: []string{
		"WAYPOST_EDGE_TOKEN=tell-nobody", "WAYPOST_EDGE_TRUSTED_PROXIES=127.0.0.0/8,::1", "WAYPOST_EDGE_MAX_STALENESS=90s", "WAYPOST_LOG_LEVEL=debug",
	}})
	require.NoError(t, err)
	env := cfg.Environ("edge", "log")
	again, err := config.Load(config.Sources{Environ: append(config.WithoutSettings([]string{"WAYPOST_EDGE_TOKEN=old", "HOME=/"}), env...)})
	require.NoError(t, err)
	require.Equal(t, cfg.Edge, again.Edge)
	require.Equal(t, cfg.Log, again.Log)
	require.False(t, slices.ContainsFunc(env, func(e string) bool { return e == "WAYPOST_EDGE_ADDR=127.0.0.1:8081" }), "defaults are left out")
}

func TestChecksNameTheSettingAndWhatToDo(t *testing.T) {
	good := []string{
		"WAYPOST_CONTROL_REGION=us-east-1", "WAYPOST_CONTROL_DATA_DIR=/var/lib/waypost-control", "WAYPOST_CONTROL_BASE_URL=https://go.example.com", "WAYPOST_CONTROL_DATABASE_URL=postgres://u@h/d",
		"WAYPOST_CONTROL_CLUSTER_SECRET=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", "WAYPOST_CONTROL_EDGE_TOKEN=0123456789abcdef",
		"WAYPOST_EDGE_REGION=us-east-1", "WAYPOST_EDGE_CONTROL_URLS=http://10.0.0.1:8080", "WAYPOST_EDGE_TOKEN=t", "WAYPOST_EDGE_DATA_DIR=/d",
	}
	for change, want := range map[string]string{
		"":                          "",
		"WAYPOST_CONTROL_ADDR=8080": `control.addr: "8080" is no address such as 127.0.0.1:8080`,
		"WAYPOST_CONTROL_DNS_RESOLVERS=10.0.0.53,ns":        `control.dns_resolvers: "ns" is no address of a resolver such as 10.0.0.53 or 10.0.0.53:53`,
		"WAYPOST_CONTROL_FLEET_LISTEN=7080":                 `control.fleet_listen: "7080" is no address`,
		"WAYPOST_CONTROL_ADDR=:99999":                       "control.addr: ",
		"WAYPOST_CONTROL_REGION=":                           "control.region is missing: give --region",
		"WAYPOST_CONTROL_REGION=US":                         "control.region: ",
		"WAYPOST_CONTROL_REGIONS=ok,Not-OK":                 "control.regions: ",
		"WAYPOST_CONTROL_BASE_URL=go.example.com":           "control.base_url: ",
		"WAYPOST_CONTROL_BASE_URL=https://go.example.com/x": "control.base_url: ",
		"WAYPOST_CONTROL_DATABASE_URL=mysql://u:pw@h/d":     "control.database_url: no URL such as",
		"WAYPOST_CONTROL_CLUSTER_SECRET=short":              "control.cluster_secret: not 32 bytes in hex",
		"WAYPOST_CONTROL_EDGE_TOKEN=short":                  "control.edge_token: shorter than 16 characters",
		"WAYPOST_CONTROL_TLS_CERT_FILE=/c":                  "control.tls_cert_file and control.tls_key_file belong together",
		"WAYPOST_CONTROL_CLIENT_CA_FILE=/c":                 "control.client_ca_file: client certificates are shown over TLS only",
		"WAYPOST_CONTROL_CODE_LENGTH=11":                    "control.code_length: 11 is not between 5 and 10",
		"WAYPOST_CONTROL_RATE_LIMIT=-1":                     "control.rate_limit: -1 is not between 0 and 1000000",
		"WAYPOST_CONTROL_TRUSTED_PROXIES=10.0.0.0/99":       "control.trusted_proxies: ",
		"WAYPOST_CONTROL_CORS_ORIGINS=*,https://a.example/": "control.cors_origins: \"https://a.example/\" is no origin",
		"WAYPOST_EDGE_NODE=a/b":                             "edge.node: ",
		"WAYPOST_EDGE_DATA_DIR=":                            "edge.data_dir is missing",
		"WAYPOST_EDGE_NODE_KEY_FILE=/k":                     "edge.node_cert_file and edge.node_key_file belong together",
		"WAYPOST_EDGE_CLICK_JOURNAL=1MiB":                   "edge.click_journal: ",
		"WAYPOST_EDGE_MAX_STALENESS=-1s":                    "edge.max_staleness: ",
		"WAYPOST_EDGE_BOTS=AcmeProbe,ab":                    `edge.bots: "ab" has fewer than 3`,
		"WAYPOST_LOG_FORMAT=xml":                            "log.format: ",
		"WAYPOST_EDGE_ADDR=":                                "edge.addr is missing",
		"WAYPOST_EDGE_ADDR=[::1]:80,81":                     `edge.addr: "81" is no address`,
		"WAYPOST_EDGE_PROXY_PROTOCOL=true":                  "edge.proxy_protocol: name the proxies in edge.trusted_proxies",
		"WAYPOST_EDGE_DRAIN_DELAY=-1s":                      "edge.drain_delay: ",
		"WAYPOST_TLS_ADDR=:443":                             "tls: there is no certificate",
		"WAYPOST_TLS_CERT_FILE=/c":                          "tls.addr is missing",
	} {
		t.Run(change, func(t *testing.T) {
			cfg, err := config.Load(config.Sources{Environ: append(slices.Clone(good), change)})
			require.NoError(t, err)
			for _, err = range []error{cfg.Log.Check(), cfg.Control.Check(), cfg.Edge.Check(), cfg.TLS.Check()} {
				if err != nil {
					break
				}
			}
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "pw")
		})
	}
}

func TestEdge_CheckOfARelay(t *testing.T) {
	check := func(more ...string) error {
		cfg, err := config.Load(config.Sources{Environ: append([]string{
			"WAYPOST_EDGE_REGION=us-east-1", "WAYPOST_EDGE_CONTROL_URLS=http://10.0.0.1:8080", "WAYPOST_EDGE_DATA_DIR=/d",
			"WAYPOST_EDGE_RELAY_ADDR=10.0.0.2:8090",
		}, more...)})
		require.NoError(t, err)
		return cfg.Edge.Check()
	}
	const token = "WAYPOST_EDGE_TOKEN=t"
	require.NoError(t, check(token))
	require.ErrorContains(t, check(), "edge.relay_token is missing")
	require.NoError(t, check("WAYPOST_EDGE_RELAY_TOKEN=0123456789abcdef"))
	require.ErrorContains(t, check("WAYPOST_EDGE_RELAY_TOKEN=0123456789abcde"), "edge.relay_token")
	files := []string{token, "WAYPOST_EDGE_NODE_CERT_FILE=/c", "WAYPOST_EDGE_NODE_KEY_FILE=/k"}
	require.ErrorContains(t, check(files...), "edge.node_ca_file is missing")
	require.NoError(t, check(append(files, "WAYPOST_EDGE_NODE_CA_FILE=/a")...))
	require.NoError(t, check(token, "WAYPOST_EDGE_NODE_CA_FILE=/a"), "the control plane's authority, and followers by plain HTTP")
	require.ErrorContains(t, check(token, "WAYPOST_EDGE_RELAY_ADDR=8090"), "edge.relay_addr")
}

func noVariables(string) string { return "" }

func parse(t *testing.T, section string, args ...string) *config.Flags {
	t.Helper()
	flags := &config.Flags{}
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Bind(set, noVariables, section)
	require.NoError(t, set.Parse(args))
	return flags
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestTLSNeedsAnAddressAndACertificate(t *testing.T) {
	for name, c := range map[string]struct {
		tls  config.TLS
		want string
	}{
		"none at all":              {config.TLS{}, ""},
		"files":                    {config.TLS{Addr: []string{":443"}, CertFile: "/c", KeyFile: "/k"}, ""},
		"an authority":             {config.TLS{Addr: []string{":443", "[::1]:8443"}, ACMEDirectory: "https://ca.example/dir"}, ""},
		"a chain without its key":  {config.TLS{Addr: []string{":443"}, CertFile: "/c"}, "belong together"},
		"a key without its chain":  {config.TLS{Addr: []string{":443"}, KeyFile: "/k"}, "belong together"},
		"an authority in clear":    {config.TLS{Addr: []string{":443"}, ACMEDirectory: "http://ca.example/dir"}, "is no https URL"},
		"an authority and no port": {config.TLS{ACMEDirectory: "https://ca.example/dir"}, "tls.addr is missing"},
		"a port alone":             {config.TLS{Addr: []string{"443"}, CertFile: "/c", KeyFile: "/k"}, "is no address"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.tls.Check(); c.want != "" {
				require.ErrorContains(t, err, c.want)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
