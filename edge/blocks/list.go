package blocks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"waypost"
	"waypost/internal/codes"
)

// maxList bounds the list made by hand, in bytes.
const maxList = 256 << 10

// localList is a text file in which the operator of an edge lists addresses, for when no
// control plane can block them. A line is CODE or HOST/CODE, and a policy may follow,
// which is gone without one; # begins a comment.
type localList struct {
	path      string
	isDefault func(host string) bool
	logged    string // last message about it
	last      map[string]waypost.BlockPolicy
}

// readList reads the list. One that cannot be read changes nothing.
func (b *Blocks) readList() {
	text, err := readText(b.list.path)
	var list map[string]waypost.BlockPolicy
	var faults []error
	if err == nil {
		list, faults = b.parse(text)
	}
	state := fmt.Sprint(len(list), err, faults)
	if b.list.logged != state && (b.list.logged != "" || len(list)+len(faults) > 0 || err != nil) {
		level := slog.LevelWarn
		if err != nil || len(faults) > 0 {
			level = slog.LevelError
		}
		b.cfg.Logger.Log(context.Background(), level, "read the list of blocked codes of this edge", "path", b.list.path,
			"codes", len(list), "error", errors.Join(append(faults, err)...))
	}
	b.list.logged = state
	if err != nil {
		return
	}
	// An editor may empty the file before it writes it again: an address must be missing
	// twice.
	last := b.list.last
	b.list.last = maps.Clone(list)
	for key, policy := range last {
		if _, there := list[key]; !there {
			list[key] = policy
		}
	}
	if len(list) == 0 {
		b.local.Store(nil)
		return
	}
	b.local.Store(&list)
}

func readText(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for its writer
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(fmt.Errorf("%s is no regular file", path), err, f.Close())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxList+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if len(text) > maxList {
		return "", fmt.Errorf("%s is longer than %d bytes", path, maxList)
	}
	return string(text), nil
}

// parse returns the addresses of a list, and the first faults in it: lines that are not
// understood have no effect.
func (b *Blocks) parse(text string) (list map[string]waypost.BlockPolicy, faults []error) {
	list = make(map[string]waypost.BlockPolicy)
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		policy := waypost.BlockGone
		var err error
		if len(fields) == 2 {
			policy, err = waypost.ParseBlockPolicy(fields[1])
		}
		host, code, nested := addressOf(fields[0])
		if err != nil || len(fields) > 2 || !waypost.ValidCode(string(code)) || !isHost(host) {
			if len(faults) < 5 {
				faults = append(faults, fmt.Errorf("line %d is not CODE or HOST/CODE, and legal or gone", n+1))
			}
			continue
		}
		if host = waypost.HostName(host); b.list.isDefault(host) {
			host = ""
		}
		add := func(host string, code waypost.Code) {
			list[string(waypost.AppendBlockKey(nil, []byte(host), []byte(code), false))] = policy
			list[string(waypost.AppendBlockKey(nil, []byte(host), []byte(codes.Fold(code)), true))] = policy
		}
		if add(host, code); waypost.ValidCode(string(nested)) {
			add("", nested)
		}
	}
	return list, faults
}

// addressOf divides an address into its host and its code. It may be pasted from a
// browser. A line such as go/sale may also be a code with a slash, which nested has then,
// and both are blocked.
func addressOf(text string) (host string, code, nested waypost.Code) {
	scheme, rest, hasScheme := strings.Cut(text, "://")
	if hasScheme = hasScheme && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http")); hasScheme {
		text = rest
	}
	host, path, slash := strings.Cut(text, "/")
	if !slash {
		host, path = "", text
	}
	if slash && !hasScheme && !strings.ContainsAny(host, ".:") {
		nested = codes.NormalForm(text)
	}
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	return strings.ToLower(host), codes.NormalForm(path), nested
}

// isHost reports whether a request can have a host, also with a port, or none. A name in
// another alphabet comes as xn--.
func isHost(host string) bool {
	return len(host) <= waypost.MaxHostLength+len(":65535") && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") == ""
}
