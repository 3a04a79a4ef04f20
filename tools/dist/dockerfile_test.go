package dist

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/require"
)

// The image of `make dist` is that of the Dockerfile's last stage.
func TestDockerfile_SaysWhatImageJSONSays(t *testing.T) {
	text, err := os.ReadFile("../../deploy/docker/Dockerfile")
	require.NoError(t, err)
	parsed, err := parser.Parse(bytes.NewReader(text))
	require.NoError(t, err)
	stages, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{Warn: func(rule, _, _, text string, at []parser.Range) {
		t.Errorf("%s: %s %v", rule, text, at)
	}}))
	require.NoError(t, err)
	last := stages[len(stages)-1]
	require.Equal(t, "scratch", last.BaseName)
	config, copied := v1.Config{Labels: map[string]string{}, ExposedPorts: map[string]struct{}{}, Volumes: map[string]struct{}{}}, []string(nil)
	for _, c := range last.Commands {
		switch c := c.(type) {
		case *instructions.LabelCommand:
			for _, label := range c.Labels {
				config.Labels[label.Key] = strings.Trim(label.Value, `"`)
			}
		case *instructions.CopyCommand:
			copied = append(copied, strings.Join(append([]string{c.From, c.Chown}, c.SourcePaths...), " ")+" "+c.DestPath)
		case *instructions.UserCommand:
			config.User = c.User
		case *instructions.VolumeCommand:
			for _, v := range c.Volumes {
				config.Volumes[v] = struct{}{}
			}
		case *instructions.ExposeCommand:
			for _, port := range c.Ports {
				if !strings.Contains(port, "/") {
					port += "/tcp"
				}
				config.ExposedPorts[port] = struct{}{}
			}
		case *instructions.EntrypointCommand:
			require.False(t, c.PrependShell, "the image has no shell")
			config.Entrypoint = c.CmdLine
		case *instructions.CmdCommand:
			require.False(t, c.PrependShell, "the image has no shell")
			config.Cmd = c.CmdLine
		default:
			require.Fail(t, "image.sh does not follow this instruction", c.Name())
		}
	}
	var said v1.Config
	text, err = os.ReadFile("image.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &said))
	require.Equal(t, config, said)
	require.Equal(t, []string{ // image.sh has these files
		"build  /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/",
		"  deploy/docker/passwd deploy/docker/group /etc/",
		"build 65532:65532 /out/state /var/lib",
		"build  /out/waypost /usr/bin/waypost",
	}, copied)
}
