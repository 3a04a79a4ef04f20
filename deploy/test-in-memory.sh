#!/usr/bin/env bash
# Runs a command, such as go test, with its temporary files in memory, where there is
# room for them: tests make, copy and sync thousands of small ones.
#
#   deploy/test-in-memory.sh go test ./...
set -euo pipefail

shm=/dev/shm
room=$((4 << 20)) # KiB

enough() {
  [[ -d $shm && -w $shm && $(stat --file-system --format=%T "$shm") == tmpfs ]] || return 1
  (($(df --output=avail -k "$shm" | tail -n 1) >= room)) || return 1
  (($(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo) >= room))
}

if ! enough; then
  exec "$@"
fi
# One name for all runs, so that results of tests that have not changed are kept. The
# last of them that ends removes what any has left.
dir=$shm/wp-$UID
until mkdir -p -m 755 "$dir" && exec 9<"$dir" && flock --shared 9 && [[ -d $dir && -O $dir ]]; do
  if [[ -e $dir && ! -O $dir ]]; then
    exec "$@"
  fi
done
trap 'if flock --exclusive --nonblock 9; then rm -rf "$dir"; fi' EXIT
# What is built stays where it was: it is large, and written once.
GOTMPDIR=${GOTMPDIR:-${TMPDIR:-/tmp}} TMPDIR=$dir "$@" 9<&-
