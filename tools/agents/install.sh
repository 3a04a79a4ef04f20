#!/usr/bin/env bash
# Installs the lists and agents of package.json in bin/tools/agents, if they are not there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=$here/../../bin/tools/agents
mkdir -p "$to"
if [[ ! -e $to/node_modules/.package-lock.json || $here/package-lock.json -nt $to/node_modules/.package-lock.json ]]; then
	cp "$here/package.json" "$here/package-lock.json" "$to"
	(cd "$to" && npm ci --ignore-scripts --no-audit --no-fund --silent)
fi
