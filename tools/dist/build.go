package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// release holds the facts that all files of a release have in common.
type release struct {
	root     string    // of the source
	version  string    // as `waypost version` says it
	ldflags  string    // with version and revision
	modified time.Time // of all files, the time of the commit
}

func newRelease(ctx context.Context, root string) (*release, error) {
	// Read also a repository of another user.
	git := func(args ...string) (string, error) {
		return output(ctx, root, nil, "git", append([]string{"-c", "safe.directory=*"}, args...)...)
	}
	head, err := git("log", "-1", "--abbrev=12", "--format=%ct %h")
	if err != nil {
		return nil, err
	}
	var unix int64
	var revision string
	if _, err := fmt.Sscan(head, &unix, &revision); err != nil {
		return nil, fmt.Errorf("the time of the commit: %w", err)
	}
	tag, _ := git("describe", "--tags", "--match", "v[0-9]*", "--dirty") // there may be none
	r := &release{root: root, modified: time.Unix(unix, 0).UTC()}
	r.ldflags = fmt.Sprintf("-s -w -X main.version=%s -X main.revision=%s.%s",
		strings.TrimPrefix(tag, "v"), r.modified.Format("20060102150405"), revision)
	return r, nil
}

// name joins the parts of a file's name.
func (r *release) name(parts ...string) string {
	return strings.Join(append([]string{"waypost", r.version}, parts...), "_")
}

// build compiles the program without C, so that it is static and needs no cross compiler.
// Version and revision come from the linker's flags, and not from the Go command, which
// refuses repositories of other users.
func (r *release) build(ctx context.Context, arch, out string) error {
	_, err := output(ctx, r.root, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOFLAGS="},
		"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", r.ldflags, "-o", out, "./cmd/waypost")
	return err
}

// completions has the place of each shell's completion in a Debian system.
var completions = map[string]string{
	"bash": "usr/share/bash-completion/completions/waypost",
	"zsh":  "usr/share/zsh/vendor-completions/_waypost",
	"fish": "usr/share/fish/vendor_completions.d/waypost.fish",
}

// generate returns a directory with manual pages and completions, which the program writes
// itself, and learns the version from it.
func (r *release) generate(ctx context.Context, work string) (string, error) {
	program, dir := filepath.Join(work, "waypost"), filepath.Join(work, "generated")
	if err := r.build(ctx, runtime.GOARCH, program); err != nil {
		return "", err
	}
	text, err := output(ctx, work, nil, program, "version")
	if err != nil {
		return "", err
	}
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return "", fmt.Errorf("waypost version says %q", text)
	}
	r.version = fields[1]
	man := filepath.Join(dir, "usr/share/man/man1")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return "", err
	}
	if _, err := output(ctx, work, nil, program, "man", man); err != nil {
		return "", err
	}
	for shell, place := range completions {
		script, err := output(ctx, work, nil, program, "completion", shell)
		if err != nil {
			return "", err
		}
		if err := write(filepath.Join(dir, place), []byte(script+"\n"), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

var described = regexp.MustCompile(`^(.*)-(\d+)-(g[0-9a-f]+)(-dirty)?$`) // commits after a tag

// debianVersion writes a version so that dpkg orders it right: 0.1.0-dev comes before
// 0.1.0, and commits after a tag come after it.
func debianVersion(version string) string {
	if m := described.FindStringSubmatch(version); m != nil {
		version = m[1] + "+" + m[2] + "." + m[3] + strings.ReplaceAll(m[4], "-", "+")
	}
	return strings.ReplaceAll(version, "-", "~")
}

// output runs a command and returns its output, without the last line break.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.Bytes())
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// write writes a file, and makes the directories above it.
func write(name string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name, content, mode); err != nil {
		return err
	}
	return os.Chmod(name, mode) // whatever the umask
}
