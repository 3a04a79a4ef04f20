package dist

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// loadCompose copies deploy/, makes the secrets as its user does, and loads the project
// as Compose does.
func loadCompose(t *testing.T) (*types.Project, string) {
	t.Helper()
	deploy := filepath.Join(t.TempDir(), "deploy")
	require.NoError(t, os.CopyFS(deploy, os.DirFS("../../deploy")))
	dir, program := filepath.Join(deploy, "compose"), built(t)
	for range 2 { // the second run changes nothing
		run := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "secrets.sh"))
		run.Env = append(os.Environ(), "WAYPOST="+program)
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	options, err := cli.NewProjectOptions([]string{filepath.Join(dir, "compose.yaml")}, cli.WithWorkingDirectory(dir))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project, dir
}

func TestCompose_MountsFilesThatExist(t *testing.T) {
	project, dir := loadCompose(t)
	require.Equal(t, []string{"control", "edge-ap", "edge-eu", "edge-us", "front", "grafana", "migrate", "postgres", "prometheus"},
		slices.Sorted(maps.Keys(project.Services)))
	mounted := 0
	for name, s := range project.Services {
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				_, err := os.Stat(v.Source)
				require.NoError(t, err, name)
				require.True(t, v.ReadOnly, "%s may write %s", name, v.Source)
				mounted++
			}
		}
	}
	require.Greater(t, mounted, 8)
	for name, secret := range project.Secrets {
		info, err := os.Stat(secret.File)
		require.NoError(t, err, name)
		require.Positive(t, info.Size(), name)
	}
	info, err := os.Stat(filepath.Join(dir, "secrets"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// built returns the path of the program.
func built(t *testing.T) string {
	t.Helper()
	program := os.Getenv("WAYPOST")
	if program == "" {
		program = filepath.Join(t.TempDir(), "waypost")
		_, err := output(t.Context(), "../..", "go", "build", "-o", program, "./cmd/waypost")
		require.NoError(t, err)
	}
	return program
}

func TestCompose_NodesAcceptTheirConfiguration(t *testing.T) {
	program := built(t)
	project, _ := loadCompose(t)
	for _, name := range []string{"control", "edge-us", "edge-eu", "edge-ap"} {
		s := project.Services[name]
		require.True(t, s.ReadOnly, name)
		require.NotContains(t, published(s), "9080", "%s publishes its admin listener", name)
		require.NotContains(t, published(s), "9081", "%s publishes its admin listener", name)
		paths := inside(t, project, s)
		config, err := os.ReadFile(paths[s.Command[2]])
		require.NoError(t, err, name)
		require.NotContains(t, string(config), "[::]", "%s needs IPv6", name)
		args := make([]string, len(s.Command))
		for i, arg := range s.Command {
			args[i] = outside(arg, paths)
		}
		cmd := exec.CommandContext(t.Context(), program, append(args, "--check-config")...)
		cmd.Env = environment(s, paths)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		require.Equal(t, "the configuration is right\n", string(out), name) // and no warning
	}
}

// environment returns the environment of a container, with the files of this machine.
func environment(s types.ServiceConfig, paths map[string]string) (env []string) {
	for key, value := range s.Environment {
		env = append(env, key+"="+outside(*value, paths))
	}
	return env
}

func published(s types.ServiceConfig) (ports []string) {
	for _, p := range s.Ports {
		ports = append(ports, p.Published)
	}
	return ports
}

// inside returns the files of this machine by their paths in a container.
func inside(t *testing.T, project *types.Project, s types.ServiceConfig) map[string]string {
	t.Helper()
	paths := map[string]string{}
	for _, v := range s.Volumes {
		if v.Type == types.VolumeTypeBind {
			paths[v.Target] = v.Source
		}
	}
	for _, secret := range s.Secrets {
		file, ok := project.Secrets[secret.Source]
		require.True(t, ok, secret.Source)
		paths["/run/secrets/"+secret.Source] = file.File
	}
	return paths
}

func outside(text string, paths map[string]string) string {
	if file, ok := paths[text]; ok {
		return file
	}
	return text
}

func TestCompose_OtherConfigurationsAreAccepted(t *testing.T) {
	project, dir := loadCompose(t)
	out, err := exec.CommandContext(t.Context(), "../../deploy/install-missing.sh", "caddy", "prometheus").CombinedOutput()
	require.NoError(t, err, "%s", out)
	front, err := os.ReadFile(filepath.Join(dir, "Caddyfile"))
	require.NoError(t, err)
	authority := inside(t, project, project.Services["front"])["/run/secrets/authority"]
	caddyfile := filepath.Join(dir, "checked")
	require.NoError(t, write(caddyfile, []byte(strings.ReplaceAll(string(front), "/run/secrets/authority", authority)), 0o600))
	cmd := exec.CommandContext(t.Context(), "caddy", "validate", "--adapter", "caddyfile", "--config", caddyfile)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	promtool, err := exec.LookPath("promtool")
	if err != nil {
		promtool = "../../bin/tools/promtool"
	}
	text, err := os.ReadFile(filepath.Join(dir, "prometheus.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "/etc/prometheus/alerts.yaml")
	alerts := inside(t, project, project.Services["prometheus"])["/etc/prometheus/alerts.yaml"]
	config := filepath.Join(dir, "checked.yaml")
	require.NoError(t, write(config, []byte(strings.ReplaceAll(string(text), "/etc/prometheus/alerts.yaml", alerts)), 0o600))
	out, err = exec.CommandContext(t.Context(), promtool, "check", "config", config).CombinedOutput()
	require.NoError(t, err, "%s", out)
	// Every target is a service with an admin listener there.
	for _, m := range regexp.MustCompile(`"([a-z-]+):(908[01])"`).FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, project.Services, m[1])
	}

	dashboards, err := filepath.Glob(inside(t, project, project.Services["grafana"])["/var/lib/grafana/dashboards"] + "/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, dashboards)
}

// The commands of the service tools find the secrets: they are refused only because the
// host postgres is a name in Compose's network.
func TestCompose_ToolsReachPostgreSQL(t *testing.T) {
	program := built(t)
	project, _ := loadCompose(t)
	project, err := project.WithProfiles([]string{"tools"})
	require.NoError(t, err)
	s := project.Services["tools"]
	for _, args := range [][]string{{"backup", "--out", filepath.Join(t.TempDir(), "new")}, {"restore", t.TempDir()}} {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = environment(s, inside(t, project, s))
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), map[string]string{"backup": "lookup postgres", "restore": "manifest.json"}[args[0]])
	}
	plan, err := os.ReadFile("../../deploy/docker/Dockerfile")
	require.NoError(t, err)
	require.Contains(t, string(plan), " AS "+s.Build.Target+"\n")
}

// The front publishes the ports of its Caddyfile, and compose.yaml and the page name those
// that it needs with a public name.
func TestCompose_FrontPublishesWhatCaddyListensOn(t *testing.T) {
	project, dir := loadCompose(t)
	text, err := os.ReadFile(filepath.Join(dir, "Caddyfile"))
	require.NoError(t, err)
	var listens, targets []string
	for _, m := range regexp.MustCompile(`(?m)^:(\d+) \{$`).FindAllStringSubmatch(string(text), -1) {
		listens = append(listens, m[1])
	}
	for _, p := range project.Services["front"].Ports {
		targets = append(targets, fmt.Sprint(p.Target))
	}
	require.ElementsMatch(t, listens, targets)
	for _, file := range []string{filepath.Join(dir, "compose.yaml"), "../../docs/operations/compose.md"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), ` ports: ["80:80", "443:443", "443:443/udp", "127.0.0.1:8080:8080"]`, file)
	}
}

// Each command that the page runs in the container of the control plane, also without a
// terminal, finds the secrets and looks for PostgreSQL.
func TestCompose_PageRunsCommandsOfTheControlPlane(t *testing.T) {
	program := built(t)
	project, _ := loadCompose(t)
	s := project.Services["control"]
	text, err := os.ReadFile("../../docs/operations/compose.md")
	require.NoError(t, err)
	commands := regexp.MustCompile(`(?m)^docker compose run --rm control ([^#\n]+)`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, commands, 2)
	for _, m := range commands {
		cmd := exec.CommandContext(t.Context(), program, strings.Fields(m[1])...)
		cmd.Env = environment(s, inside(t, project, s))
		cmd.Stdin = strings.NewReader("heron-lantern-47-quay\n") // of "admin create"
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "lookup postgres", m[1])
	}
}

// The upgrade of the page leaves out no service of this program, and asks each edge at the
// address that the front asks.
func TestCompose_PageUpgradesEveryNode(t *testing.T) {
	project, dir := loadCompose(t)
	project, err := project.WithProfiles([]string{"tools"})
	require.NoError(t, err)
	text, err := os.ReadFile("../../docs/operations/compose.md")
	require.NoError(t, err)
	find := func(pattern string) []string {
		m := regexp.MustCompile(`(?m)` + pattern).FindStringSubmatch(string(text))
		require.Len(t, m, 2, pattern)
		return strings.Fields(m[1])
	}
	builds, edges := find(`^docker compose build (.*)$`), find(`^for edge in (.*); do$`)
	started := append(find(`^docker compose up -d (control)\b`), edges...)
	for name, s := range project.Services {
		if s.Build != nil {
			require.Contains(t, builds, name)
		} else if strings.HasPrefix(s.Image, "waypost") {
			require.Contains(t, started, name)
		}
	}
	caddy, err := os.ReadFile(filepath.Join(dir, "Caddyfile"))
	require.NoError(t, err)
	require.Contains(t, string(text), "http://$edge:9081/readyz")
	require.Contains(t, string(caddy), "health_uri /readyz\n\t\thealth_port 9081\n")
}

// Secrets and backups below deploy/compose reach no image.
func TestDockerfile_ContextLacksSecretsAndBackups(t *testing.T) {
	ignored, err := os.ReadFile("../../.gitignore")
	require.NoError(t, err)
	left, err := os.ReadFile("../../.dockerignore")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^/(deploy/compose/\w+)/$`).FindAllStringSubmatch(string(ignored), -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		require.Contains(t, strings.Split(string(left), "\n"), m[1])
	}
}
