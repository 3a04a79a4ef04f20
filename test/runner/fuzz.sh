#!/usr/bin/env bash
# Runs every fuzz test for a time, as many at once as there are processors.
#
#   test/runner/fuzz.sh 10s [DIRECTORY]
#
#   FUZZ_BUILD     flags of the build; default -fuzz=., by which coverage guides the tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

time=${1:?usage: $0 TIME [DIRECTORY]}
out=$PWD/bin/test/fuzz
cache=$(go env GOCACHE)/fuzz
mkdir -p "$out"

# fuzz runs one fuzz test of a directory and shows its output if it fails.
fuzz() {
  local dir=$1 name=$2 said
  cd "$dir"
  if said=$("$out/${dir//\//-}.test" -test.run='^$' -test.fuzz="^$name\$" -test.fuzztime="$time" \
    -test.parallel=1 -test.fuzzcachedir="$cache/waypost/$dir" 2>&1); then
    echo "ok   $dir $name"
  # At the end of its time the fuzzer may report that alone, which is no failure.
  elif grep -q 'context deadline exceeded' <<<"$said" && ! grep -q 'Failing input' <<<"$said"; then
    echo "ok   $dir $name"
  else
    printf 'FAIL %s %s\n%s\n' "$dir" "$name" "$said"
    return 1
  fi
}
export -f fuzz
export time out cache

grep -rl --include='*_test.go' '^func Fuzz' "${2:-.}" | sed 's|^\./||' | xargs -r -n 1 dirname | sort -u | while read -r dir; do
  go test -c ${FUZZ_BUILD:--fuzz=.} -o "$out/${dir//\//-}.test" "./$dir" >&2
  grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | sed "s|^func |$dir |"
done | xargs -r -P "$(nproc)" -L 1 bash -c 'fuzz "$@"' fuzz
