package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// examples is the place of example configurations. It is not in usr/share/doc, which
// minimal systems leave out.
const examples = "usr/share/waypost/examples/"

// shipped lists files of the source that a package has, with their places.
var shipped = map[string]string{
	"deploy/waypost-control.service":         "usr/lib/systemd/system/",
	"deploy/waypost-edge@.service":           "usr/lib/systemd/system/",
	"deploy/waypost-backup.service":          "usr/lib/systemd/system/",
	"deploy/waypost-backup.timer":            "usr/lib/systemd/system/",
	"deploy/control.yaml":                    examples,
	"deploy/edge.yaml":                       examples,
	"deploy/alerts.yaml":                     examples,
	"deploy/prometheus.yaml":                 examples,
	"deploy/nginx/waypost.conf":              examples + "nginx/",
	"deploy/haproxy/waypost.cfg":             examples + "haproxy/",
	"deploy/caddy/Caddyfile":                 examples + "caddy/",
	"deploy/debian/needrestart/waypost.conf": "etc/needrestart/conf.d/",
	"deploy/debian/copyright":                "usr/share/doc/waypost/",
	"CHANGELOG.md":                           "usr/share/doc/waypost/",
	"README.md":                              "usr/share/doc/waypost/",
}

// scripts lists the maintainer scripts of a package.
var scripts = []string{"postinst", "prerm", "postrm"}

// writePackage builds a Debian package with dpkg-deb, which every Debian machine has.
func (r *release) writePackage(ctx context.Context, arch, program, generated, out string) error {
	tree, err := os.MkdirTemp("", "waypost-deb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if err := os.Chmod(tree, 0o755); err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := write(filepath.Join(tree, "usr/bin/waypost"), content, 0o755); err != nil {
		return err
	}
	for source, place := range shipped {
		if err := copyFile(filepath.Join(r.root, source), filepath.Join(tree, place, filepath.Base(source)), 0o644); err != nil {
			return err
		}
	}
	err = copyTree(filepath.Join(r.root, "docs"), filepath.Join(tree, "usr/share/doc/waypost/docs"), func(name string) bool {
		return strings.HasSuffix(name, ".md")
	})
	if err != nil {
		return err
	}
	dashboards := filepath.Join(tree, examples, "dashboards")
	err = copyTree(filepath.Join(r.root, "deploy/dashboards"), dashboards, func(name string) bool { return strings.HasSuffix(name, ".json") })
	if err != nil {
		return err
	}
	if err := copyTree(generated, tree, func(string) bool { return true }); err != nil {
		return err
	}
	// Secrets are for root alone, and keys of TLS for a group that the package makes.
	for dir, mode := range map[string]fs.FileMode{"etc/waypost": 0o755, "etc/waypost/secrets": 0o700, "etc/waypost/tls": 0o750} {
		if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
			return err
		}
		if err := os.Chmod(filepath.Join(tree, dir), mode); err != nil {
			return err
		}
	}
	if err := r.writeControl(tree, arch); err != nil {
		return err
	}
	// One thread, so that the number of processors does not show in the file.
	_, err = output(ctx, tree, []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.modified.Unix())},
		"dpkg-deb", "--root-owner-group", "-Zxz", "-z3", "--threads-max=1", "--build", tree,
		filepath.Join(out, r.name(arch)+".deb"))
	return err
}

// writeControl writes the package's control files.
func (r *release) writeControl(tree, arch string) error {
	var size int64
	err := filepath.WalkDir(tree, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		size += info.Size()
		return err
	})
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(r.root, "deploy/debian/control"))
	if err != nil {
		return err
	}
	control := strings.NewReplacer(
		"${version}", debianVersion(r.version), "${architecture}", arch, "${size}", fmt.Sprint((size+1023)/1024),
	).Replace(string(text))
	if err := write(filepath.Join(tree, "DEBIAN/control"), []byte(control), 0o644); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(r.root, "deploy/debian/conffiles"), filepath.Join(tree, "DEBIAN/conffiles"), 0o644); err != nil {
		return err
	}
	for _, script := range scripts {
		if err := copyFile(filepath.Join(r.root, "deploy/debian", script), filepath.Join(tree, "DEBIAN", script), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string, mode fs.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, content, mode)
}

// copyTree copies the files that are wanted; manual pages are compressed.
func copyTree(from, to string, wanted func(name string) bool) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !wanted(name) {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.Contains(rel, "/man/") {
			if content, err = compressed(content); err != nil {
				return err
			}
			rel += ".gz"
		}
		return write(filepath.Join(to, rel), content, 0o644)
	})
}

func compressed(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
