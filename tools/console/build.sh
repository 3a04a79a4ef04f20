#!/usr/bin/env bash
# Builds the console: types from the OpenAPI document, a check of all types, the unit tests
# of its logic, and the files that the control plane serves.
#
#   tools/console/build.sh           builds web/dist
#   tools/console/build.sh --check   builds elsewhere and compares with web/dist
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
# shellcheck source=tools/console/install.sh
. tools/console/install.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tools/openapi.sh "$work/openapi.json"
# A field with a default may still be left out of a request.
(cd web && npx --no-install openapi-typescript "$work/openapi.json" --default-non-nullable false --output "$work/schema.d.ts" >/dev/null)

if [[ ${1:-} == --check ]]; then
  cmp "$work/schema.d.ts" web/src/api/schema.d.ts || {
    echo "web/src/api/schema.d.ts is not that of the API. Run make console." >&2
    exit 1
  }
else
  cp "$work/schema.d.ts" web/src/api/schema.d.ts
fi
(cd web && npx --no-install tsc)

node --test --test-reporter=dot tools/console/catalogue.test.mjs
node tools/console/build.mjs -tests "$root/web/src" "$work/tests"
find "$work/tests" -name '*.test.mjs' -exec node --enable-source-maps --test --test-reporter=dot {} +

if [[ ${1:-} == --check ]]; then
  node tools/console/build.mjs "$root/web/src" "$work/dist" >/dev/null
  diff -r "$work/dist" web/dist || {
    echo "web/dist is not what web/src builds. Run make console." >&2
    exit 1
  }
  echo "check-console: web/dist is what its source builds, within the budgets"
else
  node tools/console/build.mjs "$root/web/src" "$root/web/dist"
fi
