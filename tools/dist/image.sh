#!/usr/bin/env bash
# Builds the image of the Dockerfile's last stage without Docker, for each architecture, as
# an archive of an OCI image layout.
#
#   tools/dist/image.sh DIRECTORY VERSION ARCHITECTURE ...
#
# The programs are in DIRECTORY, to which the archive is added. image.json has what the
# Dockerfile says about the image; a test compares them.
set -euo pipefail
umask 022
cd "$(dirname "$0")/../.."
out=$1 version=$2
shift 2
tag=${version//+/-} # tags must not hold +
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
blobs=$work/layout/blobs/sha256
mkdir -p "$blobs"

# archive OPTION... FILE... runs tar so that nothing of this machine is in the archive.
archive() {
  tar --format=ustar --sort=name --numeric-owner --mode=a-s,u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" "$@"
}

# blob TYPE [JSON] moves standard input into the layout, and prints its descriptor with more
# of its fields.
blob() {
  cat >"$work/blob"
  local sum
  sum=$(sha256sum "$work/blob" | cut -d ' ' -f 1)
  jq -cn --arg type "application/vnd.oci.image.$1" --arg digest "sha256:$sum" --argjson size "$(stat -c %s "$work/blob")" \
    '{mediaType: $type, $digest, $size}'" + ${2:-{\}}"
  mv "$work/blob" "$blobs/$sum"
}

images=()
for arch; do
  tree=$work/$arch layer=$work/$arch.tar
  install -D -m 644 -t "$tree/etc/ssl/certs" /etc/ssl/certs/ca-certificates.crt # from Debian, as in the Dockerfile
  install -m 644 -t "$tree/etc" deploy/docker/{passwd,group}
  install -D -m 755 "$out/waypost_${version}_linux_$arch" "$tree/usr/bin/waypost"
  install -d "$tree/var/lib"
  archive --create --file="$layer" --owner=0 --group=0 -C "$tree" etc usr var
  install -d "$tree/var/lib/waypost"
  archive --append --file="$layer" --owner=65532 --group=65532 --mode=700 -C "$tree" var/lib/waypost
  layers=$(gzip -n <"$layer" | blob layer.v1.tar+gzip)
  config=$(jq -c --arg version "$version" --arg created "$created" --arg arch "$arch" --arg sum "sha256:$(sha256sum "$layer" | cut -d ' ' -f 1)" '
    .Labels["org.opencontainers.image.version"] = $version
    | {
      $created, architecture: $arch, os: "linux", config: .,
      rootfs: {type: "layers", diff_ids: [$sum]}, history: [{$created, created_by: "make dist"}]
    }' tools/dist/image.json | blob config.v1+json)
  images+=("$(echo "{\"schemaVersion\": 2, \"mediaType\": \"application/vnd.oci.image.manifest.v1+json\", \"config\": $config, \"layers\": [$layers]}" |
    blob manifest.v1+json "{platform: {os: \"linux\", architecture: \"$arch\"}}")")
done

# index DESCRIPTOR... prints an index of images.
index() {
  printf '%s\n' "$@" | jq -s '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: .}'
}
all=$(index "${images[@]}" | blob index.v1+json \
  "{annotations: {\"io.containerd.image.name\": \"docker.io/library/waypost:$tag\", \"org.opencontainers.image.ref.name\": \"$tag\"}}")
index "$all" >"$work/layout/index.json"
echo '{"imageLayoutVersion": "1.0.0"}' >"$work/layout/oci-layout"
archive --create --file="$out/waypost_${version}_oci.tar" --owner=0 --group=0 -C "$work/layout" blobs index.json oci-layout
