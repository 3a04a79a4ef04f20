#!/usr/bin/env bash
# Builds Waypost with one defect at a time and shows that a test fails with it. `make broken` calls it.
#
#   test/broken/run.sh [PATCH ...]     default: all of test/broken/defects
#
# A patch begins with the defect's name, what it breaks, and the test that has to fail. Whether a
# defect shows depends on when processes are killed, so a test that passes is tried three times.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tree=$PWD/bin/broken # always the same, so that Go compiles again only what a defect changes
tries=3
runner=$PWD/bin/tools/runner
go build -o "$runner" ./test/runner || exit 1

(($#)) || set -- test/broken/defects/*.patch
missed=0
printf 'Commit %s, %s processors, %s\n\n' "$(git describe --always --dirty)" "$(nproc)" "$(date -u +%F)"
printf '%-46s %-8s %8s  %s\n' defect caught seconds 'by'
for patch; do
  patch=$(realpath "$patch")
  name=$(sed -n 's/^Defect: //p' "$patch")
  read -r package test < <(sed -n 's/^Test: //p' "$patch")
  rm -rf "$tree" && mkdir -p "$tree" && git archive HEAD | tar -x -C "$tree" || exit 1
  # Git must not take the copy for a part of the repository around it.
  (cd "$tree" && GIT_CEILING_DIRECTORIES=$(dirname "$tree") git apply "$patch") || exit 1
  caught=no
  for ((try = 1; try <= tries; try++)); do
    began=$(date +%s)
    if ! out=$(cd "$tree" && WAYPOST_CHAOS_SEED=$try test/runner/in-memory.sh go test -count=1 -timeout 8m -exec "'$runner'" -run "^$test\$" "$package" 2>&1) &&
      grep -q '^ *--- FAIL' <<<"$out"; then
      caught=yes
      break
    fi
    grep -qE '^(ok|FAIL|---)' <<<"$out" || { echo "$out" >&2; exit 1; } # it does not even compile
  done
  seed=$(grep -oE '\b[A-Z_]*SEED=[0-9]+|\bseed [0-9]+' <<<"$out" | head -1)
  printf '%-46s %-8s %8d  %s\n' "$name" "$caught" $(($(date +%s) - began)) "$package $test${seed:+, $seed}"
  [[ $caught == yes ]] || missed=1
done
rm -rf "$tree"
exit "$missed"
