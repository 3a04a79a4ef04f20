#!/usr/bin/env bash
# Builds the files of a release into one directory: programs for Linux, their bills of
# materials, Debian packages, a container image, and SHA256SUMS.
#
#   tools/dist/dist.sh DIRECTORY [amd64|arm64 ...]
#
# The same commit and the same version of Go make the same programs, wherever they are built.
set -euo pipefail
umask 022
cd "$(dirname "$0")/../.."
out=$1
shift
architectures=("${@:-amd64}")
(($#)) || architectures+=(arm64)
for arch in "${architectures[@]}"; do # the edge's fast path is written for two
  [[ $arch == a@(md|rm)64 ]] || { echo "dist: the architecture \"$arch\" is neither amd64 nor arm64" >&2; exit 1; }
done
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=$(git -c 'safe.directory=*' log -1 --format=%ct) # of all files
export SOURCE_DATE_EPOCH

# Manual pages and completions come from a program that runs here, and the version too.
program=$work/waypost generated=$work/generated
tools/dist/build.sh "$(go env GOHOSTARCH)" "$program"
version=$("$program" version | awk '{ print $2; exit }')
mkdir -p "$generated"/usr/share/{man/man1,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
"$program" man "$generated/usr/share/man/man1" >/dev/null
"$program" completion bash >"$generated/usr/share/bash-completion/completions/waypost"
"$program" completion zsh >"$generated/usr/share/zsh/vendor-completions/_waypost"
"$program" completion fish >"$generated/usr/share/fish/vendor_completions.d/waypost.fish"

for arch in "${architectures[@]}"; do
  program=$out/waypost_${version}_linux_$arch
  tools/dist/build.sh "$arch" "$program"
  tools/dist/bill.sh "$program" "$version" >"$program.cdx.json"
  tools/dist/deb.sh . "$arch" "$(tools/dist/debian-version.sh "$version")" "$program" "$generated" "$out/waypost_${version}_$arch.deb"
done
tools/dist/image.sh "$out" "$version" "${architectures[@]}"
cd "$out"
sha256sum waypost_* | tee SHA256SUMS
