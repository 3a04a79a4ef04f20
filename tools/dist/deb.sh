#!/usr/bin/env bash
# Builds a Debian package with dpkg-deb, which every Debian machine has.
#
#   tools/dist/deb.sh ROOT ARCHITECTURE VERSION PROGRAM GENERATED PACKAGE
#
# GENERATED is a tree with manual pages and completions. SOURCE_DATE_EPOCH is the time of all
# files.
set -euo pipefail
root=$1 arch=$2 version=$3 program=$4 generated=$5 package=$6
umask 022
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"

# put FILE... PLACE installs files of the source.
put() {
  install -D -m 644 -t "$tree/${*: -1}" "${@:1:$#-1}"
}

# Examples are not in usr/share/doc, which minimal systems leave out.
examples=usr/share/waypost/examples
cd "$root"
install -D -m 755 "$program" "$tree/usr/bin/waypost"
put deploy/waypost-{control,edge@,backup}.service deploy/waypost-backup.timer usr/lib/systemd/system
put deploy/{control,edge,alerts,prometheus}.yaml $examples
put deploy/nginx/waypost.conf $examples/nginx
put deploy/haproxy/waypost.cfg $examples/haproxy
put deploy/caddy/Caddyfile $examples/caddy
put deploy/dashboards/*.json $examples/dashboards
put deploy/debian/needrestart/waypost.conf etc/needrestart/conf.d
put deploy/debian/copyright CHANGELOG.md README.md usr/share/doc/waypost
find docs -name '*.md' -exec install -D -m 644 {} "$tree/usr/share/doc/waypost/{}" \;
cp -r "$generated/." "$tree"
gzip -9n "$tree"/usr/share/man/man1/*
# Secrets are for root alone, and keys of TLS for a group that the package makes.
install -d -m 755 "$tree/etc/waypost"
install -d -m 700 "$tree/etc/waypost/secrets"
install -d -m 750 "$tree/etc/waypost/tls"

size=$(find "$tree" -type f -printf '%s\n' | awk '{sum += $1} END {print int((sum + 1023) / 1024)}')
put deploy/debian/conffiles DEBIAN
install -m 755 deploy/debian/{postinst,prerm,postrm} "$tree/DEBIAN"
sed -e "s/\${version}/$version/; s/\${architecture}/$arch/; s/\${size}/$size/" deploy/debian/control >"$tree/DEBIAN/control"
# One thread, so that the number of processors does not show in the file.
dpkg-deb --root-owner-group -Zxz -z3 --threads-max=1 --build "$tree" "$package"
