package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// writeImage builds the image of the last stage of a Dockerfile from nothing, for each
// architecture, and writes it as an archive of an OCI image layout.
func (r *release) writeImage(ctx context.Context, dockerfile string, programs map[string]string, out string) error {
	plan, err := readDockerfile(dockerfile)
	if err != nil {
		return err
	}
	index := v1.ImageIndex(empty.Index)
	index = mutate.IndexMediaType(index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(programs)) {
		image, err := r.image(plan, arch, programs[arch])
		if err != nil {
			return fmt.Errorf("the image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir, err := os.MkdirTemp("", "waypost-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	written, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	tag := strings.ReplaceAll(r.version, "+", "-") // which tags must not hold
	err = written.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": "docker.io/library/waypost:" + tag, "org.opencontainers.image.ref.name": tag,
	}))
	if err != nil {
		return err
	}
	// In order, and without metadata that differs between machines.
	_, err = output(ctx, dir, nil, "tar", "--create", "--file="+out, "--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner",
		"--mode=a-x,u=rwX,go=rX", fmt.Sprintf("--mtime=@%d", r.modified.Unix()), "blobs", "index.json", "oci-layout")
	return err
}

func (r *release) image(plan *blueprint, arch, program string) (v1.Image, error) {
	files, err := r.files(plan.copies, program)
	if err != nil {
		return nil, err
	}
	packed, err := r.layer(files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: r.modified}, CreatedBy: "make dist"}, MediaType: types.OCILayer,
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created, config.Config = "linux", arch, v1.Time{Time: r.modified}, plan.config
	config.Config.Labels = maps.Clone(plan.config.Labels)
	config.Config.Labels["org.opencontainers.image.version"] = r.version
	return mutate.ConfigFile(image, config)
}

// file is one of an image. A directory has no content.
type file struct {
	mode     fs.FileMode
	uid, gid int
	content  []byte
}

// files returns the files of an image by path, as the COPY instructions place them.
func (r *release) files(copies []copied, program string) (map[string]file, error) {
	files := make(map[string]file)
	for _, c := range copies {
		add := func(name string, f file) { f.uid, f.gid = c.uid, c.gid; files[strings.TrimPrefix(name, "/")] = f }
		place := c.dest
		if strings.HasSuffix(place, "/") {
			place += path.Base(c.source)
		}
		switch {
		case c.from == "build" && c.source == "/out/waypost":
			content, err := os.ReadFile(program)
			if err != nil {
				return nil, err
			}
			add(place, file{mode: 0o755, content: content})
		case c.from == "build" && c.source == "/out/state": // a directory's content is copied
			add(path.Join(c.dest, "waypost"), file{mode: fs.ModeDir | 0o700})
		case c.from == "build" && c.source == "/etc/ssl/certs/ca-certificates.crt":
			add(place, file{mode: 0o644, content: certificates()})
		case c.from == "":
			content, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(c.source)))
			if err != nil {
				return nil, err
			}
			add(place, file{mode: 0o644, content: content})
		default:
			return nil, fmt.Errorf("COPY: the builder does not know %s of the stage %q", c.source, c.from)
		}
	}
	return files, nil
}

// certificates returns Mozilla's roots, which Debian's package has as well, in PEM.
func certificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // which a file cannot say
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // to memory
		}
	}
	return b.Bytes()
}

// layer archives files, with the directories above them.
func (r *release) layer(files map[string]file) ([]byte, error) {
	all := maps.Clone(files)
	for name := range files {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, ok := all[dir]; !ok {
				all[dir] = file{mode: fs.ModeDir | 0o755}
			}
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: int64(f.mode.Perm()), Uid: f.uid, Gid: f.gid, Size: int64(len(f.content)), ModTime: r.modified,
		}
		if f.mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, name+"/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
