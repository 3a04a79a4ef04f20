// Command dist builds the files of a release into one directory: programs for Linux,
// their bills of materials, Debian packages, a container image, and SHA256SUMS.
//
//	go run -C tools/dist . ROOT OUT [ARCHITECTURE ...]
//
// The same commit and the same version of Go make the same bytes, wherever they are built.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// architectures lists the ones that the edge's fast path is written for.
var architectures = []string{"amd64", "arm64"}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: dist ROOT OUT [ARCHITECTURE ...]")
	}
	root, out, chosen := args[0], args[1], args[2:]
	if len(chosen) == 0 {
		chosen = architectures
	}
	for _, arch := range chosen {
		if !slices.Contains(architectures, arch) {
			return fmt.Errorf("the architecture %q is none of %s", arch, strings.Join(architectures, ", "))
		}
	}
	r, err := newRelease(ctx, root)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "waypost-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// Manual pages and completions come from a program that runs here.
	generated, err := r.generate(ctx, work)
	if err != nil {
		return err
	}
	programs := make(map[string]string, len(chosen))
	for _, arch := range chosen {
		program := filepath.Join(out, r.name("linux", arch))
		if err := r.build(ctx, arch, program); err != nil {
			return err
		}
		programs[arch] = program
		if err := r.writeBill(program, program+".cdx.json"); err != nil {
			return err
		}
		_, err := output(ctx, root, []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.modified.Unix())},
			"tools/dist/deb.sh", root, arch, debianVersion(r.version), program, generated, filepath.Join(out, r.name(arch)+".deb"))
		if err != nil {
			return err
		}
	}
	if err := r.writeImage(ctx, filepath.Join(root, "deploy/docker/Dockerfile"), programs, filepath.Join(out, r.name("oci")+".tar")); err != nil {
		return err
	}
	sums, err := output(ctx, out, nil, "sh", "-c", "sha256sum waypost_* >SHA256SUMS && cat SHA256SUMS")
	fmt.Println(sums)
	return err
}

func sumOf(name string) (string, error) {
	content, err := os.ReadFile(name)
	return fmt.Sprintf("%x", sha256.Sum256(content)), err
}
