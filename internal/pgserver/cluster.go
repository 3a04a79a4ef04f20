package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("clear an unfinished database cluster: %w", err)
	}
	if out, err := initdb(ctx, bin, who, fresh, cfg); err != nil {
		return errors.Join(fmt.Errorf("initdb: %w: %s", err, reason(out)), os.RemoveAll(fresh))
	}
	if err := os.Rename(fresh, data); err != nil {
		return fmt.Errorf("put the database cluster in place: %w", err)
	}
	return nil
}

func initdb(ctx context.Context, bin binaries, who account, dir string, cfg Config) ([]byte, error) {
	args := []string{
		// C.UTF-8 knows the letters of all languages and compares by bytes.
		"--pgdata=" + dir, "--username=" + superuser, "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8",
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
