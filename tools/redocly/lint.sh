#!/usr/bin/env bash
# Checks the API's OpenAPI document with Redocly's recommended rules. Without npm it checks
# nothing, and says so: the rules that need no linter are in the tests.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v npm >/dev/null; then
	echo "lint-openapi: skipped, because npm is missing"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/package.json" "$here/package-lock.json" "$here/redocly.yaml" "$work"
"$here/../openapi.sh" "$work/openapi.json"
cd "$work"
npm ci --ignore-scripts --no-audit --no-fund --silent
npx --no-install redocly lint --config redocly.yaml openapi.json
