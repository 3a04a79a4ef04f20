#!/usr/bin/env bash
# Installs what Waypost needs on a development machine and does not find: as root
# from Debian's or Ubuntu's packages, otherwise by telling what to install. Prometheus
# and promtool, single files, come from Debian's package into bin/tools, for root or not.
#
#   deploy/install-missing.sh postgres|cc|curl|prometheus|wrk|spin|nginx|haproxy|caddy|redis|debootstrap|nspawn|npm|chromium|nginx-lua ...
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

for what in "$@"; do
  case $what in
    postgres)
      have_postgres && continue
      if can_install; then
        install_postgres >&2
      fi
      if ! have_postgres; then
        echo "No PostgreSQL server of version 15 or newer found.$older Install one (Debian 12, Ubuntu 24.04 or newer: sudo apt-get install postgresql; elsewhere from https://www.postgresql.org/download) and try again." >&2
        exit 1
      fi
      ;;
    cc)
      have_cc && continue
      if can_install; then
        { apt update && apt install gcc libc6-dev; } >&2
      fi
      if ! have_cc; then
        echo "No C compiler found, which Go's race detector needs. Install one (Debian, Ubuntu: sudo apt-get install gcc libc6-dev) and try again." >&2
        exit 1
      fi
      ;;
    curl)
      command -v curl >/dev/null && continue
      if can_install; then
        { apt update && apt install curl; } >&2
      fi
      if ! command -v curl >/dev/null; then
        echo "No curl found, which deploy/two-hosts.sh needs. Install it (Debian, Ubuntu: sudo apt-get install curl) and try again." >&2
        exit 1
      fi
      ;;
    prometheus)
      have_prometheus && continue
      if ! install_prometheus >&2 || ! have_prometheus; then
        echo "No prometheus and promtool found, which test the alert rules. Put them into the PATH (Debian, Ubuntu: the package prometheus) and try again." >&2
        exit 1
      fi
      ;;
    wrk)
      command -v wrk >/dev/null && continue
      if can_install; then
        { apt update && apt install wrk; } >&2
      fi
      if ! command -v wrk >/dev/null; then
        echo "No wrk found, which the benchmarks send requests with. Install it (Debian, Ubuntu: sudo apt-get install wrk) and try again." >&2
        exit 1
      fi
      ;;
    spin)
      command -v spin >/dev/null && continue
      if can_install; then
        { apt update && apt install spin; } >&2
      fi
      if ! command -v spin >/dev/null; then
        echo "No spin found, which checks the models of the protocols. Install it (Debian, Ubuntu: sudo apt-get install spin) and try again." >&2
        exit 1
      fi
      ;;
    npm)
      command -v npm >/dev/null && continue
      if can_install; then
        { apt update && apt install nodejs npm; } >&2
      fi
      if ! command -v npm >/dev/null; then
        echo "No npm found, which the console is built and tested with. Install it (Debian, Ubuntu: sudo apt-get install npm) and try again." >&2
        exit 1
      fi
      ;;
    chromium)
      command -v chromium >/dev/null && continue
      if can_install; then
        { apt update && apt install chromium; } >&2
      fi
      if ! command -v chromium >/dev/null; then
        echo "No Chromium found, which the console is tested in. Install it (Debian: sudo apt-get install chromium) and try again." >&2
        exit 1
      fi
      ;;
    debootstrap)
      have_server debootstrap && continue
      if can_install; then
        { apt update && apt install debootstrap; } >&2
      fi
      if ! have_server debootstrap; then
        echo "No debootstrap found, which tests the installation. Install it (Debian, Ubuntu: sudo apt-get install debootstrap) and try again." >&2
        exit 1
      fi
      ;;
    nspawn)
      command -v systemd-nspawn >/dev/null && continue
      if can_install; then
        { apt update && apt install systemd-container; } >&2
      fi
      if ! command -v systemd-nspawn >/dev/null; then
        echo "No systemd-nspawn found, which tests restarts under systemd. Install it (Debian, Ubuntu: sudo apt-get install systemd-container) and try again." >&2
        exit 1
      fi
      ;;
    nginx-lua)
      [[ -e /usr/share/lua/5.1/nginx/redis.lua ]] && continue
      if can_install; then
        install_server nginx libnginx-mod-http-lua lua-nginx-redis >&2
      fi
      if [[ ! -e /usr/share/lua/5.1/nginx/redis.lua ]]; then
        echo "No Lua for nginx found, which benchmarks compare with. Install it (Debian: sudo apt-get install libnginx-mod-http-lua lua-nginx-redis) and try again." >&2
        exit 1
      fi
      ;;
    nginx | haproxy | caddy | redis)
      server=$what
      [[ $what == redis ]] && server=redis-server
      have_server "$server" && continue
      if can_install; then
        install_server "$server" >&2
      fi
      if ! have_server "$server"; then
        echo "No $server found, which tests or benchmarks run. Install it (Debian, Ubuntu: sudo apt-get install $server) and try again." >&2
        exit 1
      fi
      ;;
    *)
      echo "usage: $0 postgres|cc|curl|prometheus|wrk|spin|nginx|haproxy|caddy|redis|debootstrap|nspawn|npm|chromium ..." >&2
      exit 2
      ;;
  esac
done
