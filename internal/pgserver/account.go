package pgserver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// account is the user that the server runs as. PostgreSQL refuses to run as root.
type account struct {
	drop     bool // false: as the user of this process
	uid, gid int
	caps     []uintptr // ambient capabilities that it keeps
}

// chooseAccount returns, when this process is root, the owner of the cluster that
// is there already, or else the user postgres, or the unprivileged one.
func chooseAccount(dir string) (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	who := account{drop: true}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "data"), &st); err == nil && st.Uid != 0 {
		who.uid, who.gid = int(st.Uid), int(st.Gid)
	} else if who.uid, who.gid, err = unprivileged(); err != nil {
		return account{}, err
	}
	blocked, err := who.blockedBy(filepath.Dir(dir))
	if err != nil || blocked == "" {
		return who, err
	}
	// The directory lies below a directory like /root, which the account cannot enter and
	// this program should not open. Only this child gets the right to pass through.
	passage, ok := grantable(unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE)
	if !ok {
		return account{}, fmt.Errorf("PostgreSQL runs as user %d, which cannot enter %s: choose a data directory elsewhere, or `chmod o+x %[2]s`", who.uid, blocked)
	}
	who.caps = []uintptr{passage}
	return who, nil
}

// noUser is the system's user without rights.
const noUser = "no" + "body"

func unprivileged() (uid, gid int, err error) {
	for _, name := range []string{superuser, noUser} {
		u, lookup := user.Lookup(name)
		if lookup != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2); err != nil {
			return 0, 0, fmt.Errorf("user %s: %w", name, err)
		}
		return uid, gid, nil
	}
	return 0, 0, errors.New("PostgreSQL cannot run as root, and there is no user postgres or " + noUser + ": run as another user")
}

// blockedBy returns the outermost directory, of dir and its parents, with permission bits
// that bar the account, or "".
func (a account) blockedBy(dir string) (string, error) {
	if dir != filepath.Dir(dir) {
		if outer, err := a.blockedBy(filepath.Dir(dir)); err != nil || outer != "" {
			return outer, err
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "", fmt.Errorf("look at %s: %w", dir, err)
	}
	search := uint32(0o001)
	switch {
	case int(st.Uid) == a.uid:
		search = 0o100
	case int(st.Gid) == a.gid:
		search = 0o010
	}
	if st.Mode&search == 0 {
		return dir, nil
	}
	return "", nil
}

// grantable returns the first of caps that this process holds, and so can hand on.
func grantable(caps ...uintptr) (uintptr, bool) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, false
	}
	for _, c := range caps {
		if data[c/32].Permitted&(1<<(c%32)) != 0 {
			return c, true
		}
	}
	return 0, false
}

// become makes cmd run as the account, in an environment without PG* variables, which
// would change PostgreSQL's behaviour. It begins in the root directory: the capabilities
// take effect only after the child has changed its directory.
func (a account) become(cmd *exec.Cmd) {
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if a.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
		cmd.SysProcAttr.AmbientCaps = a.caps
	}
}

// give makes a directory the account's own, closed to all others.
func (a account) give(dir string) error {
	if a.drop {
		if err := os.Chown(dir, a.uid, a.gid); err != nil {
			return fmt.Errorf("give %s to PostgreSQL: %w", dir, err)
		}
	}
	return nil
}

const (
	socketPort = "5432" // ends the name of the socket file

	// A path of more bytes does not fit into a unix socket's address.
	maxSocketPath = 107
)

// socketDir makes the directory of the socket. A process that can enter it is let in
// without a password, so it is 0700 and the account's own. A path too long for a
// socket is replaced by a short one, the same at every start.
func (a account) socketDir(dir string) (string, error) {
	sockets := filepath.Join(dir, "run")
	if len(sockets)+len("/.s.PGSQL."+socketPort) > maxSocketPath {
		sum := sha256.Sum256([]byte(dir))
		sockets = "/tmp/waypost-" + hex.EncodeToString(sum[:8])
	}
	err := os.Mkdir(sockets, 0o700)
	if err == nil {
		return sockets, a.give(sockets)
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the directory of PostgreSQL's socket: %w", err)
	}
	owner := os.Geteuid()
	if a.drop {
		owner = a.uid
	}
	var st unix.Stat_t
	if err := unix.Lstat(sockets, &st); err != nil {
		return "", fmt.Errorf("look at the directory of PostgreSQL's socket: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != owner || st.Mode&0o077 != 0 {
		return "", fmt.Errorf("%s is not a directory that only user %d can enter: remove it", sockets, owner)
	}
	return sockets, nil
}
