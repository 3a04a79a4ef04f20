#!/usr/bin/env bash
# Makes the secrets of compose.yaml in secrets/, once, and the control plane's certificate:
# those that are there stay.
#
#   deploy/compose/secrets.sh [DIRECTORY]
#
#   WAYPOST        a program that makes the certificate; default: that of the image, which
#                  Compose builds
#
# The directory is for you alone. Its files are not, because each container gets its own as
# a mount, and reads it as another user; the key of the authority goes into no container.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:-$here/secrets}
mkdir -p "$dir"
chmod 700 "$dir"
dir=$(cd "$dir" && pwd)
umask 022

random() { od -An -tx1 "-N$1" /dev/urandom | tr -d ' \n'; }
url() { echo "postgres://waypost:$(cat "$dir/database-password")@postgres/waypost"; }

# make NAME COMMAND... writes what the command prints to a new file.
make() {
  [[ -s $dir/$1 ]] && return
  "${@:2}" >"$dir/.new" && mv "$dir/.new" "$dir/$1"
}

# certs ARGUMENTS... runs `waypost certs`.
certs() {
  if [[ -n ${WAYPOST:-} ]]; then
    "$WAYPOST" certs "$@"
  else
    docker compose --project-directory "$here" run --rm --no-deps --user "$(id -u):$(id -g)" --volume "$dir:$dir" migrate certs "$@"
  fi >/dev/null
}

make database-password random 24
make database-url url
make cluster-secret random 32
make edge-token random 32
make grafana-password random 12
[[ -s $dir/authority.pem ]] || certs authority "$dir"
[[ -s $dir/control.pem ]] || certs node "$dir" control control
chmod 644 "$dir/authority.pem" "$dir/control.pem" "$dir/control-key.pem"
echo "The secrets are in $dir. Keep a copy of cluster-secret in another place: without it no backup is of use."
