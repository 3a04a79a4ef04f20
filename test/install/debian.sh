#!/usr/bin/env bash
# Installs the package on two bare Debian systems by docs/operations/install.md alone, and
# follows the first link within a minute. Every command of the page is run as it stands
# there.
#
#   test/install/debian.sh FILE.deb
#
#   BASE           a directory that an earlier run has kept, or that this one makes and
#                  keeps: a bare Debian with the packages that are needed
#
# Each system is a directory that debootstrap fills, with namespaces for its processes and
# its network. There is no systemd in it: systemctl is a script that runs the lines of the
# unit as a user of its own. It needs root, debootstrap and a mirror of Debian.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
deb=$(readlink -f "${1:?the package is missing}")
limit=60 # seconds to the first redirect, without those of apt-get

say() { printf '== %s\n' "$*"; }
fail() {
  printf 'debian.sh: %s\n' "$*" >&2
  exit 1
}
[[ $EUID -eq 0 ]] || fail "debootstrap and chroot need root"
"$repo/deploy/install-missing.sh" debootstrap

work=$(mktemp -d "${TMPDIR:-/tmp}/waypost-install.XXXXXX")
chmod 755 "$work"
a=waypost-install-a-$$ b=waypost-install-b-$$
pids=()
cleanup() {
  local status=$? pid
  trap - EXIT
  for pid in "${pids[@]}"; do
    kill -KILL "$pid" 2>/dev/null || true # with it all processes of its namespace
    wait "$pid" 2>/dev/null || true
  done
  ip netns delete "$a" 2>/dev/null || true
  ip netns delete "$b" 2>/dev/null || true
  rm -rf --one-file-system "$work"
  exit "$status"
}
trap cleanup EXIT

say "a bare Debian, twice"
# shellcheck source=/dev/null # it names the release
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
base=${BASE:-$work/base}
if [[ ! -e $base/root ]]; then
  debootstrap --variant=minbase "$suite" "$base" >"$work/debootstrap.log" 2>&1 || {
    tail -n 20 "$work/debootstrap.log" >&2
    fail "debootstrap failed"
  }
  # Packages are fetched before the clock runs, so that it does not measure the mirror.
  {
    rm -f "$base/etc/apt/apt.conf.d/docker-clean"
    chroot "$base" apt-get -q update
    chroot "$base" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --download-only install postgresql sudo curl openssl ca-certificates
  } >"$work/apt.log" 2>&1 || {
    tail -n 20 "$work/apt.log" >&2
    fail "packages cannot be fetched"
  }
fi
cp -a "$base" "$work/first"
printf '127.0.0.1 localhost first second\n' >"$work/first/etc/hosts"
install -m 755 "$here/systemctl" "$work/first/usr/local/bin/systemctl"
install -m 755 "$here/operator" "$work/first/usr/local/bin/operator"
install -m 644 "$deb" "$work/first/srv/"
cp -a "$work/first" "$work/second"

# The first system reaches the second by a cable, and nothing else.
ip netns add "$a"
ip netns add "$b"
ip link add wp0 netns "$a" type veth peer name wp0 netns "$b"
ip -n "$a" address add 10.0.0.1/24 dev wp0
ip -n "$b" address add 10.0.0.2/24 dev wp0
for ns in "$a" "$b"; do
  ip -n "$ns" link set lo up
  ip -n "$ns" link set wp0 up
done

# boot NAMESPACE ROOT starts a system, whose first process waits for commands.
boot() {
  local ns=$1 root=$2
  mkfifo "$work/$ns"
  ip netns exec "$ns" unshare --mount --pid --uts --fork --kill-child -- sh -c '
    mount -t proc proc "$1/proc"
    mkdir -p "$1/dev/shm"
    mount -t tmpfs -o mode=1777 shm "$1/dev/shm"
    mount -t tmpfs -o mode=755 run "$1/run"
    hostname "$2"
    exec chroot "$1" sleep infinity' sh "$root" "$(basename "$root")" <"$work/$ns" >"$work/$ns.log" 2>&1 &
  pids+=($!)
  exec {hold}>"$work/$ns" # as long as this script runs
}
boot "$a" "$work/first"
boot "$b" "$work/second"

# on NUMBER runs a command in a system.
on() {
  local outer=${pids[$1]} inner
  shift
  inner=$(pgrep -P "$outer" | head -n 1)
  nsenter --target "$inner" --mount --net --pid --uts --root --wd -- env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive "$@"
}
for n in 0 1; do
  for ((i = 0; i < 100; i++)); do
    on "$n" test -e /proc/self/stat 2>/dev/null && break
    sleep 0.1
  done
done

# blocks SECTION... prints the commands of sections of the page.
blocks() {
  awk -v sections="$(IFS='|' && echo "$*")" '
    BEGIN { n = split(sections, names, "|"); for (i = 1; i <= n; i++) wanted[names[i]] = 1 }
    /^##+ / { title = $0; sub(/^#+ /, "", title); inside = 0 }
    /^ *```/ { inside = !inside && /```sh/; next }
    inside && (title in wanted) { sub(/^   /, ""); print }
  ' "$repo/docs/operations/install.md"
}

mkdir "$work/first/srv/page" "$work/second/srv/page"
blocks "On both machines" "On the first machine" >"$work/first/srv/page/install"
blocks "On both machines" "On the second machine" >"$work/second/srv/page/install"
# The page has an ellipsis in place of the key that the operator was shown.
blocks "The first link" | sed 's/wp_live_…/$(cat page\/key)/' >"$work/first/srv/page/link"

# The second machine gets files of the first by ssh.
mkdir "$work/second/srv/first"
cat >"$work/second/usr/local/bin/ssh" <<'EOF'
#!/bin/sh
[ "$1 $2 $3 $4" = "root@10.0.0.1 tar -C /etc/waypost" ] && shift 4 && exec tar -C /srv/first/etc/waypost "$@"
EOF
chmod 755 "$work/second/usr/local/bin/ssh"

say "the clock runs"
began=$(date +%s%N)
seconds() { printf '%d.%01d s' $((($(date +%s%N) - began) / 1000000000)) $((($(date +%s%N) - began) / 100000000 % 10)); }
say "the first machine"
on 0 operator page/install 2>&1 | tee "$work/first.out" | sed -u 's/wp_live_[A-Za-z0-9]*/wp_live_…/'
[[ ${PIPESTATUS[0]} -eq 0 ]] || fail "a step on the first machine failed"
grep -Eo 'wp_live_[A-Za-z0-9_]+' "$work/first.out" | tail -n 1 >"$work/first/srv/page/key"
say "the first machine after $(seconds)"
mkdir -p "$work/second/srv/first/etc/waypost"
cp -a "$work/first/etc/waypost/secrets" "$work/first/etc/waypost/tls" "$work/second/srv/first/etc/waypost/"
say "the second machine"
on 1 operator page/install || fail "a step on the second machine failed"
say "the second machine after $(seconds)"
on 0 operator page/link 2>&1 | tee "$work/link.out"
[[ ${PIPESTATUS[0]} -eq 0 ]] || fail "the first link is not followed"
took=$(seconds)
apt=$(cat "$work"/{first,second}/srv/page/apt-seconds | awk '{ sum += $1 } END { print sum }')
grep -q '^HTTP/1.1 302' "$work/link.out" || fail "the first link is no redirect"
grep -q 'alive' "$work/link.out" || fail "the edge is not seen alive"

say "who runs what, and whose its files are"
# nodes prints user and command line of each node of a system.
nodes() {
  on "$1" sh -c 'for p in /proc/[0-9]*; do
    args=$(tr "\0" " " 2>/dev/null <"$p/cmdline") || continue
    case $args in /usr/bin/waypost*) echo "$(stat -c %U "$p") $args" ;; esac
  done'
}
for n in 0 1; do
  running=$(nodes "$n")
  [[ $(wc -l <<<"$running") -eq 1 && $running == waypost-* ]] || fail "one node, and not as root, is expected: $running"
  echo "$running"
  on "$n" sh -c 'ls -ld /etc/waypost /etc/waypost/secrets /var/lib/waypost-*'
done
on 1 sh -c 'zcat /usr/share/man/man1/waypost.1.gz | head -n 1; bash -n /usr/share/bash-completion/completions/waypost'

say "the package goes, and secrets stay"
on 1 sh -c 'apt-get -q -y purge waypost && test -s /etc/waypost/secrets/edge-token && ! test -e /usr/bin/waypost' >"$work/purge.log" 2>&1 || {
  cat "$work/purge.log" >&2
  fail "the package cannot be purged as documented"
}
say "the first redirect came after $took, in $apt s of which apt-get installed packages ($(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg))"
((${took%.*} - apt <= limit)) || fail "the rest is longer than $limit s"
say "all is as it should be"
