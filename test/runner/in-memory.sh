#!/usr/bin/env bash
# Runs a command, such as go test, with its temporary files in memory, where there is
# room for them: tests make, copy and sync thousands of small ones.
#
#   test/runner/in-memory.sh go test ./...
#
#   SHM            a directory in memory; default /dev/shm
set -euo pipefail

shm=${SHM:-/dev/shm}
room=$((6 << 20)) # KiB

# limits gives the files that say how much memory a container may have.
limits() {
  local own
  own=$(sed -n 's/^0:://p' /proc/self/cgroup 2>/dev/null) || true
  printf '%s\n' /sys/fs/cgroup/memory.max "/sys/fs/cgroup$own/memory.max" /sys/fs/cgroup/memory/memory.limit_in_bytes
}

enough() {
  local file limit
  [[ -d $shm && -w $shm && $(stat --file-system --format=%T "$shm") == tmpfs ]] || return 1
  command -v flock >/dev/null || return 1
  (($(df --output=avail -k "$shm" | tail -n 1) >= room)) || return 1
  while read -r file; do
    [[ -r $file ]] && read -r limit <"$file" || continue
    [[ ! $limit =~ ^[0-9]+$ ]] || ((limit >> 10 >= 2 * room)) || return 1
  done < <(limits)
  (($(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo) >= room))
}

# claim makes the directory, and holds it until file 9 is closed. It is not used when another user made it,
# or when it is none.
claim() {
  local try
  for ((try = 0; try < 100; try++)); do
    mkdir -p -m 755 "$dir" 2>/dev/null || true
    if [[ -L $dir ]] || [[ -e $dir && ! (-d $dir && -O $dir) ]]; then
      return 1
    fi
    # Whoever ended meanwhile may have removed it, and another may have made it anew.
    if { exec 9<"$dir"; } 2>/dev/null && flock --shared 9 && [[ $dir -ef /dev/fd/9 ]]; then
      return 0
    fi
  done
  return 1
}

# One name for all runs, so that results of tests that have not changed are kept. The
# last of them that ends removes what any has left.
dir=$shm/wp-$UID
if ! enough || ! claim; then
  exec "$@" 9<&-
fi
trap 'if flock --exclusive --nonblock 9; then rm -rf "$dir"; fi' EXIT
# What is built goes there, too: with GOTMPDIR elsewhere the tests' own directories would be there from Go 1.26 on.
env -u GOTMPDIR TMPDIR="$dir" "$@" 9<&-
