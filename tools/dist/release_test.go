package dist

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// released returns the directory that `make dist` has filled.
func released(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("DIST")
	if dir == "" {
		t.Skip("looks at what make dist builds: make test-dist")
	}
	return dir
}

// artefact returns the one file of a release whose name ends so.
func artefact(t *testing.T, suffix string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(released(t), "waypost_*"+suffix))
	require.NoError(t, err)
	require.Len(t, names, 1, suffix)
	return names[0]
}

// output runs a command and returns its output, without the last line break.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

// write writes a file, and makes the directories above it.
func write(name string, content []byte, mode os.FileMode) error {
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, content, mode))
}

func TestDebianVersion_OrdersAsReleases(t *testing.T) {
	debianVersion := func(version string) string {
		out, err := output(t.Context(), ".", "./debian-version.sh", version)
		require.NoError(t, err)
		return out
	}
	require.Equal(t, "0.1.0~dev+20261128031547.0123456789ab", debianVersion("0.1.0-dev+20261128031547.0123456789ab"))
	require.Equal(t, "0.1.0+5.gabcdef0+dirty", debianVersion("0.1.0-5-gabcdef0-dirty"))
	ordered := []string{
		"0.1.0-dev+20261128031547.fedcba987654", "0.1.0-dev+20261128031548.0123456789ab", "0.1.0-rc.1", "0.1.0", "0.1.0-5-gabcdef0",
		"0.1.1-dev+20261128031547.0123456789ab",
	}
	for i := 1; i < len(ordered); i++ {
		older, newer := debianVersion(ordered[i-1]), debianVersion(ordered[i])
		require.NoError(t, exec.CommandContext(t.Context(), "dpkg", "--compare-versions", older, "lt", newer).Run(), "%s < %s", older, newer)
	}
}

func TestRelease_NamesTheTimeBeforeTheCommit(t *testing.T) {
	out, err := output(t.Context(), ".", artefact(t, "_linux_"+runtime.GOARCH), "version")
	require.NoError(t, err)
	require.Regexp(t, `\b2\d{13}\.[0-9a-f]{12}\b`, out)
}

func TestRelease_SumsAreRight(t *testing.T) {
	out, err := output(t.Context(), released(t), "sha256sum", "--check", "--strict", "SHA256SUMS")
	require.NoError(t, err)
	require.Equal(t, 7, strings.Count(out, ": OK"))
}

func TestRelease_ProgramsAreStatic(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		f, err := elf.Open(artefact(t, "_linux_"+arch))
		require.NoError(t, err)
		require.Equal(t, machine, f.Machine)
		for _, p := range f.Progs {
			require.NotEqual(t, elf.PT_INTERP, p.Type, "%s needs a dynamic linker", arch)
		}
		require.NoError(t, f.Close())
	}
}

func TestRelease_BillListsAllModules(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		info, err := buildinfo.ReadFile(artefact(t, "_linux_"+arch))
		require.NoError(t, err)
		text, err := os.ReadFile(artefact(t, "_linux_"+arch+".cdx.json"))
		require.NoError(t, err)
		var bill struct {
			Format     string `json:"bomFormat"`
			Components []struct {
				PURL string `json:"purl"`
			} `json:"components"`
		}
		require.NoError(t, json.Unmarshal(text, &bill))
		require.Equal(t, "CycloneDX", bill.Format)
		require.Len(t, bill.Components, len(info.Deps)+1, "the modules and the standard library")
		require.Contains(t, string(text), `"purl": "pkg:golang/github.com/cockroachdb/pebble/v2@v2.`)
		require.NotContains(t, string(text), "buildkit", "the tools are no part of the program")
	}
}

// The program is built in a copy of the source, from whose path nothing must show.
func TestRelease_IsReproducible(t *testing.T) {
	released(t)
	list, err := output(t.Context(), "../..", "git", "ls-files", "--cached", "--others", "--exclude-standard")
	require.NoError(t, err)
	source, dir := t.TempDir(), t.TempDir()
	for name := range strings.Lines(list) {
		name = strings.TrimSpace(name)
		if content, err := os.ReadFile(filepath.Join("../..", name)); err == nil { // some are deleted
			require.NoError(t, write(filepath.Join(source, name), content, 0o644))
		}
	}
	for name, from := range map[string]string{"one": "../..", "two": source} {
		from, err := filepath.Abs(from)
		require.NoError(t, err)
		_, err = output(t.Context(), ".", "./build.sh", runtime.GOARCH, filepath.Join(dir, name), from)
		require.NoError(t, err)
	}
	first, err := os.ReadFile(filepath.Join(dir, "one"))
	require.NoError(t, err)
	second, err := os.ReadFile(filepath.Join(dir, "two"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, second))
}

func TestPackage_HasProgramUnitsAndPages(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		deb := artefact(t, "_"+arch+".deb")
		list, err := output(t.Context(), ".", "dpkg-deb", "--contents", deb)
		require.NoError(t, err)
		for _, line := range []string{
			`-rwxr-xr-x root/root +\d+ .* \./usr/bin/waypost$`,
			`drwxr-xr-x root/root .* \./etc/waypost/$`,
			`drwx------ root/root .* \./etc/waypost/secrets/$`,
			`drwxr-x--- root/root .* \./etc/waypost/tls/$`,
			`\./usr/lib/systemd/system/waypost-control\.service$`,
			`\./usr/lib/systemd/system/waypost-edge@\.service$`,
			`\./usr/share/man/man1/waypost\.1\.gz$`,
			`\./usr/share/man/man1/waypost-links-create\.1\.gz$`,
			`\./usr/share/bash-completion/completions/waypost$`,
			`\./usr/share/zsh/vendor-completions/_waypost$`,
			`\./usr/share/fish/vendor_completions\.d/waypost\.fish$`,
			`\./usr/share/waypost/examples/control\.yaml$`,
			`-rw-r--r-- root/root .* \./etc/needrestart/conf\.d/waypost\.conf$`,
			`\./usr/share/doc/waypost/docs/operations/install\.md$`,
			`\./usr/share/doc/waypost/copyright$`,
		} {
			require.Regexp(t, `(?m)`+line, list)
		}
		require.NotContains(t, list, "rwxrwx")
		fields, err := output(t.Context(), ".", "dpkg-deb", "--field", deb, "Package", "Version", "Architecture")
		require.NoError(t, err)
		require.Regexp(t, `^Package: waypost\nVersion: \d+\.\d+\.\d+\S*\nArchitecture: `+arch+`$`, fields)
		tree := t.TempDir()
		_, err = output(t.Context(), ".", "dpkg-deb", "--raw-extract", deb, tree)
		require.NoError(t, err)
		conffiles, err := os.ReadFile(filepath.Join(tree, "DEBIAN/conffiles"))
		require.NoError(t, err)
		require.Equal(t, "/etc/needrestart/conf.d/waypost.conf\n", string(conffiles))
		// The units run the program that the package has, and refer to pages that it has.
		for _, unit := range []string{"waypost-control.service", "waypost-edge@.service", "waypost-backup.service", "waypost-backup.timer"} {
			text, err := os.ReadFile(filepath.Join(tree, "usr/lib/systemd/system", unit))
			require.NoError(t, err)
			require.Regexp(t, `(?m)^(ExecStart=.*/usr/bin/waypost |OnCalendar=)`, string(text))
			for line := range strings.Lines(string(text)) {
				if page, ok := strings.CutPrefix(strings.TrimSpace(line), "Documentation=file://"); ok {
					require.FileExists(t, filepath.Join(tree, page))
				}
			}
		}
		_, err = output(t.Context(), ".", "bash", "-n", filepath.Join(tree, "usr/share/bash-completion/completions/waypost"))
		require.NoError(t, err)
	}
}
