package dist

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/stretchr/testify/require"
)

// unpack returns the directory with the files of the image for this machine, and its
// configuration.
func unpack(t *testing.T) (string, v1.Config) {
	t.Helper()
	archive, err := os.ReadFile(artefact(t, "_oci.tar"))
	require.NoError(t, err)
	dir := t.TempDir()
	extract(t, bytes.NewReader(archive), dir)
	index, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	images, err := partial.FindImages(nested(t, index), func(d v1.Descriptor) bool {
		return d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH
	})
	require.NoError(t, err)
	require.Len(t, images, 1)
	config, err := images[0].ConfigFile()
	require.NoError(t, err)
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	extract(t, mutate.Extract(images[0]), root)
	return root, config.Config
}

// nested returns the index of all architectures, which is the one entry of the layout.
func nested(t *testing.T, index v1.ImageIndex) v1.ImageIndex {
	t.Helper()
	m, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, m.Manifests, 1)
	require.NotEmpty(t, m.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	all, err := index.ImageIndex(m.Manifests[0].Digest)
	require.NoError(t, err)
	return all
}

// extract unpacks an archive, with the owners of its files as far as the user may.
func extract(t *testing.T, from io.Reader, dir string) {
	t.Helper()
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		require.True(t, filepath.IsLocal(strings.TrimSuffix(h.Name, "/")), h.Name)
		name := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(name, 0o755))
		} else {
			content, err := io.ReadAll(r)
			require.NoError(t, err)
			require.NoError(t, write(name, content, h.FileInfo().Mode()))
		}
		if os.Geteuid() == 0 {
			require.NoError(t, os.Lchown(name, h.Uid, h.Gid))
		}
		require.NoError(t, os.Chmod(name, h.FileInfo().Mode().Perm()))
	}
}

func TestImage_HasCertificatesAndAUser(t *testing.T) {
	root, config := unpack(t)
	require.Equal(t, "65532:65532", config.User)
	require.NotEmpty(t, config.Labels["org.opencontainers.image.version"])
	pem, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	require.NoError(t, err)
	require.True(t, x509.NewCertPool().AppendCertsFromPEM(pem))
	require.Greater(t, bytes.Count(pem, []byte("BEGIN CERTIFICATE")), 100)
	passwd, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	require.NoError(t, err)
	require.Contains(t, string(passwd), "waypost:x:65532:65532:")
}

// container runs the image's entry point in a root directory of its own that nothing can be
// written to, except for the volume: as root with the image's user, otherwise in a user
// namespace, where only one user is to be had.
func container(t *testing.T, root string, config v1.Config, env []string, args ...string) *exec.Cmd {
	t.Helper()
	volume := filepath.Join(root, "var/lib/waypost")
	flags, user := []string{"--mount"}, "--userspec="+config.User
	if os.Geteuid() != 0 {
		flags, user = []string{"--user", "--map-root-user", "--mount"}, ""
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", append(flags, "true")...).CombinedOutput(); err != nil {
		t.Skipf("neither root nor user namespaces are allowed here: %v: %s", err, out)
	}
	script := `set -e
mount --bind "$1" "$1"
mount --bind "$2" "$2"
mount -o remount,bind,ro,nosuid,nodev "$1"
root=$1 user=$3
shift 3
cd /
exec chroot ${user:+"$user"} "$root" "$@"`
	all := append(append(flags, "sh", "-c", script, "sh", root, volume, user), append(config.Entrypoint, args...)...)
	cmd := exec.CommandContext(t.Context(), "unshare", all...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}, env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func TestImage_RunsWithAReadOnlyRoot(t *testing.T) {
	root, config := unpack(t)
	out, err := container(t, root, config, nil, "version", "--output", "json").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), `"platform": "linux/`+runtime.GOARCH+`"`)
	require.Contains(t, string(out), config.Labels["org.opencontainers.image.version"])

	addr, admin := free(t), free(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	edge := container(t, root, config, []string{"WAYPOST_EDGE_TOKEN=" + strings.Repeat("e", 32)}, "edge",
		"--region", "eu-west-1", "--addr", addr, "--admin-addr", admin,
		"--control-urls", "http://127.0.0.1:1", "--data-dir", "/var/lib/waypost")
	var log bytes.Buffer
	edge.Stdout, edge.Stderr = &log, &log
	require.NoError(t, edge.Start())
	exited := make(chan error, 1)
	go func() { exited <- edge.Wait() }()
	status := func(url string) int {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		_ = res.Body.Close() // only the status is of interest
		return res.StatusCode
	}
	require.Eventually(t, func() bool { return status("http://"+admin+"/livez") == http.StatusOK }, time.Minute, 50*time.Millisecond, "the edge lives")
	require.NotZero(t, status("http://"+addr+"/unknown"), "the edge answers visitors")
	require.FileExists(t, filepath.Join(root, "var/lib/waypost/status"), "the volume is written to")
	require.NoError(t, edge.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-exited:
		require.NoError(t, err, "%s", log.String())
	case <-ctx.Done():
		_ = edge.Process.Kill() // it may be gone
		require.Fail(t, "the edge does not stop", "%s", log.String())
	}
	// Without the volume the edge could not have written.
	out, err = container(t, root, config, nil, "man", "/etc").CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Contains(t, string(out), "read-only file system")
}

func free(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	return fmt.Sprint(ln.Addr())
}
