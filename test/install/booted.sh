#!/usr/bin/env bash
# Boots a Debian with systemd, installs the package by docs/operations/install.md, and
# restarts, upgrades and kills the edge in a loop while visitors come: on new connections,
# 5,000 a second, and through nginx with connections that are kept.
# No request may fail, no click may be lost, and no visitor may wait for longer than a
# second (half a second without upgrades and kills on a quiet machine).
#
#   test/install/booted.sh FILE.deb [LINKS]      LINKS: 1000000
#
#   EDGE_LOG       a file that gets the log of the edge
#   BASE           a directory that an earlier run has kept, or that this one makes and
#                  keeps: a bare Debian with the packages that are needed
#
# It needs root, systemd-nspawn, debootstrap, Go and a mirror of Debian.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
deb=$(readlink -f "${1:?the package is missing}")
links=${2:-1000000}

say() { printf '== %s\n' "$*"; }
fail() {
  printf 'booted.sh: %s\n' "$*" >&2
  exit 1
}
[[ $EUID -eq 0 ]] || fail "systemd-nspawn needs root"
"$repo/deploy/install-missing.sh" debootstrap nspawn

work=$(mktemp -d "${TMPDIR:-/tmp}/waypost-booted.XXXXXX")
chmod 755 "$work"
machine=
cleanup() {
  local status=$?
  trap - EXIT
  if [[ -n $machine ]]; then
    kill -TERM "$machine" 2>/dev/null || true # ends the container
    wait "$machine" 2>/dev/null || true
  fi
  rm -rf --one-file-system "$work"
  exit "$status"
}
trap cleanup EXIT

say "a bare Debian with systemd"
# shellcheck source=/dev/null # it names the release
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
base=${BASE:-$work/base}
if [[ ! -e $base/root ]]; then
  debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,postgresql,sudo,curl,openssl,ca-certificates,nginx,iproute2 \
    "$suite" "$base" >"$work/debootstrap.log" 2>&1 || {
    tail -n 20 "$work/debootstrap.log" >&2
    fail "debootstrap failed"
  }
fi
root=$work/root
cp -a "$base" "$root"
printf '127.0.0.1 localhost %s\n' "$(hostname)" >"$root/etc/hosts"
install -m 755 "$here/operator" "$root/usr/local/bin/operator"
install -m 644 "$deb" "$root/srv/"

# systemd wants control groups of version 2, which the machine may not have mounted.
unshare --mount --propagation slave sh -c '
  umount -R /sys/fs/cgroup 2>/dev/null || umount -l /sys/fs/cgroup
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mkdir -p "/sys/fs/cgroup/waypost-booted-$$" && echo $$ >"/sys/fs/cgroup/waypost-booted-$$/cgroup.procs"
  exec systemd-nspawn --register=no --keep-unit --quiet --directory="$1" --machine=booted --private-network --console=pipe --boot' \
  sh "$root" </dev/null >"$work/boot.log" 2>&1 &
machine=$!
for ((i = 0; i < 300; i++)); do
  init=$(pgrep -P "$machine" -x systemd) && break # of the container
  sleep 0.1
done
[[ -n ${init:-} ]] || { cat "$work/boot.log" >&2; fail "the container does not boot"; }

# on runs a command in the container.
on() {
  nsenter --target "$init" --mount --net --pid --uts --ipc --cgroup --root --wd -- env -i HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
for ((i = 0; i < 300; i++)); do
  [[ $(on systemctl is-system-running 2>/dev/null) =~ running|degraded ]] && break
  sleep 0.1
done
for address in 10.0.0.1 10.0.0.2 10.0.0.{10..29}; do on ip address add "$address/24" dev lo; done

blocks() {
  awk -v sections="$(IFS='|' && echo "$*")" '
    BEGIN { n = split(sections, names, "|"); for (i = 1; i <= n; i++) wanted[names[i]] = 1 }
    /^##+ / { title = $0; sub(/^#+ /, "", title); inside = 0 }
    /^ *```/ { inside = !inside && /```sh/; next }
    inside && (title in wanted) { sub(/^   /, ""); print }
  ' "$repo/docs/operations/install.md"
}
mkdir "$root/srv/page"
blocks "On both machines" "On the first machine" >"$root/srv/page/first"
blocks "On the second machine" | grep -v '^ *ssh ' >"$root/srv/page/second" # one machine has both
on operator page/first >"$work/first.out" 2>&1 || { cat "$work/first.out" >&2; fail "a step for the control plane failed"; }
on operator page/second >"$work/second.out" 2>&1 || { cat "$work/second.out" >&2; fail "a step for the edge failed"; }
key=$(grep -Eo 'wp_live_[A-Za-z0-9_]+' "$work/first.out" | tail -n 1)
waypost() { on env WAYPOST_API=https://10.0.0.1:8080 SSL_CERT_FILE=/etc/waypost/tls/authority.pem WAYPOST_API_KEY="$key" waypost "$@"; }

say "$links links"
on sudo -u postgres psql -q -d waypost -c "CREATE PROCEDURE fill(of bigint) LANGUAGE plpgsql AS \$\$ BEGIN
  FOR n IN 0..(of - 1) / 20000 LOOP
    INSERT INTO link (workspace_id, domain_id, code, custom, original_url)
    SELECT 1, 1, 'link-' || i, true, 'https://example.com/' || i FROM generate_series(n * 20000, least((n + 1) * 20000, of) - 1) i;
    COMMIT;
  END LOOP; END \$\$" -c "CALL fill($links)" -c "VACUUM ANALYZE" -c "CHECKPOINT" # so that PostgreSQL is at rest while visitors come
# waits COMMAND... repeats a command until it succeeds, for ten minutes.
waits() {
  for ((i = 0; i < 1200; i++)); do "$@" >"$work/waits.log" 2>&1 && return; sleep 0.5; done
  cat "$work/waits.log" >&2
  fail "still not so: $*"
}
waypost links create https://example.com/ --code last >/dev/null
redirects() { on curl -sfI -o /dev/null -H 'Host: go.example.com' http://10.0.0.2:8081/last; }
waits redirects

say "nginx before the edge"
cat >"$root/etc/nginx/conf.d/waypost.conf" <<'NGINX'
upstream edge { server 10.0.0.2:8081; keepalive 64; }
server {
  listen 10.0.0.1:80;
  location / { proxy_pass http://edge; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host; }
}
NGINX
on systemctl restart nginx
through_nginx() { on curl -sfI -o /dev/null -H 'Host: go.example.com' http://10.0.0.1/last; }
waits through_nginx

# Two crowds follow links: on 100 new connections at a time, 50 times a second each, and on
# 20 connections to nginx that are kept.
go test -C "$repo" -c -o "$work/visitors" ./test/install
crowd() { # NAME ADDRESS CLIENTS SECONDS KEEP
  nsenter --target "$init" --net -- env VISIT="$2" CLIENTS="$3" SECONDS="$4" KEEP="$5" RATE=50 LINKS="$links" FROM=10.0.0. \
    "$work/visitors" -test.run Visitors >"$work/$1.out" 2>&1 || true
}
ready() {
  for ((i = 0; i < 600; i++)); do
    [[ $(on curl -s -o /dev/null -w '%{http_code}' --max-time 2 http://127.0.0.1:9081/readyz) == 200 ]] && return
    sleep 0.1
  done
  fail "the edge is not ready again"
}
edge=waypost-edge@eu
pid() { on systemctl show -P MainPID "$edge"; }

# during NAME SECONDS COMMAND... repeats a command while the crowds visit.
answered=0
during() {
  local name=$1 seconds=$2 end times=0 a b
  shift 2
  crowd new 10.0.0.2:8081 100 "$seconds" no & a=$!
  crowd kept 10.0.0.1:80 20 "$seconds" yes & b=$!
  end=$((SECONDS + seconds - 4))
  sleep 1
  while ((SECONDS < end)); do
    "$@" || fail "$name: the command failed"
    ready
    times=$((times + 1))
  done
  wait "$a" "$b"
  local crowd line
  for crowd in new kept; do
    line=$(grep '^visits' "$work/$crowd.out") || { cat "$work/$crowd.out"; fail "$name: the visitors failed"; }
    printf '%-24s %2d times, %4s connections: %s\n' "$name" "$times" "$crowd" "$line"
    answered=$((answered + $(awk -F'[ ,]+' '{ print $2 - $7 }' <<<"$line")))
    [[ $line == *"failed 0,"* ]] && continue
    failed=1
    [[ $name == kill* ]] || grep 'Should be empty' "$work/$crowd.out" | cut -c 1-300
  done
}
failed=0
upgrade() { # to the same package, which replaces the program
  on dpkg --install "/srv/$(basename "$deb")" >"$work/dpkg.log" 2>&1 && on systemctl reload "$edge"
}
killed() {
  local before
  before=$(pid)
  on sh -c 'kill -KILL "$0"' "$before"
  for ((i = 0; i < 100; i++)); do [[ $(pid) != "$before" && $(pid) != 0 ]] && return; sleep 0.05; done
  fail "systemd does not start the edge again"
}
during "nothing" 10 sleep 1
during "systemctl reload" 25 on systemctl reload "$edge"
during "upgrade of the package" 25 upgrade
during "systemctl restart" 25 on systemctl restart "$edge"

say "clicks"
for ((i = 0; i < 120; i++)); do
  counted=$(on sudo -u postgres psql -qAt -d waypost -c 'SELECT (SELECT coalesce(sum(clicks), 0) FROM click_workspace_part)
    + (SELECT coalesce(sum(clicks), 0) FROM click_workspace_day)')
  ((counted >= answered)) && break
  sleep 1
done
say "$answered visits were answered, $counted clicks are counted"
((counted == answered)) || failed=1

# A kill cuts requests under way off, and loses the clicks of the last milliseconds.
lost=$failed
during "kill -9" 25 killed
if [[ -n ${EDGE_LOG:-} ]]; then on journalctl --no-pager -o short-precise -u "$edge" >"$EDGE_LOG"; fi
exit "$lost"
