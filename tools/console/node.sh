# Sourced by scripts that need Node 20 and the packages of web/. A machine with npm but an
# older Node gets Node from the npm package "node", into bin/tools.
node_major() { node --version 2>/dev/null | sed -E 's/^v([0-9]+).*/\1/'; }

deploy/install-missing.sh npm
if (($(node_major || echo 0) < 20)); then
  node_dir=$PWD/bin/tools/node
  [[ -x $node_dir/node_modules/node/bin/node ]] || npm install --prefix "$node_dir" --no-audit --no-fund --silent node@20
  PATH=$node_dir/node_modules/node/bin:$PATH
fi
# npm ci takes seconds even when nothing has changed.
if [[ ! -e web/node_modules/.package-lock.json || web/package-lock.json -nt web/node_modules/.package-lock.json ]]; then
  (cd web && npm ci --ignore-scripts --no-audit --no-fund --silent && touch node_modules/.package-lock.json)
fi
