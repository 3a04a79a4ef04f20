#!/usr/bin/env bash
# Makes the secrets of compose.yaml in secrets/, once: those that are there stay.
#
#   deploy/compose/secrets.sh [DIRECTORY]
#
# The directory is for you alone. Its files are not, because each container gets its own as
# a mount, and reads it as another user.
set -euo pipefail
dir=${1:-$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/secrets}
mkdir -p "$dir"
chmod 700 "$dir"
umask 022

random() { od -An -tx1 "-N$1" /dev/urandom | tr -d ' \n'; }
url() { echo "postgres://waypost:$(cat "$dir/database-password")@postgres/waypost"; }

# make NAME COMMAND... writes what the command prints to a new file.
make() {
  [[ -s $dir/$1 ]] && return
  "${@:2}" >"$dir/.new" && mv "$dir/.new" "$dir/$1"
}

make database-password random 24
make database-url url
make cluster-secret random 32
make edge-token random 32
make grafana-password random 12
echo "The secrets are in $dir. Keep a copy of cluster-secret in another place: without it no backup is of use."
