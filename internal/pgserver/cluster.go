package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// makeCluster runs initdb next to the final place and renames the finished
// cluster there, so that a killed initdb leaves nothing that looks like one.
func makeCluster(ctx context.Context, bin binaries, who account, data string, cfg Config) error {
	if _, err := os.Stat(data); err == nil {
		if _, err := clusterMajor(data); err != nil {
			return fmt.Errorf("%s holds no database cluster: move it away to start over: %w", data, err)
		}
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("find the database cluster: %w", err)
	}
	fresh := data + ".new"
	// C.UTF-8 knows the letters of all languages and compares by bytes. A system
	// without it still gets a working cluster.
	var failure error
	for _, locale := range []string{"C.UTF-8", "C"} {
		if err := os.RemoveAll(fresh); err != nil {
			return fmt.Errorf("clear an unfinished database cluster: %w", err)
		}
		out, err := initdb(ctx, bin, who, fresh, locale, cfg)
		if err == nil {
			return install(fresh, data)
		}
		failure = fmt.Errorf("initdb: %w: %s", err, reason(out))
		if !bytes.Contains(out, []byte("invalid locale")) {
			break
		}
	}
	return errors.Join(failure, os.RemoveAll(fresh))
}

func initdb(ctx context.Context, bin binaries, who account, dir, locale string, cfg Config) ([]byte, error) {
	args := []string{
		"--pgdata=" + dir, "--username=" + superuser, "--auth=trust", "--encoding=UTF8", "--locale=" + locale,
		"--data-checksums", "--no-instructions",
	}
	if cfg.Locale != "" {
		args = append(args, "--locale-provider=icu", "--icu-locale="+cfg.Locale)
	}
	if cfg.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, bin.path("initdb"), args...)
	who.become(cmd)
	out := &tail{}
	cmd.Stdout, cmd.Stderr = out, out
	err := run(cmd)
	return out.bytes(), err
}

// install renames a finished cluster, which initdb has synced, into its place.
func install(fresh, data string) error {
	if err := os.Rename(fresh, data); err != nil {
		return fmt.Errorf("put the database cluster in place: %w", err)
	}
	parent, err := os.Open(filepath.Dir(data))
	if err != nil {
		return fmt.Errorf("sync the directory of PostgreSQL: %w", err)
	}
	if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
		return fmt.Errorf("sync the directory of PostgreSQL: %w", err)
	}
	return nil
}

// run returns a short child's outcome. Like the server itself it dies with this process,
// so that an old initdb does not write while the next one runs.
func run(cmd *exec.Cmd) error {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	outcome := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		outcome <- cmd.Run()
	}()
	return <-outcome
}
