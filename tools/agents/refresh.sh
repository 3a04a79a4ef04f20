#!/usr/bin/env bash
# Writes rules/agents/bots.txt from the newest lists of bots.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
npm install --package-lock-only --ignore-scripts --no-audit --no-fund --silent --save-exact crawler-user-agents@latest isbot@latest
./install.sh
node refresh.mjs ../../bin/tools/agents/node_modules left-out.txt ../../rules/agents/bots.txt
