#!/usr/bin/env bash
# Makes clients in Go and TypeScript from the API's OpenAPI document, and compiles them.
# Without npm it makes the one in Go only, and says so.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/{go.mod,go.sum,oapi-codegen.yaml,package.json,package-lock.json,use.ts} "$work"
"$here/../openapi.sh" "$work/openapi.json"
cd "$work"
go tool oapi-codegen -config oapi-codegen.yaml openapi.json
go build ./...
echo "check-clients: oapi-codegen's client compiles"
if ! command -v npm >/dev/null; then
	echo "check-clients: TypeScript is skipped, because npm is missing"
	exit 0
fi
npm ci --ignore-scripts --no-audit --no-fund --silent
# A field with a default may still be left out of a request.
npx --no-install openapi-typescript openapi.json --default-non-nullable false --output api.d.ts
npx --no-install tsc --noEmit --strict --noUncheckedIndexedAccess --module esnext --moduleResolution bundler --target es2022 \
	--lib es2022,dom use.ts
echo "check-clients: openapi-typescript's client compiles"
