package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// blueprint holds the instructions of a Dockerfile's last stage about the image.
type blueprint struct {
	config v1.Config
	copies []copied
}

// copied is one source of a COPY instruction.
type copied struct {
	from, source, dest string
	uid, gid           int
}

// readDockerfile parses a Dockerfile with the parser and the linter of BuildKit, and reads
// its last stage. An instruction that the image does not follow is an error.
func readDockerfile(name string) (*blueprint, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var faults []error
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, text string, at []parser.Range) {
		faults = append(faults, fmt.Errorf("%s: %s: %s %v", name, rule, text, at))
	}})
	stages, _, err := instructions.Parse(parsed.AST, lint)
	if err == nil && len(stages) == 0 {
		err = errors.New("it has no stage")
	}
	if err = errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	last := stages[len(stages)-1]
	if last.BaseName != "scratch" {
		return nil, fmt.Errorf("%s: the last stage begins with %s instead of scratch", name, last.BaseName)
	}
	b := &blueprint{config: v1.Config{Labels: map[string]string{}, ExposedPorts: map[string]struct{}{}, Volumes: map[string]struct{}{}}}
	for _, c := range last.Commands {
		if err := b.follow(c); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, c.Name(), err)
		}
	}
	return b, nil
}

func (b *blueprint) follow(c instructions.Command) error {
	switch c := c.(type) {
	case *instructions.LabelCommand:
		for _, label := range c.Labels {
			b.config.Labels[label.Key] = strings.Trim(label.Value, `"`)
		}
	case *instructions.CopyCommand:
		return b.copy(c)
	case *instructions.UserCommand:
		b.config.User = c.User
	case *instructions.VolumeCommand:
		for _, v := range c.Volumes {
			b.config.Volumes[v] = struct{}{}
		}
	case *instructions.ExposeCommand:
		for _, port := range c.Ports {
			if !strings.Contains(port, "/") {
				port += "/tcp"
			}
			b.config.ExposedPorts[port] = struct{}{}
		}
	case *instructions.EntrypointCommand:
		if c.PrependShell {
			return errors.New("the image has no shell")
		}
		b.config.Entrypoint = c.CmdLine
	case *instructions.CmdCommand:
		if c.PrependShell {
			return errors.New("the image has no shell")
		}
		b.config.Cmd = c.CmdLine
	default:
		return errors.New("the builder does not know this instruction")
	}
	return nil
}

func (b *blueprint) copy(c *instructions.CopyCommand) error {
	if c.Chmod != "" || len(c.ExcludePatterns) > 0 || c.Parents || len(c.SourceContents) > 0 {
		return errors.New("the builder knows no flags besides --from and --chown")
	}
	var uid, gid int
	if c.Chown != "" {
		u, g, _ := strings.Cut(c.Chown, ":")
		var errs [2]error
		uid, errs[0] = strconv.Atoi(u)
		gid, errs[1] = strconv.Atoi(g)
		if err := errors.Join(errs[:]...); err != nil {
			return fmt.Errorf("--chown takes two numbers: %w", err)
		}
	}
	for _, source := range c.SourcePaths {
		b.copies = append(b.copies, copied{from: c.From, source: source, dest: c.DestPath, uid: uid, gid: gid})
	}
	return nil
}
