#!/usr/bin/env bash
# Compiles the program without C, so that it is static and needs no cross compiler.
#
#   tools/dist/build.sh ARCHITECTURE PROGRAM [SOURCE]
#
# Version and revision come from the repository by the linker's flags, and not from the Go
# command, which refuses repositories of other users.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
repository=(git -C "$root" -c 'safe.directory=*')
tag=$("${repository[@]}" describe --tags --match 'v[0-9]*' --dirty 2>/dev/null || true) # there may be none
revision=$(TZ=UTC "${repository[@]}" log -1 --abbrev=12 --date=format-local:%Y%m%d%H%M%S --format=%cd.%h)
cd "${3:-$root}"
CGO_ENABLED=0 GOOS=linux GOARCH=$1 GOFLAGS='' go build -trimpath -buildvcs=false \
  -ldflags "-s -w -X main.version=${tag#v} -X main.revision=$revision" -o "$2" ./cmd/waypost
