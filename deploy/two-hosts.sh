#!/usr/bin/env bash
# Shows an installation on two machines, on one: a control plane on the first, an
# edge on the second, configured by the example files beside this script. A link is
# created on the first and followed on the second, the click is counted, and the
# edge goes on after the first is gone.
#
# As root the machines are two network namespaces with a cable between them;
# otherwise they are two addresses of the loopback interface. PostgreSQL is a
# temporary one, unless DATABASE_URL names an empty database.
#
#   make build && deploy/two-hosts.sh
#
# It takes some seconds, two minutes at most, leaves nothing behind, and ends with
# a status other than 0 unless everything was as it should be.
#
#   WAYPOST        the program; default bin/waypost
#   DATABASE_URL   an empty database; default: a temporary server
#   LOOPBACK=1     no network namespaces, even as root
set -euo pipefail

if [[ -z ${TWO_HOSTS_BOUNDED:-} ]]; then
  TWO_HOSTS_BOUNDED=1 exec timeout --foreground --kill-after=20 270 bash "$0" "$@"
fi

here=$(cd "$(dirname "$0")" && pwd)
waypost=$(readlink -f "${WAYPOST:-$here/../bin/waypost}")
work=$(mktemp -d "${TMPDIR:-/tmp}/waypost-two-hosts.XXXXXX")
chmod 755 "$work" # the database's user passes through
namespaces=()
pids=()
pg_data= pg_bin=
as_pg=()

say() { printf '== %s\n' "$*"; }

fail() {
  printf 'two-hosts: %s\n' "$*" >&2
  local log
  for log in "$work"/*.log; do
    [[ -s $log ]] && { printf -- '---- the end of %s\n' "${log##*/}"; tail -n 15 "$log"; } >&2
  done
  exit 1
}

# Stops what this script has started, by process id only.
cleanup() {
  local status=$? pid ns
  trap - EXIT INT TERM
  for pid in "${pids[@]}"; do
    kill -TERM "$pid" 2>/dev/null || true
  done
  for pid in "${pids[@]}"; do
    wait_end "$pid" || kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  if [[ -n $pg_data && -s $pg_data/postmaster.pid ]]; then
    "${as_pg[@]}" "$pg_bin/pg_ctl" stop -D "$pg_data" -m fast -w -t 10 >/dev/null 2>&1 ||
      "${as_pg[@]}" "$pg_bin/pg_ctl" stop -D "$pg_data" -m immediate -w -t 5 >/dev/null 2>&1 || true
  fi
  for ns in "${namespaces[@]}"; do
    ip netns delete "$ns" 2>/dev/null || true
  done
  rm -rf "$work"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# Waits up to 10 s for a process to end, or for as many as are given.
wait_end() {
  local i
  for ((i = 0; i < 10 * ${2:-10}; i++)); do
    [[ -d /proc/$1 && $(cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null) != Z ]] || return 0
    sleep 0.1
  done
  return 1
}

# Tries a command for at least a minute, and as long as the process with the given id lives.
await() {
  local pid=$1 what=$2 i
  shift 2
  for ((i = 0; i < 600; i++)); do
    "$@" && return 0
    kill -0 "$pid" 2>/dev/null || fail "$what: the process has ended"
    sleep 0.1
  done
  fail "$what: not within a minute"
}

[[ -x $waypost ]] || fail "there is no program at $waypost: run make build, or set WAYPOST"
command -v curl >/dev/null || fail "curl is needed"

# ---- two machines

# on_first and on_second are what precedes a command to run it on a machine.
make_namespaces() {
  local a="waypost-a-$$" b="waypost-b-$$"
  [[ $EUID -eq 0 && -z ${LOOPBACK:-} ]] && command -v ip >/dev/null || return 1
  ip netns add "$a" 2>/dev/null || return 1
  namespaces+=("$a")
  ip netns add "$b" 2>/dev/null || return 1
  namespaces+=("$b")
  ip link add wp0 netns "$a" type veth peer name wp0 netns "$b" 2>/dev/null || return 1
  ip -n "$a" address add 10.0.0.1/24 dev wp0 && ip -n "$b" address add 10.0.0.2/24 dev wp0 || return 1
  local ns dev
  for ns in "$a" "$b"; do
    for dev in lo wp0; do
      ip -n "$ns" link set "$dev" up || return 1
    done
  done
  ip netns exec "$a" true 2>/dev/null || return 1
}

if make_namespaces; then
  say "two network namespaces with a cable between them"
  first=10.0.0.1 second=10.0.0.2
  first_admin=127.0.0.1 second_admin=127.0.0.1
  on_first=(ip netns exec "${namespaces[0]}") on_second=(ip netns exec "${namespaces[1]}")
else
  say "two addresses of the loopback interface"
  first=127.0.0.2 second=127.0.0.3
  first_admin=$first second_admin=$second
  on_first=() on_second=()
fi

# ---- PostgreSQL, on the first machine

start_postgres() {
  local dir
  for dir in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV) "$(pg_config --bindir 2>/dev/null || true)"; do
    [[ -x $dir/initdb && -x $dir/postgres ]] && { pg_bin=$dir; break; }
  done
  [[ -n $pg_bin ]] || fail "no PostgreSQL server: deploy/install-missing.sh postgres installs one, or set DATABASE_URL"
  mkdir "$work/pg"
  if [[ $EUID -eq 0 ]]; then # PostgreSQL refuses to run as root
    local user=nobody
    id -u postgres >/dev/null 2>&1 && user=postgres
    chown "$user" "$work/pg"
    as_pg=(runuser -u "$user" --)
  fi
  pg_data=$work/pg/data
  (cd "$work/pg" && "${as_pg[@]}" "$pg_bin/initdb" -D "$pg_data" -U postgres -A trust -E UTF8 --locale=C --no-sync) >"$work/initdb.log" 2>&1 ||
    fail "initdb failed"
  (cd "$work/pg" && "${as_pg[@]}" "$pg_bin/pg_ctl" start -D "$pg_data" -w -t 30 -l "$work/pg/server.log" \
    -o "-c listen_addresses='' -c unix_socket_directories='$work/pg' -c fsync=off") >"$work/pg_ctl.log" 2>&1 ||
    { cp "$work/pg/server.log" "$work/postgres.log" 2>/dev/null || true; fail "PostgreSQL does not start"; }
  # A login that is no superuser, and may make the roles of its transactions.
  "${as_pg[@]}" "$pg_bin/psql" -h "$work/pg" -U postgres -d postgres -qAtX -v ON_ERROR_STOP=1 \
    -c 'CREATE ROLE waypost LOGIN CREATEROLE' -c 'CREATE DATABASE waypost OWNER waypost' >"$work/psql.log" 2>&1 || fail "the database was not made"
  DATABASE_URL="postgres://waypost@/waypost?host=$work/pg"
}

if [[ -z ${DATABASE_URL:-} ]]; then
  say "a temporary PostgreSQL"
  start_postgres
fi

# ---- secrets, as the operator makes them

umask 077
mkdir "$work/secrets" "$work/edge"
printf '%s\n' "$DATABASE_URL" >"$work/secrets/database-url"
od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$work/secrets/cluster-secret"
od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$work/secrets/edge-token"
od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$work/secrets/gossip-key"
export WAYPOST_GOSSIP_KEY_FILE=$work/secrets/gossip-key

# ---- an authority, and the certificate of the control plane

"$waypost" certs authority "$work/authority" >"$work/certs.log" 2>&1 && "$waypost" certs node "$work/authority" control-1 "$first" >>"$work/certs.log" 2>&1 ||
  fail "no certificate was made"

# ---- the control plane

export WAYPOST_CONTROL_DATABASE_URL_FILE=$work/secrets/database-url
export WAYPOST_CONTROL_CLUSTER_SECRET_FILE=$work/secrets/cluster-secret
export WAYPOST_CONTROL_EDGE_TOKEN_FILE=$work/secrets/edge-token
export WAYPOST_CONTROL_TLS_CERT_FILE=$work/authority/control-1.pem WAYPOST_CONTROL_TLS_KEY_FILE=$work/authority/control-1-key.pem
export WAYPOST_CONTROL_DATA_DIR=$work/control
say "the schema, and an API key"
"$waypost" migrate --config "$here/control.yaml" >"$work/migrate.log" 2>&1 || fail "the migration failed"
WAYPOST_API_KEY=$("$waypost" keys create --config "$here/control.yaml" --name two-hosts --scopes links:read,links:write,admin 2>"$work/keys.log") ||
  fail "no API key was made"
export WAYPOST_API_KEY
export WAYPOST_API=https://$first:8080

say "the control plane on $first"
WAYPOST_CONTROL_ADDR=$first:8080 WAYPOST_CONTROL_FLEET_LISTEN=$first:7080 WAYPOST_CONTROL_ADMIN_ADDR=$first_admin:9080 \
  WAYPOST_GOSSIP_ADDR=$first:7946 WAYPOST_GOSSIP_SEEDS=$second:7946 \
  "${on_first[@]}" "$waypost" control --config "$here/control.yaml" >"$work/control.log" 2>&1 &
control=$!
pids+=("$control")
ready() { "$@" -fsS --max-time 2 -o /dev/null 2>/dev/null; }
await "$control" "the control plane is ready" ready "${on_first[@]}" curl "http://$first_admin:9080/readyz"

# ---- the edge, which has nothing of the first machine but its address, the token and the
# certificate of the authority

say "the edge on $second"
unset WAYPOST_CONTROL_DATABASE_URL_FILE WAYPOST_CONTROL_CLUSTER_SECRET_FILE WAYPOST_CONTROL_EDGE_TOKEN_FILE WAYPOST_CONTROL_TLS_CERT_FILE WAYPOST_CONTROL_TLS_KEY_FILE
WAYPOST_GOSSIP_ADDR=$second:7946 WAYPOST_GOSSIP_SEEDS=$first:7946 WAYPOST_EDGE_ADDR=$second:8081 WAYPOST_EDGE_ADMIN_ADDR=$second_admin:9081 WAYPOST_EDGE_CONTROL_URLS=https://$first:7080 \
  WAYPOST_EDGE_NODE_CA_FILE=$work/authority/authority.pem WAYPOST_EDGE_TOKEN_FILE=$work/secrets/edge-token WAYPOST_EDGE_DATA_DIR=$work/edge/data \
  "${on_second[@]}" "$waypost" edge --config "$here/edge.yaml" >"$work/edge.log" 2>&1 &
edge=$!
pids+=("$edge")
await "$edge" "the edge is ready" ready "${on_second[@]}" curl "http://$second_admin:9081/readyz"

# ---- a link

export SSL_CERT_FILE=$work/authority/authority.pem
target='https://example.com/two-hosts?a=1&b=%20'
short=$("${on_second[@]}" "$waypost" links create "$target" 2>"$work/create.log") || fail "the link was not created"
code=${short##*/}
say "created $short"

# Follows the link on the edge, from the machine that the arguments lead to.
follows() {
  local got
  got=$("$@" curl -s -H "Host: go.example.com" --max-time 2 -o /dev/null -w '%{http_code} %{redirect_url}' "http://$second:8081/$code") || return 1
  [[ $got == "302 $target" ]]
}
await "$edge" "the edge redirects the new link" follows "${on_first[@]}"
say "the edge on $second redirects it, asked from $first"

waypost_on_second() { "${on_second[@]}" "$waypost" "$@"; }
counted() { waypost_on_second links get "$code" --output json 2>/dev/null | grep -Eq '"click_count": *[1-9]'; }
await "$edge" "the click is counted" counted
alive() { waypost_on_second edges --output json 2>/dev/null | grep -Eq '"state": *"alive"'; }
await "$edge" "the control plane sees the edge" alive
say "the click is counted, and the fleet is visible"
waypost_on_second edges

kill -TERM "$control"
wait_end "$control" 60 || fail "the control plane does not stop"
await "$edge" "the edge redirects without the control plane" follows "${on_second[@]}"
say "and goes on without the control plane"

say "all is as it should be"
