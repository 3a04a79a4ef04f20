#!/usr/bin/env bash
# Installs what Waypost needs on a development machine and does not find: as root from
# Debian's or Ubuntu's packages; otherwise it names all that is missing at once. Prometheus
# and promtool, single files, come from Debian's package into bin/tools, for root or not.
#
#   deploy/install-missing.sh postgres|cc|curl|jq|prometheus|wrk|spin|nginx|haproxy|caddy|redis|debootstrap|nspawn|npm|chromium|nginx-lua ...
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/bin/tools

# Where `waypost dev` looks for the server, too; 15 is the oldest version that does. Another
# one is named in older.
older=
have_postgres() {
  local dir version
  for dir in /usr/lib/postgresql/*/bin "$(pg_config --bindir 2>/dev/null || true)" "$(dirname "$(readlink -f "$(command -v postgres || true)")")"; do
    if [[ -x "$dir/postgres" && -x "$dir/initdb" ]]; then
      version=$("$dir/postgres" --version | sed -E 's/.*\(PostgreSQL\) ([0-9]+).*/\1/')
      ((version < 15)) || return 0
      older=" Version $version in $dir is too old."
    fi
  done
  return 1
}

have_cc() {
  command -v "${CC:-gcc}" >/dev/null || command -v clang >/dev/null
}

have_prometheus() {
  { command -v promtool >/dev/null || [[ -x $tools/promtool ]]; } && { command -v prometheus >/dev/null || [[ -x $tools/prometheus ]]; }
}

# Debian has servers in a directory that is not in every user's PATH.
have_server() {
  PATH=$PATH:/usr/sbin command -v "$1" >/dev/null
}

can_install() {
  [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null
}

apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends -o Dpkg::Options::=--force-confold "$@"
}

# Debian's package would make and start a cluster of its own, on port 5432. Only
# the binaries are wanted, so that is switched off for as long as it installs.
install_postgres() {
  local conf=/etc/postgresql-common/createcluster.conf
  apt update
  apt install postgresql-common
  local saved
  saved=$(mktemp)
  cp -p "$conf" "$saved"
  # shellcheck disable=SC2064 # the names of now are meant
  trap "cp -p '$saved' '$conf'; rm -f '$saved'" EXIT
  sed -i -E '/^[#[:space:]]*create_main_cluster[[:space:]]*=/d' "$conf"
  echo 'create_main_cluster = false' >>"$conf"
  apt install postgresql
}

# The package would run a service. Only two files are wanted of it, and no privilege
# needed: what apt knows will do, or else lists of our own.
install_prometheus() (
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || exit 0
  tmp=$(mktemp -d)
  trap 'rm -rf "$tmp"' EXIT
  cd "$tmp"
  own=(-q -o "APT::Sandbox::User=$(id -un)" -o Debug::NoLocking=1 -o Acquire::http::Timeout=20)
  if ! apt-get "${own[@]}" download prometheus; then
    mkdir -p state/lists/partial cache/archives/partial
    own+=(-o "Dir::State=$tmp/state" -o "Dir::Cache=$tmp/cache" -o Dir::State::status=/var/lib/dpkg/status)
    apt-get "${own[@]}" update && apt-get "${own[@]}" download prometheus || exit 0
  fi
  dpkg-deb -x prometheus_*.deb unpacked
  mkdir -p "$tools"
  for file in prometheus promtool; do
    cp "unpacked/usr/bin/$file" "$tools/.$file.$$"
    mv "$tools/.$file.$$" "$tools/$file" # at once: another make may be using it
  done
)

# The packages of servers start them. Only the binaries are wanted, so that is
# forbidden for as long as they install, unless the machine has a policy already.
install_server() {
  local policy=/usr/sbin/policy-rc.d made='' had=''
  ! have_server "$1" || had=yes
  apt update
  if [[ ! -e $policy ]]; then
    made=yes
    # shellcheck disable=SC2064 # the name of now is meant
    trap "rm -f '$policy'" EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  apt install "$@"
  if [[ -n $made ]]; then
    rm -f "$policy"
    trap - EXIT
    [[ -n $had ]] || systemctl disable "$1" 2>/dev/null || true
  fi
}

# describe prints the packages of Debian that have a thing, and what the thing is.
describe() {
  case $1 in
    postgres) echo "postgresql|a PostgreSQL server of version 15 or newer (elsewhere: https://www.postgresql.org/download).$older" ;;
    cc) echo "gcc libc6-dev|a C compiler, which Go's race detector needs" ;;
    curl) echo "curl|curl, which deploy/two-hosts.sh needs" ;;
    jq) echo "jq|jq, which releases are built with" ;;
    prometheus) echo "prometheus|prometheus and promtool, which test the alert rules" ;;
    wrk) echo "wrk|wrk, which the benchmarks send requests with" ;;
    spin) echo "spin|Spin, which checks the models of the protocols" ;;
    nginx) echo "nginx|nginx, which tests and benchmarks run" ;;
    haproxy) echo "haproxy|HAProxy, which tests run" ;;
    caddy) echo "caddy|Caddy, which tests run" ;;
    redis) echo "redis-server|Redis, which benchmarks compare with" ;;
    nginx-lua) echo "nginx libnginx-mod-http-lua lua-nginx-redis|Lua for nginx, which benchmarks compare with" ;;
    debootstrap) echo "debootstrap|debootstrap, which tests the installation" ;;
    nspawn) echo "systemd-container|systemd-nspawn, which tests restarts under systemd" ;;
    npm) echo "nodejs npm|npm, which the console is built and tested with" ;;
    chromium) echo "chromium-headless-shell|Chromium, which the console is tested in" ;;
    *)
      sed -n 's/^#   \(deploy.install-missing\)/usage: \1/p' "$0" >&2
      exit 2
      ;;
  esac
}

have() {
  case $1 in
    postgres | cc | prometheus) "have_$1" ;;
    redis) have_server redis-server ;;
    nginx-lua) [[ -e /usr/share/lua/5.1/nginx/redis.lua ]] ;;
    nspawn) have_server systemd-nspawn ;;
    chromium) have_server chromium-headless-shell || have_server chromium ;;
    *) have_server "$1" ;;
  esac
}

# try_to_install WHAT PACKAGE...
try_to_install() {
  local what=$1
  shift
  [[ $what == prometheus ]] && { install_prometheus; return; }
  can_install || return 0
  case $what in
    postgres) install_postgres ;;
    nginx | haproxy | caddy | redis | nginx-lua) install_server "$@" ;;
    *) apt update && apt install "$@" ;;
  esac
}

missing=() packages=()
for what in "$@"; do
  description=$(describe "$what")
  have "$what" && continue
  read -ra needed <<<"${description%%|*}"
  try_to_install "$what" "${needed[@]}" >&2
  have "$what" && continue
  missing+=("$(describe "$what")")
  packages+=("${needed[@]}")
done
if ((${#missing[@]})); then
  {
    echo "Missing on this machine:"
    printf '  * %s\n' "${missing[@]#*|}"
    echo "Install them (Debian 12, Ubuntu 24.04 or newer: sudo apt-get install ${packages[*]}) and try again."
  } >&2
  exit 1
fi
