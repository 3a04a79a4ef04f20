#!/usr/bin/env bash
# Installs the packages of web/ and, on a machine whose Node is older than 20, Node from
# the npm package "node" into bin/tools. Other scripts source this file for its PATH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

deploy/install-missing.sh npm
version=$(node --version 2>/dev/null | sed -E 's/^v([0-9]+).*/\1/')
if ((${version:-0} < 20)); then
  node=$PWD/bin/tools/node/node_modules/node/bin/node
  # Its package fetches the binary from another package when it is installed.
  [[ -x $node ]] || npm install --prefix bin/tools/node --no-audit --no-fund --silent node@20
  PATH=${node%/node}:$PATH
fi
# npm ci takes seconds even when nothing has changed.
if [[ ! -e web/node_modules/.package-lock.json || web/package-lock.json -nt web/node_modules/.package-lock.json ]]; then
  (cd web && npm ci --ignore-scripts --no-audit --no-fund --silent)
  touch web/node_modules/.package-lock.json
fi
